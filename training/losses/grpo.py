"""GRPO's loss over all tokens of the step, and PPO's clipped objective, which other losses use too."""

import torch

from ratchet.infra.recipe.training import Stage
from ratchet.training.losses.loss import LossInputs, LossOutputs


def loss(inputs: LossInputs, settings: Stage) -> LossOutputs:
    """GRPO: L = -Σ_i Σ_t min(ρ_it A_i, clip(ρ_it, 1-clip_low, 1+clip_high) A_i) / Σ_i |o_i|

    with ρ_it = π(o_it) / π_old(o_it) (Shao et al. 2024, arXiv 2402.03300, equation 3; its mean within each response
    replaced by the mean over all tokens, as in DAPO, Yu et al. 2025, arXiv 2503.14476, equation 8).

    With one update per batch every ρ is one and nothing is clipped: the gradient is -A ∇ log π, REINFORCE with a group
    baseline, and the value is always -A.
    """
    ratio, clip = inputs.ratio(), (inputs.advantages, settings.clip_low, settings.clip_high)
    return LossOutputs(clipped(ratio, *clip), metrics={"clip_fraction": clip_fraction(ratio, *clip)})


def clipped(ratio: torch.Tensor, advantages: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """PPO's clipped objective -min(ρA, clip(ρ, 1-low, 1+high)A), any shape (Schulman et al. 2017, arXiv 1707.06347,
    equation 7; the range decoupled as in DAPO, arXiv 2503.14476, equation 8). At ρ = 1 the gradient is -A ∇ρ, like that
    of both arguments."""
    return -torch.minimum(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages)


def clip_fraction(ratio: torch.Tensor, advantages: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """A mask with 1 for entries whose gradient the clip removes, otherwise 0; same shape."""
    ratio = ratio.detach()
    return (((advantages > 0) & (ratio > 1 + high)) | ((advantages < 0) & (ratio < 1 - low))).float()
