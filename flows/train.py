"""Train by the recipe: its warm start, then the stages of the curriculum in order."""

from dataclasses import dataclass

from ratchet.flows.curate import curate_each
from ratchet.flows.flow import flow
from ratchet.flows.runs import note_cpu_overrides
from ratchet.infra.store.artifacts import Artifact
from ratchet.tasks.approval import wait_for_approval
from ratchet.tasks.evaluation import check_evaluation, evaluate_model, validation_problems
from ratchet.tasks.inputs import given_checkpoint
from ratchet.tasks.registration import register
from ratchet.tasks.run_context import RunContext
from ratchet.tasks.traces import warm_start_traces
from ratchet.tasks.training import check_prompt_counts, check_trainable_model, stage_checkpoint, warm_start
from ratchet.verifiers.errors import RatchetError


@dataclass(frozen=True)
class Trained:
    """The last checkpoint, and all evaluations in order."""

    checkpoint: Artifact
    evaluations: tuple[Artifact, ...]


@flow
def train(run: RunContext, curated: dict[str, Artifact] | None = None, only: str = "", start: str = "") -> Trained:
    """Train from curated problems to the last checkpoint, and evaluate where the recipe says; missing problems are
    curated first.

    `only` names one stage, trained from the checkpoint before it. `start` is a checkpoint or a model directory to train
    from instead, without warm start and earlier stages.
    """
    recipe = run.recipe
    names = [stage.name for stage in recipe.training.stages]
    if only and only not in names:
        raise RatchetError(f"The recipe {recipe.name} has no stage {only!r}; its stages are {', '.join(names)}.")
    if not curated:
        check_evaluation(run)
    problems = curated or curate_each(run)
    check_prompt_counts(recipe.training.stages, problems)
    training = list(problems.values())
    wait_for_approval(run, "curated", training)

    run.phase("Train")
    note_cpu_overrides(run)
    if start:
        checkpoint = given_checkpoint(run, start)
        if checkpoint.kind == "model":
            check_trainable_model(run, recipe.training, str(checkpoint.path))
    else:
        traces = warm_start_traces(run, problems) if recipe.training.warm_start else None
        checkpoint = warm_start(run, traces)
    evaluations = []
    if "start" in recipe.evaluation.after and not only:
        evaluations.append(evaluate_model(run, checkpoint, "start", training))
    wait_for_approval(run, "start", [checkpoint], evaluations)
    stages = recipe.training.stages[names.index(only) if only and start else 0 :]
    for stage in stages:
        checkpoint = stage_checkpoint(run, stage, checkpoint, problems, validation_problems(run, stage))
        if stage.name in recipe.evaluation.after and only in ("", stage.name):
            evaluations.append(evaluate_model(run, checkpoint, stage.name, training))
        if stage.name == only:
            break
        wait_for_approval(run, stage.name, [checkpoint], evaluations)
    if not only:
        register(run, checkpoint, evaluations)
    return Trained(checkpoint, tuple(evaluations))
