"""Serve both web UIs on loopback: MLflow for lineage and scores, Prefect for flows and their forms. For one that is
elsewhere (`MLFLOW_TRACKING_URI`, `PREFECT_API_URL`), the address is shown."""

import json
import os
import shlex
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import Annotated

import typer

from ratchet.cli.options import Home
from ratchet.cli.options import recipe as recipe_named
from ratchet.cli.terminal import console, say, spinner
from ratchet.data_curation.base.slow_calls import say_if_slow
from ratchet.infra.settings import Settings, is_server, load_settings
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.processes import bound_socket, process_group


def ui(
    recipes: Annotated[
        list[str] | None, recipe_named("Recipes with forms (default: tiny).", show_default=False)
    ] = None,
    mlflow_port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the MLflow UI.")] = 5000,
    prefect_port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the Prefect UI.")] = 4200,
    home: Home = None,
) -> None:
    """Serve MLflow and Prefect on loopback, with a form for each flow. Ctrl-C stops them.

    Example: `ratchet ui --mlflow-port 5001`
    """
    from ratchet.cli.prefect_server import HOST, SAFE_PATH, configure_prefect, prefect_elsewhere, wait_until_up
    from ratchet.data_curation.base.files import write_atomically
    from ratchet.infra.recipe import load_recipe

    settings, recipes = load_settings(home), recipes or ["tiny"]
    for recipe in recipes:
        load_recipe(recipe)
    remote, elsewhere = is_server(settings.tracking_uri), prefect_elsewhere()
    mlflow = settings.tracking_uri if remote else f"http://{HOST}:{mlflow_port}"
    api = elsewhere or f"http://{HOST}:{prefect_port}/api"
    prefect = api.removesuffix("/api")
    for port in ([] if remote else [mlflow_port]) + ([] if elsewhere else [prefect_port]):
        bound_socket(HOST, port).close()
    configure_prefect(settings)
    _catch_up(settings)
    modules = {
        "MLflow": [
            "mlflow", "server", "--host", HOST, "--port", str(mlflow_port), "--workers", "1",
            "--uvicorn-opts", f"--app-dir {shlex.quote(str(settings.prefect_home))}",
        ],
        "Prefect": ["prefect", "server", "start", "--host", HOST, "--port", str(prefect_port)],
        "runner": ["ratchet.flows.deployments", *recipes],
    }  # fmt: skip
    environments = {
        # MLflow's job runner starts a dozen processes for unused features.
        "MLflow": {
            "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "MLFLOW_BACKEND_STORE_URI": settings.tracking_uri,
        },
        # Prefect's default is any origin: any web page could then start flows here.
        "Prefect": {
            "PREFECT_API_URL": api, "PREFECT_UI_API_URL": api, "PREFECT_SERVER_API_PORT": str(prefect_port),
            "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": prefect,
        },
        "runner": {
            "PREFECT_API_URL": api, "RATCHET_HOME": str(settings.home), "MLFLOW_TRACKING_URI": settings.tracking_uri,
        },
    }  # fmt: skip
    healthy = {} if remote else {"MLflow": f"{mlflow}/health"}
    healthy |= {} if elsewhere else {"Prefect": f"{api}/health"}
    logs = {name: settings.logs / f"{name.lower()}-ui.log" for name in modules}
    address_file = settings.prefect_home / "server.json"
    with ExitStack() as servers:

        def start(name: str) -> subprocess.Popen[bytes]:
            argv = [sys.executable, "-P", "-m", *modules[name]]
            environment = {**os.environ, **SAFE_PATH, **environments[name]}
            return servers.enter_context(process_group(argv, logs[name], environment))

        with spinner(f"starting {' and '.join(healthy)}…"):
            started = {name: start(name) for name in healthy}
            for name, address in healthy.items():
                wait_until_up(name, address, started[name], logs[name])
        if not elsewhere:
            address_file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(address_file, json.dumps({"api": api}))
            servers.callback(address_file.unlink, missing_ok=True)
            started["runner"] = start("runner")
        console.print(f"[bold]MLflow[/]   {mlflow}{' (MLFLOW_TRACKING_URI)' if remote else ''}", soft_wrap=True)
        console.print(f"[bold]Prefect[/]  {prefect}{' (PREFECT_API_URL)' if elsewhere else ''}\n", soft_wrap=True)
        forms = "`ratchet deploy` registers them with that server" if elsewhere else ", ".join(recipes)
        say(f"To start a flow from a form ({forms}):\n  {prefect}/deployments")
        if not elsewhere:
            say("One run at a time: one that is *Late* waits for the run before it.")
        if page := _last_run(settings, mlflow):
            say(f"MLflow: the last run, and the list of runs with stage and scores\n  {page}")
        if settings.tensorboard.is_dir():
            say(f"TensorBoard:\n  tensorboard --logdir {settings.tensorboard}")
        if not started:
            return
        try:
            console.print("\nCtrl-C stops these servers, and a flow that was started from a form.")
            while all(process.poll() is None for process in started.values()):
                time.sleep(0.5)
        except KeyboardInterrupt:
            console.print("Stopped.")
            return
        dead = next(name for name, process in started.items() if process.poll() is not None)
    raise RatchetError(f"The {dead} process stopped by itself. Its log: {logs[dead]}")


def _catch_up(settings: Settings) -> None:
    """Replay every journal, so that the pages show killed runs as killed."""
    if not settings.journals.is_dir():
        return
    from ratchet.infra.tracking.events import start_mirror

    mirror = start_mirror(settings)
    try:
        with say_if_slow("Waiting for MLflow to receive earlier runs, a minute at most …"):
            mirror.wait(60)
    except subprocess.TimeoutExpired:
        mirror.terminate()


def _last_run(settings: Settings, mlflow: str) -> str:
    """The addresses of the last run's page in MLflow and of the list it is in, or nothing."""
    from ratchet.infra.tracking.events import list_page, run_page

    journals = sorted(settings.journals.glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
    pages = [address(settings, journals[-1].stem, mlflow) for address in (run_page, list_page)] if journals else []
    return "\n  ".join(filter(None, pages))
