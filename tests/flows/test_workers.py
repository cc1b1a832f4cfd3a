"""A Prefect server and a worker of a process pool: runs that are suspended, killed, cancelled, or start among
files of our names."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from prefect.client.schemas.objects import State, StateType

from ratchet.flows.cancellation import CANCELLED, started_unasked
from ratchet.flows.deployments import deployments
from ratchet.verifiers.processes import free_port, process_group
from tests.flows.commands import MINI, ROOT
from tests.waiting import happens

AUTOMATIONS = ROOT / "examples" / "operations" / "automations.yaml"


class Server:
    """A Prefect server with a pool, a worker and the deployments of the mini recipe."""

    def __init__(self, api: str, environment: dict[str, str]) -> None:
        self.api, self.environment = api, environment

    def command(self, *argv: str | Path, folder: Path = ROOT) -> str:
        done = subprocess.run(
            [sys.executable, "-P", "-m", *map(str, argv)], cwd=folder, env=self.environment, capture_output=True,
            text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def ask(self, path: str, **body: Any) -> Any:
        """Again while SQLite is locked, as Prefect's own client does."""
        while (answer := httpx.post(f"{self.api}/{path}", json=body, timeout=None)).status_code == 503:
            time.sleep(0.5)
        return answer.raise_for_status().json()

    def deployment(self, name: str) -> str:
        """Its id; nothing where it, or the server, is not there yet."""
        try:
            found = httpx.get(f"{self.api}/deployments/name/{name}", timeout=None)
        except httpx.HTTPError:
            return ""
        return found.json()["id"] if found.is_success else ""

    def start(self, deployment: str, **parameters: Any) -> str:
        """The id of a run, as the form makes it."""
        return self.ask(f"deployments/{self.deployment(deployment)}/create_flow_run", parameters=parameters)["id"]

    def states(self, run: str) -> list[str]:
        found = httpx.get(f"{self.api}/flow_run_states/", params={"flow_run_id": run}, timeout=None).json()
        return [state["name"] for state in sorted(found, key=lambda state: state["timestamp"])]

    def facts(self, run: str) -> dict[str, Any]:
        return httpx.get(f"{self.api}/flow_runs/{run}", timeout=None).json()

    def message(self, run: str) -> str:
        """What the run's page says of its state."""
        return self.facts(run)["state"]["message"] or ""

    def wait(self, run: str, state: str) -> list[str]:
        while (seen := self.states(run))[-1] != state:
            assert seen[-1] not in ("Failed", "Completed"), seen
            time.sleep(0.5)
        return seen


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, finished_home: Path) -> Iterator[Server]:
    home, port = tmp_path_factory.mktemp("server"), free_port()
    api = f"http://127.0.0.1:{port}/api"
    environment = os.environ | {
        "PREFECT_HOME": str(home), "PREFECT_API_URL": api, "PREFECT_WORKER_QUERY_SECONDS": "1",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "RATCHET_HOME": str(finished_home),
    }  # fmt: skip
    prefect = [sys.executable, "-m", "prefect"]
    with ExitStack() as running:
        argv = [*prefect, "server", "start", "--host", "127.0.0.1", "--port", str(port)]
        running.enter_context(process_group(argv, home / "server.log", environment))
        assert happens(lambda: answers(api)), (home / "server.log").read_text()
        up = Server(api, environment)
        up.command("prefect", "work-pool", "create", "here", "--type", "process")
        said = up.command("ratchet.cli.main", "deploy", MINI, "--pool", "here", "--home", finished_home)
        assert "No worker polls the pool" in said and "prefect worker start --pool here" in said
        up.command("prefect", "automation", "create", "--from-file", AUTOMATIONS)
        argv = [*prefect, "worker", "start", "--pool", "here"]
        running.enter_context(process_group(argv, home / "worker.log", environment))
        yield up


def answers(api: str) -> bool:
    try:
        return httpx.get(f"{api}/health", timeout=60).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.mark.slow
