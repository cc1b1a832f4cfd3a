"""A run as recorded in its journal: its recipe, its steps, and the inputs of each."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ratchet.data_curation.base.journal import read_lines
from ratchet.infra.settings import Settings
from ratchet.infra.store.artifacts import Artifact, ArtifactStore
from ratchet.infra.tracking.events import read_state
from ratchet.verifiers.errors import RatchetError

SHORTEST_ID = 8
"""Least characters of a run's id, which begins with the day."""


@dataclass(frozen=True)
class RunStep:
    """A step of a run, as its journal records it."""

    run: str
    """Id of the step's run in the journal."""
    title: str
    output: Artifact
    inputs: tuple[Artifact, ...]
    cached: bool
    began: float
    """Time of the beginning, in seconds since 1970."""
    ended: float
    """Time of the end, in seconds since 1970; 0 if it has not ended."""
    training_steps: tuple[int, int]
    """The first training step that this run has made, and the last; zeros if it has made none."""
    status: str
    """`FINISHED`, `FAILED`, or `KILLED` as long as the journal has no end."""

    def seconds(self, now: float) -> float:
        return 0.0 if self.cached else (self.ended or now) - self.began


@dataclass(frozen=True)
class RunRecord:
    """A run, as its journal records it."""

    run_id: str
    name: str
    tags: Mapping[str, str]
    recipe: Mapping[str, Any]
    steps: Sequence[RunStep]
    """Steps in the order in which they began, so that a step's inputs come before it."""
    began: float
    last_event: float
    """Time of the newest event, which is the run's end once it has ended."""
    status: str
    """The run's status; `KILLED` as long as the journal has no end."""

    @property
    def ends(self) -> list[Artifact]:
        """Outputs that no other step of the run has read."""
        read = {artifact.key for step in self.steps for artifact in step.inputs}
        return [step.output for step in self.steps if step.output.key not in read]


def read_run(journal: Path) -> RunRecord | None:
    """The run of a journal; None if none has begun."""
    starts: dict[str, dict[str, Any]] = {}
    ends: dict[str, dict[str, Any]] = {}
    trained: dict[str, tuple[int, int]] = {}
    tags: dict[str, dict[str, str]] = defaultdict(dict)
    recipe: dict[str, Any] = {}
    event: dict[str, Any] = {}
    for _, event in read_lines(journal):
        match event["event"]:
            case "start":
                starts[event["run"]] = event
                tags[event["run"]] |= event["tags"]
            case "tags":
                tags[event["run"]] |= event["tags"]
            case "metrics" if event["step"] and event["at"] >= starts[event["run"]]["time"]:  # a continued stage's too
                trained[event["run"]] = trained.get(event["run"], (event["step"], 0))[0], event["step"]
            case "end":
                ends[event["run"]] = event
            case "text" if event["name"] == "recipe.json":
                recipe = json.loads(event["text"])
    if journal.stem not in starts:
        return None
    store = ArtifactStore(journal.parents[1] / "artifacts")
    steps = [
        RunStep(run, start["name"], store.named(start["output"]), tuple(map(store.named, start["inputs"])),
                start["cached"], start["time"], ends.get(run, {}).get("time", 0.0), trained.get(run, (0, 0)),
                ends.get(run, {}).get("status", "KILLED"))
        for run, start in starts.items()
        if start["output"]
    ]  # fmt: skip
    root, status = starts[journal.stem], ends.get(journal.stem, {}).get("status", "KILLED")
    return RunRecord(journal.stem, root["name"], tags[journal.stem], recipe, steps, root["time"], event["time"], status)


def all_runs(settings: Settings) -> Iterator[RunRecord]:
    """Every run of the home, newest first."""
    yield from filter(None, map(read_run, sorted(settings.journals.glob("*.jsonl"), reverse=True)))


def find_run(settings: Settings, what: str) -> RunRecord | None:
    """The run with this id or a beginning of it, with this id in MLflow, or the newest of this name; None for no match.
    Raises RatchetError for several."""
    journals = sorted(settings.journals.glob("*.jsonl"))
    if len(what) >= SHORTEST_ID and (matches := [j for j in journals if j.stem.startswith(what)]):
        if len(matches) > 1:
            listed = ", ".join(journal.stem for journal in matches[-10:])
            raise RatchetError(f"{what!r} matches {len(matches)} runs: {listed}. Name one.")
        return read_run(matches[0])
    return next((read_run(journal) for journal in reversed(journals) if what in _names(settings, journal)), None)


def get_run(settings: Settings, what: str) -> RunRecord:
    """The run that `find_run` finds. Raises RatchetError for no match, too."""
    if run := find_run(settings, what):
        return run
    newest = [f"{run.run_id} ({run.name})" for run in islice(all_runs(settings), 5)]
    listed = f"The newest: {', '.join(newest)}. `ratchet show runs` lists all." if newest else "It has none yet."
    raise RatchetError(f"No run {what!r} in {settings.home}. {listed}")


def _names(settings: Settings, journal: Path) -> Iterator[str]:
    for _, event in read_lines(journal):
        if event["event"] == "start":
            yield event["name"]
            break
    yield read_state(settings, journal.stem).get("runs", {}).get(journal.stem, "")
