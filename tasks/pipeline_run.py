"""One run of a flow: its recipe, store, lineage and display."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from ratchet.infra.keys import flat
from ratchet.infra.launching.resident import Resident
from ratchet.infra.recipe.curation import CURATION_STEPS, Steps
from ratchet.infra.recipe.domains import use_domains
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.settings import Settings, load_settings
from ratchet.infra.store.approvals import Approval
from ratchet.infra.store.artifacts import Artifact, ArtifactStore
from ratchet.infra.store.versions import code_version
from ratchet.infra.tracking.events import Status, Tracking, mlflow_address, run_page
from ratchet.tasks import prefect_page
from ratchet.tasks.progress import Progress
from ratchet.verifiers.errors import RatchetError, Waiting, nearest

PROGRESS_EVERY_S = 60


class Watcher:
    """Reports a run: one line per step, and one every `PROGRESS_EVERY_S` seconds. For pipes, files and served flows."""

    def __init__(self) -> None:
        self._progress = Progress()
        self._shown_at = 0.0

    def show(self, text: str, style: str = "") -> None:
        """Print one line; `style` is for terminals."""
        print(text, flush=True)

    def say(self, text: str, style: str = "", level: int = logging.INFO) -> None:
        """Print one line, here and in Prefect's log."""
        self.show(text, style)
        prefect_page.log(text.strip(), level)

    def phase(self, title: str) -> None:
        self.say(f"\n{title}", "bold")

    def step_started(self, title: str) -> None:
        self.show(f"… {title}")
        self._progress, self._shown_at = Progress(title), time.monotonic()

    def note(self, text: str) -> None:
        self.say(f"  {text}", "dim")

    def progress(self, done: int, total: int | None, facts: Mapping[str, Any]) -> None:
        self._progress.update(done, total, facts)
        if time.monotonic() - self._shown_at >= PROGRESS_EVERY_S:
            self._shown_at = time.monotonic()
            self.say(f"  {self._progress.title}: {self._progress.count()}   {self._progress.facts()}")

    def step_finished(self, title: str, summary: str, seconds: float, cached: bool) -> None:
        took = "cached" if cached else f"{seconds:.1f} s"
        self.say(f"✓ {title} ({took}) {summary}")

    def not_done(self, title: str, reason: str) -> None:
        self.say(f"– {title}: not done, {reason}", "yellow")

    def warning(self, text: str) -> None:
        self.say(f"! {text}", "yellow", logging.WARNING)


HELD_OUT, BEFORE_HELD_OUT = "held_out", ("normalise", "rules", "decontaminate")
"""The step that reads a benchmark, and the steps up to the one that compares with it."""


@dataclass(frozen=True)
class PlannedStep:
    title: str
    output: Artifact
    inputs: tuple[Artifact, ...]
    cached: bool
    not_done: str = ""
    left_out: bool = False
    estimate: Callable[[], str] | None = None
    """Describes the cost of making it, once its inputs exist."""
    check: Callable[[], None] | None = None
    """Raises RatchetError for a missing requirement."""
    same_as: Artifact | None = None
    """An earlier artifact with the same content."""
    approval: Approval | None = None
    """Of a gate at which a run has waited already."""

    @property
    def done(self) -> bool:
        return self.cached or self.left_out or bool(self.not_done)


@dataclass
class PipelineRun:
    """The state that tasks get from `active_run()`. Without `tracking` it is a plan: only keys are computed."""

    recipe: Recipe
    domains: tuple[str, ...]
    """The domains of which the recipe has problems."""
    settings: Settings
    store: ArtifactStore
    watcher: Watcher
    tracking: Tracking | None
    overrides: str = ""
    root: str = ""
    current_child: str = ""
    made: dict[str, Artifact] = field(default_factory=dict)
    """Outputs of this run's steps by key, cached or new."""
    tracked: bool = False
    """Whether MLflow had received everything at the end of the run."""
    plan: list[PlannedStep] = field(default_factory=list)
    steps: Steps = field(default_factory=Steps)
    taken: list[Artifact] = field(default_factory=list)
    """Outputs of the chosen steps, in order."""
    used: dict[str, tuple[Artifact, ...]] = field(default_factory=dict)
    """The inputs that this run gave a step, by the key of its output."""
    children: dict[str, tuple[str, str]] = field(default_factory=dict)
    """A step's run in the journal and its title, by the key of its output."""
    resident: Resident = field(default_factory=Resident)
    """Runs this machine's process groups, one after the other."""
    _names: dict[str, str] = field(default_factory=dict)
    """Every step that the flow has reached, chosen or not, with the reason if it cannot run."""

    def takes(self, step: str, title: str, inputs: Sequence[Artifact]) -> bool:
        """Whether this step is chosen. Raises RatchetError when it is and an input does not exist."""
        self._names[step] = ""
        made_here = {artifact.key for artifact in self.taken}
        if step == HELD_OUT:  # needed by `decontaminate`, whichever step was named to reach it
            taken = self.steps.only in (None, "decontaminate") and self.steps.start in (None, *BEFORE_HELD_OUT)
        elif self.steps.only:
            taken = step == self.steps.only
        elif self.steps.start:
            taken = step == self.steps.start or any(artifact.key in made_here for artifact in inputs)
        else:
            taken = True
        absent = [a for a in inputs if a.key not in made_here and not a.path.exists()]
        if taken and absent:
            raise RatchetError(
                f"{title} reads {', '.join(a.ref for a in absent)}, which does not exist yet with these settings. "
                "Run the earlier steps first: without --only and --from."
            )
        return taken

    def cannot_take(self, step: str, reason: str) -> None:
        self._names[step] = reason

    def check_steps(self) -> None:
        """At the end of the flow: raise RatchetError for a chosen step that it has not reached."""
        for name in (self.steps.only, self.steps.start, *self.steps.refresh):
            if name and name not in self._names:
                known = [known for known in self._names if known in CURATION_STEPS]
                raise RatchetError(f"There is no step {name} here.{nearest(name, known)} Known: {', '.join(known)}.")
            if name and self._names[name]:
                raise RatchetError(f"The step {name} cannot run: {self._names[name]}.")

    def made_from(self, artifact: Artifact) -> Sequence[Artifact]:
        """The inputs that this run gave the step, or those in its manifest."""
        return self.used.get(artifact.key) or self.store.parents(artifact)

    def outcome(self, result: Any) -> Artifact:
        """The final artifact of a run whose flow returned `result`."""
        artifact = getattr(result, "checkpoint", result)
        return artifact if artifact in self.taken else self.taken[-1]  # only some steps ran

    @property
    def planning(self) -> bool:
        return self.tracking is None

    def phase(self, title: str) -> None:
        if not self.planning:
            self.watcher.phase(title)


