"""The Prefect server of one command: it ends with the command, however that ends."""

import http.client
import importlib
import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from uuid import UUID

from ratchet.data_curation.base.files import disk_errors, exclusive
from ratchet.data_curation.base.slow_calls import proxy_note, say_if_slow
from ratchet.infra.settings import Settings, address_in
from ratchet.infra.tracking.sqlite_files import copy_empty, keep_empty, set_aside_damaged
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.processes import free_port, last_lines, process_group

Server = subprocess.Popen[bytes]
HOST = "127.0.0.1"
SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""Environment of processes that a server starts: modules of the working directory are not imported."""
OTHER_VERSION = ". If another version of Prefect wrote {}, move that file away: it has the pages of runs, no results"
LOOK_S = 3.0
START_S = 180  # the first start may migrate a database on a busy laptop


@contextmanager
def prefect_server(settings: Settings) -> Iterator[None]:
    """Point Prefect at a server for one command: the one that is up, or a new one.

    Raises RatchetError when the new one does not come up. Call before Prefect is imported. Prefect's own temporary
    server would outlive a killed command; the kernel ends this one.
    """
    database = settings.prefect_home / "prefect.db"
    configure_prefect(settings)
    if running := server_address(settings):
        require_answer(running)
        os.environ["PREFECT_API_URL"] = running
        over = threading.Event()
        threading.Thread(target=_tell_silence, args=(running, over), daemon=True).start()
        try:
            with answering(running):
                yield
        finally:
            over.set()
        return
    port = free_port(HOST)
    argv = [
        sys.executable, "-P", "-m", "uvicorn", "--factory", "prefect.server.api.server:create_app", "--host", HOST,
        "--port", str(port), "--log-level", "error", "--lifespan", "on",
        "--app-dir", str(settings.prefect_home),  # by default the working directory, whose prefect.py would be imported
    ]  # fmt: skip
    address = f"http://{HOST}:{port}/api"
    # No UI, and no blocks: registering them imports every installed integration.
    spare = {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT_API_BLOCKS_REGISTER_ON_START": "0"}
    spare["PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"] = "ERROR"  # why it does not start
    environment = {**os.environ, **SAFE_PATH, **spare}
    log, over = settings.logs / "prefect-server.log", threading.Event()
    start = partial(process_group, argv, log, environment)
    os.environ["PREFECT_API_URL"] = address
    os.environ.setdefault("PREFECT_CLIENT_MAX_RETRIES", "7")  # four minutes, for a restart of the server
    elsewhere = os.environ["PREFECT_HOME"] != str(settings.prefect_home) or any(
        name.startswith(("PREFECT_API_DATABASE", "PREFECT_SERVER_DATABASE")) for name in os.environ
    )
    # Of commands that start at the same time in a new home, one makes the database.
    making = exclusive(settings.prefect_home / "starting.lock", "is starting Prefect", lambda _: None)
    try:
        with ExitStack() as serving:
            with disk_errors(settings.home), making:
                fresh = not elsewhere and not database.exists() and not copy_empty("prefect", database, "flow_run")
                server = serving.enter_context(start())
                importlib.import_module("prefect")  # takes two seconds, while the server starts
                advice = "" if fresh else OTHER_VERSION.format(database)
                wait_until_up("Prefect", f"{address}/health", server, log, advice)
                if fresh:
                    keep_empty("prefect", database, "flow_run")
            again = threading.Thread(target=_keep_up, args=(server, start, over))
            again.start()
            try:
                with answering(address, f" Is there room on the disk? Its log: {log}"):
                    yield
            finally:
                try:
                    from prefect.logging.handlers import APILogWorker

                    APILogWorker.drain_all(timeout=5)  # sends the logs that are still queued
                finally:
                    over.set()
                    again.join()
    finally:
        os.environ.pop("PREFECT_API_URL", None)


def _keep_up(server: Server, start: Callable[[], AbstractContextManager[Server]], over: threading.Event) -> None:
    """Restart a killed server until the command is `over`. Prefect's client waits for it."""
    with ExitStack() as latest:
        while not over.wait(1):
            if server.poll() is not None:
                latest.close()
                server = latest.enter_context(start())


def _tell_silence(api: str, over: threading.Event) -> None:
    """Say when a server that nobody restarts stops answering: Prefect's client asks it for a minute, without a word."""
    unanswered = 0
    while not over.wait(LOOK_S):
        unanswered = 0 if _answers(f"{api}/health") else unanswered + 1
        if unanswered == 2:
            print(f"The Prefect server at {api} does not answer. Waiting for it …", file=sys.stderr, flush=True)


