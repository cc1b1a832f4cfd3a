import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ratchet.training import grpo


def test_advantages_by_hand():
    advantages = grpo.group_advantages([1.0, 0.0, 0.0, 0.0], [True] * 4)
    deviation = (3 / 16) ** 0.5
    assert advantages.values == pytest.approx((0.75 / deviation, *[-0.25 / deviation] * 3), rel=1e-5)
    assert not advantages.zero_variance


@pytest.mark.parametrize("reward", [0.1, 0.7, 1 / 3, 1.0, 0.0])
def test_equal_rewards_give_exactly_zero(reward):
    advantages = grpo.group_advantages([reward] * 16, [True] * 16)
    assert advantages.values == (0.0,) * 16
    assert advantages.zero_variance


def test_a_group_of_one_has_nothing_to_compare():
    assert grpo.group_advantages([1.0], [True]).values == (0.0,)
    assert grpo.group_advantages([1.0, 0.0, 0.0], [True, False, False]).zero_variance


def test_a_sample_that_is_not_valid_is_as_if_it_were_not_there():
    rewards, valid = [1.0, 0.0, 0.0, 1.0, 0.0], [True, False, True, True, True]
    kept = [r for r, ok in zip(rewards, valid, strict=True) if ok]
    masked = grpo.group_advantages(rewards, valid).values
    assert masked[1] == 0.0
    assert tuple(a for a, ok in zip(masked, valid, strict=True) if ok) == grpo.group_advantages(kept, [True] * 4).values


@given(st.lists(st.floats(0, 1), min_size=2, max_size=32))
def test_advantages_sum_to_zero_and_keep_the_order(rewards):
    values = grpo.group_advantages(rewards, [True] * len(rewards)).values
    assert abs(sum(values)) < 1e-6
    for (r1, a1), (r2, a2) in zip(
        zip(rewards, values, strict=True), list(zip(rewards, values, strict=True))[1:], strict=False
    ):
        assert (a1 - a2) * (r1 - r2) >= 0


def test_on_policy_ratio_is_one_and_its_gradient_is_reinforce():
    torch.manual_seed(0)
    logits = torch.randn(6, 9, requires_grad=True)
    actions, advantages = torch.randint(9, (6,)), torch.randn(6)
    logprobs = logits.log_softmax(-1).gather(-1, actions[:, None]).squeeze(-1)
    assert torch.equal(grpo.on_policy_ratio(logprobs), torch.ones(6))
    (gradient,) = torch.autograd.grad(grpo.on_policy_loss(logprobs, advantages).sum(), logits, retain_graph=True)
    (reinforce,) = torch.autograd.grad(-(advantages * logprobs).sum(), logits)
    assert torch.equal(gradient, reinforce)


def test_clipped_loss_is_the_on_policy_one_before_the_first_update():
    logprobs = torch.tensor([-1.0, -2.0, -0.5], requires_grad=True)
    advantages = torch.tensor([1.0, -1.0, 0.5])
    clipped = grpo.clipped_loss(logprobs, logprobs.detach(), advantages, 0.2, 0.4)
    (gradient,) = torch.autograd.grad(clipped.sum(), logprobs)
    assert torch.equal(gradient, -advantages)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "clipped"),
    [
        (1.5, 1.0, -1.4, 1.0),  # above 1 + high with a positive advantage: no more push
        (1.3, 1.0, -1.3, 0.0),  # inside the decoupled range; a symmetric 0.2 would have clipped it
        (0.5, 1.0, -0.5, 0.0),  # a good token that became unlikely is still pulled up
        (0.7, -1.0, 0.8, 1.0),  # below 1 - low with a negative advantage
        (1.5, -1.0, 1.5, 0.0),
    ],
)
def test_clipped_loss_by_hand(ratio, advantage, loss, clipped):
    logprobs, old = torch.tensor([ratio]).log().requires_grad_(), torch.zeros(1)
    arguments = (old, torch.tensor([advantage]), 0.2, 0.4)
    value = grpo.clipped_loss(logprobs, *arguments)
    assert value.item() == pytest.approx(loss, rel=1e-5)
    assert grpo.clip_fraction(logprobs, *arguments).item() == clipped
    (gradient,) = torch.autograd.grad(value.sum(), logprobs)
    assert (gradient.item() == 0) == bool(clipped)


@given(st.lists(st.integers(1, 7), min_size=1, max_size=12), st.integers(1, 3), st.integers(0, 100))
def test_the_loss_does_not_depend_on_how_the_step_was_cut(lengths, ranks, seed):
    generator = torch.Generator().manual_seed(seed)
    samples = [torch.randn(n, generator=generator, dtype=torch.float64) for n in lengths]
    masks = [(torch.rand(n, generator=generator) < 0.8).double() for n in lengths]
    total = int(sum(mask.sum() for mask in masks)) or 1
    whole = (torch.cat(samples) * torch.cat(masks)).sum() / total
    parts = [
        sum(grpo.token_level(s, m, total, ranks) for s, m in list(zip(samples, masks, strict=True))[rank::ranks])
        for rank in range(ranks)
    ]
    assert torch.as_tensor(sum(parts) / ranks, dtype=torch.float64) == pytest.approx(float(whole), abs=1e-12)
