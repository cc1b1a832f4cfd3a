"""Mirror journals in MLflow: a run for each step, with data sets, models and pages.

Open runs of a journal whose writer is dead end as KILLED. Replaying is safe to interrupt: the position is saved after
every batch, a run that was created just before an interruption is found again by its tag, and MLflow drops repeated
metric points. Files have a separate position: while MLflow's file storage is full or gone, numbers and lineage still
arrive.
"""

import json
import os
import re
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import groupby, starmap
from pathlib import Path
from typing import Any

os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # the mirror retries too; the default blocks for minutes
os.environ.setdefault("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "0")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_BACKOFF_JITTER", "0.2")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")  # a later answer counts as lost
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

import mlflow
from mlflow import MlflowClient, entities
from mlflow.exceptions import MlflowException
from mlflow.utils.mlflow_tags import (
    MLFLOW_LOGGED_ARTIFACTS,
    MLFLOW_LOGGED_MODELS,
    MLFLOW_MODEL_VERSIONS,
    MLFLOW_PARENT_RUN_ID,
    MLFLOW_RUN_NOTE,
    MLFLOW_SOURCE_NAME,
    MLFLOW_SOURCE_TYPE,
)

from ratchet.data_curation.base.journal import read_lines
from ratchet.infra.settings import is_server
from ratchet.infra.store.artifacts import Artifact
from ratchet.infra.tracking.mirrored import FILES_FOLDER, Mirrored, Unusable, abandoned, last_rows
from ratchet.infra.tracking.mlflow_database import in_other_version, prepare_database
from ratchet.infra.tracking.mlflow_pages import Pages

RETRIES = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"
METRICS_PER_CALL, PARAMETERS_PER_CALL = 1000, 100  # MLflow's limits
DIGEST = 32  # characters: the column holds 36; the full hash is a tag
TABLE_CHARACTERS = 4000  # of each cell, on a page
REFUSED = {"INVALID_PARAMETER_VALUE", "BAD_REQUEST", "RESOURCE_DOES_NOT_EXIST", 400, 413, 415, 422}
"""Permanent refusals, after which the event is logged and skipped, so that it does not hold up the rest."""
NO_LOGIN = {"UNAUTHENTICATED", "CUSTOMER_UNAUTHORIZED", "PERMISSION_DENIED", 401, 403}
FILES = ("file", "text", "table")
Logged = entities.Metric | entities.Param


def opener(directory: Path, tracking_uri: str) -> "Callable[[Path], MlflowRun]":
    """Open MLflow's client for mirrors. Raises Unusable for a database of another version, or one in use."""
    mlflow.set_tracking_uri(tracking_uri)  # read when a model is registered
    try:
        prepare_database(tracking_uri, directory)
        return partial(MlflowRun, client=MlflowClient(tracking_uri), address=tracking_uri)
    except (MlflowException, sqlite3.Error) as error:
        raise Unusable(in_other_version(error, tracking_uri) or _reason(error)) from error


