"""How one flow calls another."""

from __future__ import annotations

from typing import Any

from prefect import Flow

from ratchet.tasks.pipeline_run import active_run


def call(flow: Flow[..., Any], *arguments: Any) -> Any:
    """As a Prefect sub-flow; in a plan, as the plain function, so that planning starts no server."""
    return flow.fn(*arguments) if active_run().planning else flow(*arguments)