def prefect_elsewhere() -> str:
    """The API address in `PREFECT_API_URL`, or ""."""
    return address_in("PREFECT_API_URL", "PREFECT_API_AUTH_STRING, as USER:PASSWORD")


def require_answer(api: str) -> None:
    """Raises RatchetError if no server answers at this address; an HTTP error is an answer."""
    try:
        with say_if_slow(f"Waiting for the Prefect server at {api} …"):
            urllib.request.urlopen(f"{api}/health", timeout=10).close()
    except urllib.error.HTTPError:
        pass
    except (OSError, ValueError) as error:
        raise RatchetError(
            f"The Prefect server at PREFECT_API_URL, {api}{proxy_note(api)}, does not answer "
            f"({getattr(error, 'reason', error)}). Start it, or unset PREFECT_API_URL: then this command starts its "
            "own."
        ) from error


@contextmanager
def answering(api: str, advice: str = "") -> Iterator[None]:
    """Turn an error of Prefect's client into one line."""
    try:
        yield
    except Exception as error:
        httpx = sys.modules.get("httpx")
        if httpx is None or not isinstance(error, httpx.HTTPError):
            raise
        login = " Set PREFECT_API_KEY, or PREFECT_API_AUTH_STRING to USER:PASSWORD." if "'401" in str(error) else ""
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise RatchetError(f"A request to the Prefect server at {api} failed: {reason}.{login or advice}") from error


def resumed(flow_run: str, settings: Settings) -> bool:
    """Make Prefect start a suspended run again; False if it is not suspended or no server knows it."""
    configure_prefect(settings)
    if not (address := server_address(settings)):
        return False
    require_answer(address)
    os.environ["PREFECT_API_URL"] = address
    from prefect.exceptions import NotPausedError, ObjectNotFound
    from prefect.flow_runs import resume_flow_run

    try:
        with answering(address):
            resume_flow_run(UUID(flow_run))
    except (NotPausedError, ObjectNotFound):
        return False
    return True


@contextmanager
def without_heartbeats() -> Iterator[None]:
    """Turn off heartbeats, for flows of one command: their server ends with them, and stopping each flow's heartbeat
    takes a second."""
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

    with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
        yield


def wait_until_up(name: str, address: str, server: Server, log: Path, advice: str = "") -> None:
    """Wait for the server. Raises RatchetError if it ends or takes too long."""
    deadline = time.monotonic() + START_S
    while not _answers(address):
        if server.poll() is not None or time.monotonic() > deadline:
            raise RatchetError(f"The {name} server did not start: {last_lines(log, 1)}\nIts log: {log}{advice}")
        time.sleep(0.2)


def configure_prefect(settings: Settings) -> None:
    """Configure Prefect: its database is in the home, and its logs are on the pages of its runs, not in the
    terminal."""
    with disk_errors(settings.home):
        settings.prefect_home.mkdir(parents=True, exist_ok=True)
        set_aside_damaged(settings.prefect_home / "prefect.db")
    defaults = {
        "PREFECT_HOME": str(settings.prefect_home),
        "PREFECT_MEMO_STORE_PATH": str(settings.prefect_home / "memo_store.toml"),
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
        "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }
    os.environ.update(defaults | os.environ)


def server_address(settings: Settings) -> str | None:
    """The address of the API of the environment's server, or of the one that `ratchet ui` runs for this home."""
    if elsewhere := prefect_elsewhere():
        return elsewhere
    try:
        address = json.loads((settings.prefect_home / "server.json").read_text())["api"]
        return address if _is_of(settings, address) else None
    except (OSError, ValueError, KeyError):
        return None


def _is_of(settings: Settings, api: str) -> bool:
    """True if the server that answers at this address is this home's; one of another home may have its port since. One
    that wants a login does not say."""
    home = os.path.expanduser(os.environ.get("PREFECT_HOME") or settings.prefect_home)
    try:
        with urllib.request.urlopen(f"{api}/admin/settings", timeout=2) as answer:
            return json.load(answer)["home"] == home
    except urllib.error.HTTPError:
        return _answers(f"{api}/health")


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=2) as answer:
            return answer.status == 200
    except (OSError, http.client.HTTPException):  # nothing there, or another service
        return False
