"""Keys and passwords stay in the environment: nothing that a run leaves behind has one."""

import base64
import gzip
import json
import os
import shutil
import sqlite3
import sys
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ratchet.cli.prefect_server import wait_until_up
from ratchet.verifiers.processes import free_port, process_group
from tests.flows.commands import MINI, PLANTED
from tests.infra.misbehaving_server import Server
from tests.infra.stub_server import StubServer


def leaks(home: Path, secrets: list[str]) -> list[str]:
    """`file: secret` for each that is found, in whatever form it is written there."""
    forms = {form: secret for secret in secrets for form in (secret, base64.b64encode(secret.encode()).decode())}
    found = []
    for file in sorted(path for path in home.rglob("*") if path.is_file()):
        with suppress(FileNotFoundError):  # another test's command in this home has removed its database's journal
            text = content(file)
            found += [f"{file.relative_to(home)}: {secret}" for form, secret in forms.items() if form in text]
    return found


def content(file: Path) -> str:
    if file.suffix == ".parquet":
        return str(pq.read_table(file).to_pylist())
    if file.suffix == ".gz":
        return gzip.decompress(file.read_bytes()).decode(errors="replace")
    if file.suffix == ".db":  # a text may lie in several pages
        with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as database:
            return "\n".join(database.iterdump())
    return file.read_bytes().decode(errors="replace")


def test_a_planted_key_is_found_where_it_is(tmp_path):
    (tmp_path / "a.log").write_text("Authorization: Bearer planted-1")
    (tmp_path / "b.gz").write_bytes(gzip.compress(base64.b64encode(b"me:planted-2")))
    with sqlite3.connect(tmp_path / "c.db") as database:
        database.execute("create table t (x)")
        database.execute("insert into t values (?)", ("x" * 9000 + "planted-3",))
    assert leaks(tmp_path, ["planted-1", "me:planted-2", "planted-3", "planted-4"]) == [
        "a.log: planted-1", "b.gz: me:planted-2", "c.db: planted-3",
    ]  # fmt: skip


def test_nothing_that_a_pipeline_leaves_has_a_key(finished_home):
    assert (finished_home / "prefect" / "prefect.db").is_file() and (finished_home / "mlflow.db").is_file()
    assert leaks(finished_home, list(PLANTED.values())) == []


class Endpoint(StubServer):
    """Answers every other call; the others are refused with the caller's own key in the message."""

    def __init__(self) -> None:
        self.calls, self.keys = 0, set()
        super().__init__()

    def answer(self, request, body):
        if request.command == "GET":
            return 200, b'{"data": []}'
        self.calls += 1
        self.keys.add(request.headers["Authorization"])
        if self.calls > 4 and self.calls % 2:
            words = f"content filter; your request had {request.headers['Authorization']}"
            return 400, json.dumps({"error": {"message": words}}).encode()
        choice = {"index": 0, "message": {"content": "\\boxed{7}"}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
        return 200, json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage}).encode()


@pytest.mark.slow
def test_passwords_and_a_key_that_an_endpoint_repeats_are_written_nowhere(ratchet, ready_home, tmp_path, monkeypatch):
    home, endpoint, port = ready_home, Endpoint(), free_port()
    shutil.move(home / "prefect", tmp_path / "team")  # migrated already
    monkeypatch.setattr("ratchet.cli.prefect_server.START_S", 600)
    team = {
        **os.environ,
        "PREFECT_HOME": str(tmp_path / "team"),
        "PREFECT_SERVER_API_AUTH_STRING": "me:planted-prefect",
    }
    argv = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    arguments = ["curate", "math", MINI, "--home", home]
    teacher = {"kind": "openai", "model": "m", "base_url": f"{endpoint.url}/v1", "attempts": 2}
    with process_group(argv, tmp_path / "team.log", team) as prefect, Server(401, "no") as mlflow:
        wait_until_up("Prefect", f"http://127.0.0.1:{port}/api/health", prefect, tmp_path / "team.log")
        login = {
            "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
            "PREFECT_API_AUTH_STRING": "me:planted-prefect",
            "MLFLOW_TRACKING_URI": mlflow.url,
            "MLFLOW_TRACKING_USERNAME": "me",
            "MLFLOW_TRACKING_PASSWORD": "planted-mlflow",
        }
        done = ratchet(*arguments, "--set", f"curation.math.teacher={json.dumps(teacher)}", **PLANTED, **login)
    assert done.returncode == 2 and "teacher calls failed, the last with: 400: content filter" in done.stderr
    assert endpoint.calls > 10 and endpoint.keys == {f"Bearer {PLANTED['OPENAI_API_KEY']}"}
    basic = f"Basic {base64.b64encode(b'me:planted-mlflow').decode()}"
    assert {headers.get("Authorization") for headers in mlflow.headers} == {basic}
    secrets = [*PLANTED.values(), "planted-prefect", "me:planted-prefect", "planted-mlflow", "me:planted-mlflow"]
    (tmp_path / "output").write_text(done.stdout + done.stderr)
    assert leaks(tmp_path, secrets) == []
