"""The Prefect server of one command: up while it runs, and gone with it, however it ends."""

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

from ratchet.infra.artifacts import disk_errors
from ratchet.infra.errors import RatchetError
from ratchet.infra.process_group import free_port, process_group
from ratchet.infra.settings import Settings, without_login
from ratchet.infra.sqlite_files import set_aside_damaged

Server = subprocess.Popen[bytes]
HOST = "127.0.0.1"
START_S = 180  # the first start migrates a database, and laptops are busy


@contextmanager
def prefect_server(settings: Settings) -> Iterator[None]:
    """Point Prefect at a server for the length of a command: the one that is up, or one of our own.

    Raises RatchetError when ours does not come up. Call before Prefect is imported. Prefect's own temporary server
    would outlive a command that is killed; ours is told by the kernel.
    """
    configure_prefect(settings)
    if running := server_address(settings):
        require_answer(running)
        os.environ["PREFECT_API_URL"] = running
        with answering(running):
            yield
        return
    port = free_port(HOST)
    argv = [
        sys.executable, "-P", "-m", "uvicorn", "--factory", "prefect.server.api.server:create_app", "--host", HOST,
        "--port", str(port), "--log-level", "error", "--lifespan", "on",
    ]  # fmt: skip
    address = f"http://{HOST}:{port}/api"
    # Neither pages nor blocks: to register these it would import every integration there is.
    spare = {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT_API_BLOCKS_REGISTER_ON_START": "0"}
    environment = {**os.environ, **spare}
    log, over = settings.logs / "prefect-server.log", threading.Event()
    start = partial(process_group, argv, log, environment)
    os.environ["PREFECT_API_URL"] = address
    os.environ.setdefault("PREFECT_CLIENT_MAX_RETRIES", "7")  # four minutes, for a server that has to start again
    try:
        with start() as server:
            importlib.import_module("prefect")  # two seconds, while the server comes up
            wait_until_up("Prefect", f"{address}/health", server, log)
            again = threading.Thread(target=_keep_up, args=(server, start, over))
            again.start()
            try:
                with answering(address, f" Is there room on the disk? Its log: {log}"):
                    yield
            finally:
                try:
                    _send_logs()
                finally:
                    over.set()
                    again.join()
    finally:
        os.environ.pop("PREFECT_API_URL", None)


def _keep_up(server: Server, start: Callable[[], AbstractContextManager[Server]], over: threading.Event) -> None:
    """Start a server again that something has killed, until it is `over`. Prefect's client waits for it."""
    with ExitStack() as latest:
        while not over.wait(1):
            if server.poll() is not None:
                latest.close()
                server = latest.enter_context(start())


def prefect_elsewhere() -> str:
    """The API of the Prefect server that `PREFECT_API_URL` names, or nothing. A password in it moves to the variable
    that Prefect's client reads, so that no log and no page of a run has it."""
    variable = "PREFECT_API_URL"
    address, user, password = without_login(os.environ.get(variable, ""), variable)
    if user:
        os.environ[variable] = address
    if password:
        os.environ["PREFECT_API_AUTH_STRING"] = f"{user}:{password}"
    return address


def require_answer(api: str) -> None:
    """Raises RatchetError where nobody is at this address; what is there says itself what it wants."""
    try:
        urllib.request.urlopen(f"{api}/health", timeout=10).close()
    except urllib.error.HTTPError:
        pass
    except (OSError, ValueError) as error:
        raise RatchetError(
            f"The Prefect server at PREFECT_API_URL, {api}, does not answer ({getattr(error, 'reason', error)}). Start "
            "it, or unset PREFECT_API_URL: then this command has one of its own."
        ) from error


@contextmanager
def answering(api: str, advice: str = "") -> Iterator[None]:
    """Turns what Prefect's client says of a server into one line."""
    try:
        yield
    except Exception as error:
        httpx = sys.modules.get("httpx")
        if httpx is None or not isinstance(error, httpx.HTTPError):
            raise
        login = " Set PREFECT_API_KEY, or PREFECT_API_AUTH_STRING to USER:PASSWORD." if "'401" in str(error) else ""
        said = (str(error) or type(error).__name__).splitlines()[0]
        raise RatchetError(
            f"The Prefect server at {api} has not done what was asked: {said}.{login or advice}"
        ) from error


@contextmanager
def without_heartbeats() -> Iterator[None]:
    """For flows that a command runs: their server goes with them, and stopping each flow's heartbeat takes a second."""
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

    with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
        yield


def _send_logs() -> None:
    """What waits to be sent, while there is somebody to send it to."""
    from prefect.logging.handlers import APILogWorker

    APILogWorker.drain_all(timeout=5)


def wait_until_up(name: str, address: str, server: Server, log: Path) -> None:
    """Raises RatchetError when it ends instead, or takes too long."""
    deadline = time.monotonic() + START_S
    while not _answers(address):
        if server.poll() is not None or time.monotonic() > deadline:
            raise RatchetError(f"The {name} server did not start. Its log: {log}")
        time.sleep(0.2)


def configure_prefect(settings: Settings) -> None:
    """Prefect keeps its database in our home; what it logs is on the pages of its runs, and not in the terminal."""
    with disk_errors(settings.home):
        settings.prefect_home.mkdir(parents=True, exist_ok=True)
        set_aside_damaged(settings.prefect_home / "prefect.db")
    os.environ.setdefault("PREFECT_HOME", str(settings.prefect_home))
    os.environ.setdefault("PREFECT_MEMO_STORE_PATH", str(settings.prefect_home / "memo_store.toml"))
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    os.environ.setdefault("PREFECT_LOGGING_INTERNAL_LEVEL", "CRITICAL")
    os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    os.environ.setdefault("DO_NOT_TRACK", "1")


def server_address(settings: Settings) -> str | None:
    """The API of the server that the environment names, or that `ratchet ui` has up for this home."""
    if elsewhere := prefect_elsewhere():
        return elsewhere
    try:
        address = json.loads((settings.prefect_home / "server.json").read_text())["api"]
        return address if _answers(f"{address}/health") else None
    except (OSError, ValueError, KeyError):
        return None


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=2) as answer:
            return answer.status == 200
    except OSError:
        return False
