"""Training: a warm start where the recipe asks for one, then the stages of the curriculum in order."""

from __future__ import annotations

from dataclasses import dataclass

from prefect import flow

from flows.curate_code import curate_code
from flows.curate_math import curate_math
from flows.subflow import call
from infra.artifacts import Artifact
from infra.recipe.model import Recipe
from tasks.curation import Curated
from tasks.evaluation import evaluate_model, validation_problems
from tasks.pipeline_run import open_run
from tasks.traces import teacher_traces
from tasks.training import train_stage, warm_start


@dataclass(frozen=True)
class Trained:
    """The last checkpoint, and the evaluations made along the way, in order."""

    checkpoint: Artifact
    evaluations: tuple[Artifact, ...]


@flow(name="train")
def train(recipe: Recipe, math: Curated | None = None, code: Curated | None = None) -> Trained:
    """From curated problems to the last checkpoint, evaluated where the recipe says; curates what is not given."""
    with open_run(recipe, "train") as run:
        math = math or call(curate_math, recipe)
        code = code or call(curate_code, recipe)
        problems = {"math": math.problems, "code": code.problems}
        training = list(problems.values())

        run.watcher.phase("Train")
        traces = teacher_traces(recipe, problems) if recipe.training.warm_start else None
        checkpoint = warm_start(recipe, traces)
        evaluations = []
        if "start" in recipe.evaluation.after:
            evaluations.append(evaluate_model(recipe, checkpoint, "start", training))
        for stage in recipe.training.stages:
            checkpoint = train_stage(recipe, stage, checkpoint, problems, validation_problems(recipe, stage))
            if stage.name in recipe.evaluation.after:
                evaluations.append(evaluate_model(recipe, checkpoint, stage.name, training))
        return Trained(checkpoint, tuple(evaluations))