class MlflowRun(Mirrored):
    """One run's journal and its progress in MLflow."""

    kept = ("offset", "files", "experiment_id", "runs", "ended", "complete", "problem")

    def __init__(self, path: Path, client: MlflowClient, address: str) -> None:
        super().__init__(path, "mlflow", address)
        self.client, state = client, self.state
        self.pages = Pages(client, path)
        self.offset: int = state.get("offset", 0)
        self.files: int = state.get("files", self.offset)
        self.experiment_id: str = state.get("experiment_id", "")
        self.runs: dict[str, str] = state.get("runs", {})
        self.ended: bool = state.get("ended", self.complete)
        self._redraw = not self.complete
        """True if the run's page is out of date."""

    @property
    def place(self) -> tuple[int, int]:
        """The positions up to which events and files have arrived."""
        return self.offset, self.files

    def replay(self) -> int:
        sent, gone = 0, not self.ended and abandoned(self.path, self.offset)  # before the last look at what it wrote
        lines = read_lines(self.path, self.offset)
        for _, together in groupby(lines, lambda line: "metrics" if line[1]["event"] == "metrics" else line[0]):
            batch = list(together)
            if batch[0][1]["event"] not in FILES:
                self._deliver(batch[0][1], partial(self._send, [event for _, event in batch]))
            self.offset, self.problem = batch[-1][0], ""
            sent += len(batch)
            self.save()
        if gone and not self.ended:
            self._end("KILLED", time.time())
        for place, event in read_lines(self.path, self.files):
            if place > self.offset:  # appended since: MLflow does not have its run yet
                break
            if event["event"] in FILES:
                self._deliver(event, partial(self._send, [event]))
            self.files = place
        if self._redraw and self.path.stem in self.runs:
            self._deliver("the run's page", partial(self.pages.show_run, self.runs, self.experiment_id))
            self._redraw = False
        self.complete = self.ended and self.files == self.offset
        if sent or self.complete or self.problem:
            self.problem = ""
            self.save()
        return sent

    def _deliver(self, what: Any, send: Callable[[], None]) -> None:
        """Send it; skip what MLflow refuses permanently."""
        try:
            send()
        except (MlflowException, OSError) as error:
            if not REFUSED & _codes(error):
                raise
            print(f"{self.path.name}: MLflow refuses {what}: {error}", flush=True)

    def _send(self, events: list[dict[str, Any]]) -> None:
        """Send several events of metrics, or one of another kind."""
        if events[0]["event"] == "metrics":
            return self._metrics(events)
        (event,) = events
        run = self.runs.get(event.get("run", ""), "")
        match event["event"]:
            case "open":
                self._open(event["experiment"])
            case "start":
                self._start(event)
            case "dataset":
                self._dataset(run, event)
            case "model":
                self._model(run, event)
            case "register":
                self._register(run, event)
            case "file" if Path(event["path"]).is_file():
                self.client.log_artifact(run, event["path"], event["folder"] or None)
            case "table":
                self._table(run, Path(event["path"]))
            case "text":
                self.client.log_text(run, event["text"], event["name"])
            case "tags":
                for name, value in event["tags"].items():
                    self.client.set_tag(run, name, value)
            case "end":
                self.client.set_terminated(run, event["status"], int(event["time"] * 1000))
                self._redraw |= not event.get("cached")
            case "close":
                self._end("FAILED", event["time"])

    def _metrics(self, events: list[dict[str, Any]]) -> None:
        points: dict[str, list[entities.Metric]] = defaultdict(list)
        for event in events:
            points[event["run"]] += self._points(event)
        for run, own in points.items():
            self._log(self.runs.get(run, ""), own, METRICS_PER_CALL)
        if scores := sorted({p.key for p in points[self.path.stem] if p.key.endswith("/pass_at_1")}):
            self.pages.show_list(self.experiment_id, scores)

    def _log(self, run: str, values: Sequence[Logged], most: int) -> None:
        """Log metrics or parameters, as many at once as MLflow takes. If it refuses some, log those of each name alone:
        one that it never takes holds up no other."""
        for start in range(0, len(values), most):
            batch = values[start : start + most]
            try:
                self._log_batch(run, batch)
            except MlflowException as error:
                if not REFUSED & _codes(error):
                    raise
                for name in dict.fromkeys(value.key for value in batch):
                    alone = [value for value in batch if value.key == name]
                    self._deliver(name, partial(self._log_batch, run, alone))

    def _log_batch(self, run: str, values: Sequence[Logged]) -> None:
        metrics = [value for value in values if isinstance(value, entities.Metric)]
        self.client.log_batch(run, metrics, [value for value in values if isinstance(value, entities.Param)])

    def _open(self, name: str) -> None:
        files = None  # a server has its own storage
        if not is_server(self.client.tracking_uri):
            here = self.path.parent.parent / FILES_FOLDER
            files = os.environ.get("MLFLOW_DEFAULT_ARTIFACT_ROOT", here.as_uri())
        experiment = self.client.get_experiment_by_name(name)
        self.experiment_id = experiment.experiment_id if experiment else self.client.create_experiment(name, files)
        self.pages.show_list(self.experiment_id, ())

    def _start(self, event: dict[str, Any]) -> None:
        tags = {**event["tags"], "ratchet.run": event["run"]}
        if parent := self.runs.get(event["parent"]):
            tags[MLFLOW_PARENT_RUN_ID] = parent
        elif flow := event["tags"].get("ratchet.flow"):
            tags |= {MLFLOW_SOURCE_NAME: f"ratchet {flow}", MLFLOW_SOURCE_TYPE: "LOCAL"}
        if note := self.pages.made_from(event):
            tags[MLFLOW_RUN_NOTE] = note
        if event["output"]:
            tags |= _artifact_tags(event["output"]) | {"ratchet.cached": str(event["cached"]).lower()}
        runs = self.client.search_runs([self.experiment_id], f"tags.`ratchet.run` = '{event['run']}'", max_results=1)
        if runs:
            run_id = runs[0].info.run_id
        else:
            started_ms = int(event["time"] * 1000)
            with _once():
                run_id = self.client.create_run(
                    self.experiment_id, start_time=started_ms, tags=tags, run_name=event["name"]
                ).info.run_id
        self.runs[event["run"]] = run_id
        parameters = {_named(name): str(value)[:500] for name, value in event["parameters"].items()}
        self._log(run_id, list(starmap(entities.Param, parameters.items())), PARAMETERS_PER_CALL)

    def _points(self, event: dict[str, Any]) -> Iterator[entities.Metric]:
        """A run's metrics; those of an evaluation belong to the model too, on the data set that begins their name."""
        model_id = self._model_id("", event["model"]) if event.get("model") else None
        for name, value in event["values"].items():
            facts = event.get("datasets", {}).get(name.partition("/")[0])
            yield entities.Metric(
                _named(name), value, int(event["at"] * 1000), event["step"], model_id,
                *((_dataset_name(facts), facts["key"][:DIGEST]) if facts else ()),
            )  # fmt: skip

    def _dataset(self, run: str, event: dict[str, Any]) -> None:
        facts = event["dataset"]
        columns = [{"name": name, "type": kind, "required": False} for name, kind in facts["columns"].items()]
        dataset = entities.Dataset(
            name=_dataset_name(facts),
            digest=facts["key"][:DIGEST],
            source_type="local",
            source=json.dumps({"uri": facts["path"]}),
            schema=json.dumps({"mlflow_colspec": columns}),
            profile=json.dumps({"num_rows": facts["rows"]}),
        )
        tags = [entities.InputTag("mlflow.data.context", event["context"]), entities.InputTag("sha256", facts["key"])]
        self.client.log_inputs(run, datasets=[entities.DatasetInput(dataset, tags)])

    def _model(self, run: str, event: dict[str, Any]) -> None:
        model_id = self._model_id(run, event["model"], event["parameters"])
        if event["role"] == "input":
            self.client.log_inputs(run, models=[entities.LoggedModelInput(model_id)])
        else:
            self._model_output(run, model_id)

    def _model_output(self, run: str, model_id: str) -> None:
        outputs = self.client.get_run(run).outputs
        logged = {output.model_id for output in outputs.model_outputs} if outputs else set()
        if model_id not in logged:  # MLflow refuses the same output twice
            self.client.log_outputs(run, [entities.LoggedModelOutput(model_id, step=0)])

    def _model_id(self, run: str, facts: dict[str, str], parameters: Mapping[str, Any] = {}) -> str:
        """MLflow's id of a checkpoint, logged by `run` if it is new."""
        query = f"tags.`ratchet.key` = '{facts['key']}'"
        models = self.client.search_logged_models(self.pages.experiments, filter_string=query, max_results=1)
        if models:
            return models[0].model_id
        with _once():
            model = self.client.create_logged_model(
                self.experiment_id,
                name=re.sub(r"[/:.%\"']", "_", facts["name"]),  # refused by MLflow
                source_run_id=run,
                model_type="checkpoint",
                tags=_artifact_tags(facts),
                params={name: str(value)[:500] for name, value in parameters.items()},
            )
        return self.client.finalize_logged_model(model.model_id, entities.LoggedModelStatus.READY).model_id

    def _register(self, run: str, event: dict[str, Any]) -> None:
        """Make the checkpoint a version of the registered model, once, move the aliases to it, and show both on each
        other's page."""
        name, model_id = event["name"], self._model_id(run, event["model"])
        source = f"models:/{model_id}"
        with suppress(MlflowException):  # it exists; any other error returns in the next call
            self.client.create_registered_model(name)
        versions = self.client.search_model_versions(f"name = '{name}'")
        version = next((v for v in versions if v.source == source), None)
        if version is None:
            with _once():
                version = self.client.create_model_version(name, source, run, model_id=model_id)
        for tag, value in event["tags"].items():
            self.client.set_model_version_tag(name, version.version, tag, value)
        moved = self.client.get_registered_model(name).tags
        for alias in event["aliases"]:  # runs come newest first, and an alias stays where the newest put it
            if float(moved.get(tag := f"ratchet.{alias}_since", 0)) <= event["time"]:
                self.client.set_registered_model_alias(name, alias, version.version)
                self.client.set_registered_model_tag(name, tag, str(event["time"]))
        # A server notes the version at the model by itself, a database does not.
        noted = json.loads(self.client.get_logged_model(model_id).tags.get(MLFLOW_MODEL_VERSIONS, "[]"))
        if (facts := {"name": name, "version": str(version.version)}) not in noted:
            self.client.set_logged_model_tags(model_id, {MLFLOW_MODEL_VERSIONS: json.dumps([*noted, facts])})
        self._model_output(run, model_id)
        self.client.set_tag(run, MLFLOW_LOGGED_MODELS, "[]")  # without it the list of runs does not ask for versions

    def _table(self, run: str, path: Path) -> None:
        """Show JSON lines as a table."""
        rows = last_rows(path)
        if not rows:
            return
        columns = list(dict.fromkeys(name for row in rows for name in row))
        data = [[str(row.get(name, ""))[:TABLE_CHARACTERS] for name in columns] for row in rows]
        table = f"{path.stem}.json"
        self.client.log_text(run, json.dumps({"columns": columns, "data": data}), table)
        self.client.set_tag(run, MLFLOW_LOGGED_ARTIFACTS, json.dumps([{"path": table, "type": "table"}]))

    def _end(self, status: str, at: float) -> None:
        """End the runs that the writer left open."""
        for run in self.runs.values():
            self._deliver(f"the end of {run}", partial(self._end_run, run, status, at))
        self.ended = self._redraw = True

    def _end_run(self, run: str, status: str, at: float) -> None:
        if self.client.get_run(run).info.status == "RUNNING":
            self.client.set_terminated(run, status, int(at * 1000))

    def reason(self, error: Exception) -> str:
        return _reason(error)