_ACTIVE: ContextVar[PipelineRun | None] = ContextVar("ratchet_run", default=None)


def active_run() -> PipelineRun:
    run = _ACTIVE.get()
    if run is None:
        raise RuntimeError("tasks run inside a flow: call the flow, or open_run() first")
    return run


@dataclass
class Caller:
    """The settings of a flow's next run; and the run, once the flow has opened it."""

    settings: Settings
    watcher: Watcher
    prefect: bool = True
    """Whether Prefect runs the flow."""
    overrides: Sequence[str] = ()
    """Shown with the run, as `--set` takes them."""
    run: PipelineRun | None = None

    @property
    def opened(self) -> PipelineRun:
        assert self.run is not None, "the flow has not opened a run"
        return self.run


_CALLER: ContextVar[Caller | None] = ContextVar("ratchet_caller", default=None)


def outside_prefect() -> bool:
    """Whether flows and steps are plain calls: in a plan, or for a caller without Prefect."""
    run, caller = _ACTIVE.get(), _CALLER.get()
    return (run is not None and run.planning) or (caller is not None and not caller.prefect)


@contextmanager
def called_by(caller: Caller) -> Iterator[Caller]:
    token = _CALLER.set(caller)
    try:
        yield caller
    finally:
        _CALLER.reset(token)


@contextmanager
def open_run(recipe: Recipe, title: str, steps: Steps = Steps()) -> Iterator[PipelineRun]:
    """The enclosing run, which a flow called by another joins; otherwise a new one."""
    enclosing = _ACTIVE.get()
    if enclosing is not None:
        yield enclosing
        return
    domains = tuple(use_domains(recipe))
    caller = _CALLER.get() or Caller(load_settings(), Watcher())
    settings = caller.settings
    tracking, overrides = Tracking(settings, experiment=recipe.name), "; ".join(caller.overrides)
    store = ArtifactStore(settings.artifacts)
    caller.run = run = PipelineRun(recipe, domains, settings, store, caller.watcher, tracking, overrides, steps=steps)
    name = f"{recipe.name}-seed{recipe.seed}-{title}"
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
        run.resident.close()
        tracking.event("end", run.root, status=status)
        run.tracked = tracking.close(wait_s=30 if status == "FINISHED" else 5)
        if (server := mlflow_address(settings.tracking_uri)) and (page := run_page(settings, run.root, server)):
            prefect_page.link(page, f"MLflow: {name}")


@contextmanager
def plan_run(recipe: Recipe, settings: Settings, steps: Steps = Steps()) -> Iterator[PipelineRun]:
    """A run in which steps compute their keys and do nothing."""
    domains, store = tuple(use_domains(recipe)), ArtifactStore(settings.artifacts)
    run = PipelineRun(recipe, domains, settings, store, Watcher(), tracking=None, steps=steps)
    with _active(run):
        yield run


@contextmanager
def _active(run: PipelineRun) -> Iterator[None]:
    token = _ACTIVE.set(run)
    try:
        yield
        run.check_steps()
    finally:
        _ACTIVE.reset(token)


def missing(plan: Sequence[PlannedStep]) -> list[str]:
    """The missing requirements of the planned steps, each once."""
    faults: dict[str, None] = {}
    for step in plan:
        if step.check and not (step.cached or step.left_out):
            try:
                step.check()
            except RatchetError as error:
                faults[str(error)] = None
    return list(faults)
