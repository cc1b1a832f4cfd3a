"""Inputs and outputs of a policy loss."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch

from ratchet.infra.recipe.training import Stage


@dataclass(frozen=True)
class LossInputs:
    """Inputs of a loss: response tokens of one micro-batch on one rank, sequence after sequence. Every tensor is
    float32 [tokens].

    `logprobs`: log π of each token, the only one with a gradient. `old_logprobs`: log π before the batch's first
    update; with one update, `logprobs` without gradient. `sampled_logprobs`: the engine's. `reference_logprobs`: log
    π_ref, None without a KL term. `mask`: all 0 in a micro-batch that only keeps this rank in step, otherwise 1.
    """

    logprobs: torch.Tensor
    old_logprobs: torch.Tensor
    sampled_logprobs: torch.Tensor
    reference_logprobs: torch.Tensor | None
    advantages: torch.Tensor
    mask: torch.Tensor
    lengths: tuple[int, ...]
    """Response tokens of each sequence."""

    def ratio(self) -> torch.Tensor:
        """The ratio ρ = π / π_old of each token, with gradient; exactly one while π is π_old."""
        return (self.logprobs - self.old_logprobs).exp()

    def sequence_mean(self, values: torch.Tensor) -> torch.Tensor:
        """The mean of `values` [tokens] over each token's sequence, [tokens], without gradient."""
        sums = torch.stack([part.sum() for part in values.detach().split(self.lengths)])
        return self._spread(sums / sums.new_tensor(self.lengths))

    def sequence_lengths(self) -> torch.Tensor:
        """The number of response tokens of each token's sequence, shape [tokens]."""
        return self._spread(self.logprobs.new_tensor(self.lengths))

    def _spread(self, of_sequence: torch.Tensor) -> torch.Tensor:
        return of_sequence.repeat_interleave(torch.tensor(self.lengths, device=of_sequence.device))


@dataclass(frozen=True)
class LossOutputs:
    """Outputs of a loss: the loss of each token, and its divisor in the sum over all tokens of the step. Additional
    terms of a stage (importance weights, KL, entropy) are applied to `values`, with the same divisor. A token of
    advantage zero must have no gradient: without KL term and entropy bonus such samples are not computed."""

    values: torch.Tensor
    """The loss of each token, shape [tokens], with gradient."""
    per: Literal["token", "response"] = "token"
    """The divisor: the optimizer step's valid response tokens, or its valid responses, over all micro-batches and
    ranks; that number may be known only when the last response has ended."""
    ratio: Literal["token", "response"] = "token"
    """The unit with one probability ratio, and so one importance weight: a token, or a response, with the ratio of its
    mean log-probability."""
    divisor: float | torch.Tensor = 1.0
    """A further divisor, a number or [tokens]."""
    metrics: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """Values [tokens] by name, without gradient; the step's metrics have their means over tokens with an advantage."""


Loss = Callable[[LossInputs, Stage], LossOutputs]


def misshaped(outputs: LossOutputs, inputs: LossInputs) -> list[str]:
    """Names of outputs that are not one number per token, and would be broadcast silently."""
    tensors = {"values": outputs.values, "divisor": outputs.divisor, **outputs.metrics}
    return [name for name, t in tensors.items() if isinstance(t, torch.Tensor) and t.shape != inputs.logprobs.shape]


def part_of_step(
    values: torch.Tensor, mask: torch.Tensor, denominator: float | torch.Tensor, ranks: int
) -> torch.Tensor:
    """One micro-batch's part of the loss Σ_t m_t l_t / N_t of an optimizer step, a scalar. values, mask [tokens];
    `denominator`: N_t, a number or [tokens]. The sum does not depend on micro-batches and ranks; the factor `ranks`
    undoes DeepSpeed's averaging over ranks."""
    return (values * mask * (ranks / denominator)).sum()
