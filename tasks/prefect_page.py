"""What Prefect's page of a run shows, however the run was started: its name and tags, a log, tables, and links.

Outside of a Prefect run, as in a plan, nothing here does anything.
"""

import logging
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq

from ratchet.infra.artifacts import Artifact
from ratchet.infra.errors import Waiting

_FEW = 200
"""Rows of a table that are shown; the artifact has the rest."""


def name_run(name: str, tags: Sequence[str]) -> dict[str, str]:
    """Give the flow run that is under way this name and these tags; what links to it from elsewhere, by tag."""
    if not _in_flow_run():
        return {}
    from prefect import get_client
    from prefect.runtime import flow_run

    with get_client(sync_client=True) as client:
        client.update_flow_run(flow_run.id, name=name, tags={*flow_run.tags, *tags})
    return {"prefect.flow_run_id": flow_run.id}  # no address: the server may be gone with the command


def log(text: str, level: int = logging.INFO) -> None:
    """A line in the log of the step that is under way."""
    if "prefect" not in sys.modules:
        return
    from prefect.exceptions import MissingContextError
    from prefect.logging import get_run_logger

    with suppress(MissingContextError):
        get_run_logger().log(level, text)


def show(artifact: Artifact) -> None:
    """The funnel of a curated data set, the scores of a report: as tables on the page of the step."""
    funnel, scores = artifact.path / "funnel.parquet", artifact.manifest.get("summary_table")
    if funnel.is_file():
        _table(f"funnel-{artifact.name}", pq.read_table(funnel).to_pylist(), f"Rows left and dropped: {artifact.ref}")
    if scores:
        _table(f"scores-{artifact.name}", scores, f"Scores: {artifact.ref}")


def link(address: str, text: str) -> None:
    if _in_flow_run():
        from prefect.artifacts import create_link_artifact

        create_link_artifact(address, link_text=text, description=text)


def resumable_run() -> str:
    """The id of the outermost flow run, where a worker can start it again; else nothing."""
    if not _in_flow_run():
        return ""
    from prefect import get_client
    from prefect.runtime import flow_run

    with get_client(sync_client=True) as client:
        outermost = client.read_flow_run(UUID(flow_run.root_flow_run_id))
    return str(outermost.id) if outermost.deployment_id else ""


def ask(key: str, text: str) -> str:
    """Who has let the run go on from here, where a worker can start it again: until then it is suspended. Elsewhere it
    is over. Raises Prefect's Pause with the text, Waiting outside of a Prefect run."""
    if not _in_flow_run():
        raise Waiting(text)
    from prefect import get_client
    from prefect.exceptions import Pause
    from prefect.flow_runs import suspend_flow_run
    from prefect.runtime import flow_run
    from prefect.states import Cancelled

    over = {flow_run.id, flow_run.root_flow_run_id}
    with get_client(sync_client=True) as client:
        if outermost := resumable_run():
            suspend_flow_run(flow_run_id=UUID(outermost), timeout=None, key=key)  # does nothing the second time
            state = client.read_flow_run(UUID(outermost)).state
            if state and state.is_running():
                return "who resumed the run in Prefect"
            over.remove(outermost)
        log(text)
        for each in over:
            client.set_flow_run_state(UUID(each), Cancelled(message=text), force=True)
    raise Pause(text)


def _table(key: str, rows: Sequence[Mapping[str, Any]], description: str) -> None:
    if _in_flow_run():
        from prefect.artifacts import create_table_artifact

        create_table_artifact(table=[dict(row) for row in rows[:_FEW]], key=_key(key), description=description)


def _in_flow_run() -> bool:
    if "prefect" not in sys.modules:  # which takes two seconds to import, and then there is none
        return False
    from prefect.runtime import flow_run

    return bool(flow_run.id)


def _key(name: str) -> str:
    """Prefect's keys have small letters, digits and dashes."""
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in name.lower())
