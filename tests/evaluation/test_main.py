"""The evaluation process as it is run: started, killed, started again."""

import contextlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest

from ratchet.evaluation.grading import GRADED_SCHEMA
from ratchet.evaluation.main import main
from ratchet.evaluation.sampling import SampledGenerations, _claim_number
from ratchet.evaluation.spec import EvaluationSpec, load_plan, read_spec
from ratchet.infra.launching.fork_server import ForkServer
from ratchet.tasks.evaluation import EvaluationFollower
from ratchet.tasks.run_context import RunContext
from ratchet.verifiers.errors import RatchetError
from tests.evaluation.conftest import changed, first_benchmark, sampled, write
from tests.waiting import happens

ROOT = Path(__file__).parents[2]


def stored(store: Path) -> list[Path]:
    return sorted(store.glob("*/*.parquet"))


def alive(process: psutil.Process) -> bool:
    """Whether it runs: a dead one that nobody has asked after does not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


TWICE = f"{sys.executable} {ROOT / 'tests/training/twice.py'}"
"""RATCHET_LAUNCHER of two machines, both of which are this one."""


def kill_midway(spec_path: Path, store: Path) -> list[Path]:
    """Start the evaluation, SIGKILL it when a few more parts are there, wait for all below it to die of it."""
    environment = {**os.environ, "RATCHET_LAUNCHER": TWICE}
    run = subprocess.Popen([sys.executable, "-m", "ratchet.evaluation.main", str(spec_path)], env=environment)
    before = len(stored(store))
    assert happens(lambda: len(stored(store)) >= before + 3 or run.poll() is not None) and run.poll() is None
    children = psutil.Process(run.pid).children(recursive=True)
    assert len(children) >= 3  # the launcher and two sampling processes
    run.kill()
    run.wait()
    assert happens(lambda: not any(map(alive, children)))
    return stored(store)


@pytest.mark.slow
def test_killed_and_continued_on_several_machines_is_the_same_as_never_killed(spec, tmp_path, monkeypatch):
    """Killed on one machine with two processes, then on two with one, and completed on two."""
    monkeypatch.setenv("RATCHET_LAUNCHER", TWICE)
    spec["evaluation"]["benchmarks"][0]["samples"] = 60
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole_spec = write({**spec, "work_dir": str(whole)}, tmp_path / "whole.json")
    sampled(whole_spec)
    assert main(whole_spec) == 0

    store = tmp_path / "killed-store"
    killed_spec = {**spec, "work_dir": str(killed), "store_dir": str(store)}
    two = changed(killed_spec, training={"hardware": {"rollout_batch": 8, "processes": 2}})
    kill_midway(write(two, tmp_path / "killed.json"), store)
    machines = changed(killed_spec, training={"hardware": {"rollout_batch": 8, "machines": 2}})
    parts = kill_midway(write(machines, tmp_path / "killed.json"), store)
    assert 6 <= len(parts) < 55  # in the middle of the first benchmark
    assert not (killed / "status.json").exists()
    parts[1].write_bytes(parts[1].read_bytes()[:-20])  # and the disk lost the end of a file
    (parts[0].parent / "000054-small-math.parquet.99.tmp").write_bytes(b"half")
    before = {path: path.stat().st_mtime_ns for path in parts}
    assert main(write(machines, tmp_path / "killed.json")) == 0
    sampled_again = {path for path in parts if path.stat().st_mtime_ns != before[path]}
    assert sampled_again == {parts[1]}

    for name in ("generations.parquet", "scores.json"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()
    for work_dir in (killed, whole):
        assert json.loads((work_dir / "status.json").read_text())["state"] == "finished"
        names = {file.name for file in work_dir.iterdir()}
        assert names == {
            "generations.parquet", "questions.parquet", "scores.json", "progress.jsonl", "status.json"
        }  # fmt: skip
        last = json.loads((work_dir / "progress.jsonl").read_text().splitlines()[-1])
        assert last["done"] == last["total"] == 7 * 60 + 4 * 4
    check_scores_against_the_stored_rows(whole)


def test_copies_of_a_process_that_has_loaded_its_libraries_sample_the_same(spec, tmp_path):
    """Twice, in one fork server; each with two sampling processes."""
    alone = tmp_path / "alone"
    spec_path = write({**spec, "work_dir": str(alone), "store_dir": str(tmp_path / "alone-store")}, tmp_path / "a.json")
    sampled(spec_path)
    assert main(spec_path) == 0

    fork_server = ForkServer("ratchet.training.launch", "ratchet.evaluation.main")
    log, environment = tmp_path / "log", {**os.environ, "PYTHONPATH": str(ROOT)}

    def ordered(module: str, spec_path: Path) -> int:
        with fork_server.run([sys.executable, "-P", "-m", module, str(spec_path)], log, environment) as job:
            assert happens(lambda: job.poll() is not None)
        return job.code

    ordered("ratchet.training.launch", tmp_path / "absent.json")  # loads what stages need
    assert "FileNotFoundError" in log.read_text()
    for name in ("first", "second"):
        work = changed(spec, training={"hardware": {"rollout_batch": 8, "processes": 2}})
        work |= {"work_dir": str(tmp_path / name), "store_dir": str(tmp_path / f"{name}-store")}
        assert ordered("ratchet.evaluation.main", write(work, tmp_path / f"{name}.json")) == 0, log.read_text()
        for file in ("generations.parquet", "scores.json"):
            assert (tmp_path / name / file).read_bytes() == (alone / file).read_bytes()

    broken = write({**spec, "evaluations": {}}, tmp_path / "broken.json")
    assert ordered("ratchet.evaluation.main", broken) == 2, log.read_text()
    fork_server.close()


def test_what_an_evaluation_waits_for_is_said_at_once(spec, tmp_path):
    """Another one samples the same; and the attempt before left half a line."""
    spec_path, said = write(first_benchmark(spec, samples=1), tmp_path), list[str]()
    sampled(spec_path)
    progress = tmp_path / "work/progress.jsonl"
    progress.parent.mkdir()
    progress.write_text('{"done": 1, "tot')
    (store,) = load_plan(read_spec(spec_path)).stores.values()
    reporter = SimpleNamespace(note=said.append, progress=lambda done, total, facts: said.append(f"{done}/{total}"))
    follower = EvaluationFollower(cast(RunContext, SimpleNamespace(reporter=reporter)), "child", progress)
    with ThreadPoolExecutor() as threads:
        with store.locked():
            code = threads.submit(main, spec_path)
            assert happens(lambda: follower.poll() or said)
        assert code.result() == 0
    follower.poll()
    waits = f"Another run (process {os.getpid()}) is sampling small-math with this model. Waiting for it."
    assert said == [waits, "7/7"]


def test_every_process_of_every_machine_has_something_to_sample(spec):
    def sizes(**hardware: int) -> list[int]:
        asked = changed(spec, training={"hardware": {"rollout_batch": 40, **hardware}})
        return [len(batch.requests) for batch in load_plan(EvaluationSpec.model_validate(asked)).batches]

    assert sizes() == sizes(processes=8) == [40, 2, 16]
    assert sizes(machines=3, processes=2) == [10, 10, 10, 10, 2, 10, 6]


def test_a_machine_that_does_not_come_leaves_its_share_to_the_others(spec, tmp_path, monkeypatch):
    monkeypatch.setenv("RATCHET_LAUNCHER", "env")  # runs its command once
    alone = changed(spec, training={"hardware": {"machines": 2}})
    assert main(write(alone, tmp_path / "spec.json")) == 0
    asked = sum(map(len, map(pq.read_table, stored(Path(spec["store_dir"])))))
    assert asked == sum(len(batch.requests) for batch in load_plan(read_spec(tmp_path / "spec.json")).batches)


def test_a_launcher_that_brings_no_machine_is_told(spec, tmp_path, monkeypatch):
    monkeypatch.setenv("RATCHET_LAUNCHER", "sh -c 'sleep 60'")  # waits for machines
    waiting = changed(spec, training={"hardware": {"machines": 3, "advanced": {"timeout_minutes": 0.001}}})
    assert main(write(waiting, tmp_path / "spec.json")) == 2
    message = json.loads((tmp_path / "work/status.json").read_text())["message"]
    assert "no machine of 3 came" in message and "RATCHET_LAUNCHER" in message


def test_numbers_are_for_as_many_machines_as_there_are(tmp_path):
    for _ in range(2):
        _claim_number(tmp_path, 2)
    assert len(list(tmp_path.iterdir())) == 2
    with pytest.raises(RatchetError, match="more than 2 times"):
        _claim_number(tmp_path, 2)


def test_a_sampling_process_that_is_killed_is_told_and_the_others_end(spec, tmp_path):
    spec["evaluation"]["benchmarks"][0]["samples"] = 60
    two = changed(spec, training={"hardware": {"rollout_batch": 8, "processes": 2}})
    spec_path = write(two, tmp_path / "spec.json")
    with SampledGenerations(spec_path, load_plan(read_spec(spec_path))) as generations:
        parts = generations.stream()
        next(parts)
        below = [child.children(recursive=True) for child in psutil.Process().children(recursive=True)]
        sampling = next(processes for processes in below if len(processes) > 1)
        max(sampling, key=lambda process: process.pid).kill()
        with pytest.raises(RatchetError, match=r"a sampling process was killed; if memory ran out"):
            list(parts)
    assert happens(lambda: not any(map(alive, sampling)))


def check_scores_against_the_stored_rows(work_dir: Path) -> None:
    table = pq.read_table(work_dir / "generations.parquet")
    assert table.schema.equals(GRADED_SCHEMA)
    frame = table.to_pandas()
    scores = json.loads((work_dir / "scores.json").read_text())
    for name, benchmark in scores["benchmarks"].items():
        rows = frame[frame["benchmark"] == name]
        rate = (rows["outcome"] == "passed").groupby(rows["problem_id"]).mean()
        assert abs(benchmark["pass_at"]["1"]["value"] - rate.mean()) < 1e-12
        assert abs(benchmark["pass_at"]["1"]["standard_error"] - np.std(rate, ddof=1) / len(rate) ** 0.5) < 1e-12
        assert benchmark["truncation_rate"] == (rows["finish_reason"] == "length").mean()
    assert 0 < scores["benchmarks"]["small-math"]["pass_at"]["1"]["value"] < 1
    assert [*scores["benchmarks"]["small-code"]["pass_at"]] == ["1", "2", "4"]  # 4 samples
