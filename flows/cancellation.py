"""End a flow that was cancelled in Prefect, even where its worker does not, and do not start it again unasked.

A worker ends a run's process; after a retry it may not do so again. And a process that it has ended may count as
crashed, which an automation answers by starting the run again. So the flow itself looks at the state of its run.
"""

import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from prefect import get_client
from prefect.client.schemas.objects import State, StateType
from prefect.runtime import flow_run
from prefect.states import Cancelled

CANCELLED = (StateType.CANCELLING, StateType.CANCELLED)  # codespell:ignore
RESUBMITTED = "Resubmitted"
"""The state that `examples/operations/automations.yaml` gives a run whose process is gone."""
POLL_S, GRACE_S = 5.0, 15.0
"""Seconds between two looks, and seconds that the worker has to end the process first."""


def unless_cancelled(work: Callable[[], str]) -> str | State[Any]:
    """The result of `work`, or the state of a run that was cancelled. Cancellation interrupts the main thread, where
    the flow runs: everything that it has started ends with it."""
    if not flow_run.id:
        return work()
    run = UUID(flow_run.id)
    with get_client(sync_client=True) as client:
        states = client.read_flow_run_states(run)
    if started_unasked(states):
        return Cancelled(message="It was cancelled before its process ended. Retry starts it again.")
    over = threading.Event()
    watching = threading.Thread(target=_watch, args=(run, over, threading.get_ident()), daemon=True)
    watching.start()
    try:
        return work()
    except BaseException:
        if _is_cancelled(run):
            return Cancelled(message="Its processes have ended. Retry continues where it was.")
        raise
    finally:
        over.set()


def started_unasked(states: Sequence[State[Any]]) -> bool:
    """True if the automation has started a run again that a person had cancelled since it was last begun or retried by
    hand."""
    ordered = sorted(states, key=lambda state: state.timestamp)
    cancelled = max((number for number, state in enumerate(ordered) if state.type in CANCELLED), default=None)
    after = {state.name for state in ordered[cancelled + 1 :]} if cancelled is not None else set()
    return RESUBMITTED in after and not {"AwaitingRetry", "Scheduled", "Late"} & after


def _watch(run: UUID, over: threading.Event, flow_thread: int) -> None:
    while not over.wait(POLL_S):
        if _is_cancelled(run):
            if not over.wait(GRACE_S):
                signal.pthread_kill(flow_thread, signal.SIGINT)
            return


def _is_cancelled(run: UUID) -> bool:
    """True if Prefect has the run as canceled; False where the server does not answer, so that the run continues."""
    try:
        with get_client(sync_client=True) as client:
            state = client.read_flow_run(run).state
    except Exception:  # of the client, its transport, or a server that is restarting
        return False
    return state is not None and state.type in CANCELLED
