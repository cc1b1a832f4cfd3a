"""GSPO's loss: one probability ratio for each response."""

from ratchet.infra.recipe.training import Stage
from ratchet.training.losses.grpo import clip_fraction, clipped
from ratchet.training.losses.loss import LossInputs, LossOutputs


def loss(inputs: LossInputs, settings: Stage) -> LossOutputs:
    """GSPO: L = -1/n Σ_i min(s_i A_i, clip(s_i, 1-clip_low, 1+clip_high) A_i), s_i = (π(o_i) / π_old(o_i))^(1/|o_i|)

    over the n responses of the step (Zheng et al. 2025, arXiv 2507.18071, equations 5 and 7). Computed in its token
    form, s_it = sg[s_i] · π(o_it) / sg[π(o_it)] (equations 13 and 14), with the same value and gradient if all tokens
    of a response have one advantage. s_i stays much closer to one than a token's ratio: the paper clips at 1 - 3e-4 and
    1 + 4e-4 (section 5.1). A response's importance weight has the same form, (π_old(o_i) / π_engine(o_i))^(1/|o_i|), so
    that s_i times it is the ratio to what the engine reported, with which section 5.4 would train.
    """
    sequence_ratio = inputs.sequence_mean(inputs.logprobs - inputs.old_logprobs).exp()
    ratio = sequence_ratio * (inputs.logprobs - inputs.logprobs.detach()).exp()
    clip = (inputs.advantages, settings.clip_low, settings.clip_high)
    return LossOutputs(
        values=clipped(ratio, *clip),
        per="response",
        ratio="response",
        divisor=inputs.sequence_lengths(),
        metrics={"clip_fraction": clip_fraction(ratio, *clip), "sequence_ratio": sequence_ratio},
    )
