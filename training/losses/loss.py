"""What a policy loss is given, and what it gives back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch

from ratchet.infra.recipe.training import Stage


@dataclass(frozen=True)
class LossInputs:
    """Response tokens of one micro-batch on one rank, sequence after sequence. Every tensor is float32 [tokens].

    `logprobs`: log π of each token, the only one with a gradient. `old_logprobs`: log π before the first update of the
    batch; where the batch has one update, that is `logprobs` without its gradient. `sampled_logprobs`: what the engine
    sampled with. `reference_logprobs`: log π_ref, None where the stage has no KL term. `mask`: 0 throughout a
    micro-batch that only keeps this rank in step with the others, or else 1.
    """

    logprobs: torch.Tensor
    old_logprobs: torch.Tensor
    sampled_logprobs: torch.Tensor
    reference_logprobs: torch.Tensor | None
    advantages: torch.Tensor
    mask: torch.Tensor
    tokens_here: tuple[int, ...]
    """How many tokens of each sequence are in the tensors: where ranks share a sequence, a stretch of it, or none."""
    lengths: tuple[int, ...]
    """Response tokens of each sequence, wherever they are."""
    sum_over_sharers: Callable[[torch.Tensor], torch.Tensor] = field(default=lambda sums: sums)
    """Sums a tensor [sequences] over the ranks that share these sequences; collective among them."""

    def ratio(self) -> torch.Tensor:
        """ρ = π / π_old of each token, with gradient; exactly one while π is π_old."""
        return (self.logprobs - self.old_logprobs).exp()

    def sequence_mean(self, values: torch.Tensor) -> torch.Tensor:
        """The mean of `values` [tokens] over all tokens of each token's sequence, [tokens], without gradient.

        Collective among ranks that share a sequence: every rank calls it equally often, whatever its tokens are.
        """
        sums = torch.stack([part.sum() for part in values.detach().split(self.tokens_here)])
        return self._spread(self.sum_over_sharers(sums) / sums.new_tensor(self.lengths))

    def sequence_lengths(self) -> torch.Tensor:
        """Response tokens of each token's sequence, [tokens]."""
        return self._spread(self.logprobs.new_tensor(self.lengths))

    def _spread(self, of_sequence: torch.Tensor) -> torch.Tensor:
        return of_sequence.repeat_interleave(torch.tensor(self.tokens_here, device=of_sequence.device))


@dataclass(frozen=True)
class LossOutputs:
    """The loss of each token, and what it is divided by before all tokens of the step are summed.

    What a stage adds to any loss (importance weights, KL, entropy) is applied to `values` token by token, and so is
    divided by the same. A token whose advantage is zero must have no gradient: without a KL term and an entropy bonus,
    samples of advantage zero are not computed.
    """

    values: torch.Tensor
    """[tokens], with gradient."""
    per: Literal["token", "response"] = "token"
    """The number of valid response tokens of the whole optimizer step, all micro-batches of all ranks; or of its valid
    responses. It may be known only when the last response has ended, and so a loss is not given it."""
    divisor: float | torch.Tensor = 1.0
    """And by this: a number, or one for each token [tokens]."""
    metrics: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """Name to values [tokens] without gradient; the mean over the computed tokens is in the step's metrics."""


Loss = Callable[[LossInputs, Stage], LossOutputs]


def part_of_step(
    values: torch.Tensor, mask: torch.Tensor, denominator: float | torch.Tensor, ranks: int
) -> torch.Tensor:
    """One micro-batch's part of the loss Σ_t m_t l_t / N_t over a whole optimizer step, a scalar.

    values, mask: [tokens]; `denominator`: N_t, one or [tokens]. The parts add up to the same whatever the
    micro-batches and ranks. DeepSpeed averages gradients over ranks, which the factor `ranks` undoes.
    """
    return (values * mask * (ranks / denominator)).sum()
