"""The first hour on GPUs, rehearsed: every part on CPU ranks and under the stub of CUDA, and what its report says; with
it the proof that is a part of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.flows.commands import MINI
from tests.training.processes import of_no_group
from tests.training.test_stub_accelerator import Job, recipe, run

ROOT = Path(__file__).resolve().parents[2]
BROKEN = """
import runpy, sys
from ratchet.training.logprobs import ChunkedLogProbabilities
def broken(*_): raise RuntimeError("no kernel")
ChunkedLogProbabilities.apply = broken
runpy.run_module("benchmarks.gpu_proof", run_name="__main__")
"""


def hour(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", "benchmarks.gpu_hour", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, env=of_no_group(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def specs(*arguments: str | Path) -> list[dict[str, Any]]:
    """What each part of the hour would be given."""
    return json.loads(hour(*arguments, "--specs").splitlines()[-1])


@pytest.mark.slow
def test_each_way_to_share_is_timed_where_ranks_are_enough(tmp_path):
    def labels(**hardware: int) -> list[str]:
        file = tmp_path / "recipe.yaml"
        file.write_text(yaml.safe_dump(recipe(**hardware)))
        return [spec["label"] for spec in specs(file) if spec["part"] == "update"]

    assert labels(processes=1) == ["as in the recipe"]
    assert len(labels(processes=8, zero_stage=3)) == 4


@pytest.mark.slow
def test_every_part_on_four_gpus_that_are_not_there(micro_model, tmp_path):
    file = tmp_path / "recipe.yaml"
    file.write_text(yaml.safe_dump(recipe(micro_model, processes=4, zero_stage=3)))
    parts = specs(file, "--home", tmp_path)
    jobs = []
    for spec in parts:
        work = Path(spec["work_dir"])
        work.mkdir(parents=True)
        jobs.append(Job(work.with_name(f"job-{work.name}"), **spec))
    run(4, tmp_path, *jobs)
    rows = []
    for job, spec in zip(jobs, parts, strict=True):
        job.check(4)
        written = (Path(spec["work_dir"]) / "assumptions.jsonl").read_text()
        rows += [json.loads(line) for line in written.splitlines()]
    assert not [row for row in rows if "why" in row]
    named = {row["name"] for row in rows}
    assert {"all-reduce of 64 KiB", "start of the engine", "weights to the engine"} <= named
    assert {f"update, {spec['label']}" for spec in parts if spec["part"] == "update"} <= named


@pytest.mark.slow
def test_the_whole_hour_on_two_cpu_ranks(tmp_path):
    said = hour(MINI, "--home", tmp_path / "home", "--write", tmp_path / "report", "--tiny")
    report = json.loads((tmp_path / "report.json").read_text())
    assert {part["state"] for part in report["parts"]} == {"done"}
    rows = {row["name"]: row for row in report["assumptions"]}
    assert {"start of processes", "an iteration of 64 responses", "update, as in the recipe", "doctor: update"} <= {
        *rows
    }
    assert any("resume" in line for line in report["doctor"])
    proof = report["proof"]
    assert "failed" not in proof and "no time was left" not in proof and "NOT" not in proof
    parts = [line.split("|")[1].strip() for line in proof.splitlines() if line.startswith("| ")][1:]
    assert len([part for part in parts if part.startswith("attention")]) == 8
    assert parts[-7:] == [
        "training step", "training step", "decoding against the trainer, float32 logits",
        "decoding against the trainer, rounded logits", "bfloat16 against float32", "checkpoint written",
        "checkpoint read",
    ]  # fmt: skip
    update = rows["update, as in the recipe"]
    assert f"{update['measured'] / update['planned']:.2f} | {update['constant']}" in said
    assert f"of {len([row for row in rows.values() if 'measured' in row])} assumptions are off by more than" in said


@pytest.mark.slow
def test_what_has_no_time_left_is_said_and_the_report_is_whole(tmp_path):
    said = hour(MINI, "--home", tmp_path / "home", "--write", tmp_path / "report", "--tiny", "--minutes", "0.1")
    report = json.loads((tmp_path / "report.json").read_text())
    assert "ended when its time was over" in report["parts"][0]["state"]
    assert {part["state"] for part in report["parts"]} > {"no time was left"} and "no time was left" in said


@pytest.mark.slow
def test_what_fails_in_the_proof_is_a_row_and_the_rest_goes_on(tmp_path):
    command = [sys.executable, "-c", BROKEN, "--tiny", "--write", str(tmp_path / "table.md")]
    subprocess.run(command, cwd=ROOT, env=of_no_group(), check=True)
    said = (tmp_path / "table.md").read_text()
    assert "| log-probabilities |  |  |  |  | failed: RuntimeError: no kernel |" in said
    assert "| attention, packed, one sequence | 64 |" in said
