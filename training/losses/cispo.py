"""CISPO's loss: importance weights are clipped, and every token keeps its gradient."""

from ratchet.infra.recipe.training import Stage
from ratchet.training.losses.loss import LossInputs, LossOutputs


def loss(inputs: LossInputs, settings: Stage) -> LossOutputs:
    """CISPO: L = -Σ_i Σ_t sg[clip(ρ_it, 1-clip_low, 1+clip_high)] A_i log π(o_it) / Σ_i |o_i|

    with ρ_it = π(o_it) / π_old(o_it) (MiniMax 2025, arXiv 2506.13585, equations 4 and 5). PPO's clip drops the rare
    tokens at which reasoning branches after their first update; here they only weigh less. The paper has no lower
    bound, which is `clip_low: 1`.
    """
    ratio = inputs.ratio().detach()
    weights = ratio.clamp(1 - settings.clip_low, 1 + settings.clip_high)
    return LossOutputs(
        values=-weights * inputs.advantages * inputs.logprobs, metrics={"clip_fraction": (weights != ratio).float()}
    )