def test_a_pool_is_needed_a_step_of_a_form_runs_and_a_mistake_in_a_form_is_told(server, ratchet):
    for pool, said in (("", "--pool NAME"), ("gpus", "no work pool 'gpus'")):
        refused = ratchet("deploy", MINI, "--pool", pool, PREFECT_API_URL=server.api)
        assert refused.returncode == 2 and said in refused.stderr
    registered = {deployment["name"] for deployment in server.ask("deployments/filter")}
    assert registered >= {deployment.name for deployment in deployments(str(MINI))}
    right = server.start("curate/mini-curate", step="deduplicate")
    wrong = server.start("pipeline/mini", overrides=["seed=x"])
    assert "Failed" not in server.wait(right, "Completed")
    assert server.facts(right)["name"] == "mini-seed1-deduplicate-math"
    assert server.wait(wrong, "Failed") and "seed: Input should be an integer, not text" in server.message(wrong)


@pytest.mark.slow
def test_a_run_of_a_worker_is_suspended_until_a_person_decides(server, finished_home):
    for decide in ("terminal", "page"):
        name = f"math-24-{decide}"
        overrides = [f"name={name}", "approve=[math-24]"]
        run = server.start("pipeline/mini", overrides=overrides)
        assert "Crashed" not in server.wait(run, "Suspended")
        assert happens(lambda: "waits for approval of math-24" in server.message(run))  # noqa: B023
        if decide == "terminal":
            settings = [word for override in overrides for word in ("--set", override)]
            server.command("ratchet.cli.main", "run", MINI, *settings, "--approve", "--home", finished_home)
        else:
            server.ask(f"flow_runs/{run}/resume")
        assert "Failed" not in server.wait(run, "Completed")
    said = server.command("ratchet.cli.main", "show", "approvals", "--home", finished_home)
    assert "math-24 approved by whoever resumed the run in Prefect" in said


@pytest.mark.slow
def test_a_run_whose_process_is_killed_is_started_again(server, finished_home):
    run = server.start("train/mini-train", overrides=["training.stages.1.steps=12"])
    drafts = finished_home / "artifacts" / ".drafts"
    assert happens(lambda: list(drafts.glob("checkpoint-code-32-*/checkpoints/*"))), server.states(run)
    os.kill(process_of(run), signal.SIGKILL)
    seen = server.wait(run, "Completed")
    assert seen[seen.index("Crashed") + 1] == "Resubmitted" and seen.count("Resubmitted") == 1


@pytest.mark.slow
def test_a_cancelled_run_ends_also_after_a_retry_and_is_not_started_again(server, finished_home):
    """Cancel, retry, cancel: each time training ends; the automation starts nothing again."""
    run = server.start("train/mini-train", overrides=["training.stages.1.steps=300"])
    drafts = finished_home / "artifacts" / ".drafts"
    for _ in range(2):
        steps = len(progress_of(drafts))
        while len(progress_of(drafts)) <= steps:
            assert server.states(run)[-1] != "Failed", server.states(run)
            time.sleep(0.5)
        process = process_of(run)
        server.ask(f"flow_runs/{run}/set_state", state={"type": CANCELLED[0].value}, force=False)
        ended = lambda: not Path(f"/proc/{process}").exists() and not training_in(finished_home)  # noqa: B023, E731
        assert happens(ended), server.states(run)
        server.wait(run, "Cancelled")
        time.sleep(45)  # the automation waits for 30 s
        assert server.states(run)[-1] == "Cancelled" and "Resubmitted" not in server.states(run)
        server.ask(f"flow_runs/{run}/set_state", state={"type": "SCHEDULED", "name": "AwaitingRetry"}, force=True)
    server.ask(f"flow_runs/{run}/set_state", state={"type": "CANCELLED", "name": "Cancelled"}, force=True)


