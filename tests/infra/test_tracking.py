"""The journal and its mirror, against a real MLflow store."""

import json
import math
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ratchet.data_curation.base.journal import read_lines
from ratchet.infra.settings import Settings
from ratchet.infra.store.artifacts import Artifact
from ratchet.infra.tracking import mlflow_mirror
from ratchet.infra.tracking.events import Tracking, mlflow_address, not_received, read_state, run_page, start_mirror
from ratchet.infra.tracking.mirror import mirror
from ratchet.infra.tracking.mirrored import abandoned
from ratchet.verifiers.processes import free_port, process_group
from tests.infra.lossy_proxy import LossyProxy
from tests.infra.misbehaving_server import SILENT, Server
from tests.waiting import PATIENCE_S, happens

RAW = Artifact("file", "raw.json", "ab" * 32, Path("/data/raw.json"))
PROBLEMS = Artifact("problems", "math", "cd" * 32, Path("/store/problems"))
CHECKPOINT = Artifact("checkpoint", "math-8k", "ef" * 32, Path("/store/checkpoint"))


@pytest.fixture(scope="module")
def settings(tmp_path_factory) -> Settings:
    home = tmp_path_factory.mktemp("home")
    return Settings(home, f"sqlite:///{home}/mlflow.db", sys.executable)


def write_a_run(settings: Settings) -> tuple[Tracking, str]:
    tracking = Tracking(settings, "tiny")
    root = tracking.start_run("pipeline", tags={"git.commit": "abc"}, parameters={"seed": 0})
    curate = tracking.start_run("rules math", parent=root, output=PROBLEMS, inputs=(RAW,))
    facts = {"rows": 5, "columns": {"prompt": "string"}}
    tracking.event("dataset", curate, context="input", dataset=RAW.facts | facts)
    tracking.event("dataset", curate, context="output", dataset=PROBLEMS.facts | facts | {"rows": 4})
    tracking.event("end", curate, status="FINISHED")
    train = tracking.start_run("train math-8k", parent=root, output=CHECKPOINT, inputs=(PROBLEMS,))
    made = {"role": "output", "model": CHECKPOINT.facts, "parameters": {"learning_rate": 1e-6}}
    tracking.event("model", train, **made)
    for step in range(5):
        tracking.metrics(train, {"pass@1": step / 10, "undefined": math.nan}, step=step)
    return tracking, root


def client(settings: Settings):
    from mlflow import MlflowClient

    return MlflowClient(settings.tracking_uri)


def test_a_run_arrives_whole_with_its_lineage(settings):
    tracking, root = write_a_run(settings)
    tracking.event("end", f"{root}.2", status="FINISHED")
    tracking.metrics(root, {"math-60/pass@1": 0.25, "math-60/pass@2": 0.5})
    tracking.event("end", root, status="FINISHED")
    assert tracking.close(wait_s=PATIENCE_S)
    runs = read_state(settings, tracking.run_id)["runs"]
    mlflow = client(settings)
    [view] = [
        json.loads(value)
        for name, value in mlflow.get_experiment_by_name("tiny").tags.items()
        if name.startswith("mlflow.sharedViewState.")
    ]
    metrics = [f"metrics.`{name}`" for name in ("curriculum/stage", "curriculum/reward", "math-60/pass_at_1")]
    shown = ["attributes.`Dataset`", "attributes.`Models`", *metrics]
    assert json.loads(view["state"]) == {"selectedColumns": shown}
    parent, curate, train = (mlflow.get_run(runs[name]) for name in (root, f"{root}.1", f"{root}.2"))
    assert [run.info.status for run in (parent, curate, train)] == ["FINISHED"] * 3
    assert train.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert [i.dataset.digest for i in curate.inputs.dataset_inputs] == [RAW.key[:32], PROBLEMS.key[:32]]
    assert curate.info.run_id in train.data.tags["mlflow.note.content"], "the note links to the run that made the input"
    assert "/data/raw.json" in curate.data.tags["mlflow.note.content"]
    curve = [(m.step, m.value) for m in mlflow.get_metric_history(train.info.run_id, "pass_at_1")]
    assert curve == [(step, step / 10) for step in range(5)] and "undefined" not in train.data.metrics
    (model,) = mlflow.search_logged_models([parent.info.experiment_id], f"tags.`ratchet.key` = '{CHECKPOINT.key}'")
    assert model.source_run_id == train.info.run_id


