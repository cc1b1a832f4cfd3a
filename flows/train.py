"""Train by the recipe: its warm start, then the stages of the curriculum in order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ratchet.flows.curate import curate_each
from ratchet.flows.flow import flow
from ratchet.flows.runs import note_cpu_overrides
from ratchet.infra.recipe.training import Stage, WarmStart
from ratchet.infra.store.artifacts import Artifact
from ratchet.tasks.approval import wait_for_approval
from ratchet.tasks.evaluation import check_evaluation, evaluate_model, training_of, validation_problems
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
    wait_for_approval(run, "curated", list(problems.values()))

    run.phase("Train")
    note_cpu_overrides(run)
    traces: Artifact | None = None
    learned: Sequence[Artifact] = ()
    if start:
        checkpoint = given_checkpoint(run, start)
        learned = training_of(run, checkpoint) or ()
        if checkpoint.kind == "model":
            check_trainable_model(run, recipe.training, str(checkpoint.path))
    else:
        traces = warm_start_traces(run, problems) if recipe.training.warm_start else None
        checkpoint = warm_start(run, traces)
    stages = recipe.training.stages
    if only:
        at = names.index(only)
        stages = stages[at if start else 0 : at + 1]
    training = _training(recipe.training.warm_start, traces, stages, problems, learned)
    evaluations = []
    if "start" in recipe.evaluation.after and not only:
        evaluations.append(evaluate_model(run, checkpoint, "start", training))
    wait_for_approval(run, "start", [checkpoint], evaluations)
    for stage in stages:
        checkpoint = stage_checkpoint(run, stage, checkpoint, problems, validation_problems(run, stage))
        if stage.name in recipe.evaluation.after and only in ("", stage.name):
            evaluations.append(evaluate_model(run, checkpoint, stage.name, training))
        if stage.name != only:
            wait_for_approval(run, stage.name, [checkpoint], evaluations)
    if not only:
        register(run, checkpoint, evaluations)
    return Trained(checkpoint, tuple(evaluations))


def _training(
    settings: WarmStart | None, traces: Artifact | None, stages: Sequence[Stage], problems: Mapping[str, Artifact],
    before: Sequence[Artifact],
) -> list[Artifact]:  # fmt: skip
    """What the last checkpoint has learned from: the problems of the warm start and the stages, own traces, and what
    was trained on `before`. Every evaluation of the run is compared with it, so that scores without flagged questions
    are of the same questions."""
    domains = {domain for stage in stages for domain in stage.domains}
    own = [traces] if traces and settings and settings.files else []
    if traces and settings and not settings.files:
        domains |= {*(settings.mix or problems)}
    learned = [*(artifact for domain, artifact in problems.items() if domain in domains), *own, *before]
    return list({artifact.key: artifact for artifact in learned}.values())
