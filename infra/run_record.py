"""What a run did, as its journal says: its recipe, its steps, and what each read."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ratchet.infra.artifacts import Artifact
from ratchet.infra.errors import RatchetError
from ratchet.infra.journal import read_lines
from ratchet.infra.settings import Settings

SHORTEST_ID = 8
"""A run's id begins with the day."""


@dataclass(frozen=True)
class RunStep:
    run: str
    """Its id in the journal."""
    title: str
    output: Artifact
    inputs: tuple[Artifact, ...]
    cached: bool


@dataclass(frozen=True)
class RunRecord:
    run_id: str
    name: str
    tags: Mapping[str, str]
    recipe: Mapping[str, Any]
    steps: Sequence[RunStep]
    """In the order in which they began: what a step reads comes before it."""

    @property
    def ends(self) -> list[Artifact]:
        """What it came to: outputs that no other of its steps has read."""
        read = {artifact.key for step in self.steps for artifact in step.inputs}
        return [step.output for step in self.steps if step.output.key not in read]


@dataclass
class _Told:
    start: dict[str, Any] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    recipe: dict[str, Any] = field(default_factory=dict)


def read_run(journal: Path) -> RunRecord:
    """Raises RatchetError for a journal in which no run has begun."""
    told: dict[str, _Told] = {}
    for _, event in read_lines(journal):
        if event["event"] in ("open", "close", "metrics"):
            continue
        run = told.setdefault(event["run"], _Told())
        match event["event"]:
            case "start":
                run.start, run.tags = event, dict(event["tags"])
            case "tags":
                run.tags |= event["tags"]
            case "text" if event["name"] == "recipe.json":
                run.recipe = json.loads(event["text"])
    root = told.get(journal.stem)
    if root is None:
        raise RatchetError(f"{journal}: no run has begun in it.")
    steps = [
        RunStep(id, run.start["name"], _artifact(run.start["output"]), tuple(map(_artifact, run.start["inputs"])),
                run.start["cached"])
        for id, run in told.items()
        if run.start.get("output")
    ]  # fmt: skip
    return RunRecord(journal.stem, root.start["name"], root.tags, root.recipe, steps)


def find_run(settings: Settings, what: str) -> RunRecord | None:
    """The run with this id or a beginning of it, with this id in MLflow, or the newest of this name; None when there is
    none. Raises RatchetError when several are meant."""
    journals = sorted(settings.journals.glob("*.jsonl"))
    if len(what) >= SHORTEST_ID and (found := [j for j in journals if j.stem.startswith(what)]):
        if len(found) > 1:
            listed = ", ".join(journal.stem for journal in found[-10:])
            raise RatchetError(f"{what!r} is {len(found)} runs: {listed}. Say which.")
        return read_run(found[0])
    for journal in reversed(journals):
        if what in _names(journal):
            return read_run(journal)
    return None


def _names(journal: Path) -> Iterator[str]:
    for _, event in read_lines(journal):
        if event["event"] == "start":
            yield event["name"]
            break
    state = journal.with_suffix(".state.json")
    if state.is_file():
        yield json.loads(state.read_text())["runs"].get(journal.stem, "")


def _artifact(facts: Mapping[str, str]) -> Artifact:
    return Artifact(facts["kind"], facts["name"], facts["key"], Path(facts["path"]))
