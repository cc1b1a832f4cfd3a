"""The flows as Prefect starts them: from a form in its UI, by its API, on a schedule, on a worker.

Each takes a recipe by name or file, the settings that are usually changed, and overrides as `--set` takes them. The
recipe is read and the whole run planned before the first step, so that a mistake costs nothing.
"""

from collections.abc import Sequence
from typing import Any

from prefect import flow

from ratchet.flows import curate as curating
from ratchet.flows import evaluate as evaluating
from ratchet.flows import pipeline as whole
from ratchet.flows import report as reporting
from ratchet.flows import train as training
from ratchet.flows.forms import CurationChanges, EvaluationChanges, TrainingChanges
from ratchet.infra.errors import RatchetError
from ratchet.infra.recipe import Recipe, load_recipe
from ratchet.infra.recipe.curation import Steps
from ratchet.infra.settings import load_settings
from ratchet.tasks.evaluation import select_benchmarks
from ratchet.tasks.flow import Flow
from ratchet.tasks.pipeline_run import Caller, Watcher, called_by, missing, plan_run


@flow(name="pipeline")
def pipeline(
    recipe: str = "tiny", changes: TrainingChanges = TrainingChanges(), overrides: tuple[str, ...] = ()
) -> str:
    """The whole way: curate, train, evaluate, report.

    Args:
        recipe: A shipped recipe by name, or a file.
        overrides: Any field of the recipe, as `training.stages.0.steps=20`.
    """
    said = (*changes.overrides(), *overrides)
    return _run(whole.pipeline, load_recipe(recipe, said), overrides=said)


@flow(name="curate")
def curate(
    steps: Steps = Steps(),
    domain: str = "math",
    recipe: str = "tiny",
    changes: CurationChanges = CurationChanges(),
    overrides: tuple[str, ...] = (),
) -> str:
    """From raw rows to problems worth training on, or one step of that.

    Args:
        domain: One of the recipe's.
        recipe: A shipped recipe by name, or a file.
        overrides: Any field of the recipe, as `curation.math.deduplicate.jaccard=0.7`.
    """
    said = (*changes.overrides(domain=domain), *overrides)
    return _run(curating.curation_flow(domain), load_recipe(recipe, said), domain, steps, steps=steps, overrides=said)


@flow(name="train")
def train(
    stage: str = "",
    start: str = "",
    recipe: str = "tiny",
    changes: TrainingChanges = TrainingChanges(),
    overrides: tuple[str, ...] = (),
) -> str:
    """Warm start and stages, on problems that are curated first where they are not yet.

    Args:
        stage: Train this stage only, from the checkpoint before it.
        start: A checkpoint (`checkpoint/math-36-…`) or a model directory to train from instead.
        recipe: A shipped recipe by name, or a file.
        overrides: Any field of the recipe, as `training.stages.0.steps=20`.
    """
    said = (*changes.overrides(), *overrides)
    return _run(training.train, load_recipe(recipe, said), None, stage, start, overrides=said)


@flow(name="evaluate")
def evaluate(
    model: str = "",
    generations: str = "",
    benchmarks: tuple[str, ...] = (),
    samples: int | None = None,
    recipe: str = "tiny",
    changes: EvaluationChanges = EvaluationChanges(),
    overrides: tuple[str, ...] = (),
) -> str:
    """Every score of one model, or of stored responses, on benchmarks.

    Args:
        model: A checkpoint (`checkpoint/math-60-…`), a model directory, or URL#NAME of an endpoint.
        generations: Instead of a model, a file of responses.
        benchmarks: Names, of the recipe or known ones; none means all that the recipe has.
        samples: Responses to each question.
        recipe: A shipped recipe by name, or a file.
        overrides: Any field of the recipe, as `evaluation.max_tokens=32768`.
    """
    if bool(model) == bool(generations):
        raise RatchetError("Fill in either model or generations.")
    said = (*changes.overrides(), *overrides)
    chosen = select_benchmarks(load_recipe(recipe, said), benchmarks, samples)
    return _run(evaluating.evaluate, chosen, model, generations, overrides=said)


@flow(name="compare")
def compare(evaluations: list[str], other_settings: bool = False) -> str:
    """One model against another on the same questions: paired, with a test.

    Args:
        evaluations: Two or more, first to last: `evaluation/start-…`.
        other_settings: Compare although they were sampled with different settings; the report says so.
    """
    if len(evaluations) < 2:
        raise RatchetError("Name two evaluations or more.")
    return _run(reporting.report, Recipe(name="comparisons"), evaluations, (), not other_settings)


@flow(name="report")
def report(evaluations: tuple[str, ...] = (), corpus: tuple[str, ...] = ()) -> str:
    """The page of stored evaluations.

    Args:
        evaluations: `evaluation/…`, in order; none means the newest.
        corpus: Files of text that responses may quote, for the creativity index.
    """
    return _run(reporting.report, Recipe(name="reports"), evaluations, corpus)


def _run(
    work: Flow[..., Any], recipe: Recipe, *arguments: Any, steps: Steps = Steps(), overrides: Sequence[str] = ()
) -> str:
    """Plan the work, then do it as the Prefect run that is under way; the reference of what came out."""
    settings = load_settings()
    with plan_run(recipe, settings, steps) as plan:
        work.fn(recipe, *arguments)
        faults = missing(plan.plan)
    if faults:
        raise RatchetError("\n".join(faults))
    with called_by(Caller(settings, Watcher(), overrides=overrides)) as caller:
        result = work.fn(recipe, *arguments)
    return caller.opened.outcome(result).ref
