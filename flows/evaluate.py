"""Evaluation of one model on the recipe's benchmarks."""

from __future__ import annotations

from prefect import flow

from infra.artifacts import Artifact
from infra.recipe.model import Recipe
from tasks.evaluation import evaluate_checkpoint, given_model
from tasks.pipeline_run import open_run
from tasks.report import report


@flow(name="evaluate")
def evaluate(recipe: Recipe, model: str) -> Artifact:
    """Sample, grade and score `model` (`checkpoint/math-60-…` or a directory); returns the report."""
    with open_run(recipe, "evaluate") as run:
        run.watcher.phase("Evaluate")
        checkpoint = given_model(model)
        return report(recipe, [evaluate_checkpoint(recipe, checkpoint, checkpoint.name)], curated=[])
