"""GRPO as pure functions: group-relative advantages, token-level policy losses, and what may be added to them.

Equations: DeepSeekMath (Shao et al. 2024, arXiv 2402.03300) section 4.1 for the group baseline; DAPO (Yu et al. 2025,
arXiv 2503.14476) equation 8 for the loss over all tokens of the batch and for the decoupled clip range. ProRL (Liu et
al. 2025, arXiv 2505.24864) adds the KL term and the reset of its reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

ZERO_VARIANCE = 1e-9
"""Rewards of a group that differ by no more than this are equal."""


@dataclass(frozen=True)
class GroupAdvantages:
    """Advantages of one prompt's samples, exactly 0.0 for a sample that is not valid; `zero_variance`: the group's
    valid samples all got the same reward, so there is nothing to learn from it."""

    values: tuple[float, ...]
    zero_variance: bool


def group_advantages(rewards: Sequence[float], valid: Sequence[bool]) -> GroupAdvantages:
    """A_i = (r_i - mean r) / (std r + 1e-6) over the group's valid samples (arXiv 2402.03300, section 4.1.2).

    `valid` is False for samples that must not count at all: verdicts that are our machine's fault, and truncated
    responses where the stage masks them. In float64, and exactly zero when all rewards are equal: in float32 sixteen
    times 0.1 does not have mean 0.1, and the residue divided by a tiny deviation becomes an advantage of its own.
    A group with fewer than two valid samples has nothing to compare and is zero too.
    """
    counted = [float(r) for r, ok in zip(rewards, valid, strict=True) if ok]
    if len(counted) < 2 or max(counted) - min(counted) <= ZERO_VARIANCE:
        return GroupAdvantages((0.0,) * len(rewards), zero_variance=True)
    mean = sum(counted) / len(counted)
    deviation = (sum((r - mean) ** 2 for r in counted) / len(counted)) ** 0.5
    values = tuple((float(r) - mean) / (deviation + 1e-6) if ok else 0.0 for r, ok in zip(rewards, valid, strict=True))
    return GroupAdvantages(values, zero_variance=False)


def on_policy_loss(logprobs: torch.Tensor, advantages: torch.Tensor) -> torch.Tensor:
    """Per-token loss of strictly on-policy training, any shape: -A · exp(log π - sg(log π)).

    The ratio is identically one, so clipping can never act; its gradient is -A · ∇log π, REINFORCE with a group
    baseline. The value says nothing: it is -A whatever the model does.
    """
    return -advantages * on_policy_ratio(logprobs)


def on_policy_ratio(logprobs: torch.Tensor) -> torch.Tensor:
    """exp(log π - sg(log π)): exactly one, with the gradient of log π."""
    return (logprobs - logprobs.detach()).exp()


def clipped_loss(
    logprobs: torch.Tensor, old_logprobs: torch.Tensor, advantages: torch.Tensor, low: float, high: float
) -> torch.Tensor:
    """Per-token loss for several updates per batch: -min(ρA, clip(ρ, 1-low, 1+high)A), ρ = π/π_old, any shape.

    The clip range is decoupled (arXiv 2503.14476, equation 8): `high` above `low` leaves unlikely tokens room to grow.
    `old_logprobs` are the trainer's own, taken once before the first update of the batch.
    """
    ratio = (logprobs - old_logprobs).exp()
    return -torch.minimum(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages)


def clip_fraction(
    logprobs: torch.Tensor, old_logprobs: torch.Tensor, advantages: torch.Tensor, low: float, high: float
) -> torch.Tensor:
    """Which tokens the clip takes out of the gradient, 0 or 1, same shape."""
    ratio = (logprobs - old_logprobs).exp()
    return (((advantages > 0) & (ratio > 1 + high)) | ((advantages < 0) & (ratio < 1 - low))).float()


KLEstimator = Literal["k1", "k2", "k3"]
LARGEST_LOG_RATIO = 20.0
"""e to this power still squares within float32."""


def kl(logprobs: torch.Tensor, reference: torch.Tensor, estimator: KLEstimator) -> torch.Tensor:
    """Per-token estimate of KL(π ‖ π_ref) from tokens of π, any shape (Schulman 2020, "Approximating KL divergence").

    With d = log π_ref - log π: k1 = -d is unbiased and may be negative, k2 = d²/2 is biased and has little variance,
    k3 = e^d - d - 1 is unbiased and never negative. Added to a loss, what matters is the gradient over tokens sampled
    from π (Tang and Munos 2025, arXiv 2506.09477): that of k2 is the gradient of the reverse KL, that of k1 is zero in
    expectation, and that of k3 is the gradient of the forward KL.
    """
    d = reference - logprobs
    if estimator == "k1":
        return -d
    if estimator == "k2":
        return d.square() / 2
    return d.clamp(max=LARGEST_LOG_RATIO).expm1() - d


def importance_weights(trainer: torch.Tensor, engine: torch.Tensor, cap: float) -> torch.Tensor:
    """min(π_trainer / π_engine, cap) of each token, from log-probabilities under the same weights, without gradient.

    An engine that decodes in another precision samples from a policy that is not quite the trainer's; this corrects
    for it, with the variance bounded by `cap` (truncated importance sampling, Ionides 2008).
    """
    return (trainer - engine).detach().exp().clamp(max=cap)


def soft_overlong(length: int, limit: int, buffer: int) -> float:
    """What a response of `length` tokens has added to its reward: 0 up to `limit - buffer`, falling to -1 at `limit`
    (arXiv 2503.14476, equation 13). A response cut at the limit has that length."""
    return -max(0, length - (limit - buffer)) / buffer


def adapted_entropy_coefficient(coefficient: float, entropy: float, target: float, step: float, most: float) -> float:
    """The next coefficient of an entropy bonus that is to hold the entropy at `target`: one step up when the entropy is
    below, one down when it is above, within [0, most] (adaptive entropy control of Skywork-OR1, arXiv 2505.22312)."""
    return min(max(coefficient + (step if entropy < target else -step), 0.0), most)


def token_level(losses: torch.Tensor, mask: torch.Tensor, total_tokens: int, ranks: int) -> torch.Tensor:
    """One micro-batch's part of the loss Σ_t m_t l_t / N over a whole optimizer step (arXiv 2503.14476, equation 8).

    losses, mask: same shape. `total_tokens` is N, the response tokens of every valid sample of all micro-batches of
    all ranks, counted after masking, so that each token weighs the same however the batch was cut. DeepSpeed averages
    gradients over ranks, which the factor `ranks` undoes.
    """
    return (losses * mask).sum() * (ranks / total_tokens)
