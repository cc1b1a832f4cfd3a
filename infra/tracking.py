"""Lineage and metrics, written to a local journal first.

A run never talks to MLflow itself. It appends events to `<home>/tracking/<run>.jsonl`, and a mirror process
(`infra/mlflow_mirror.py`) replays them into MLflow. A tracking server that is slow or down therefore never slows or
stops a run, and what it missed arrives with the next command. The journal is locked while its writer lives, so a
mirror can tell a run that was killed from one that is busy, and ends it in MLflow as KILLED.
"""

import itertools
import json
import math
import secrets
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any, Literal

from ratchet.infra.artifacts import Artifact
from ratchet.infra.journal import Journal
from ratchet.infra.process_group import guarded
from ratchet.infra.settings import Settings

Status = Literal["FINISHED", "FAILED", "KILLED"]
EventKind = Literal["dataset", "model", "register", "file", "table", "text", "tags", "end"]


class Tracking:
    """The writing side: one journal, one experiment, one parent run with nested step runs."""

    def __init__(self, settings: Settings, experiment: str) -> None:
        self.settings = settings
        self.run_id = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
        self._journal = Journal(settings.journals / f"{self.run_id}.jsonl", alone=True)
        self._serial = itertools.count()
        self._write(event="open", experiment=experiment)
        self._mirror = start_mirror(settings)

    def _write(self, **event: Any) -> None:
        self._journal.append({"time": time.time(), **event})

    def start_run(self, name: str, *, parent: str | None = None, tags: Mapping[str, str] | None = None,
                  parameters: Mapping[str, Any] | None = None, output: Artifact | None = None, cached: bool = False,
                  inputs: tuple[Artifact, ...] = (), behind: tuple[Artifact, ...] = ()) -> str:  # fmt: skip
        """Open a run and return its id in the journal. `output`, `inputs` and all that is `behind` them become the
        links of the lineage."""
        serial = next(self._serial)
        run = self.run_id if parent is None else f"{self.run_id}.{serial}"
        self._write(
            event="start", run=run, parent=parent, name=name, tags=dict(tags or {}), cached=cached,
            parameters=dict(parameters or {}), output=described(output) if output else None,
            inputs=[described(a) for a in inputs], behind=[described(a) for a in behind],
        )  # fmt: skip
        return run

    def metrics(self, run: str, values: Mapping[str, float], step: int = 0, at: float | None = None, *,
                model: Artifact | None = None, datasets: Mapping[str, Artifact] = {}) -> None:  # fmt: skip
        """Numbers at a step. What is undefined (None, NaN) is left out: MLflow has no way to say it. Those of an
        evaluation are a `model`'s, on the data set that stands under the first part of their names."""
        defined = {name: value for name, value in values.items() if value is not None and math.isfinite(value)}
        whose = {"model": described(model)} if model else {}
        on = {"datasets": {name: described(artifact) for name, artifact in datasets.items()}} if datasets else {}
        self._write(event="metrics", run=run, values=defined, step=step, at=at or time.time(), **whose, **on)

    def event(self, kind: EventKind, run: str, **facts: Any) -> None:
        """What happened in a run, as the mirror is to tell it:

        `dataset`  it read a data set (`context` input, training, evaluation) or made one (`output`): `described`
        `model`    the same of a model (`role` input or output), with its `parameters`
        `register` a `model` is a version of the registered model `name`; it has these `tags`, and these `aliases` now
        `table`    the JSON lines at `path` are shown as a table
        `file`     the small file at `path` is shown in `folder` of the run's page; large ones are never copied
        `text`     the same of a `text` under a `name`
        `tags`     it has these `tags`
        `end`      it is over, with this `status`; of a step also its `output`, and whether that was `cached`
        """
        self._write(event=kind, run=run, **facts)

    def close(self, wait_s: float) -> bool:
        """Release the journal and give the mirror `wait_s` seconds to finish; whether MLflow has everything."""
        self._write(event="close")
        self._journal.close()
        try:
            return self._mirror.wait(wait_s) == 0
        except subprocess.TimeoutExpired:
            self._mirror.kill()
            return False


def described(artifact: Artifact) -> dict[str, str]:
    """An artifact in an event."""
    return {"kind": artifact.kind, "name": artifact.name, "key": artifact.key, "path": str(artifact.path)}


def start_mirror(settings: Settings) -> subprocess.Popen[bytes]:
    """Start the process that replays every journal below the home into MLflow (and OpenLineage), then exits."""
    settings.logs.mkdir(parents=True, exist_ok=True)
    with open(settings.logs / "mlflow-mirror.log", "ab") as log:
        program = [sys.executable, "-P", "-m", "ratchet.infra.mlflow_mirror"]
        argv = [*program, str(settings.journals), settings.tracking_uri]
        return subprocess.Popen(guarded(argv), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def read_state(settings: Settings, run_id: str) -> dict[str, Any]:
    """What the mirror knows of a journal: `{"experiment_id", "runs": {run: MLflow run id}}`, or nothing yet."""
    state = settings.journals / f"{run_id}.state.json"
    return json.loads(state.read_text()) if state.is_file() else {}


def mlflow_address(tracking_uri: str) -> str:
    """Where a tracking server's pages are; empty where MLflow is a database."""
    return tracking_uri.rstrip("/") if tracking_uri.startswith("http") else ""


def not_received(settings: Settings, run_id: str) -> list[str]:
    """Who has not received all of a run yet, and why: a line each."""
    receivers = {"": f"MLflow at {settings.tracking_uri}", ".openlineage": "OpenLineage at OPENLINEAGE_URL"}
    lines = []
    for suffix, receiver in receivers.items():
        state_file = settings.journals / f"{run_id}{suffix}.state.json"
        state = json.loads(state_file.read_text()) if state_file.is_file() else {}
        if state.get("problem") or (not suffix and not state.get("complete")):
            why = state.get("problem") or f"see {settings.logs / 'mlflow-mirror.log'}"
            lines.append(f"{receiver} has not received everything yet: {why}. The next command sends the rest.")
    return lines


def run_page(settings: Settings, run_id: str, server: str, all_runs: bool = False) -> str:
    """The address of the run's page on an MLflow server, or of the page of its experiment; empty while the mirror has
    not told the server of it."""
    state = read_state(settings, run_id)
    if run_id not in state.get("runs", {}):
        return ""
    # The view is said: else it is one for chats, in which checkpoints are called agents.
    one = "" if all_runs else f"/{state['runs'][run_id]}"
    return f"{server}/#/experiments/{state['experiment_id']}/runs{one}?workflowType=machine_learning"
