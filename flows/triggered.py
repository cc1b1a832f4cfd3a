"""The flows that Prefect starts: from a form, its API, a schedule, on a worker.

Each takes a recipe by name or file, common settings, and overrides as for `--set`. The whole run is planned before its
first step, so that a mistake costs nothing.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from ratchet.data_curation.base.bounds import Samples
from ratchet.data_curation.settings.curation import Steps
from ratchet.flows import curate as curate_flow
from ratchet.flows import evaluate as evaluate_flow
from ratchet.flows import pipeline as pipeline_flow
from ratchet.flows import report as report_flow
from ratchet.flows import train as train_flow
from ratchet.flows.cancellation import unless_cancelled
from ratchet.flows.flow import Flow
from ratchet.flows.forms import ALL_STEPS, CurationChanges, EvaluationChanges, StepOrAll, TrainingChanges
from ratchet.infra.recipe import Recipe, load_recipe
from ratchet.infra.settings import load_settings
from ratchet.tasks.evaluation import select_benchmarks
from ratchet.tasks.reporter import ProgressReporter
from ratchet.verifiers.errors import RatchetError

FOLDER = "RATCHET_FOLDER"
"""The variable with the folder that a run's relative paths start from."""


@flow(name="pipeline")
def pipeline(
    recipe: str = "tiny", changes: TrainingChanges = TrainingChanges(), overrides: tuple[str, ...] = ()
) -> str | State[Any]:
    """Curate, train, evaluate, report.

    Args:
        recipe: A shipped recipe by name, or a file.
        overrides: Any field of the recipe, as `training.stages.0.steps=20`.
    """
    return _run(pipeline_flow.pipeline, recipe, (*changes.overrides(), *overrides))


@flow(name="curate")
def curate(
    domain: str = "math",
    step: StepOrAll = ALL_STEPS,
    following: bool = False,
    again: bool = False,
    changes: CurationChanges = CurationChanges(),
    recipe: str = "tiny",
    overrides: tuple[str, ...] = (),
) -> str | State[Any]:
    """Curate a domain: from raw rows to training problems, or one step of that.

    Args:
        domain: A domain of the recipe.
        step: The only step to run, or all. Its inputs must exist; its settings are below, under its name.
        following: Run the steps after it too.
        again: Run the step although it is finished.
        changes: The settings of each step; empty ones keep the recipe's value.
        recipe: A shipped recipe by name, or a file.
        overrides: Any field of the recipe, as `curation.math.deduplicate.jaccard=0.7`.
    """
    if step == ALL_STEPS and (following or again):
        raise RatchetError("Choose a step: `following` and `again` are about one.")
    one, refresh = None if step == ALL_STEPS else step, (step,) if again else ()
    steps = Steps(start=one, refresh=refresh) if following else Steps(only=one, refresh=refresh)
    named = curate_flow.curate.named(f"{steps.only or 'curate'}-{domain}")
    return _run(named, recipe, (*changes.overrides(domain=domain), *overrides), domain, steps=steps)


@flow(name="train")
def train(
    stage: str = "",
    start: str = "",
    recipe: str = "tiny",
    changes: TrainingChanges = TrainingChanges(),
    overrides: tuple[str, ...] = (),
) -> str | State[Any]:
    """Train: warm start and stages. Domains that are not curated yet are curated first.

    Args:
        stage: Train this stage only.
        start: A checkpoint (`checkpoint/math-36-…`) or a model directory to train from instead.
        recipe: A shipped recipe by name, or a file.
        overrides: Any field of the recipe, as `training.stages.0.steps=20`.
    """
    return _run(train_flow.train, recipe, (*changes.overrides(), *overrides), None, stage, start)


@flow(name="evaluate")
def evaluate(
    model: str,
    benchmarks: tuple[str, ...] = (),
    samples: Samples | None = None,
    recipe: str = "tiny",
    changes: EvaluationChanges = EvaluationChanges(),
    overrides: tuple[str, ...] = (),
) -> str | State[Any]:
    """Evaluate one model on benchmarks.

    Args:
        model: A checkpoint (`checkpoint/math-60-…`), a model directory, or URL#NAME of an endpoint.
        benchmarks: Benchmarks of the recipe, or known ones; empty means all of the recipe.
        samples: Responses per question.
        recipe: A shipped recipe by name, or a file.
        overrides: Any field of the recipe, as `evaluation.max_tokens=32768`.
    """
    return _run(
        evaluate_flow.evaluate, recipe, (*changes.overrides(), *overrides), model,
        select=lambda loaded: select_benchmarks(loaded, benchmarks, samples),
    )  # fmt: skip


@flow(name="compare")
def compare(evaluations: list[str], allow_mismatch: bool = False) -> str | State[Any]:
    """Compare models on the same questions: paired, with a test.

    Args:
        evaluations: Two or more, first to last: `evaluation/start-…`.
        allow_mismatch: Compare despite different settings; the report names them.
    """
    if len(evaluations) < 2:
        raise RatchetError("Name two or more evaluations.")
    return _run(report_flow.report.named("compare"), Recipe(name="comparisons"), (), evaluations, not allow_mismatch)


@flow(name="report")
def report(evaluations: tuple[str, ...] = ()) -> str | State[Any]:
    """Write the report of stored evaluations.

    Args:
        evaluations: `evaluation/…`, in order; empty means the newest.
    """
    return _run(report_flow.report, Recipe(name="reports"), (), evaluations)


def _run(
    work: Flow[..., Any], named: str | Recipe, overrides: Sequence[str], *arguments: Any, steps: Steps = Steps(),
    select: Callable[[Recipe], Recipe] = lambda recipe: recipe,
) -> str | State[Any]:  # fmt: skip
    """Plan the flow, then run it inside the current Prefect run; returns the output's name, or that it was canceled.

    It runs in the folder that `RATCHET_FOLDER` names, if it names one: its process starts elsewhere, because Prefect
    puts the working directory first among the places of modules, and a `torch.py` of the user's would be imported.
    """
    if folder := os.environ.get(FOLDER):
        try:
            os.chdir(folder)
        except OSError as error:
            raise RatchetError(f"{FOLDER} is {folder}: {error.strerror} on this machine.") from error
    settings, recipe = load_settings(), select(load_recipe(named, overrides) if isinstance(named, str) else named)
    _, faults = work.plan(recipe, arguments, settings, steps)
    if faults:
        raise RatchetError("\n".join(faults))

    def run() -> str:
        opened, result = work.start(
            recipe, arguments, settings, ProgressReporter(), steps=steps, overrides=overrides, triggered=True
        )
        return opened.outcome(result).ref

    return unless_cancelled(run)
