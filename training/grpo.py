"""GRPO as pure functions: group-relative advantages and token-level policy losses.

Equations: DeepSeekMath (Shao et al. 2024, arXiv 2402.03300) section 4.1 for the group baseline; DAPO (Yu et al. 2025,
arXiv 2503.14476) equation 8 for the loss over all tokens of the batch and for the decoupled clip range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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


def token_level(losses: torch.Tensor, mask: torch.Tensor, total_tokens: int, ranks: int) -> torch.Tensor:
    """One micro-batch's part of the loss Σ_t m_t l_t / N over a whole optimizer step (arXiv 2503.14476, equation 8).

    losses, mask: same shape. `total_tokens` is N, the response tokens of every valid sample of all micro-batches of
    all ranks, counted after masking, so that each token weighs the same however the batch was cut. DeepSpeed averages
    gradients over ranks, which the factor `ranks` undoes.
    """
    return (losses * mask).sum() * (ranks / total_tokens)
