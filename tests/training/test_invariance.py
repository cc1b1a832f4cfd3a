"""The gradient of a step does not depend on how the step was computed: micro-batches, packing, chunks, ZeRO, ranks.

TOLERANCE is float32 rounding over sums of a few hundred terms, relative to the largest entry of each parameter.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ratchet.infra.errors import RatchetError
from ratchet.infra.inference.protocol import derive_seed
from ratchet.infra.recipe.training import Hardware
from ratchet.training import logprobs
from ratchet.training.attention import share_attention
from ratchet.training.checkpoint import Checkpoints
from ratchet.training.growth import grow
from ratchet.training.model import load_model
from tests.training.batch import SEQUENCE_LOSS, gradient, groups, largest_difference, learner, moved, weights
from tests.training.conftest import MICRO

TOLERANCE = 2e-5
ROOT = Path(__file__).parents[2]
GROUP = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture(scope="module")
def alone_gradient(alone, micro_model) -> dict[str, torch.Tensor]:
    policy, learns = learner(micro_model, Hardware(micro_batch_tokens=10_000))
    learns.learn(groups(0), 1.0)
    return gradient(policy)


@pytest.fixture(scope="module")
def wide_model(tmp_path_factory) -> str:
    """As many key-value heads as there are ranks to share them."""
    directory = tmp_path_factory.mktemp("wide") / "model"
    grow(MICRO.model_copy(update={"key_value_heads": 2}), ["What is 3 plus 4?"], derive_seed("wide"), directory)
    return str(directory)


@pytest.fixture(scope="module")
def two(micro_model, wide_model, tmp_path_factory) -> tuple[Path, dict]:
    """What two ranks found."""
    out = tmp_path_factory.mktemp("two")
    environment = {name: value for name, value in os.environ.items() if name not in GROUP}
    environment |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    command = [sys.executable, "-m", "tests.training.two_ranks", micro_model, wide_model, str(out)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return out, torch.load(out / "found.pt")


@pytest.mark.parametrize(
    "hardware",
    [
        {"micro_batch_tokens": 20},
        {"micro_batch_tokens": 60},
        {"packed": True, "micro_batch_tokens": 10_000},
        {"packed": True, "micro_batch_tokens": 40},
        {"logprob_chunk_tokens": 7},
        {"activation_checkpointing": True},
        {"zero_stage": 1},
        {"zero_stage": 2, "micro_batch_tokens": 60},
        {"zero_stage": 3, "micro_batch_tokens": 60, "packed": True},
        {"zero_stage": 2, "cpu_offload": True},
    ],
    ids=str,
)
def test_one_rank(micro_model, alone_gradient, hardware):
    policy, learns = learner(micro_model, Hardware(**hardware))
    learns.learn(groups(0), 1.0)
    assert largest_difference(alone_gradient, gradient(policy)) < TOLERANCE


def test_tiles_of_the_vocabulary(micro_model, alone_gradient, monkeypatch):
    monkeypatch.setattr(logprobs, "VOCABULARY_TILE", 50)
    policy, learns = learner(micro_model, Hardware(logprob_chunk_tokens=9))
    learns.learn(groups(0), 1.0)
    assert largest_difference(alone_gradient, gradient(policy)) < TOLERANCE


@pytest.mark.parametrize("stage", range(4))
def test_two_ranks(alone_gradient, two, stage):
    """Packed where `stage` is odd."""
    assert largest_difference(alone_gradient, two[1][f"gradient {stage}"]) < TOLERANCE


@pytest.mark.parametrize("stage", [0, 3])
def test_two_ranks_that_share_each_sequence(alone, wide_model, two, stage):
    policy, learns = learner(wide_model, kl_coefficient=0.1)
    scored = [torch.from_numpy(old) for g in learns.old_logprobs(groups(0), 0.7) for old in g.old_logprobs]
    for one, shared in zip(scored, two[1][f"shared scores {stage}"], strict=True):
        torch.testing.assert_close(shared, one, atol=1e-5, rtol=0)
    learns.learn(groups(0), 1.0)
    assert largest_difference(gradient(policy), two[1][f"shared gradient {stage}"]) < TOLERANCE


@pytest.mark.parametrize("stage", [0, 3])
def test_a_ratio_of_whole_responses_on_two_ranks_that_share_each(alone, wide_model, two, stage):
    policy, learns = learner(wide_model, Hardware(packed=True), **SEQUENCE_LOSS)
    metrics = learns.learn(moved(learns.old_logprobs(groups(0), 0.7)), 0.7)
    assert 0 < metrics["clip_fraction"] < 1
    assert largest_difference(gradient(policy), two[1][f"shared sequence loss {stage}"]) < TOLERANCE


def test_heads_that_cannot_be_shared_out_are_an_error(micro_model):
    with pytest.raises(RatchetError, match="sequence_ranks is 2, which does not divide the model's 1 key-value heads"):
        share_attention(load_model(micro_model, "float32")[0], 2)


def test_everything_dealt_is_given_once(two):
    for number, taken in zip((0, 1, 7), two[1]["turns"], strict=True):
        assert sorted(turn for each in taken for turn in each) == list(range(number))


@pytest.mark.parametrize("stage", range(4))
def test_one_rank_goes_on_where_two_stopped(micro_model, two, stage, capsys):
    """By way of DeepSpeed's universal checkpoint; AdamW turns a rounded gradient into a visible step, hence 1e-4."""
    out, found = two
    policy, learns = learner(micro_model, Hardware(zero_stage=stage, micro_batch_tokens=60))
    assert largest_difference(weights(policy), found[f"read {stage}"]) == 0
    assert Checkpoints(out / str(stage), policy).restore()[0] == 1
    assert "no longer bit for bit" in capsys.readouterr().err
    learns.learn(groups(1, policy.version), 1.0)
    for name, weight in weights(policy).items():
        torch.testing.assert_close(weight, found[f"weights {stage}"][name], atol=1e-4, rtol=0)
