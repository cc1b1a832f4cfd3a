"""Terms that a stage may add to any loss: KL, importance weights, an entropy bonus."""

from typing import Literal

import torch

from ratchet.infra.recipe.stage import SequenceImportance

KLEstimator = Literal["k1", "k2", "k3"]
LARGEST_LOG_RATIO = 20.0
"""Largest logarithm of a ratio: e to this power can be squared in float32."""


def kl(logprobs: torch.Tensor, reference: torch.Tensor, estimator: KLEstimator) -> torch.Tensor:
    """Per-token estimate of KL(π ‖ π_ref) from tokens of π, any shape (Schulman 2020, "Approximating KL divergence").

    With d = log π_ref - log π: k1 = -d is unbiased and may be negative, k2 = d²/2 is biased and has little variance,
    k3 = e^d - d - 1 is unbiased and never negative. In a loss only the gradient over tokens sampled from π matters
    (Tang and Munos 2025, arXiv 2506.09477): k2 has the gradient of the reverse KL, k3 that of the forward KL, and that
    of k1 is zero in expectation.
    """
    d = reference - logprobs
    if estimator == "k1":
        return -d
    if estimator == "k2":
        return d.square() / 2
    return d.clamp(max=LARGEST_LOG_RATIO).expm1() - d


def importance_weights(log_ratios: torch.Tensor, cap: float | tuple[float, float]) -> torch.Tensor:
    """The importance weights π_trainer / π_engine from log π_trainer - log π_engine under the same weights, any shape,
    without gradient: of each token, or of each response for a loss with one ratio per response.

    They correct for an engine whose rounding differs from the trainer's. `cap` bounds the variance: the ratio is
    truncated there (truncated importance sampling, Ionides 2008), or, with two bounds, zero outside (IcePop, arXiv
    2510.18855).
    """
    ratio = log_ratios.detach().exp()
    if isinstance(cap, tuple):
        return ratio.where((cap[0] <= ratio) & (ratio <= cap[1]), 0.0)
    return ratio.clamp(max=cap)


def sequence_weights(
    log_ratios: torch.Tensor, means: torch.Tensor, settings: SequenceImportance
) -> tuple[torch.Tensor, torch.Tensor]:
    """Importance weights by response [tokens], and 1 where a token's response is masked [tokens], without gradient.

    `log_ratios`: log π_trainer - log π_engine of each token; `means`: their mean over the token's response, the
    logarithm of its geometric mean ratio g. A response has the weight g or, with `tokens`, each of its tokens has its
    own; outside of the band the response is masked, or g is truncated to the band. The product of the ratios, whose
    weight would be unbiased, overflows within a few thousand tokens; their geometric mean does not depend on the
    length.
    """
    ratio, (low, high) = means.detach().exp(), settings.sequence
    if settings.outside == "truncate":
        return ratio.clamp(low, high), torch.zeros_like(ratio)
    inside = (low <= ratio) & (ratio <= high)
    weights = ratio if settings.tokens is None else importance_weights(log_ratios, settings.tokens)
    return weights.where(inside, 0.0), (~inside).float()


def mismatch(trainer: torch.Tensor, engine: torch.Tensor) -> torch.Tensor:
    """The divergence KL(engine ‖ trainer) at tokens that the engine sampled, any shape: k3 of log π_trainer - log
    π_engine."""
    return kl(engine, trainer, "k3")


def adapted_entropy_coefficient(coefficient: float, entropy: float, target: float, step: float, most: float) -> float:
    """The next coefficient of an adaptive entropy bonus: a step up if the entropy is below `target`, a step down if it
    is above, within [0, most] (Skywork-OR1, arXiv 2505.22312)."""
    return min(max(coefficient + (step if entropy < target else -step), 0.0), most)
