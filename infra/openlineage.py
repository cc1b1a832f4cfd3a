"""A run's journal as OpenLineage events, for a collector such as Marquez, DataHub or OpenMetadata.

Each step is a job with START and then COMPLETE, FAIL or ABORT (killed); its parent is the flow's run. A data set is
named by kind and name, with its key as the version; a raw file by its path. The mirror process sends the events.
`OPENLINEAGE_URL` is the collector; `OPENLINEAGE_ENDPOINT`, `OPENLINEAGE_API_KEY` and `OPENLINEAGE_NAMESPACE` mean what
they mean to OpenLineage's own clients.

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

from ratchet.infra.artifacts import FILE_KIND
from ratchet.infra.files import is_locked, write_atomically
from ratchet.infra.journal import read_lines
from ratchet.infra.settings import without_login

SPEC = "https://openlineage.io/spec"
PRODUCER = f"urn:ratchet-rl:{version('ratchet-rl')}"
ENDS = {"FINISHED": "COMPLETE", "FAILED": "FAIL", "KILLED": "ABORT"}
TIMEOUT_S = 10.0
REFUSED = (400, 413, 422)
"""Permanent refusals: the event is skipped."""


class LineageEvents:
    """One run's journal and how much of it the collector at `address` has received."""

    def __init__(self, path: Path, address: str) -> None:
        self.path, self.problem = path, ""
        self._state_file = path.with_suffix(".openlineage.state.json")
        state = json.loads(self._state_file.read_text()) if self._state_file.is_file() else {}
        self.offset: int = state.get("offset", 0)
        self.complete: bool = state.get("complete", False)
        self._experiment: str = state.get("experiment", "")
        self._open: dict[str, dict[str, Any]] = state.get("open", {})
        """The start event of each open run, with the data sets that it has read and made."""
        self._address = address
        self._namespace = os.environ.get("OPENLINEAGE_NAMESPACE", "ratchet")

    def save(self) -> None:
        facts = {"offset": self.offset, "complete": self.complete, "problem": self.problem}
        write_atomically(self._state_file, json.dumps(facts | {"experiment": self._experiment, "open": self._open}))

    def replay(self) -> int:
        """Post what is new; returns how many events of the journal that were. Raises httpx.HTTPError when the collector
        does not accept events."""
        sent = 0
        for place, event in read_lines(self.path, self.offset):
            self._send(event)
            self.offset = place
            sent += 1
        if not self.complete and not sent and self.offset and not is_locked(self.path):
            self._send({"event": "killed", "time": time.time()})
        if sent or self.complete or self.problem:
            self.problem = ""
            self.save()
        return sent

    def _send(self, event: Mapping[str, Any]) -> None:
        """An event that fails is sent again: state is removed only after the post."""
        run, at = event.get("run", ""), event.get("time", 0.0)
        match event["event"]:
            case "open":
                self._experiment = event["experiment"]
            case "start":
                self._open[run] = {**event, "tables": {}}
                self._post("START", run, at)
            case "dataset" if run in self._open:
                self._open[run]["tables"][event["dataset"]["key"]] = event["dataset"]
            case "end" if run in self._open:
                self._post(ENDS[event["status"]], run, at)
                del self._open[run]
            case "close" | "killed" as kind:
                for left in reversed(list(self._open)):
                    self._post("FAIL" if kind == "close" else "ABORT", left, at)
                    del self._open[left]
                self.complete = True

    def _post(self, kind: str, run: str, at: float) -> None:
        event = self._run_event(kind, run, at)
        client, url = _collector(self._address)
        answer = client.post(url, json=event)
        if answer.status_code in REFUSED:
            print(f"{self.path.name}: OpenLineage refuses {event}: {answer.text[:500]}", flush=True)
            return
        answer.raise_for_status()

    def _run_event(self, kind: str, run: str, at: float) -> dict[str, Any]:
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
    """The collector's client, logged in, and the address that takes events."""
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
