"""The kit for a GPU, on a CPU: every part runs, and its table has their rows."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.training.processes import of_no_group

ROOT = Path(__file__).resolve().parents[2]
BROKEN = """
import runpy, sys
from ratchet.training.logprobs import ChunkedLogProbabilities
def broken(*_): raise RuntimeError("no kernel")
ChunkedLogProbabilities.apply = broken
runpy.run_module("benchmarks.gpu_proof", run_name="__main__")
"""


def table(file: Path, *python: str) -> str:
    command = [sys.executable, *python, "--tiny", "--write", str(file)]
    subprocess.run(command, cwd=ROOT, env=of_no_group(), check=True)
    return file.read_text()


@pytest.mark.slow
def test_every_part_runs_on_a_small_model(tmp_path):
    said = table(tmp_path / "table.md", "-m", "benchmarks.gpu_proof")
    assert "failed" not in said and "no time was left" not in said and "NOT" not in said
    rows = [line.split("|")[1].strip() for line in said.splitlines() if line.startswith("| ")][1:]
    assert len([row for row in rows if row.startswith("attention")]) == 8
    assert rows[-7:] == [
        "training step", "training step", "decoding against the trainer, float32 logits",
        "decoding against the trainer, rounded logits", "bfloat16 against float32", "checkpoint written",
        "checkpoint read",
    ]  # fmt: skip


@pytest.mark.slow
def test_what_fails_is_a_row_and_the_rest_goes_on(tmp_path):
    said = table(tmp_path / "table.md", "-c", BROKEN)
    assert "| log-probabilities |  |  |  |  | failed: RuntimeError: no kernel |" in said
    assert "| attention, packed, one sequence | 64 |" in said