@contextmanager
def _once() -> Iterator[None]:
    """Turn off the client's retries within the block: a run that was made while its answer was lost would be made
    twice. The event is sent again, and finds it."""
    usual = os.environ[RETRIES]
    os.environ[RETRIES] = "0"
    try:
        yield
    finally:
        os.environ[RETRIES] = usual


def _reason(error: Exception) -> str:
    """The root cause, in one line, with the remedy if there is one."""
    codes: set[Any] = _codes(error)
    deepest: BaseException = error  # the root cause
    for _ in range(20):
        retried = getattr(next(iter(deepest.args), None), "reason", None)
        named = next((argument for argument in deepest.args if isinstance(argument, BaseException)), None)
        deepest = deepest.__cause__ or deepest.__context__ or retried or named or deepest
    sentence = next(iter(str(deepest).rpartition("): ")[2].splitlines()), type(deepest).__name__)[:200]
    login = " (set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN)"
    socks = " (pip install 'requests[socks]')" if "dependencies for SOCKS" in sentence else ""
    return sentence.rstrip(".") + (login if NO_LOGIN & codes else socks)


def _codes(error: BaseException) -> set[Any]:
    """MLflow's error code and the HTTP status."""
    return {getattr(error, "error_code", None), getattr(getattr(error, "response", None), "status_code", None)}


def _named(name: str) -> str:
    """A name of a metric or parameter with characters that MLflow takes."""
    return re.sub(r"[^\w/.\- :]", "_", name.replace("@", "_at_"))


def _dataset_name(facts: dict[str, Any]) -> str:
    return f"{facts['kind']}/{facts['name']}"


def _artifact_tags(facts: dict[str, str]) -> dict[str, str]:
    return {"ratchet.artifact": Artifact.of(facts).ref, "ratchet.path": facts["path"], "ratchet.key": facts["key"]}