def progress_of(drafts: Path) -> list[str]:
    return [
        line for file in drafts.glob("checkpoint-code-32-*/metrics.jsonl") for line in file.read_text().splitlines()
    ]


def training_in(home: Path) -> list[str]:
    """Trainers at work in a home."""
    commands = (process / "cmdline" for process in Path("/proc").glob("[0-9]*"))
    return [str(command) for command in commands if _is_trainer(command, home)]


def _is_trainer(command: Path, home: Path) -> bool:
    try:
        words = command.read_bytes()
    except OSError:  # it ended while we looked
        return False
    return b"ratchet.training" in words and str(home).encode() in words


def test_only_a_person_starts_again_what_a_person_has_cancelled():
    def states(*names: str) -> list[State]:
        types = {"Ending": CANCELLED[0], "Cancelled": CANCELLED[1]}
        return [
            State(type=types.get(name, StateType.SCHEDULED), name=name, timestamp=datetime.fromtimestamp(at, UTC))
            for at, name in enumerate(names)
        ]

    begun = ("Scheduled", "Pending", "Running")
    assert not started_unasked(states(*begun, "Crashed", "Resubmitted"))
    assert started_unasked(states(*begun, "Ending", "Crashed", "Resubmitted", "Pending", "Running"))
    assert started_unasked(states(*begun, "Crashed", "Resubmitted", "Running", "Ending", "Cancelled", "Resubmitted"))
    retried = (*begun, "Ending", "Cancelled", "AwaitingRetry", "Pending", "Running")
    assert not started_unasked(states(*retried))
    assert not started_unasked(states(*retried, "Crashed", "Resubmitted"))
    assert started_unasked(states(*retried, "Ending", "Cancelled", "Resubmitted"))


def process_of(run: str) -> int:
    """The process in which a worker runs this flow."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            named = f"PREFECT__FLOW_RUN_ID={run}".encode() in (process / "environ").read_bytes()
            if named and b"prefect" in (process / "cmdline").read_bytes():
                return int(process.name)
        except OSError:  # it ended while we looked
            continue
    raise AssertionError("no such process")


@pytest.fixture
def with_recipe(trapped: Path) -> Path:
    """A user's folder of traps, with a recipe."""
    (trapped / "mine.yaml").write_text(MINI.read_text().replace("name: mini\n", "name: trapped\n"))
    return trapped


@pytest.mark.slow
def test_a_run_of_a_worker_imports_nothing_from_the_users_folder(server, with_recipe, finished_home):
    deploy = ("deploy", "mine.yaml", "--pool", "here", "--home", finished_home)
    server.command("ratchet.cli.main", *deploy, folder=with_recipe)
    run = server.start("train/trapped-train", overrides=["training.stages.1.steps=3"])
    assert "Crashed" not in server.wait(run, "Completed")


@pytest.mark.slow
def test_the_uis_servers_and_a_run_of_its_form_import_nothing_from_the_users_folder(with_recipe, finished_home):
    """The folder's recipe is found all the same, by the path that the form has. Ctrl-C stops all of it."""
    ports = free_port(), free_port()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "MLFLOW_"))}
    argv = [sys.executable, "-P", "-m", "ratchet.cli.main", "ui", "mine.yaml", "--home", str(finished_home)]
    argv += ["--mlflow-port", str(ports[0]), "--prefect-port", str(ports[1])]
    forms = Server(f"http://127.0.0.1:{ports[1]}/api", environment)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(argv, cwd=with_recipe, env=environment, **streams) as ui:
        try:
            while not forms.deployment("report/trapped-report"):  # the last that is registered
                assert ui.poll() is None, ui.stdout.read()
                time.sleep(0.5)
            run = forms.start("train/trapped-train", overrides=["training.stages.1.steps=4"])
            assert "Crashed" not in forms.wait(run, "Completed")
        finally:
            ui.send_signal(signal.SIGINT)
            said = ui.stdout.read()
        assert "Ctrl-C stops these servers" in said and said.endswith("Stopped.\n")
