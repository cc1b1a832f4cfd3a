"""Each policy loss against its equation, in float64 with loops; its gradient against differences of the equation."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from ratchet.training.losses import LOSSES
from ratchet.training.losses.grpo import clip_fraction, clipped
from ratchet.training.losses.loss import LossInputs, LossOutputs, part_of_step
from tests.training.batch import stage

SETTINGS = stage(clip_low=0.1, clip_high=0.2)


def sequences(seed: int, count: int = 7, moved: float = 0.25) -> LossInputs:
    """Log-probabilities of `count` responses, whose policy has moved since, float64."""
    random = np.random.default_rng(seed)
    lengths = tuple(int(n) for n in random.integers(1, 9, count))
    tokens = sum(lengths)
    logprobs = torch.tensor(random.normal(-2, 1, tokens))
    return LossInputs(
        logprobs=logprobs.requires_grad_(),
        old_logprobs=logprobs.detach() + torch.tensor(random.normal(0, moved, tokens)) if moved else logprobs.detach(),
        sampled_logprobs=logprobs.detach(),
        reference_logprobs=None,
        advantages=torch.tensor(np.repeat(random.normal(0, 1, count), lengths)),
        mask=torch.ones(tokens, dtype=torch.float64),
        lengths=lengths,
    )


def step_counts(inputs: LossInputs) -> dict[str, int]:
    """The step has other micro-batches."""
    return {"token": sum(inputs.lengths) + 11, "response": len(inputs.lengths) + 2}


def part(found: LossOutputs, mask: torch.Tensor, counts: dict[str, int], ranks: int = 1) -> torch.Tensor:
    return part_of_step(found.values, mask, counts[found.per] * found.divisor, ranks)


def whole(name: str, inputs: LossInputs) -> torch.Tensor:
    return part(LOSSES.get(name)(inputs, SETTINGS), inputs.mask, step_counts(inputs))


def clip(ratio: float) -> float:
    return min(max(ratio, 1 - SETTINGS.clip_low), 1 + SETTINGS.clip_high)


def responses(inputs: LossInputs, logprobs: np.ndarray):
    """(log π of its tokens, log π_old, advantage, place of its first token) of each response."""
    start = 0
    for n in inputs.lengths:
        part = slice(start, start + n)
        yield logprobs[part], inputs.old_logprobs[part].numpy(), float(inputs.advantages[start]), start
        start += n


def grpo(inputs: LossInputs, logprobs: np.ndarray) -> float:
    total = 0.0
    for now, old, advantage, _ in responses(inputs, logprobs):
        for t in range(len(now)):
            ratio = math.exp(now[t]) / math.exp(old[t])
            total += min(ratio * advantage, clip(ratio) * advantage)
    return -total / step_counts(inputs)["token"]


def dr_grpo(inputs: LossInputs, logprobs: np.ndarray) -> float:
    counts = step_counts(inputs)
    return grpo(inputs, logprobs) * counts["token"] / counts["response"] / SETTINGS.max_response_tokens


def gspo(inputs: LossInputs, logprobs: np.ndarray) -> float:
    total = 0.0
    for now, old, advantage, _ in responses(inputs, logprobs):
        ratio = (np.prod(np.exp(now)) / np.prod(np.exp(old))) ** (1 / len(now))
        total += min(ratio * advantage, clip(ratio) * advantage)
    return -total / step_counts(inputs)["response"]


def cispo(inputs: LossInputs, logprobs: np.ndarray) -> float:
    """The weight is a constant, so it is taken from where the gradient is asked for."""
    total, here = 0.0, inputs.logprobs.detach().numpy()
    for now, old, advantage, start in responses(inputs, logprobs):
        for t in range(len(now)):
            total += clip(math.exp(here[start + t] - old[t])) * advantage * now[t]
    return -total / step_counts(inputs)["token"]


REFERENCES: dict[str, Callable[[LossInputs, np.ndarray], float]] = {
    "grpo": grpo, "dr_grpo": dr_grpo, "gspo": gspo, "cispo": cispo
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES.shipped)
@pytest.mark.parametrize("seed", range(5))
def test_value_and_gradient_are_those_of_the_equation(name, seed):
    inputs = sequences(seed)
    loss, slow = whole(name, inputs), REFERENCES[name]
    here = inputs.logprobs.detach().numpy()
    assert loss.item() == pytest.approx(slow(inputs, here), rel=1e-12)
    (gradient,) = torch.autograd.grad(loss, inputs.logprobs)
    step = 1e-6
    for t in range(len(here)):
        aside = np.eye(len(here))[t] * step
        difference = (slow(inputs, here + aside) - slow(inputs, here - aside)) / (2 * step)
        assert gradient[t].item() == pytest.approx(difference, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", LOSSES.shipped)
def test_some_of_what_the_references_compare_is_clipped(name):
    fractions = [LOSSES.get(name)(sequences(seed), SETTINGS).metrics["clip_fraction"].mean() for seed in range(5)]
    assert 0.1 < torch.stack(fractions).mean() < 0.9


@pytest.mark.parametrize("name", LOSSES.shipped)
def test_on_policy_the_gradient_is_reinforce(name):
    """Exactly, in float32, with what each loss divides by."""
    inputs = sequences(0, moved=0.0)
    single = inputs.logprobs.detach().float().requires_grad_()
    inputs = replace(inputs, logprobs=single, old_logprobs=single.detach(), advantages=inputs.advantages.float())
    found = LOSSES.get(name)(inputs, SETTINGS)
    assert torch.equal(inputs.ratio(), torch.ones(len(single)))
    assert not found.metrics["clip_fraction"].any()
    (gradient,) = torch.autograd.grad(found.values.sum(), single)
    assert torch.equal(gradient, -inputs.advantages)


def test_no_token_loses_its_gradient_in_cispo_and_it_flows_through_logprobs_only():
    inputs = sequences(0)
    old = inputs.old_logprobs.clone().requires_grad_()
    found = LOSSES.get("cispo")(replace(inputs, old_logprobs=old), SETTINGS)
    (gradient,) = torch.autograd.grad(found.values.sum(), inputs.logprobs)
    assert found.metrics["clip_fraction"].any() and bool((gradient != 0).all())
    assert not any(metric.requires_grad for metric in found.metrics.values())
    (through_old,) = torch.autograd.grad(
        LOSSES.get("cispo")(replace(inputs, old_logprobs=old), SETTINGS).values.sum(), old, allow_unused=True
    )
    assert through_old is None


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "fraction"),
    [
        (1.5, 1.0, -1.4, 1.0),  # above 1 + high with a positive advantage: no more push
        (1.3, 1.0, -1.3, 0.0),  # inside the decoupled range; a symmetric 0.2 would have clipped it
        (0.5, 1.0, -0.5, 0.0),  # a good token that became unlikely is still pulled up
        (0.7, -1.0, 0.8, 1.0),  # below 1 - low with a negative advantage
        (1.5, -1.0, 1.5, 0.0),
    ],
)
def test_clipping_by_hand(ratio, advantage, loss, fraction):
    given_ratio = torch.tensor([ratio], requires_grad=True)
    value = clipped(given_ratio, torch.tensor([advantage]), 0.2, 0.4)
    assert value.item() == pytest.approx(loss, rel=1e-5)
    assert clip_fraction(given_ratio, torch.tensor([advantage]), 0.2, 0.4).item() == fraction
    (gradient,) = torch.autograd.grad(value.sum(), given_ratio)
    assert (gradient.item() == 0) == bool(fraction)
