"""Opens the run that a flow passes to its steps; a flow called by another joins the run of that one."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from ratchet.data_curation.settings.curation import Steps
from ratchet.infra.keys import flat
from ratchet.infra.recipe.domains import use_domains
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.settings import Settings, load_settings
from ratchet.infra.store.artifacts import ArtifactStore
from ratchet.infra.store.versions import code_version
from ratchet.infra.tracking.events import Status, Tracking, mlflow_address, run_page
from ratchet.tasks import prefect_page
from ratchet.tasks.reporter import ProgressReporter
from ratchet.tasks.run_context import RunContext
from ratchet.tasks.run_name import run_name
from ratchet.verifiers.errors import Waiting

TRACKING_S = 3.0
"""Seconds that MLflow gets at the end of a run; what it lacks then, it gets after the command has ended."""
ON_CPU = "No GPU found: the recipe's `on_cpu` section sets {}"

_ACTIVE: ContextVar[RunContext | None] = ContextVar("ratchet_run", default=None)


@dataclass
class Caller:
    """The settings of a flow's next run; and the run, once the flow has opened it."""

    settings: Settings
    reporter: ProgressReporter
    prefect: bool = True
    """Prefect runs the flow; otherwise it is a plain call."""
    overrides: Sequence[str] = ()
    """Shown with the run, as `--set` takes them."""
    run: RunContext | None = None
    mirrored: bool = True
    """MLflow gets the run while it runs; otherwise only the journal."""

    @property
    def opened(self) -> RunContext:
        assert self.run is not None, "the flow has not opened a run"
        return self.run


_CALLER: ContextVar[Caller | None] = ContextVar("ratchet_caller", default=None)


def outside_prefect() -> bool:
    """True where flows are plain calls: in a plan, or for a caller without Prefect."""
    run, caller = _ACTIVE.get(), _CALLER.get()
    return not run.in_prefect if run is not None else caller is not None and not caller.prefect


@contextmanager
def called_by(caller: Caller) -> Iterator[Caller]:
    token = _CALLER.set(caller)
    try:
        yield caller
    finally:
        _CALLER.reset(token)


@contextmanager
def open_run(recipe: Recipe, title: str, steps: Steps = Steps()) -> Iterator[RunContext]:
    """The enclosing run, which a flow called by another joins; otherwise a new one."""
    enclosing = _ACTIVE.get()
    if enclosing is not None:
        yield enclosing
        return
    domains = tuple(use_domains(recipe))
    caller = _CALLER.get() or Caller(load_settings(), ProgressReporter())
    settings = caller.settings
    tracking, overrides = Tracking(settings, recipe.name, caller.mirrored), "; ".join(caller.overrides)
    store = ArtifactStore(settings.artifacts)
    name = run_name(recipe.name, recipe.seed, title, caller.overrides)
    caller.run = run = RunContext(
        recipe, domains, settings, store, caller.reporter, tracking, overrides, name,
        in_prefect=caller.prefect, steps=steps,
    )  # fmt: skip
    run.root = tracking.start_run(
        name,
        tags={
            "ratchet.flow": title, "ratchet.recipe": recipe.name, "ratchet.seed": str(recipe.seed),
            "git.commit": code_version(),
        }
        | ({"ratchet.overrides": overrides} if overrides else {})
        | prefect_page.name_run(name, ["ratchet", recipe.name]),
        parameters=flat(recipe.model_dump(mode="json", exclude_defaults=True)),
    )  # fmt: skip
    tracking.event("text", run.root, text=recipe.model_dump_json(indent=1), name="recipe.json")
    status: Status = "KILLED"  # Ctrl-C and cancellation are no `Exception`; or it waits for approval
    try:
        with _active(run):
            yield run
        status = "FINISHED"
    except Waiting:
        raise
    except Exception:
        status = "FAILED"
        raise
    finally:
        run.reporter.show_cached()
        run.resident.close()
        tracking.event("end", run.root, status=status)
        run.tracked = tracking.close(TRACKING_S)
        if (server := mlflow_address(settings.tracking_uri)) and (page := run_page(settings, run.root, server)):
            prefect_page.link(page, f"MLflow: {name}")


def note_cpu_overrides(run: RunContext) -> None:
    """Tell which fields the recipe's `on_cpu` sections set, before what they change: training or evaluation."""
    if run.recipe.cpu_overrides and not run.planning:
        run.reporter.note(ON_CPU.format(", ".join(run.recipe.cpu_overrides)))


@contextmanager
def plan_run(recipe: Recipe, settings: Settings, steps: Steps | None = None) -> Iterator[RunContext]:
    """A run in which steps compute their keys and do nothing."""
    domains, store = tuple(use_domains(recipe)), ArtifactStore(settings.artifacts)
    run = RunContext(recipe, domains, settings, store, ProgressReporter(), tracking=None, steps=steps or Steps())
    with _active(run):
        yield run


@contextmanager
def _active(run: RunContext) -> Iterator[None]:
    token = _ACTIVE.set(run)
    try:
        yield
        run.check_steps()
    finally:
        _ACTIVE.reset(token)
