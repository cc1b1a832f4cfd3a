"""The whole way: raw problems to a trained model, its scores, and a report."""

from __future__ import annotations

from prefect import flow

from flows.curate_code import curate_code
from flows.curate_math import curate_math
from flows.subflow import call
from flows.train import train
from infra.artifacts import Artifact
from infra.recipe.model import Recipe
from tasks.pipeline_run import open_run
from tasks.report import report


@flow(name="pipeline")
def pipeline(recipe: Recipe) -> Artifact:
    """Curate math and code, train through the curriculum, evaluate along the way; returns the report."""
    with open_run(recipe, "pipeline") as run:
        math = call(curate_math, recipe)
        code = call(curate_code, recipe)
        trained = call(train, recipe, math, code)

        run.watcher.phase("Report")
        return report(recipe, trained.evaluations, curated=[math, code])
