"""Curation on Dask: on a cluster of the step's own, and on one of which each process was started by itself."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ratchet.infra.store.files import sha256_file
from ratchet.tasks.dask_runner import PROCESSES, _on_worker, _versions, check_runner
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.processes import free_port

WORDS = ("largest", "smallest", "only", "first")
ROWS = 14_000  # four batches, some seconds of work


@pytest.fixture(scope="module")
def recipe(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    texts = [f"Find the {WORDS[n % 4]} prime that divides $ {n} x + {n + 3} $ for each integer x." for n in range(ROWS)]
    texts[5] = texts[-1] = "Find x."
    (folder / "rows.jsonl").write_text("".join(json.dumps({"problem": t, "answer": "2"}) + "\n" for t in texts))
    (folder / "items.json").write_text(json.dumps([{"problem": texts[7], "answer": "2"}]))
    curation = {"math": {"inputs": ["rows.jsonl"], "benchmarks": ["items.json"], "advanced": {"max_rejected": 1.0}}}
    (folder / "rows.yaml").write_text(json.dumps({"name": "rows", "curation": curation}))
    return folder / "rows.yaml"


@pytest.fixture(scope="module")
def expected(finished_home, recipe, ratchet, tmp_path_factory) -> dict[str, str]:
    """What a single process makes."""
    home = shutil.copytree(finished_home.parent / "databases", tmp_path_factory.mktemp("single") / "home")
    done = ratchet("curate", "math", recipe, "--home", home, "--set", "workers=1")
    assert done.returncode == 0, done.stdout + done.stderr
    found = hashes(home)
    assert len(found) == 12
    return found


def hashes(home: Path) -> dict[str, str]:
    files = (home / "artifacts" / "problems").glob("*/*.parquet")
    return {str(file.relative_to(home)): sha256_file(file) for file in files if file.stem in ("kept", "rejected")}


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A process of Dask as on a machine of its own: its own working directory, home and place for temporary files."""
    for name in ("home", "tmp"):
        (folder / name).mkdir(parents=True)
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp")}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", *arguments], cwd=folder, env=environment, stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def curating(recipe: Path, home: Path, address: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "ratchet.cli.main", "curate", "math", str(recipe), "--home", str(home)]
    with subprocess.Popen(
        [*command, "--set", f"runner={address}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        yield process


def until(process: "subprocess.Popen[str]", words: str) -> str:
    """What it has said when it says this."""
    said = ""
    assert process.stdout is not None
    for line in process.stdout:
        said += line
        if words in line:
            return said
    raise AssertionError(said)


@pytest.mark.slow
def test_rows_judged_on_a_cluster_of_the_step_are_those_judged_here(recipe, expected, ready_home, ratchet):
    pytest.importorskip("prefect_dask")
    done = ratchet("curate", "math", recipe, "--home", ready_home, "--set", "runner=dask", "--set", "workers=2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert hashes(ready_home) == expected


@pytest.mark.slow
def test_rows_judged_by_workers_that_die_are_those_judged_here(recipe, expected, ready_home, finished_home, tmp_path):
    pytest.importorskip("prefect_dask")
    address = f"tcp://127.0.0.1:{(port := free_port())}"
    worker = ("worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard")
    with ExitStack() as machines:
        start = machines.enter_context
        start(started(tmp_path / "0", "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"))
        for _ in range(60):
            try:
                check_runner(address)
                break
            except RatchetError:
                time.sleep(0.5)

        with curating(recipe, ready_home, address) as alone:
            output = alone.communicate(timeout=600)[0]
        assert (
            alone.returncode == 2 and f"Error: runner: {address} has no workers" in output and "Traceback" not in output
        )

        first, second = (start(started(tmp_path / name, *worker)) for name in "12")
        with curating(recipe, ready_home, address) as run:
            until(run, "… rules math")
            time.sleep(1)
            second.kill()
            assert "✓ curated math" in (output := run.communicate(timeout=600)[0]), output
        assert run.returncode == 0 and hashes(ready_home) == expected

        home = shutil.copytree(finished_home.parent / "databases", tmp_path / "again")
        with curating(recipe, home, address) as run:
            until(run, "… rules math")
            first.kill()
            output = run.communicate(timeout=600)[0]
        assert run.returncode == 2 and output.startswith("Error: runner: ") and output.count("\n") == 1, output
        assert len(hashes(home)) == 4, "the benchmark and what was read"

        start(started(tmp_path / "3", *worker))
        with curating(recipe, home, address) as run:
            output = run.communicate(timeout=600)[0]
        assert "✓ normalise math (cached)" in output and hashes(home) == expected


def test_a_worker_with_other_versions_judges_nothing():
    mine = _versions()
    assert _on_worker(abs, -3, {}, mine | {"a package that is not here": "1"}) == 3
    with pytest.raises(RatchetError, match=rf"pyarrow {mine['pyarrow']}, not 0\.1\. Install the same"):
        _on_worker(abs, -3, {}, mine | {"pyarrow": "0.1"})


def test_a_runner_that_cannot_work_is_told_in_one_line():
    check_runner(PROCESSES)
    with pytest.raises(RatchetError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        check_runner("tcp://127.0.0.1:9")
