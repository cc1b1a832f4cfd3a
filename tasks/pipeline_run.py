"""One run of a flow: its recipe, its store, its lineage, and who is watching."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from infra.artifacts import Artifact, ArtifactStore, code_version
from infra.recipe.model import Recipe
from infra.settings import Settings, load_settings
from infra.tracking import Status, Tracking


class Watcher(Protocol):
    """Who is told what happens: the terminal's live view, or the log of a served flow."""

    def phase(self, title: str) -> None: ...

    def step_started(self, title: str) -> None: ...

    def progress(self, done: int, total: int | None, facts: Mapping[str, Any]) -> None: ...

    def step_finished(self, title: str, summary: str, seconds: float, cached: bool) -> None: ...

    def not_done(self, title: str, reason: str) -> None: ...

    def warning(self, text: str) -> None: ...


class LogWatcher:
    """One printed line a step: for pipes, files and served flows."""

    def phase(self, title: str) -> None:
        print(f"\n{title}", flush=True)

    def step_started(self, title: str) -> None:
        print(f"… {title}", flush=True)

    def progress(self, done: int, total: int | None, facts: Mapping[str, Any]) -> None:
        pass  # a log wants results, not progress

    def step_finished(self, title: str, summary: str, seconds: float, cached: bool) -> None:
        took = "cached" if cached else f"{seconds:.1f} s"
        print(f"✓ {title} ({took}) {summary}", flush=True)

    def not_done(self, title: str, reason: str) -> None:
        print(f"– {title}: not done, {reason}", flush=True)

    def warning(self, text: str) -> None:
        print(f"! {text}", flush=True)


class Unwatched(LogWatcher):
    """For plans: nothing happens, so nothing is said."""

    def phase(self, title: str) -> None:
        pass


@dataclass(frozen=True)
class PlannedStep:
    title: str
    output: Artifact
    inputs: tuple[Artifact, ...]
    cached: bool
    not_done: str = ""


@dataclass
class PipelineRun:
    """What every task finds with `active_run()`. Without `tracking` it is a plan: keys are computed, nothing made."""

    recipe: Recipe
    settings: Settings
    store: ArtifactStore
    watcher: Watcher
    tracking: Tracking | None
    root: str = ""
    current_child: str = ""
    made: dict[str, Artifact] = field(default_factory=dict)
    """By key, what steps of this run have found or made: asked for again, it is not shown again."""
    tracked: bool = False
    """Whether MLflow has received everything by the end of the run."""
    plan: list[PlannedStep] = field(default_factory=list)

    @property
    def planning(self) -> bool:
        return self.tracking is None


_ACTIVE: ContextVar[PipelineRun | None] = ContextVar("ratchet_run", default=None)


def active_run() -> PipelineRun:
    run = _ACTIVE.get()
    if run is None:
        raise RuntimeError("tasks run inside a flow: call the flow, or open_run() first")
    return run


@contextmanager
def open_run(
    recipe: Recipe, title: str, settings: Settings | None = None, watcher: Watcher | None = None
) -> Iterator[PipelineRun]:
    """The enclosing run if there is one, so that a flow called by another joins it; else a new one."""
    enclosing = _ACTIVE.get()
    if enclosing is not None:
        yield enclosing
        return
    settings = settings or load_settings()
    tracking = Tracking(settings, experiment=recipe.name)
    run = PipelineRun(recipe, settings, ArtifactStore(settings.artifacts), watcher or LogWatcher(), tracking)
    run.root = tracking.start_run(
        title,
        tags={"ratchet.flow": title, "ratchet.recipe": recipe.name, "git.commit": code_version(), **prefect_tags()},
        parameters=flat_parameters(recipe),
    )
    tracking.text(run.root, recipe.model_dump_json(indent=1), "recipe.json")
    status: Status = "FAILED"
    token = _ACTIVE.set(run)
    try:
        yield run
        status = "FINISHED"
    except KeyboardInterrupt:
        status = "KILLED"
        raise
    finally:
        _ACTIVE.reset(token)
        tracking.end_run(run.root, status)
        run.tracked = tracking.close(wait_s=30 if status == "FINISHED" else 5)


@contextmanager
def plan_run(recipe: Recipe, settings: Settings) -> Iterator[PipelineRun]:
    """A run in which steps only say what they would do."""
    run = PipelineRun(recipe, settings, ArtifactStore(settings.artifacts), Unwatched(), tracking=None)
    token = _ACTIVE.set(run)
    try:
        yield run
    finally:
        _ACTIVE.reset(token)


def prefect_tags() -> dict[str, str]:
    from prefect.runtime import flow_run

    return {"prefect.flow_run_id": flow_run.id} if flow_run.id else {}


def flat_parameters(recipe: Recipe) -> dict[str, Any]:
    """The recipe's leaves under dotted names, what differs from the defaults only: MLflow's page stays readable."""
    flat: dict[str, Any] = {}

    def descend(prefix: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for name, inner in value.items():
                descend(f"{prefix}.{name}" if prefix else name, inner)
        elif isinstance(value, Sequence) and not isinstance(value, str) and any(isinstance(v, Mapping) for v in value):
            for position, inner in enumerate(value):
                descend(f"{prefix}.{position}", inner)
        else:
            flat[prefix] = value

    descend("", recipe.model_dump(mode="json", exclude_defaults=True))
    return flat
