"""Lineage and metrics, written to a local journal first.

A run never talks to MLflow. It appends events to `<home>/tracking/<run>.jsonl`, and a mirror process
(`infra/tracking/mlflow_mirror.py`) replays them. A slow or dead tracking server therefore never slows or stops a
run, and receives the missing events with the next command. The journal is locked while its writer lives, so the mirror
recognizes a killed run and ends it in MLflow as KILLED.
"""

import itertools
import json
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
from ratchet.infra.settings import Settings
from ratchet.infra.store.artifacts import Artifact

Status = Literal["FINISHED", "FAILED", "KILLED"]
EventKind = Literal["dataset", "model", "register", "file", "table", "text", "tags", "end"]


class Tracking:
    """The writing side: one journal, one experiment, one parent run with nested step runs."""

    def __init__(self, settings: Settings, experiment: str, mirrored: bool = True) -> None:
        self.settings = settings
        self.run_id = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
        self._journal = Journal(settings.journals / f"{self.run_id}.jsonl", alone=True)
        self._serial = itertools.count()
        self._write(event="open", experiment=experiment)
        # It outlives this process only where the journal is closed; the next one replays this journal too.
        self._mirror = start_mirror(settings, self._journal.path) if mirrored else None

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

    def metrics(self, run: str, values: Mapping[str, float], step: int = 0, at: float | None = None, *,
                model: Artifact | None = None, datasets: Mapping[str, Artifact] = {}) -> None:  # fmt: skip
        """Numbers at a step; undefined ones (None, NaN) are left out, because MLflow cannot store them. Metrics of an
        evaluation belong to a `model`, and to the data set whose key in `datasets` begins their name."""
        defined = {name: value for name, value in values.items() if value is not None and math.isfinite(value)}
        about = {"model": model.facts} if model else {}
        on = {"datasets": {name: artifact.facts for name, artifact in datasets.items()}} if datasets else {}
        self._write(event="metrics", run=run, values=defined, step=step, at=at or time.time(), **about, **on)

    def event(self, kind: EventKind, run: str, **facts: Any) -> None:
        """An event of a run, for the mirror. Artifacts are given as their `facts`:

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
        """Release the journal and give the mirror `wait_s` seconds to finish; returns whether MLflow has everything. A
        mirror that has not finished goes on without this process."""
        self._write(event="close")
        self._journal.close()
        if self._mirror is None:
            return True
        try:
            return self._mirror.wait(wait_s) == 0
        except subprocess.TimeoutExpired:
            self._mirror.returncode = 0  # it is left alone: no warning when this object goes
            return False


def start_mirror(settings: Settings, journal: Path | None = None) -> subprocess.Popen[bytes]:
    """Start the process that replays every journal of the home into MLflow, then exits. It ends with this process,
    unless that has closed its `journal`."""
    settings.logs.mkdir(parents=True, exist_ok=True)
    with open(settings.logs / "mlflow-mirror.log", "ab") as log:
        argv = [sys.executable, "-P", "-m", "ratchet.infra.tracking.mlflow_mirror"]
        argv += [str(settings.journals), settings.tracking_uri, str(os.getpid()), str(journal or "")]
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def read_state(settings: Settings, run_id: str) -> dict[str, Any]:
    """The mirror's position in a journal: `{"experiment_id", "runs": {run: MLflow run id}, …}`; empty before its
    first event."""
    return read_state_file(settings.journals / f"{run_id}.state.json")


def read_state_file(file: Path) -> dict[str, Any]:
    """Empty too for a damaged file: everything is sent again, which changes nothing in MLflow."""
    try:
        state = json.loads(file.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def mlflow_address(tracking_uri: str) -> str:
    """The address of a tracking server's pages; empty where MLflow is a database."""
    return tracking_uri.rstrip("/") if tracking_uri.startswith("http") else ""


def not_received(settings: Settings, run_id: str) -> str:
    """Why MLflow does not have all of a run yet, in one line; empty if it has."""
    state = read_state(settings, run_id)
    if state.get("complete") and not state.get("problem"):
        return ""
    if not (why := state.get("problem")):
        return f"MLflow at {settings.tracking_uri} still receives this run: {settings.logs / 'mlflow-mirror.log'}"
    return f"MLflow at {settings.tracking_uri} has not received everything yet: {why}. The next command sends the rest."


def run_page(settings: Settings, run_id: str, server: str) -> str:
    """The address of the run's page on an MLflow server; empty before the mirror created it."""
    state = read_state(settings, run_id)
    if run_id not in state.get("runs", {}):
        return ""
    # Without the workflow type, MLflow opens its view for chats, which calls checkpoints agents.
    page = f"{server}/#/experiments/{state['experiment_id']}/runs/{state['runs'][run_id]}"
    return f"{page}?workflowType=machine_learning"
