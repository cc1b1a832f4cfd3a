"""GRPO's loss over all tokens of the step."""

from __future__ import annotations

from ratchet.infra.recipe.model import Stage
from ratchet.training.losses.clipping import clip_fraction, clipped
from ratchet.training.losses.loss import LossInputs, LossOutputs


def loss(inputs: LossInputs, settings: Stage) -> LossOutputs:
    """L = -Σ_i Σ_t min(ρ_it A_i, clip(ρ_it, 1-clip_low, 1+clip_high) A_i) / Σ_i |o_i|

    with ρ_it = π(o_it) / π_old(o_it) (Shao et al. 2024, arXiv 2402.03300, equation 3; its mean within each response
    replaced by the mean over all tokens, as in DAPO, Yu et al. 2025, arXiv 2503.14476, equation 8).

    With one update per batch every ρ is one and nothing is clipped: the gradient is -A ∇ log π, REINFORCE with a group
    baseline, and the value says nothing, for it is -A whatever the model does.
    """
    ratio, clip = inputs.ratio(), (inputs.advantages, settings.clip_low, settings.clip_high)
    return LossOutputs(clipped(ratio, *clip), inputs.step_tokens, {"clip_fraction": clip_fraction(ratio, *clip)})