@pytest.fixture
def unmirrored(monkeypatch) -> None:
    """No process mirrors what is tracked: the test does, in this one."""
    monkeypatch.setattr("ratchet.infra.tracking.events.start_mirror", lambda *_: subprocess.Popen(["true"]))


def test_a_registered_checkpoint_and_its_version_show_each_other(settings, unmirrored):
    """Twice, as when the same run is given again: nothing is there twice."""
    for _ in range(2):
        tracking, root = write_a_run(settings)
        tags = {"ratchet.artifact": CHECKPOINT.ref}
        tracking.event("register", root, name="tiny", model=CHECKPOINT.facts, tags=tags, aliases=["candidate"])
        tracking.event("end", root, status="FINISHED")
        tracking.close(wait_s=1)
        assert mirror("mlflow", settings.journals, settings.tracking_uri)
        mlflow = client(settings)
        version = mlflow.get_model_version_by_alias("tiny", "candidate")
        model = mlflow.get_logged_model(version.source.removeprefix("models:/"))
        assert json.loads(model.tags["mlflow.modelVersions"]) == [{"name": "tiny", "version": "1"}]
        run = mlflow.get_run(read_state(settings, tracking.run_id)["runs"][root])
        assert [output.model_id for output in run.outputs.model_outputs] == [model.model_id]
        assert run.data.tags["mlflow.log-model.history"] == "[]" and str(version.version) == "1"


def test_no_address_that_is_shown_says_who_asks():
    assert mlflow_address("https://host:5000/mlflow/") == "https://host:5000/mlflow"
    assert mlflow_address("sqlite:///mlflow.db") == mlflow_address("/a/directory") == ""


WRITES = """
import os, signal, sys, time
from pathlib import Path
from ratchet.infra.settings import Settings
from tests.infra.test_tracking import write_a_run
home = Path(sys.argv[1])
tracking, root = write_a_run(Settings(home, f"sqlite:///{home}/mlflow.db", sys.executable))
"""
KILLED = "print(tracking.run_id, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)"
LEAVES = "tracking.event('end', root, status='FINISHED')\nprint(tracking.run_id, tracking.close(0.1))"
STAYS = "print(tracking._mirrors[0].pid, flush=True)\ntime.sleep(60)"


