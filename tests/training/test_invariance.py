"""The gradient of a step does not depend on how the step was computed: micro-batches, packing, chunks, ZeRO, ranks.

TOLERANCE is float32 rounding over sums of a few hundred terms, relative to the largest entry of each parameter.
"""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ratchet.infra.inference import matmul
from ratchet.infra.recipe.training import Hardware
from ratchet.training import logprobs
from ratchet.training.checkpoint import Checkpoints
from ratchet.training.learner import Learner
from ratchet.verifiers.errors import RatchetError
from tests.training.batch import (
    EACH_LOSS,
    gradient,
    groups,
    largest_difference,
    learn_in_parts,
    learner,
    same_bits,
    weights,
)  # fmt: skip
from tests.training.processes import of_no_group

TOLERANCE = 2e-5
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def alone_gradient(alone, micro_model) -> dict[str, torch.Tensor]:
    policy, learns = learner(micro_model, Hardware(micro_batch_tokens=10_000))
    learns.learn(groups(0), 1.0)
    return gradient(policy)


@pytest.fixture(scope="module")
def two(micro_model, tmp_path_factory) -> tuple[Path, dict]:
    """What two ranks found."""
    out = tmp_path_factory.mktemp("two")
    return out, _elsewhere("two_ranks", micro_model, out)


def _elsewhere(module: str, model: str, out: Path) -> dict:
    """What the ranks of a module of these tests found."""
    environment = of_no_group() | {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    command = [sys.executable, "-m", f"tests.training.{module}", model, str(out)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return torch.load(out / "found.pt")


@pytest.mark.parametrize(
    "hardware",
    [
        {"micro_batch_tokens": 20},
        {"micro_batch_tokens": 60},
        {"packed": True, "micro_batch_tokens": 10_000},
        {"packed": True, "micro_batch_tokens": 40},
        {"activation_checkpointing": True},
        {"zero_stage": 1},
        {"zero_stage": 2, "micro_batch_tokens": 60},
        {"zero_stage": 3, "micro_batch_tokens": 60, "packed": True},
        {"zero_stage": 2, "advanced": {"cpu_offload": True}},
    ],
    ids=str,
)
def test_one_rank(micro_model, alone_gradient, hardware):
    policy, learns = learner(micro_model, Hardware(**hardware))
    learns.learn(groups(0), 1.0)
    assert largest_difference(alone_gradient, gradient(policy)) < TOLERANCE


@pytest.mark.parametrize(
    "hardware", [{}, {"zero_stage": 3, "packed": True}, {"activation_checkpointing": True}], ids=str
)
def test_products_of_onednn_give_the_same_gradient(micro_model, alone_gradient, hardware, monkeypatch):
    monkeypatch.setattr(matmul, "LEAST", 0)
    test_one_rank(micro_model, alone_gradient, hardware)


MASKED = {"importance_cap": (0.8, 1.3), "truncation": "mask"}
MASKED_RESPONSES = {"importance_cap": {"sequence": (0.6, 1.2), "tokens": 1.1}}


@pytest.mark.parametrize(
    ("settings", "hardware"),
    [
        *((settings, {"zero_stage": stage}) for stage, settings in enumerate(EACH_LOSS)),
        *((settings, {}) for settings in (*EACH_LOSS[1:], MASKED, MASKED_RESPONSES)),
        ({}, {"zero_stage": 2, "advanced": {"cpu_offload": True}}),
        ({}, {"packed": True}),
    ],
    ids=str,
)
def test_groups_learnt_from_as_they_finish_give_the_gradient_of_the_batch(alone, micro_model, settings, hardware):
    found, norms = [], []
    for learn in (Learner.learn, learn_in_parts):
        policy, learns = learner(micro_model, Hardware(**hardware, micro_batch_tokens=100), **settings)
        metrics = learn(learns, groups(0, **settings), 0.7)
        found.append(gradient(policy))
        norms.append(metrics["grad_norm"])
    assert largest_difference(*found) < TOLERANCE and norms[0] == pytest.approx(norms[1], rel=TOLERANCE)
    assert 0.3 < metrics["learned_early"] <= 1


@pytest.mark.slow
@pytest.mark.parametrize("stage", range(4))
def test_groups_learnt_from_as_they_finish_on_two_ranks(alone, micro_model, two, stage):
    policy, learns = learner(micro_model, **EACH_LOSS[stage])
    learns.learn(groups(0, **EACH_LOSS[stage]), 1.0)
    assert largest_difference(gradient(policy), two[1][f"early gradient {stage}"]) < TOLERANCE


def test_nothing_else_is_learnt_from_than_the_batch(alone, micro_model):
    """Also not the same groups with other advantages, as those of a whole batch may be."""
    batch = groups(0)
    other = replace(batch[0], advantages=replace(batch[0].advantages, values=(0.5,) * 4))
    for now in (batch[1:], [other, *batch[1:]]):
        _, learns = learner(micro_model)
        learns.learn_early(batch, 1.0)
        with pytest.raises(RatchetError, match="are not those of the batch, or their advantages"):
            learns.learn(now, 1.0)


def test_chunks_of_tokens_and_tiles_of_the_vocabulary(micro_model, alone_gradient, monkeypatch):
    monkeypatch.setitem(logprobs.TILES, "cpu", (9, 50))
    policy, learns = learner(micro_model, Hardware())
    learns.learn(groups(0), 1.0)
    assert largest_difference(alone_gradient, gradient(policy)) < TOLERANCE


@pytest.mark.parametrize("stage", range(4))
def test_two_ranks(alone_gradient, two, stage):
    """Packed where `stage` is odd."""
    assert largest_difference(alone_gradient, two[1][f"gradient {stage}"]) < TOLERANCE


def test_everything_dealt_is_given_once(two):
    assert two[1]["ranks_per_engine"] == [[0, 1, 2]] * 2  # two ranks with one engine
    for number, taken in zip((0, 1, 7), two[1]["turns"], strict=True):
        assert sorted(turn for each in taken for turn in each) == list(range(number))


@pytest.mark.parametrize("stage", range(4))
def test_two_ranks_go_on_where_they_stopped_and_one_cannot(alone, micro_model, two, stage):
    out, found = two
    assert largest_difference(found[f"weights {stage}"], found[f"resumed {stage}"]) == 0
    policy, _ = learner(micro_model, Hardware(zero_stage=stage, micro_batch_tokens=60))
    assert largest_difference(weights(policy), found[f"read {stage}"]) == 0
    with pytest.raises(RatchetError, match=r"another model or number of ranks \(.*, ranks: 2; here .*, ranks: 1\)"):
        Checkpoints(out / str(stage), policy).restore()


@pytest.fixture(scope="module")
def machines(micro_model, tmp_path_factory) -> dict:
    """What four ranks found, as on two machines."""
    return _elsewhere("two_machines", micro_model, tmp_path_factory.mktemp("machines"))


@pytest.mark.slow
@pytest.mark.parametrize("what", ["read", "learned", "restored", "resumed"])
def test_a_copy_of_the_weights_on_each_machine_changes_no_bit(machines, what):
    assert same_bits(machines[f"{what} False"], machines[f"{what} True"])


@pytest.mark.slow
def test_most_weights_are_gathered_within_a_machine(machines):
    assert machines["copies False"] == 1 and machines["gathers False"].keys() == {4}
    assert machines["copies True"] == 2
    within, across = machines["gathers True"][2], machines["gathers True"][4]
    assert within + across == machines["gathers False"][4] and within > across
