"""Fill Prefect's page of a run: name, tags, log, links. Outside a Prefect run these functions do nothing."""

import logging
import sys
from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID, uuid4

from ratchet.verifiers.errors import Waiting


def name_run(name: str, tags: Sequence[str]) -> dict[str, str]:
    """Name and tag the current flow run; returns the tags for MLflow that refer to it."""
    if not _in_flow_run():
        return {}
    from prefect import get_client
    from prefect.runtime import flow_run

    with get_client(sync_client=True) as client:
        client.update_flow_run(flow_run.id, name=name, tags={*flow_run.tags, *tags})
    return {"prefect.flow_run_id": flow_run.id}  # no address: the server may be gone with the command


def log(text: str, level: int = logging.INFO) -> None:
    """Log a line in the current step."""
    if "prefect" not in sys.modules:
        return
    from prefect.exceptions import MissingContextError
    from prefect.logging import get_run_logger

    with suppress(MissingContextError):
        get_run_logger().log(level, text)


def link(address: str, text: str) -> None:
    """Show a link on the current run's page."""
    if _in_flow_run():
        from prefect.artifacts import create_link_artifact

        create_link_artifact(address, link_text=text, description=text)


def resumable_run() -> str:
    """The id of the outermost flow run if a worker can start it again; "" otherwise."""
    if not _in_flow_run():
        return ""
    from prefect import get_client
    from prefect.runtime import flow_run

    with get_client(sync_client=True) as client:
        outermost = client.read_flow_run(UUID(flow_run.root_flow_run_id))
    return str(outermost.id) if outermost.deployment_id else ""


def ask(key: str, text: str) -> str:
    """Wait for approval: suspend a run that a worker can start again, and end any other. In the run that was started
    again, returns who approved. Raises Prefect's Pause with the text, or Waiting outside a Prefect run."""
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
                return "whoever resumed the run in Prefect"
            over.remove(outermost)
            if state and not state.message:  # its page says why it waits
                details = state.model_copy(update={"message": text, "id": uuid4()})
                client.set_flow_run_state(UUID(outermost), details, force=True)
        log(text)
        for each in over:
            client.set_flow_run_state(UUID(each), Cancelled(message=text), force=True)
    raise Pause(text)


def _in_flow_run() -> bool:
    if "prefect" not in sys.modules:  # importing it takes two seconds
        return False
    from prefect.runtime import flow_run

    return bool(flow_run.id)