def test_a_killed_run_is_ended_as_killed_by_the_next_mirror(settings):
    command = [sys.executable, "-c", WRITES + KILLED, str(settings.home)]
    killed = subprocess.run(command, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    run_id = killed.stdout.strip()
    assert start_mirror(settings).wait() == 0
    state = read_state(settings, run_id)
    assert {client(settings).get_run(r).info.status for r in state["runs"].values()} == {"FINISHED", "KILLED"}
    assert state["complete"]


def test_a_mirror_killed_halfway_sends_nothing_twice(settings, written):
    assert mirror("mlflow", settings.journals, settings.tracking_uri)
    state_file = settings.journals / f"{written}.state.json"
    complete = json.loads(state_file.read_text())
    begin = (settings.journals / f"{written}.jsonl").read_text().splitlines(keepends=True)
    # As if the mirror had died after creating the parent run and before saying so.
    state_file.write_text(json.dumps({"offset": len(begin[0]), "experiment_id": complete["experiment_id"], "runs": {}}))
    assert mirror("mlflow", settings.journals, settings.tracking_uri)
    assert json.loads(state_file.read_text())["runs"] == complete["runs"]
    state_file.write_text("")  # as after a power failure
    assert mirror("mlflow", settings.journals, settings.tracking_uri)
    assert json.loads(state_file.read_text())["runs"] == complete["runs"]


@pytest.mark.slow
def test_a_database_that_is_none_any_more_is_made_again_from_the_journals(tmp_path):
    settings = Settings(tmp_path, f"sqlite:///{tmp_path}/mlflow.db", sys.executable)
    tracking, root = write_a_run(settings)
    assert tracking.close(wait_s=PATIENCE_S)
    (tmp_path / "mlflow.db").write_bytes(b"no database" * 1000)
    assert start_mirror(settings).wait() == 0
    run = client(settings).get_run(read_state(settings, tracking.run_id)["runs"][root])
    assert run.info.status == "FAILED" and (tmp_path / "mlflow.db.damaged").is_file()


def test_a_server_that_is_down_slows_nothing(tmp_path, monkeypatch):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        uri = f"http://127.0.0.1:{unused.getsockname()[1]}"
    settings = Settings(tmp_path, uri, sys.executable)
    asked = []
    monkeypatch.setattr(socket.socket, "connect", lambda _, address: asked.append(address))
    tracking, root = write_a_run(settings)
    tracking.event("end", root, status="FINISHED")
    assert not asked, "only the mirror, another process, asks the server"
    monkeypatch.undo()
    assert not tracking.close(wait_s=1), "it says that MLflow has not received everything"
    reachable = Settings(tmp_path, f"sqlite:///{tmp_path}/mlflow.db", sys.executable)
    assert mirror("mlflow", reachable.journals, reachable.tracking_uri)
    assert read_state(reachable, tracking.run_id)["complete"], "what was missed arrives later"


@pytest.fixture
def written(settings, unmirrored, monkeypatch) -> str:
    """The id of a finished run that no mirror has seen yet."""
    monkeypatch.setattr("ratchet.infra.tracking.mirror.GIVE_UP_AFTER_S", 0)
    monkeypatch.setattr("ratchet.infra.tracking.mirror.AGAIN_S", 0)
    tracking, root = write_a_run(settings)
    tracking.event("text", root, text='{"seed": 1}', name="recipe.json")
    tracking.event("end", f"{root}.2", status="FINISHED")
    tracking.event("end", root, status="FINISHED")
    tracking.close(wait_s=1)
    return tracking.run_id


@pytest.mark.parametrize(
    ("status", "said"), [(SILENT, "timed out"), (500, "too many 500"), (401, "set MLFLOW_TRACKING_USERNAME and")]
)
def test_a_server_that_fails_is_told_in_one_line_and_gets_the_rest_later(settings, written, monkeypatch, status, said):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    with Server(status, "no") as server:
        assert not mirror("mlflow", settings.journals, server.url)
        line = not_received(Settings(settings.home, server.url, sys.executable), written)
    assert f"MLflow at {server.url} has not received everything yet: " in line and said in line and "\n" not in line
    assert mirror("mlflow", settings.journals, settings.tracking_uri) and not not_received(settings, written)
    assert client(settings).get_run(read_state(settings, written)["runs"][written]).info.status == "FINISHED"


def test_a_database_of_another_version_is_told_in_one_line_with_the_remedy(tmp_path, settings, written):
    home = Path(shutil.copytree(settings.home, tmp_path / "home"))
    newer = Settings(home, f"sqlite:///{home}/mlflow.db", sys.executable)
    with sqlite3.connect(home / "mlflow.db") as database:
        database.execute("UPDATE alembic_version SET version_num = 'ffffffffffff'")
    assert not mirror("mlflow", newer.journals, newer.tracking_uri)
    line = not_received(newer, written)
    assert "schema ffffffffffff" in line and "mlflow db upgrade" in line and "move the file away" in line
    assert "\n" not in line
    (home / "mlflow.db").unlink()
    assert start_mirror(newer).wait() == 0 and not not_received(newer, written)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.15, 0.4])
