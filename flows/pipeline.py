"""The whole way: raw problems to a trained model, its scores, and a report."""

from __future__ import annotations

from prefect import flow

from ratchet.flows.curate_code import curate_code
from ratchet.flows.curate_math import curate_math
from ratchet.flows.subflow import call
from ratchet.flows.train import train
from ratchet.infra.artifacts import Artifact
from ratchet.infra.recipe.model import Recipe
from ratchet.tasks.pipeline_run import open_run
from ratchet.tasks.report import report


@flow(name="pipeline")
def pipeline(recipe: Recipe) -> Artifact:
    """Curate math and code, train through the curriculum, evaluate along the way; returns the report."""
    with open_run(recipe, "pipeline") as run:
        math = call(curate_math, recipe)
        code = call(curate_code, recipe)
        trained = call(train, recipe, math, code)

        run.watcher.phase("Report")
        return report(recipe, trained.evaluations, curated=[math, code])
