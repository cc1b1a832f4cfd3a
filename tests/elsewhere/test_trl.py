"""TRL's own GRPOTrainer with our rewards."""

import pyarrow.parquet as pq
import pytest

from ratchet.data_curation.base.problem_table import to_table
from ratchet.verifiers.problem import Problem
from tests.flows.commands import in_process


@pytest.mark.slow
@pytest.mark.parametrize("prompts", ["chat", "plain"])
def test_trl_trains_on_an_export(peer, exported, prompts):
    printed = peer("trl", "trl_steps.py", exported("trl"), prompts)
    assert printed["steps"] == 3 and printed["parameters"] < 10_000
    assert {domain for domain, _ in printed["seen"]} >= {"math", "code"} and len(printed["seen"]) == 24
    assert all(isinstance(reward, float) for _, reward in printed["seen"])
    assert "rewards/ratchet_reward/mean" in printed["logged"] and printed["errors"] == [0.0] * 3


@pytest.mark.slow
def test_the_program_of_an_exports_readme_runs(peer, tmp_path):
    pq.write_table(to_table([{**vars(Problem.of("math", "What is 1 + 1?", answer="2"))}]), tmp_path / "kept.parquet")
    to = ("--format", "trl", "--output", tmp_path / "data", "--home", tmp_path)
    in_process("export", "problems", tmp_path / "kept.parquet", *to)
    printed = peer("trl", "trl_steps.py", tmp_path / "data", "readme", ACCELERATE_USE_CPU="true")
    assert printed["rows"] == 1 and any(name.startswith("checkpoint") for name in printed["files"])
