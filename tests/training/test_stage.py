"""A stage from plain Python; docs/howto/python.md has the plain case, which tests/docs/test_python.py runs."""

import json
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from ratchet.data_curation.base.problem_table import to_table
from ratchet.infra.recipe.stage import StageDetails
from ratchet.infra.recipe.training import Stage, Training
from ratchet.training.stage import train_stage
from ratchet.verifiers.errors import RatchetError
from tests.training.conftest import sums

KILLED = """
import sys
from pathlib import Path
import pyarrow.parquet as pq
from ratchet.infra.recipe.training import Stage, Training
from ratchet.training.stage import train_stage

stage, training, work = Stage.model_validate_json(sys.argv[1]), Training.model_validate_json(sys.argv[2]), sys.argv[4]
if __name__ == "__main__":
    print("begun", flush=True)
    train_stage(
        stage, sys.argv[3], {"math": pq.read_table(sys.argv[5])}, work, training,
        follow=lambda record: print(record["step"], flush=True),
    )
"""


def test_a_stage_killed_before_and_after_its_first_checkpoint_continues(micro_model, learnt_model, tmp_path):
    """The records of a killed call are still in metrics.jsonl, and the trainer cuts it back to its checkpoint. Pass
    rates are measured first; the KL term is to another model; a directory belongs to one call."""
    stage = Stage(
        name="sums", domain="math", max_response_tokens=8, steps=4, prompts_per_batch=2, rollouts=2, max_pass_rate=1.0,
        kl_coefficient=0.1, advanced=StageDetails(reference_model=str(learnt_model)),
    )  # fmt: skip
    training = Training(checkpoint_every=2)
    script, table, work = tmp_path / "killed.py", tmp_path / "sums.parquet", tmp_path / "work"
    script.write_text(KILLED)
    pq.write_table(to_table(sums(4)), table)
    for last in (1, 3):
        argv = [sys.executable, "-P", script, stage.model_dump_json(), training.model_dump_json(), micro_model]
        with subprocess.Popen([*argv, work, table], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.strip() == str(last):
                    process.kill()
        assert process.wait() < 0  # it did not come to its end
    seen: list[dict[str, object]] = []
    problems = {"math": to_table(sums(4))}
    model = train_stage(stage, micro_model, problems, work, training, follow=seen.append)
    assert [record["step"] for record in seen] == [1, 2, 3, 4]
    assert seen[0]["kl"] > 1, "to the stage's own start it would be 0"
    undisturbed = train_stage(stage, micro_model, problems, tmp_path / "undisturbed", training)
    assert (model / "model.safetensors").read_bytes() == (undisturbed / "model.safetensors").read_bytes()
    steps = [json.loads(line)["step"] for line in (work / "metrics.jsonl").read_text().splitlines()]
    assert steps == [1, 2, 3, 4]
    rates = (work / "pass_rates" / "pass_rates.jsonl").read_text().splitlines()
    assert sorted(name for line in rates for name in json.loads(line)["counts"]) == [p.problem_id for p in sums(4)]
    with pytest.raises(RatchetError, match="other settings: give another directory"):
        train_stage(stage, micro_model, problems, work, training, seed=1)
    with pytest.raises(RatchetError, match="other problems of math: give another directory"):
        train_stage(stage, micro_model, {"math": to_table(sums(3))}, work, training)
    with pytest.raises(RatchetError, match="a batch of sums takes 2 prompts of math, and there are 1"):
        train_stage(stage, micro_model, {"math": to_table(sums(1))}, tmp_path / "few", training)
