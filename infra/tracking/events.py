"""Write lineage and metrics, to a local journal first.

A run never talks to a tracker. It appends events to `<home>/tracking/<run>.jsonl`, and a mirror process for each
tracker (`infra/tracking/mirror.py`) replays them. A slow or dead service therefore never slows or stops a run, and
receives the missing events with the next command. The journal is locked while its writer lives, so a mirror
recognizes a killed run and ends it as such.
"""

import itertools
import math
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ratchet.data_curation.base.journal import Journal
from ratchet.infra.settings import TRACKERS, Settings
from ratchet.infra.store.artifacts import Artifact
from ratchet.infra.tracking.mirrored import state_file, state_in

SCORES_VIEW = "scores"
"""MLflow's key of the view of runs with stage and scores."""
Status = Literal["FINISHED", "FAILED", "KILLED"]
EventKind = Literal["dataset", "model", "register", "file", "table", "text", "tags", "end"]


class Tracking:
    """The writing side: one journal, one experiment, one parent run with nested step runs."""

    def __init__(self, settings: Settings, experiment: str, mirrored: bool = True) -> None:
        self.settings = settings
        self.run_id = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"
        self._journal = Journal(settings.journals / f"{self.run_id}.jsonl", alone=True)
        self._serial = itertools.count()
        self._write(event="open", experiment=experiment)
        # They outlive this process only where the journal is closed; those of the next run replay this journal too.
        trackers = settings.trackers if mirrored else ()
        self._mirrors = [start_mirror(settings, tracker, self._journal.path) for tracker in trackers]

    def _write(self, **event: Any) -> None:
        self._journal.append({"time": time.time(), **event})

    def start_run(
        self, name: str, *, parent: str | None = None, tags: Mapping[str, str] = {},
        parameters: Mapping[str, Any] = {}, output: Artifact | None = None, cached: bool = False,
        inputs: Sequence[Artifact] = (), behind: Sequence[Artifact] = (),
    ) -> str:  # fmt: skip
        """Open a run and return its id in the journal. `output`, `inputs` and all their ancestors, `behind`, become the
        links of the lineage."""
        serial = next(self._serial)
        run = self.run_id if parent is None else f"{self.run_id}.{serial}"
        self._write(
            event="start", run=run, parent=parent, name=name, tags=tags, cached=cached, parameters=parameters,
            output=output.facts if output else None, inputs=[a.facts for a in inputs],
            behind=[a.facts for a in behind],
        )  # fmt: skip
        return run

    def metrics(self, run: str, values: Mapping[str, float | None], step: int = 0, at: float | None = None, *,
                model: Artifact | None = None, datasets: Mapping[str, Artifact] = {}) -> None:  # fmt: skip
        """Record numbers at a step. Undefined ones (None, NaN) are omitted, because MLflow cannot store them. Metrics
        of an evaluation belong to a `model`, and to the data set whose key in `datasets` begins their name."""
        defined = {name: value for name, value in values.items() if value is not None and math.isfinite(value)}
        about = {"model": model.facts} if model else {}
        on = {"datasets": {name: artifact.facts for name, artifact in datasets.items()}} if datasets else {}
        self._write(event="metrics", run=run, values=defined, step=step, at=at or time.time(), **about, **on)

    def event(self, kind: EventKind, run: str, **facts: Any) -> None:
        """Record an event of a run, for the mirror. Artifacts are given as their `facts`:

        `dataset`  a data set was read (`context` input, training, evaluation) or made (`output`)
        `model`    a model was read or made (`role` input or output), with its `parameters`
        `register` `model` becomes a version of the registered model `name`, with these `tags` and `aliases`
        `table`    the JSON lines at `path` are shown as a table
        `file`     the small file at `path` is shown in `folder` of the run's page; large ones are never copied
        `text`     a `text` is shown under `name`
        `tags`     the run gets these `tags`
        `end`      the run ended with this `status`; a step's run also has its `output` and whether it was `cached`
        """
        self._write(event=kind, run=run, **facts)

    def close(self, wait_s: float) -> bool:
        """Release the journal and give the mirrors `wait_s` seconds to finish; returns whether all trackers have
        everything. A mirror that has not finished goes on without this process."""
        self._write(event="close")
        self._journal.close()
        deadline, received = time.monotonic() + wait_s, True
        for mirror in self._mirrors:
            try:
                received &= mirror.wait(max(0.0, deadline - time.monotonic())) == 0
            except subprocess.TimeoutExpired:
                mirror.returncode = 0  # it is left alone: no warning when this object goes
                received = False
        return received


def start_mirror(settings: Settings, tracker: str = "mlflow", journal: Path | None = None) -> subprocess.Popen[bytes]:
    """Start the process that replays every journal of the home into one tracker, then exits. It ends with this process,
    unless this process has closed its `journal`."""
    settings.logs.mkdir(parents=True, exist_ok=True)
    with open(_log(settings, tracker), "ab") as log:
        argv = [sys.executable, "-P", "-m", "ratchet.infra.tracking.mirror", tracker, str(settings.journals)]
        argv += [_address(settings, tracker), str(os.getpid()), str(journal or "")]
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def _address(settings: Settings, tracker: str) -> str:
    return str({"mlflow": settings.tracking_uri, "tensorboard": settings.tensorboard}.get(tracker, settings.home))


def _log(settings: Settings, tracker: str) -> Path:
    return settings.logs / f"{tracker}-mirror.log"


def read_state(settings: Settings, run_id: str, tracker: str = "mlflow") -> dict[str, Any]:
    """A mirror's state of a journal, for MLflow `{"experiment_id", "runs": {run: MLflow run id}, …}`; empty before the
    tracker at this address has its first event."""
    return state_in(state_file(settings.journals / f"{run_id}.jsonl", tracker, _address(settings, tracker)))


def mlflow_address(tracking_uri: str) -> str:
    """The address of a tracking server's pages; empty where MLflow is a database."""
    return tracking_uri.rstrip("/") if tracking_uri.startswith("http") else ""


def not_received(settings: Settings, run_id: str) -> str:
    """The trackers that do not yet have all of a run, each with the reason in one line; empty if all have it."""
    lines = []
    for tracker in settings.trackers:
        state = read_state(settings, run_id, tracker)
        if state.get("complete") and not state.get("problem"):
            continue
        name = TRACKERS[tracker] + (f" at {settings.tracking_uri}" if tracker == "mlflow" else "")
        if why := state.get("problem"):
            lines.append(f"{name} has not received everything yet: {why}. The next command sends the rest.")
        else:
            lines.append(f"{name} gets the rest of this run in the background (log: {_log(settings, tracker)})")
    return "\n".join(lines)


def list_page(settings: Settings, run_id: str, server: str) -> str:
    """The address of the list of the run's experiment, with stage and scores; empty before the mirror has created
    it."""
    experiment = read_state(settings, run_id).get("experiment_id")
    view = f"viewStateShareKey={SCORES_VIEW}&workflowType=machine_learning"
    return f"{server}/#/experiments/{experiment}/runs?{view}" if experiment else ""


def run_page(settings: Settings, run_id: str, server: str) -> str:
    """The address of the run's page on an MLflow server; empty before the mirror has created it."""
    state = read_state(settings, run_id)
    if run_id not in state.get("runs", {}):
        return ""
    # Without the workflow type, MLflow opens its view for chats, which calls checkpoints agents.
    page = f"{server}/#/experiments/{state['experiment_id']}/runs/{state['runs'][run_id]}"
    return f"{page}?workflowType=machine_learning"
