"""What a stage may add to any loss: a KL term, importance weights, an entropy bonus."""

from typing import Literal

import torch

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


def importance_weights(trainer: torch.Tensor, engine: torch.Tensor, cap: float | tuple[float, float]) -> torch.Tensor:
    """π_trainer / π_engine of each token, from log-probabilities under the same weights, any shape, without gradient.

    An engine that decodes in another precision samples from a policy that is not quite the trainer's; this corrects for
    it, and `cap` bounds the variance: the ratio is truncated there (truncated importance sampling, Ionides 2008), or,
    with two bounds, zero outside of them (masked, IcePop, arXiv 2510.18855).
    """
    ratio = (trainer - engine).detach().exp()
    if isinstance(cap, tuple):
        return ratio.where((cap[0] <= ratio) & (ratio <= cap[1]), 0.0)
    return ratio.clamp(max=cap)


def mismatch(trainer: torch.Tensor, engine: torch.Tensor) -> torch.Tensor:
    """KL(engine ‖ trainer) at tokens that the engine sampled, any shape: k3 of log π_trainer - log π_engine."""
    return kl(engine, trainer, "k3")


def adapted_entropy_coefficient(coefficient: float, entropy: float, target: float, step: float, most: float) -> float:
    """The next coefficient of an entropy bonus that is to hold the entropy at `target`: one step up when the entropy is
    below, one down when it is above, within [0, most] (adaptive entropy control of Skywork-OR1, arXiv 2505.22312)."""
    return min(max(coefficient + (step if entropy < target else -step), 0.0), most)
