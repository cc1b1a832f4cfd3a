"""Both web UIs on loopback: MLflow for lineage and scores, Prefect for flows and for starting them from a form."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack

from rich.console import Console

from ratchet.cli.prefect_server import HOST, answers, configure_prefect
from ratchet.infra.artifacts import write_atomically
from ratchet.infra.errors import RatchetError
from ratchet.infra.process_group import process_group
from ratchet.infra.recipe import load_recipe
from ratchet.infra.settings import Settings
from ratchet.infra.tracking import start_mirror

START_S = 120


def serve_uis(
    console: Console, settings: Settings, mlflow_port: int, prefect_port: int, recipes: Sequence[str]
) -> None:
    """Start both servers and the runner of the deployments, print where to look, and stop all on Ctrl-C.

    Raises RatchetError when a recipe is wrong, a port is taken or a server does not come up.
    """
    from ratchet.cli.inspection import run_pages

    for recipe in recipes:
        load_recipe(recipe)
    for name, port, option in (("MLflow", mlflow_port, "--mlflow-port"), ("Prefect", prefect_port, "--prefect-port")):
        _require_free(name, port, option)
    configure_prefect(settings)
    _send_what_was_missed(settings)
    mlflow, prefect = f"http://{HOST}:{mlflow_port}", f"http://{HOST}:{prefect_port}"
    mlflow_argv = [
        sys.executable, "-P", "-m", "mlflow", "server", "--backend-store-uri", settings.tracking_uri,
        "--host", HOST, "--port", str(mlflow_port), "--workers", "1",
    ]  # fmt: skip
    prefect_argv = [
        sys.executable,
        "-P",
        "-m",
        "prefect",
        "server",
        "start",
        "--host",
        HOST,
        "--port",
        str(prefect_port),
    ]
    prefect_environment = {
        **os.environ,
        "PREFECT_API_URL": f"{prefect}/api",
        "PREFECT_UI_API_URL": f"{prefect}/api",
        "PREFECT_SERVER_API_PORT": str(prefect_port),
        # Prefect's own default is any: then a web page that one happens to visit could start flows here.
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": prefect,
    }
    runner_argv = [sys.executable, "-P", "-m", "ratchet.flows.deployments", *recipes]
    runner_environment = {
        **os.environ, "PREFECT_API_URL": f"{prefect}/api", "RATCHET_HOME": str(settings.home),
        "MLFLOW_TRACKING_URI": settings.tracking_uri, "PREFECT_LOGGING_LEVEL": "INFO",
        "PREFECT_LOGGING_LOG_PRINTS": "true",
    }  # fmt: skip
    # MLflow's job runner starts a dozen processes for features that nothing here uses.
    mlflow_environment = {
        **os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }  # fmt: skip
    address_file = settings.prefect_home / "server.json"
    with ExitStack() as servers, console.status("starting MLflow and Prefect…") as status:
        logs = {"MLflow": settings.logs / "mlflow-ui.log", "Prefect": settings.logs / "prefect-ui.log"}
        started = {
            "MLflow": servers.enter_context(process_group(mlflow_argv, logs["MLflow"], mlflow_environment)),
            "Prefect": servers.enter_context(process_group(prefect_argv, logs["Prefect"], prefect_environment)),
        }
        for name, address in (("MLflow", f"{mlflow}/health"), ("Prefect", f"{prefect}/api/health")):
            _wait_until_up(name, address, started[name], str(logs[name]))
        address_file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(address_file, json.dumps({"api": f"{prefect}/api"}))
        logs["runner"] = settings.logs / "prefect-runner.log"
        started["runner"] = servers.enter_context(process_group(runner_argv, logs["runner"], runner_environment))
        status.stop()
        console.print(f"[bold]MLflow[/]   {mlflow}\n[bold]Prefect[/]  {prefect}\n")
        console.print(f"To start a flow from a form ({', '.join(recipes)}):\n  {prefect}/deployments", soft_wrap=True)
        for what, address in run_pages(settings, mlflow, prefect):
            console.print(f"{what}\n  {address}", soft_wrap=True)
        console.print("\nCtrl-C stops both, and a flow that was started from a form.")
        try:
            while all(process.poll() is None for process in started.values()):
                time.sleep(0.5)
        except KeyboardInterrupt:
            console.print("Stopping both servers.")
            return
        finally:
            address_file.unlink(missing_ok=True)
    dead = next(name for name, process in started.items() if process.poll() is not None)
    raise RatchetError(f"The {dead} process stopped by itself. Its log: {logs[dead]}")


def _send_what_was_missed(settings: Settings) -> None:
    """Replay every journal, so that the pages show runs that were killed as what they are."""
    if not settings.journals.is_dir():
        return
    mirror = start_mirror(settings)
    try:
        mirror.wait(60)
    except subprocess.TimeoutExpired:
        mirror.terminate()


def _require_free(name: str, port: int, option: str) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise RatchetError(
                f"Port {port} for {name} is in use on {HOST}. Stop what uses it, or choose another: "
                f"ratchet ui {option} {port + 1}."
            ) from error


def _wait_until_up(name: str, address: str, process: subprocess.Popen[bytes], log: str) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RatchetError(f"The {name} server ended with code {process.returncode} while starting. Its log: {log}")
        if answers(address):
            return
        time.sleep(0.3)
    raise RatchetError(f"The {name} server did not answer at {address} within {START_S} s. Its log: {log}")
