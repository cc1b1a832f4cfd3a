"""The flows that Prefect starts: from a form, its API, a schedule, on a worker.

Each takes a recipe by name or file, common settings, and overrides as for `--set`. The whole run is planned before its
first step, so that a mistake costs nothing.
"""

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from prefect import flow
from prefect.client.schemas.objects import State

from ratchet.data_curation.base.bounds import Samples
from ratchet.data_curation.settings.curation import Steps
from ratchet.flows import curate as curating
from ratchet.flows import evaluate as evaluating
from ratchet.flows import pipeline as whole
from ratchet.flows import report as reporting
from ratchet.flows import train as training
from ratchet.flows.cancellation import unless_cancelled
from ratchet.flows.flow import Flow
from ratchet.flows.forms import ALL_STEPS, CurationChanges, EvaluationChanges, StepOrAll, TrainingChanges
from ratchet.infra.recipe import Recipe, load_recipe
from ratchet.infra.settings import load_settings
from ratchet.tasks.evaluation import select_benchmarks
from ratchet.tasks.reporter import ProgressReporter
from ratchet.verifiers.errors import RatchetError

P = ParamSpec("P")
R = TypeVar("R")
FOLDER = "RATCHET_FOLDER"
"""The variable with the folder from which relative paths of a run count."""


def in_folder(work: Callable[P, R]) -> Callable[P, R]:
    """`work` in the folder that `RATCHET_FOLDER` names, if it names one. To find a flow, Prefect puts the working
    directory first among the places of modules; so its process starts elsewhere, lest a `torch.py` of the user's be
    imported. Raises RatchetError where there is no such folder."""

    @functools.wraps(work)
    def there(*arguments: P.args, **named: P.kwargs) -> R:
        if folder := os.environ.get(FOLDER):
            try:
                os.chdir(folder)
            except OSError as error:
                raise RatchetError(f"{FOLDER} is {folder}: {error.strerror} on this machine.") from error
        return work(*arguments, **named)

    return there


@flow(name="pipeline")
@in_folder
def pipeline(
    recipe: str = "tiny", changes: TrainingChanges = TrainingChanges(), overrides: tuple[str, ...] = ()
) -> str | State[Any]:
    """Curate, train, evaluate, report.

    Args:
        recipe: A shipped recipe by name, or a file.
        overrides: Any field of the recipe, as `training.stages.0.steps=20`.
    """
    settings = (*changes.overrides(), *overrides)
    return _run(whole.pipeline, load_recipe(recipe, settings), overrides=settings)


@flow(name="curate")
@in_folder
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
        domain: One of the recipe's.
        step: The only step to run, or all. Its inputs must exist; its settings are below, under its name.
        following: Run the steps after it too.
        again: Run the step although it is finished.
        changes: The settings of each step; empty ones keep the recipe's value.
        recipe: A shipped recipe by name, or a file.
        overrides: Any field of the recipe, as `curation.math.deduplicate.jaccard=0.7`.
    """
    if step == ALL_STEPS and (following or again):
        raise RatchetError("Choose a step: `following` and `again` are about one.")
    one = None if step == ALL_STEPS else step
    steps = Steps(start=one, refresh=(step,) * again) if following else Steps(only=one, refresh=(step,) * again)
    settings = (*changes.overrides(domain=domain), *overrides)
    flow = curating.curate.named(f"{steps.only or 'curate'}-{domain}")
    return _run(flow, load_recipe(recipe, settings), domain, steps=steps, overrides=settings)


@flow(name="train")
@in_folder
def train(
    stage: str = "",
    start: str = "",
    recipe: str = "tiny",
    changes: TrainingChanges = TrainingChanges(),
    overrides: tuple[str, ...] = (),
) -> str | State[Any]:
    """Train: warm start and stages. Curates first what is not curated yet.

    Args:
        stage: Train this stage only.
        start: A checkpoint (`checkpoint/math-36-…`) or a model directory to train from instead.
        recipe: A shipped recipe by name, or a file.
        overrides: Any field of the recipe, as `training.stages.0.steps=20`.
    """
    settings = (*changes.overrides(), *overrides)
    return _run(training.train, load_recipe(recipe, settings), None, stage, start, overrides=settings)


@flow(name="evaluate")
@in_folder
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
    settings = (*changes.overrides(), *overrides)
    chosen = select_benchmarks(load_recipe(recipe, settings), benchmarks, samples)
    return _run(evaluating.evaluate, chosen, model, overrides=settings)


@flow(name="compare")
@in_folder
def compare(evaluations: list[str], allow_mismatch: bool = False) -> str | State[Any]:
    """Compare models on the same questions: paired, with a test.

    Args:
        evaluations: Two or more, first to last: `evaluation/start-…`.
        allow_mismatch: Compare despite different settings; the report names them.
    """
    if len(evaluations) < 2:
        raise RatchetError("Name two or more evaluations.")
    return _run(reporting.report.named("compare"), Recipe(name="comparisons"), evaluations, not allow_mismatch)


@flow(name="report")
@in_folder
def report(evaluations: tuple[str, ...] = ()) -> str | State[Any]:
    """Write the report of stored evaluations.

    Args:
        evaluations: `evaluation/…`, in order; empty means the newest.
    """
    return _run(reporting.report, Recipe(name="reports"), evaluations)


def _run(
    work: Flow[..., Any], recipe: Recipe, *arguments: Any, steps: Steps = Steps(), overrides: Sequence[str] = ()
) -> str | State[Any]:
    """Plan the flow, then run it inside the current Prefect run; returns the output's name, or that it was
    cancelled."""
    settings = load_settings()
    _, faults = work.plan(recipe, arguments, settings, steps)
    if faults:
        raise RatchetError("\n".join(faults))

    def run() -> str:
        opened, result = work.start(
            recipe, arguments, settings, ProgressReporter(), steps=steps, overrides=overrides, triggered=True
        )
        return opened.outcome(result).ref

    return unless_cancelled(run)
