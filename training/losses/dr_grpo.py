"""Dr. GRPO's loss: GRPO's with a denominator independent of the responses' lengths."""

from dataclasses import replace

from ratchet.infra.recipe.training import Stage
from ratchet.training.losses import grpo
from ratchet.training.losses.loss import LossInputs, LossOutputs


def loss(inputs: LossInputs, settings: Stage) -> LossOutputs:
    """Dr. GRPO: L = -Σ_i Σ_t min(ρ_it A_i, clip(ρ_it, 1-clip_low, 1+clip_high) A_i) / (n · max_response_tokens)

    with n responses in the step (Liu et al. 2025, arXiv 2503.20783, section 3.2 and the constant of its listing 1).
    Divided by their own lengths, long wrong responses would be penalized less than short ones. Use with the advantage
    `dr_grpo`. The gradient is smaller than GRPO's by the mean share of the limit that responses use.
    """
    return replace(grpo.loss(inputs, settings), per="response", divisor=settings.max_response_tokens)
