"""A stage from plain Python; docs/howto/python.md has the plain case, which tests/docs/test_python.py runs."""

import json

import pytest

from ratchet.data_curation.base.problem_table import to_table
from ratchet.infra.recipe.training import Stage
from ratchet.training.stage import train_stage
from ratchet.verifiers.errors import RatchetError
from tests.training.conftest import sums


def test_pass_rates_are_measured_and_a_directory_belongs_to_one_call(micro_model, tmp_path):
    stage = Stage(
        name="sums", domain="math", max_response_tokens=8, steps=1, prompts_per_batch=2, rollouts=2, max_pass_rate=1.0
    )
    problems = {"math": to_table(sums(4))}
    records = []
    model = train_stage(stage, micro_model, problems, tmp_path / "work", follow=records.append)
    assert (model / "model.safetensors").is_file() and records[-1]["step"] == 1
    rates = (tmp_path / "work" / "pass_rates" / "pass_rates.jsonl").read_text().splitlines()
    assert sorted(name for line in rates for name in json.loads(line)["counts"]) == [p.problem_id for p in sums(4)]
    with pytest.raises(RatchetError, match="other settings: give another directory"):
        train_stage(stage, micro_model, problems, tmp_path / "work", seed=1)
    with pytest.raises(RatchetError, match="other problems of math: give another directory"):
        train_stage(stage, micro_model, {"math": to_table(sums(3))}, tmp_path / "work")
    assert (tmp_path / "work" / "spec.json").is_file()
