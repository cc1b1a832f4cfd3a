"""GRPO's loss over all tokens of the step, with PPO's clipped objective, which other losses share."""

import torch

from ratchet.infra.recipe.training import Stage
from ratchet.training.losses.loss import LossInputs, LossOutputs


def loss(inputs: LossInputs, settings: Stage) -> LossOutputs:
    """L = -Σ_i Σ_t min(ρ_it A_i, clip(ρ_it, 1-clip_low, 1+clip_high) A_i) / Σ_i |o_i|

    with ρ_it = π(o_it) / π_old(o_it) (Shao et al. 2024, arXiv 2402.03300, equation 3; its mean within each response
    replaced by the mean over all tokens, as in DAPO, Yu et al. 2025, arXiv 2503.14476, equation 8).

    With one update per batch every ρ is one and nothing is clipped: the gradient is -A ∇ log π, REINFORCE with a group
    baseline, and the value says nothing, for it is -A whatever the model does.
    """
    ratio, clip = inputs.ratio(), (inputs.advantages, settings.clip_low, settings.clip_high)
    return LossOutputs(clipped(ratio, *clip), metrics={"clip_fraction": clip_fraction(ratio, *clip)})


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
