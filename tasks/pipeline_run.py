"""One run of a flow: its recipe, store, lineage and display."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from ratchet.data_curation.settings.curation import CURATION_STEPS, Steps
from ratchet.infra.keys import flat
from ratchet.infra.launching.resident import Resident
from ratchet.infra.recipe.domains import use_domains
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.settings import Settings, load_settings
from ratchet.infra.store.approvals import Approval
from ratchet.infra.store.artifacts import Artifact, ArtifactStore
from ratchet.infra.store.versions import code_version
from ratchet.infra.tracking.events import Status, Tracking, mlflow_address, run_page
from ratchet.tasks import prefect_page
from ratchet.tasks.progress import Progress, printable
from ratchet.tasks.run_name import run_name
from ratchet.verifiers.errors import RatchetError, Waiting, nearest

PROGRESS_EVERY_S = 60
TRACKING_S = 3.0
"""For MLflow at the end of a run; what it lacks then, it gets after the command has ended."""


ON_CPU = "no GPU here, so the recipe's `on_cpu` sets {}"


class Watcher:
    """Reports a run: one line per step, and one every `PROGRESS_EVERY_S` seconds. For pipes, files and served flows."""

    def __init__(self) -> None:
        self._progress = Progress()
        self._shown_at = 0.0

    def show(self, text: str, style: str = "") -> None:
        """Print one line; `style` is for terminals."""
        print(text, flush=True)

    def say(self, text: str, style: str = "", level: int = logging.INFO) -> None:
        """Print one line, here and in Prefect's log; what a model or a data set wrote in it commands no terminal."""
        text = printable(text)
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
        self._progress = Progress()

    def not_done(self, title: str, reason: str) -> None:
        self.say(f"– {title}: not done, {reason}", "yellow")

    @property
    def now(self) -> str:
        """The step at work and how far it is, "train math-36 (12/40)"; "" between steps."""
        done = f" ({self._progress.done:,}/{self._progress.total:,})" if self._progress.total else ""
        return f"{self._progress.title}{done}" if self._progress.title else ""

    def warning(self, text: str) -> None:
        self.say(f"! {text}", "yellow", logging.WARNING)


HELD_OUT, BEFORE_HELD_OUT = "held_out", ("normalise", "rules", "decontaminate")
"""The step that reads a benchmark, and the steps up to the one that compares with it."""


@dataclass(frozen=True)
class PlannedStep:
    """A step that a flow has reached."""

    title: str
    output: Artifact
    inputs: tuple[Artifact, ...]
    """Which this run gives it; the output's manifest may name others with the same content."""
    cached: bool
    not_done: str = ""
    """The reason if it cannot run."""
    left_out: bool = False
    """Whether only other steps were chosen."""
    name: str = ""
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
    name: str = ""
    root: str = ""
    """Its id, in the journal."""
    current_child: str = ""
    tracked: bool = False
    """Whether MLflow had received everything at the end of the run."""
    plan: list[PlannedStep] = field(default_factory=list)
    """The steps that the flow has reached, in order."""
    steps: Steps = field(default_factory=Steps)
    """The steps that were chosen."""
    children: dict[str, str] = field(default_factory=dict)
    """A step's run in the journal, by the key of its output."""
    resident: Resident = field(default_factory=lambda: Resident("ratchet.training.launch", "ratchet.evaluation.main"))
    """Runs this machine's process groups, one after the other."""

    @property
    def outputs(self) -> list[Artifact]:
        """Of the chosen steps, in order."""
        return [step.output for step in self.plan if not (step.left_out or step.not_done)]

    @property
    def trained(self) -> list[Artifact]:
        """The checkpoints among the outputs."""
        return [output for output in self.outputs if output.kind == "checkpoint"]

    @property
    def inputs(self) -> dict[str, tuple[Artifact, ...]]:
        """Of each step, by the key of its output."""
        return {step.output.key: step.inputs for step in self.plan if not step.not_done}

    def chooses(self, step: str, title: str, inputs: Sequence[Artifact]) -> bool:
        """Whether this step is chosen. Raises RatchetError when it is and an input does not exist."""
        outputs = {artifact.key for artifact in self.outputs}
        if step == HELD_OUT:  # needed by `decontaminate`, whichever step was named to reach it
            chosen = self.steps.only in (None, "decontaminate") and self.steps.start in (None, *BEFORE_HELD_OUT)
        elif self.steps.only:
            chosen = step == self.steps.only
        elif self.steps.start:
            chosen = step == self.steps.start or any(artifact.key in outputs for artifact in inputs)
        else:
            chosen = True
        absent = [a for a in inputs if a.key not in outputs and not a.path.exists()]
        if chosen and absent:
            raise RatchetError(
                f"{title} reads {', '.join(a.ref for a in absent)}, which does not exist yet with these settings. "
                "Run the earlier steps first: without --only and --from."
            )
        return chosen

    def check_steps(self) -> None:
        """At the end of the flow: raise RatchetError for a chosen step that it has not reached."""
        reached = {step.name: step.not_done for step in self.plan}
        for name in (self.steps.only, self.steps.start, *self.steps.refresh):
            if name and name not in reached:
                names = [names for names in reached if names in CURATION_STEPS]
                raise RatchetError(f"There is no step {name} here.{nearest(name, names)} Known: {', '.join(names)}.")
            if name and reached[name]:
                raise RatchetError(f"The step {name} cannot run: {reached[name]}.")

    def made_from(self, artifact: Artifact) -> Sequence[Artifact]:
        """The inputs that this run gave the step, or those in its manifest."""
        return self.inputs.get(artifact.key) or self.store.parents(artifact)

    def outcome(self, result: Any) -> Artifact:
        """The final artifact of a run whose flow returned `result`."""
        artifact = getattr(result, "checkpoint", result)
        return artifact if artifact in self.outputs else self.outputs[-1]  # only some steps ran

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
    mirrored: bool = True
    """Whether MLflow gets the run while it runs."""

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
    tracking, overrides = Tracking(settings, recipe.name, caller.mirrored), "; ".join(caller.overrides)
    store = ArtifactStore(settings.artifacts)
    caller.run = run = PipelineRun(recipe, domains, settings, store, caller.watcher, tracking, overrides, steps=steps)
    name = run_name(recipe.name, recipe.seed, title, caller.overrides)
    run.name = name
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
    if recipe.fitted:
        caller.watcher.note(ON_CPU.format(", ".join(recipe.fitted)))
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
        run.tracked = tracking.close(TRACKING_S)
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
