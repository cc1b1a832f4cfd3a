"""Open the run that flows pass to their steps."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ratchet.data_curation.settings.curation import Steps
from ratchet.infra.keys import flat
from ratchet.infra.recipe.domains import use_domains
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.settings import Settings
from ratchet.infra.store.artifacts import ArtifactStore
from ratchet.infra.store.versions import code_version
from ratchet.infra.tracking.events import Status, Tracking, mlflow_address, run_page
from ratchet.tasks import prefect_page
from ratchet.tasks.reporter import ProgressReporter
from ratchet.tasks.run_context import RunContext
from ratchet.tasks.run_name import run_name
from ratchet.verifiers.errors import Waiting

TRACKING_S = 3.0
"""Seconds that MLflow gets at the end of a run; it receives the rest after the command has ended."""
ON_CPU = "No GPU found: the recipe's `on_cpu` section sets {}"


@contextmanager
def open_run(
    recipe: Recipe, settings: Settings, title: str, reporter: ProgressReporter, steps: Steps = Steps(),
    overrides: Sequence[str] = (), in_prefect: bool = False, mirrored: bool = False,
) -> Iterator[RunContext]:  # fmt: skip
    """Open a run of the chosen `steps`, which the flows in the block share.

    `overrides` are shown with the run, as `--set` takes them. With `in_prefect`, its steps are Prefect tasks. If it is
    `mirrored`, MLflow gets it while it runs; otherwise there is only the journal.
    """
    domains = tuple(use_domains(recipe))
    tracking, store = Tracking(settings, recipe.name, mirrored), ArtifactStore(settings.artifacts)
    name, shown = run_name(recipe.name, recipe.seed, title, overrides), "; ".join(overrides)
    run = RunContext(
        recipe, domains, settings, store, reporter, tracking, shown, name, in_prefect=in_prefect, steps=steps
    )
    run.root = tracking.start_run(
        name,
        tags={
            "ratchet.flow": title, "ratchet.recipe": recipe.name, "ratchet.seed": str(recipe.seed),
            "git.commit": code_version(),
        }
        | ({"ratchet.overrides": shown} if shown else {})
        | prefect_page.name_run(name, ["ratchet", recipe.name]),
        parameters=flat(recipe.model_dump(mode="json", exclude_defaults=True)),
    )  # fmt: skip
    tracking.event("text", run.root, text=recipe.model_dump_json(indent=1), name="recipe.json")
    status: Status = "KILLED"  # Ctrl-C and cancellation are no `Exception`; or it waits for approval
    try:
        yield run
        run.check_steps()
        status = "FINISHED"
    except Waiting:
        raise
    except Exception:
        status = "FAILED"
        raise
    finally:
        reporter.show_cached()
        run.fork_server.close()
        tracking.event("end", run.root, status=status)
        run.tracked = tracking.close(TRACKING_S)
        if (server := mlflow_address(settings.tracking_uri)) and (page := run_page(settings, run.root, server)):
            prefect_page.link(page, f"MLflow: {name}")


@contextmanager
def plan_run(recipe: Recipe, settings: Settings, steps: Steps = Steps()) -> Iterator[RunContext]:
    """Open a run whose steps compute their keys and do nothing."""
    domains, store = tuple(use_domains(recipe)), ArtifactStore(settings.artifacts)
    run = RunContext(recipe, domains, settings, store, ProgressReporter(), tracking=None, steps=steps)
    yield run
    run.check_steps()


def note_cpu_overrides(run: RunContext) -> None:
    """Report the fields that the recipe's `on_cpu` sections set, before the part that they change: training or
    evaluation."""
    if run.recipe.cpu_overrides and not run.planning:
        run.reporter.note(ON_CPU.format(", ".join(run.recipe.cpu_overrides)))
