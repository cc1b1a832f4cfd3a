"""The whole way: raw problems to a trained model, its scores, and a report."""

from __future__ import annotations

from prefect import flow

from ratchet.flows.curate import curation_flow
from ratchet.flows.subflow import call
from ratchet.flows.train import train
from ratchet.infra.artifacts import Artifact
from ratchet.infra.recipe.model import Recipe
from ratchet.tasks.pipeline_run import open_run
from ratchet.tasks.report import report


@flow(name="pipeline")
def pipeline(recipe: Recipe) -> Artifact:
    """Curate each domain of the recipe, train through the curriculum, evaluate along the way; returns the report."""
    with open_run(recipe, "pipeline") as run:
        curated = [call(curation_flow(domain), recipe, domain) for domain in run.domains]
        trained = call(train, recipe, curated)

        run.watcher.phase("Report")
        return report(recipe, trained.evaluations, curated=curated)