def test_lost_answers_are_asked_for_again_and_nothing_is_there_twice(tmp_path, written, settings, share):
    """A real server, which has done what was asked, behind a proxy that loses the answer."""
    port = free_port()
    argv = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    environment = {
        **os.environ, "MLFLOW_BACKEND_STORE_URI": f"sqlite:///{tmp_path}/server.db",
        "MLFLOW_ARTIFACTS_DESTINATION": str(tmp_path / "files"), "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }  # fmt: skip
    with process_group(argv, tmp_path / "log", environment):
        direct = f"http://127.0.0.1:{port}"
        assert happens(lambda: answers(port)), (tmp_path / "log").read_text()
        with LossyProxy(direct, share, seed=1) as proxy:
            lossy = Settings(settings.home, proxy.url, sys.executable)
            assert start_mirror(lossy).wait() == 0, (settings.logs / "mlflow-mirror.log").read_text()[-2000:]
            assert proxy.lost >= 2
        mlflow = client(Settings(settings.home, direct, sys.executable))
        [experiment] = [each for each in mlflow.search_experiments() if each.name == "tiny"]
        runs = mlflow.search_runs([experiment.experiment_id])
        ids = [run.data.tags["ratchet.run"] for run in runs]
        assert len(ids) == len(set(ids)) and {run.info.status for run in runs} <= {"FINISHED", "FAILED", "KILLED"}
        assert {run.data.params.get("seed") for run in runs if "." not in run.data.tags["ratchet.run"]} == {"0"}
        models = mlflow.search_logged_models([experiment.experiment_id])
        assert len(models) == 1


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_the_end_of_a_run_does_not_wait_for_a_slow_server(tmp_path):
    """The mirror goes on by itself when the run has closed its journal."""
    command = [sys.executable, "-c", WRITES + LEAVES, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    run, everything = done.stdout.split()
    assert everything == "False" and not done.stderr
    settings = Settings(tmp_path, f"sqlite:///{tmp_path}/mlflow.db", sys.executable)
    complete = happens(lambda: read_state(settings, run).get("complete"))  # no other command is given
    assert complete, (settings.logs / "mlflow-mirror.log").read_text()
    assert {client(settings).get_run(each).info.status for each in read_state(settings, run)["runs"].values()} == {
        "FINISHED", "FAILED"
    }  # fmt: skip


def test_numbers_arrive_while_the_place_for_files_is_full(settings, written, monkeypatch):
    journal = settings.journals / f"{written}.jsonl"
    journal.write_text(journal.read_text().replace('"experiment": "tiny"', '"experiment": "elsewhere"'))
    with Server(507) as store:
        monkeypatch.setenv("MLFLOW_DEFAULT_ARTIFACT_ROOT", f"{store.url}/files")
        assert not mirror("mlflow", settings.journals, settings.tracking_uri)
        state = read_state(settings, written)
        run = client(settings).get_run(state["runs"][written])
        assert run.info.status == "FINISHED" and run.info.artifact_uri.startswith(store.url)
        assert "507" in state["problem"] and not state["complete"]
        store.status = 200
        assert mirror("mlflow", settings.journals, settings.tracking_uri) and read_state(settings, written)["complete"]
    received = {path.split("/")[-1]: body for path, body in store.received}
    assert received.keys() == {"recipe.json"} and received["recipe.json"] == b'{"seed": 1}'


def test_a_file_of_a_run_that_begins_while_files_are_sent_arrives(settings, written, monkeypatch):
    """The mirror sends what is no file first: a run that the journal got since is not in MLflow yet."""
    journal = settings.journals / f"{written}.jsonl"
    whole = journal.read_text()
    journal.write_text(whole[: whole.index("\n") + 1])
    passes = iter([None, lambda: journal.write_text(whole)])

    def read_while_a_run_begins(*arguments):
        if grow := next(passes, None):
            grow()
        return read_lines(*arguments)

    monkeypatch.setattr(mlflow_mirror, "read_lines", read_while_a_run_begins)
    assert mirror("mlflow", settings.journals, settings.tracking_uri)
    run = read_state(settings, written)["runs"][written]
    assert [file.path for file in client(settings).list_artifacts(run)] == ["recipe.json"]


def test_a_mirror_does_not_outlive_its_parent(tmp_path):
    command = [sys.executable, "-c", WRITES + STAYS, str(tmp_path)]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    mirror = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    assert happens(lambda: not _alive(mirror))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"


def test_every_parameter_and_metric_arrives_whatever_its_name(settings, unmirrored):
    """MLflow takes 100 parameters a call, and refuses a whole call for one name."""
    tracking = Tracking(settings, "names")
    many = {f"training.stages.{n}.steps": n for n in range(230)}
    root = tracking.start_run("names", parameters={**many, "generate.puzzles (easy).count": 10, "a//b": 1})
    for step in range(3):
        tracking.metrics(root, {"loss": step, "solved (%)": 50.0, "refused/": 0.0}, step=step)
    tracking.event("end", root, status="FINISHED")
    tracking.close(wait_s=1)
    assert mirror("mlflow", settings.journals, settings.tracking_uri)
    run = client(settings).get_run(read_state(settings, tracking.run_id)["runs"][root])
    assert run.data.params == {name: str(n) for name, n in many.items()} | {"generate.puzzles _easy_.count": "10"}
    assert run.data.metrics == {"loss": 2, "solved ___": 50} and run.info.status == "FINISHED"


def test_a_step_that_mlflow_refuses_holds_up_no_other(settings, unmirrored, monkeypatch):
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    create_run = MlflowClient.create_run

    def refuse(self, *arguments, run_name, **others):
        if run_name == "pipeline":
            raise MlflowException.invalid_parameter_value("no such name")
        return create_run(self, *arguments, run_name=run_name, **others)

    monkeypatch.setattr(MlflowClient, "create_run", refuse)
    tracking, root = write_a_run(settings)
    tracking.metrics(root, {"math-60/pass@1": 0.25})
    tracking.event("end", f"{root}.2", status="FINISHED")
    tracking.event("end", root, status="FINISHED")
    tracking.close(wait_s=1)
    assert mirror("mlflow", settings.journals, settings.tracking_uri)
    runs = read_state(settings, tracking.run_id)["runs"]
    assert runs.keys() == {f"{root}.1", f"{root}.2"}
    assert client(settings).get_run(runs[f"{root}.2"]).data.metrics == {"pass_at_1": 0.4}


def test_another_address_gets_earlier_runs_with_the_newest_alias(tmp_path, unmirrored, monkeypatch):
    settings = Settings(tmp_path, f"sqlite:///{tmp_path}/mlflow.db", sys.executable)
    team = Settings(tmp_path, f"sqlite:///{tmp_path}/team.db", sys.executable)
    for number, aliases in enumerate((["candidate", "best"], ["candidate", "best"], ["candidate"])):
        monkeypatch.setattr("secrets.token_hex", lambda _, number=number: f"00000{number}")
        tracking = Tracking(settings, "tiny")
        root = tracking.start_run("pipeline")
        model = replace(CHECKPOINT, key=str(number) * 64)
        tracking.event("register", root, name="tiny", model=model.facts, tags={}, aliases=aliases)
        tracking.event("end", root, status="FINISHED")
        tracking.close(wait_s=1)
    pages = []
    for where in (settings, team, settings):
        assert where is settings or not run_page(where, root, "")
        assert bool(not_received(where, root)) == (len(pages) < 2)
        assert mirror("mlflow", where.journals, where.tracking_uri) and not not_received(where, root)
        for alias, number in (("best", "1"), ("candidate", "2")):
            version = client(where).get_model_version_by_alias("tiny", alias)
            model = client(where).get_logged_model(version.source.removeprefix("models:/"))
            assert model.tags["ratchet.key"] == number * 64
        pages.append(run_page(where, root, ""))
        assert client(where).get_run(read_state(where, root)["runs"][root]).info.status == "FINISHED"
    assert pages[0] == pages[2] != pages[1]


def test_a_run_that_ends_while_it_is_looked_at_has_not_been_killed(settings, unmirrored, monkeypatch):
    tracking = Tracking(settings, "tiny")
    root = tracking.start_run("pipeline")
    journal = mlflow_mirror.opener(settings.journals, settings.tracking_uri)(settings.journals / f"{root}.jsonl")
    journal.replay()

    def look(path, offset):
        tracking.metrics(root, {"score": 1.0})
        tracking.event("end", root, status="FINISHED")
        tracking.close(wait_s=1)
        return abandoned(path, offset)

    monkeypatch.setattr(mlflow_mirror, "abandoned", look)
    journal.replay()
    assert journal.complete
    run = client(settings).get_run(journal.runs[root])
    assert run.info.status == "FINISHED" and run.data.metrics == {"score": 1}


def test_the_id_of_a_run_begins_with_its_time_in_every_time_zone(settings, unmirrored, monkeypatch):
    """The newest run is found by its id."""
    ids = []
    try:
        for zone in ("UTC-12", "UTC+12"):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            tracking = Tracking(settings, "tiny")
            tracking.close(wait_s=1)
            ids.append(tracking.run_id[: len("20260101-12")])
    finally:
        monkeypatch.undo()
        time.tzset()
    hours = [time.strftime("%Y%m%d-%H", time.gmtime(time.time() - ago)) for ago in (0, 60)]
    assert set(ids) <= set(hours)
