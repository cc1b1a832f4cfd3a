"""The clipped objective of PPO, which most losses share."""

from __future__ import annotations

import torch


def clipped(ratio: torch.Tensor, advantages: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """-min(ρA, clip(ρ, 1-low, 1+high)A), any shape (Schulman et al. 2017, arXiv 1707.06347, equation 7).

    The range is decoupled (DAPO, arXiv 2503.14476, equation 8): `high` above `low` leaves unlikely tokens room to grow.
    Where ρ is one, the gradient is -A ∇ρ: both sides of the minimum have it, and share it.
    """
    return -torch.minimum(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages)


def clip_fraction(ratio: torch.Tensor, advantages: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """Which entries the clip takes out of the gradient, 0 or 1, same shape."""
    ratio = ratio.detach()
    return (((advantages > 0) & (ratio > 1 + high)) | ((advantages < 0) & (ratio < 1 - low))).float()
