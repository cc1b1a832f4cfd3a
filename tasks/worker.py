"""Run a module as a worker process group, and follow the metrics that it writes."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ratchet.data_curation.base.draft import Draft
from ratchet.data_curation.base.files import write_atomically
from ratchet.data_curation.base.journal import Tail
from ratchet.evaluation.spec import EvaluationSpec
from ratchet.infra.launching.group import JobPreempted, ProcessGroup
from ratchet.infra.launching.launcher import launcher_of
from ratchet.infra.launching.run_group import read_status, run_group
from ratchet.infra.store.artifacts import Artifact
from ratchet.tasks.curriculum_curve import Curve
from ratchet.tasks.run_context import RunContext
from ratchet.training.specification import TrainingSpec
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.processes import last_lines

CLEARED_STEPS = 20
"""Steps after which a returning alarm is shown again; batches fluctuate."""
VALIDATION = "validation"
ATTEMPTS = 3
"""Most launches of a group that loses its machines each time before it makes progress."""


def run_worker(
    run: RunContext, module: str, spec: TrainingSpec | EvaluationSpec, draft: Draft[Any], name: str,
    follow: "MetricsFollower", *, once: bool = False, here: bool = False, forkable: bool = False,
) -> None:  # fmt: skip
    """Run a module as a worker process group to its end and follow its metrics; run it again if it loses its machines.
    A group that finished in a killed run is not run again. `here`: on this machine, even with SLURM. Raises
    RatchetError with the group's message."""
    settings = replace(run.settings, slurm=None) if here else run.settings
    # Not in the artifact, whose content must not depend on the home; found again by a resumed run.
    spec_file = run.settings.logs / f"{draft.path.name}.spec.json"
    log = spec_file.with_name(f"{draft.path.name}.log")
    argv = (run.settings.python, "-P", "-m", module, str(spec_file))
    hardware = spec.training.hardware
    group = ProcessGroup(argv, hardware.machines, hardware.processes, draft.path, log, once, forkable)
    wanted = spec.model_dump_json(indent=1)
    # A draft has the key of its artifact: with its model, it is finished whatever else the specification now says.
    again = (draft.path / "model").is_dir() or (spec_file.is_file() and spec_file.read_text() == wanted)
    spec_file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(spec_file, wanted)
    state, message = read_status(draft.path) if again else ("", "")
    attempts = ATTEMPTS
    while state != "finished":
        furthest = follow.tail.furthest
        try:
            result = run_group(group, launcher_of(settings, run.fork_server), follow.poll, run.reporter.note)
        except JobPreempted as reason:
            follow.poll()
            attempts = ATTEMPTS if follow.tail.furthest > furthest else attempts - 1
            if not attempts:
                raise RatchetError(
                    f"{name}: lost its machines {ATTEMPTS} times without progress; the last time: {reason}. Give it "
                    f"more time or other machines; the end of {log}:\n{last_lines(log, 25)}"
                ) from reason
            run.reporter.note(f"{name}: {reason}; continuing from its last checkpoint")
            continue
        if not draft.path.is_dir():  # with all that the group would have said
            raise RatchetError(
                f"{name}: its unfinished directory was deleted while it ran, {draft.path}. Run the same command again: "
                "it starts over."
            )
        if result.state == "failed":
            raise RatchetError(f"{name}: {result.reason}")
        if not result.finished:
            raise RatchetError(
                f"{name} {result.reason}\nMend the cause, then run the same command again to continue from the last "
                "checkpoint."
            )
        state, message = result.state, result.message
    follow.poll()
    if message:
        run.reporter.warning(f"{name}: {message}")


class MetricsFollower:
    """A follower of a worker's `metrics.jsonl` as it grows, for the terminal and the tracking journal."""

    def __init__(self, run: RunContext, child: str, path: Path) -> None:
        self.run, self.child, self.tail = run, child, Tail(path)
        self.last: dict[str, Any] = {}
        self.alarmed: dict[str, int] = {}  # step at which an alarm was last on

    def poll(self) -> None:
        for record in self.tail.read():
            self._record(record)

    def _record(self, record: dict[str, Any]) -> None:
        self.last = record
        facts = {k: v for k, v in record.items() if isinstance(v, int | float) and k not in ("step", "steps", "time")}
        for name, words in record.get("alarms", {}).items():
            if record["step"] - self.alarmed.get(name, -CLEARED_STEPS) >= CLEARED_STEPS:
                self.run.reporter.warning(f"step {record['step']}: {words}")
            self.alarmed[name] = record["step"]
        if VALIDATION in record:
            self.run.reporter.note(f"after step {record['step']}: {_validated(record)}")
        for words in record.get("intervened", ()):
            self.run.reporter.note(f"after step {record['step']}: {words}")
        if facts and self.run.tracking:
            self.run.tracking.metrics(self.child, facts, step=record["step"], at=record.get("time"))
        self.run.reporter.progress(record["step"], record.get("steps"), facts)


class StageFollower(MetricsFollower):
    """A follower of a stage, which also continues the curve over all stages and has rollouts shown while it runs."""

    def __init__(self, run: RunContext, child: str, path: Path, start: Artifact) -> None:
        super().__init__(run, child, path)
        self.curve = Curve(run, start)
        self._samples, self._shown = path.with_name("samples.jsonl"), 0

    def poll(self) -> None:
        super().poll()
        size = self._samples.stat().st_size if self._samples.is_file() else 0
        if size != self._shown and self.run.tracking:
            self.run.tracking.event("table", self.child, path=str(self._samples))
            self._shown = size

    def _record(self, record: dict[str, Any]) -> None:
        super()._record(record)
        self.curve.add(record)


def _validated(record: Mapping[str, Any]) -> str:
    """A validation score in words, with those of its benchmarks if there are several."""
    scores = {name.partition("/")[2]: score for name, score in record.items() if name.startswith(f"{VALIDATION}/")}
    each = ", ".join(f"{name} {score:.3f}" for name, score in scores.items() if "pass_at_" not in name)
    return f"validation {record[VALIDATION]:.3f}" + (f" ({each})" if each else "")
