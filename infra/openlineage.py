"""A run's journal as OpenLineage events, for a collector of a whole platform (Marquez, DataHub, OpenMetadata).

Each step is a job with START and then COMPLETE, FAIL or ABORT (killed); its parent is the run of the flow. A data set
is named by its kind and name, and what tells one from another, its key, is its version; a raw file by its path. Sent
by the mirror process. As for OpenLineage's own clients, `OPENLINEAGE_URL` says where the collector is, and
`OPENLINEAGE_ENDPOINT`, `OPENLINEAGE_API_KEY` and `OPENLINEAGE_NAMESPACE` what else there is to say.

Events: https://openlineage.io/spec/2-0-2/OpenLineage.json
"""

import json
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import httpx

from ratchet.infra.artifacts import FILE_KIND, write_atomically
from ratchet.infra.journal import read_lines, writer_lives
from ratchet.infra.settings import without_login

SPEC = "https://openlineage.io/spec"
PRODUCER = f"urn:ratchet-rl:{version('ratchet-rl')}"
ENDS = {"FINISHED": "COMPLETE", "FAILED": "FAIL", "KILLED": "ABORT"}
TIMEOUT_S = 10.0
REFUSED = (400, 413, 422)
"""Answers that will be the same next time: the event is passed over."""


class LineageEvents:
    """One run's journal and how much of it the collector at `address` has received."""

    def __init__(self, path: Path, address: str) -> None:
        self.path, self.problem = path, ""
        self._state_file = path.with_suffix(".openlineage.state.json")
        state = json.loads(self._state_file.read_text()) if self._state_file.is_file() else {}
        self.offset: int = state.get("offset", 0)
        self.complete: bool = state.get("complete", False)
        self._address = address
        self._namespace = os.environ.get("OPENLINEAGE_NAMESPACE", "ratchet")
        self._experiment = ""
        self._open: dict[str, dict[str, Any]] = {}
        """What a run began with, by the run: its last event says it again, and which data sets it read and made."""
        if not self.complete:  # what was sent is read again, for what its runs began with
            for place, event in read_lines(path):
                if place > self.offset:
                    break
                self._remember(event)
                self._forget(event)

    def save(self) -> None:
        facts = {"offset": self.offset, "complete": self.complete, "problem": self.problem}
        write_atomically(self._state_file, json.dumps(facts))

    def replay(self) -> int:
        """Post what is new; returns how many events of the journal that were. Raises httpx.HTTPError where the
        collector takes none."""
        sent = 0
        for place, event in read_lines(self.path, self.offset):
            self._tell(event)
            self.offset = place
            sent += 1
        if not self.complete and not sent and self.offset and not writer_lives(self.path):
            self._tell({"event": "killed", "time": time.time()})
        if sent or self.complete or self.problem:
            self.problem = ""
            self.save()
        return sent

    def _post(self, event: Mapping[str, Any]) -> None:
        client, url = _collector(self._address)
        answer = client.post(url, json=event)
        if answer.status_code in REFUSED:
            print(f"{self.path.name}: OpenLineage refuses {event}: {answer.text[:500]}", flush=True)
            return
        answer.raise_for_status()

    def _tell(self, event: Mapping[str, Any]) -> None:
        """What was not taken is told again, so nothing is forgotten before."""
        self._remember(event)
        run, at = event.get("run", ""), event.get("time", 0.0)
        match event["event"]:
            case "start":
                self._post(self._told("START", run, at))
            case "end" if run in self._open:
                self._post(self._told(ENDS[event["status"]], run, at))
            case "close" | "killed":
                for left in reversed(self._open):
                    self._post(self._told("FAIL" if event["event"] == "close" else "ABORT", left, at))
        self._forget(event)

    def _remember(self, event: Mapping[str, Any]) -> None:
        match event["event"]:
            case "open":
                self._experiment = event["experiment"]
            case "start":
                self._open[event["run"]] = {**event, "tables": {}}
            case "dataset" if event["run"] in self._open:
                self._open[event["run"]]["tables"][event["dataset"]["key"]] = event["dataset"]

    def _forget(self, event: Mapping[str, Any]) -> None:
        match event["event"]:
            case "end":
                self._open.pop(event["run"], None)
            case "close" | "killed":
                self._open, self.complete = {}, True

    def _told(self, kind: str, run: str, at: float) -> dict[str, Any]:
        start = self._open[run]
        facets = {}
        if parent := self._open.get(start["parent"]):
            above = {"run": {"runId": _run_id(start["parent"])}, "job": self._job(parent["name"])}
            facets["parent"] = _facet("1-1-0/ParentRunFacet", **above)
        return {
            "eventType": kind,
            "eventTime": datetime.fromtimestamp(at, UTC).isoformat(),
            "run": {"runId": _run_id(run), "facets": facets},
            "job": self._job(start["name"]),
            "inputs": [self._dataset(facts, start) for facts in start["inputs"]],
            "outputs": [self._dataset(start["output"], start)] if start["output"] else [],
            "producer": PRODUCER,
            "schemaURL": f"{SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
        }

    def _job(self, name: str) -> dict[str, str]:
        return {"namespace": self._namespace, "name": f"{self._experiment}.{name}"}

    def _dataset(self, facts: Mapping[str, Any], start: Mapping[str, Any]) -> dict[str, Any]:
        facets = {
            "version": _facet("1-0-1/DatasetVersionDatasetFacet", datasetVersion=facts["key"]),
            "dataSource": _facet("1-0-1/DatasourceDatasetFacet", name="file", uri=Path(facts["path"]).as_uri()),
        }
        table = start["tables"].get(facts["key"], {})
        if columns := table.get("columns"):
            fields = [{"name": name, "type": kind} for name, kind in columns.items()]
            facets["schema"] = _facet("1-1-1/SchemaDatasetFacet", fields=fields)
        given = facts["kind"] == FILE_KIND
        dataset: dict[str, Any] = {
            "namespace": "file" if given else self._namespace,
            "name": facts["path"] if given else f"{facts['kind']}/{facts['name']}",
            "facets": facets,
        }
        if facts == start["output"] and table.get("rows") is not None:
            rows = _facet("1-0-2/OutputStatisticsOutputDatasetFacet", rowCount=table["rows"])
            dataset["outputFacets"] = {"outputStatistics": rows}
        return dataset


@cache  # one connection for all journals
def _collector(address: str) -> tuple[httpx.Client, str]:
    """The client of a collector, logged in, and where it takes events."""
    base, user, password = without_login(address, "OPENLINEAGE_URL")
    key = os.environ.get("OPENLINEAGE_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    client = httpx.Client(auth=(user, password) if user else None, headers=headers, timeout=TIMEOUT_S)
    return client, f"{base.rstrip('/')}/{os.environ.get('OPENLINEAGE_ENDPOINT', 'api/v1/lineage').lstrip('/')}"


def _run_id(run: str) -> str:
    return str(uuid5(NAMESPACE_URL, f"ratchet:{run}"))


def _facet(schema: str, **facts: Any) -> dict[str, Any]:
    name = schema.partition("/")[2]
    return {"_producer": PRODUCER, "_schemaURL": f"{SPEC}/facets/{schema}.json#/$defs/{name}", **facts}
