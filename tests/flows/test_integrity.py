"""A file that changed since it was written is named before any step reads it; a copied home leaves the first alone."""

import hashlib
import json
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from ratchet.data_curation import rule_filter
from ratchet.flows.pipeline import pipeline
from ratchet.flows.runs import open_run
from ratchet.infra.recipe import load_recipe
from ratchet.infra.settings import load_settings
from ratchet.infra.store.artifacts import ArtifactStore
from ratchet.tasks.reporter import ProgressReporter
from ratchet.verifiers.errors import RatchetError
from tests.flows.commands import MINI, copy_home, in_process


def flip_a_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 8] ^= 1  # in the rows: the end of a Parquet file describes them
    file.write_bytes(content)


@pytest.fixture
def home(finished_home, tmp_path) -> Path:
    return copy_home(finished_home, tmp_path / "home")


def run_again(home: Path, reporter: ProgressReporter | None = None) -> None:
    with open_run(load_recipe(str(MINI)), load_settings(home), "pipeline", reporter or ProgressReporter()) as run:
        pipeline(run)


@pytest.mark.parametrize(
    ("flipped", "made_from_it"),
    [
        ("raw/tiny-world-*/math_raw.parquet", "problems/math-normalize-*"),
        ("problems/math-rules-*/rejected.parquet", "problems/math-curated-*"),
        ("problems/math-curated-*/kept.parquet", "checkpoint/math-24-*"),
        ("checkpoint/math-24-*/model/model.safetensors", "checkpoint/code-32-*"),
        ("problems/math_benchmark-*/rejected.parquet", "evaluation/code-32-*"),
        ("evaluation/code-32-*/scores.json", "report/*"),
    ],
)
def test_a_flipped_bit_is_named_before_it_is_read(home, flipped, made_from_it):
    [file] = home.glob(f"artifacts/{flipped}")
    flip_a_bit(file)
    for directory in home.glob(f"artifacts/{made_from_it}"):
        shutil.rmtree(directory)
    with pytest.raises(RatchetError, match=f"{file} was changed after the step finished"):
        run_again(home)
    assert not list(home.glob(f"artifacts/{made_from_it}/manifest.json"))


def test_one_command_names_every_damaged_file_of_a_home(home, typed):
    assert "artifacts in" in in_process("doctor", "--contents", "--home", home)
    [curated] = home.glob("artifacts/problems/math-curated-*/kept.parquet")
    [manifest] = home.glob("artifacts/problems/code-rules-*/manifest.json")
    part, answers = next(home.glob("generations/*/*.parquet")), next(home.glob("teacher/*.jsonl"))
    flip_a_bit(curated)
    manifest.write_text(manifest.read_text()[:200])
    flip_a_bit(part)
    answers.write_bytes(answers.read_bytes().replace(b'{"key"', b'"key"', 1))
    done = typed("doctor", "--contents", "--home", home)
    damaged = [line for line in done.stdout.splitlines() if line.startswith("✗")]
    assert done.returncode == 1 and len(damaged) == 4, done.stdout
    for file in (curated, manifest, part, answers):
        assert any(str(file) in line for line in damaged), file


def everything(home: Path) -> dict[str, str]:
    files = (file for file in home.rglob("*") if file.is_file())
    return {str(file.relative_to(home)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.mark.slow
@pytest.mark.parametrize("original", ["stays", "goes"])
def test_a_home_that_was_copied_or_moved_writes_into_itself(finished_home, tmp_path, ratchet, original):
    first, second = tmp_path / "first", tmp_path / "second"
    copy_home(finished_home, first)
    assert ratchet("curate", "math", MINI, "--home", first).returncode == 0  # whose files are its own from now on
    before = everything(first)
    subprocess.run([*(["cp", "-r"] if original == "stays" else ["mv"]), first, second], check=True)
    [stage] = second.glob("artifacts/checkpoint/code-32-*")
    shutil.rmtree(stage)
    done = ratchet("run", MINI, "--home", second, "--set", "training.stages.1.learning_rate=1e-5")
    assert done.returncode == 0, done.stdout + done.stderr
    assert everything(first) == before if original == "stays" else not first.exists()
    with sqlite3.connect(second / "mlflow.db") as database:
        addresses = [row[0] for row in database.execute("SELECT artifact_uri FROM runs")]
    assert addresses and all(address.startswith((second / "mlflow-files").as_uri()) for address in addresses)
    written = "".join(file.read_text(errors="replace") for file in second.glob("artifacts/checkpoint/code-32-*/*.json"))
    assert str(first) not in written


def test_scores_are_compared_without_the_weights_and_a_report_without_its_scores_says_so(home):
    [stage] = home.glob("artifacts/checkpoint/math-24-*")
    shutil.rmtree(stage)
    said = in_process("compare", "evaluation/start", "evaluation/code-32", "--home", home)
    report = ArtifactStore(home / "artifacts").open(re.search(r"artifact (report/\S+)", said)[1])
    assert f"checkpoint/{stage.name}" in (report.path / "report.md").read_text()
    [evaluation] = home.glob("artifacts/evaluation/start-*")
    shutil.rmtree(evaluation)
    with pytest.raises(RatchetError, match=rf"reads evaluation/{evaluation.name}, which is no longer in the store"):
        in_process("report", report.ref, "--home", home)


SLOW_RUN = """
import os, sys, time
from tests.flows.test_integrity import run_again
from ratchet.data_curation import rule_filter
import ratchet.tasks.curation as curation
judge = rule_filter.filter_by_rules
def slow(*arguments, **named):
    print("judging", flush=True)
    while not os.path.exists(sys.argv[2]):
        time.sleep(0.05)
    return judge(*arguments, **named)
rule_filter.filter_by_rules = slow
run_again(sys.argv[1])
"""


class Notes(ProgressReporter):
    def __init__(self, waiting: Path) -> None:
        super().__init__()
        self.notes: list[str] = []
        self.waiting = waiting

    def note(self, text: str) -> None:
        self.notes.append(text)
        if "Waiting for it" in text:
            self.waiting.touch()


def only_the_other_does(*_, **__):
    raise AssertionError("two runs make one step")


def test_runs_side_by_side_wait_for_a_shared_step_and_use_its_result(home, tmp_path, monkeypatch):
    """The other has it in its hands, until this one waits; what follows is found."""
    waiting = tmp_path / "waiting"
    [rules] = home.glob("artifacts/problems/math-rules-*")
    shutil.rmtree(rules)
    command = [sys.executable, "-c", SLOW_RUN, str(home), str(waiting)]
    other = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        while "judging" not in other.stdout.readline():
            assert other.poll() is None
        reporter = Notes(waiting)
        monkeypatch.setattr(rule_filter, "filter_by_rules", only_the_other_does)
        run_again(home, reporter)
        assert [note for note in reporter.notes if f"process {other.pid}" in note and "Waiting for it" in note]
        assert other.wait() == 0
    finally:
        other.kill()
        other.wait()
    manifest = json.loads((rules / "manifest.json").read_text())
    assert not list(home.glob("artifacts/.drafts/*math-rules*/*"))
    assert ArtifactStore(home / "artifacts").open("problems/math-rules").key == manifest["key"]
