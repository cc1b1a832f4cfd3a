"""Inputs and outputs of an advantage."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ratchet.infra.recipe.training import Stage

ZERO_VARIANCE = 1e-9
"""Rewards of a group that differ by at most this are equal."""


@dataclass(frozen=True)
class GroupRewards:
    """Rewards and lengths (tokens) of the valid responses to one prompt, without infra errors and, if the stage masks
    them, truncated responses."""

    rewards: tuple[float, ...]
    lengths: tuple[int, ...]

    @property
    def nothing_to_compare(self) -> bool:
        """Fewer than two responses, or all have the same reward."""
        return len(self.rewards) < 2 or max(self.rewards) - min(self.rewards) <= ZERO_VARIANCE

    def centered(self) -> tuple[float, ...]:
        """r_i - mean r in float64; exactly zero if there is nothing to compare: the rounding residue of equal rewards
        would be divided by a tiny deviation."""
        if self.nothing_to_compare:
            return (0.0,) * len(self.rewards)
        mean = sum(self.rewards) / len(self.rewards)
        return tuple(r - mean for r in self.rewards)


@dataclass(frozen=True)
class AdvantageOutputs:
    """Advantages [group][response], in the order of the rewards, and metrics of the whole batch by name."""

    values: Sequence[Sequence[float]]
    metrics: Mapping[str, float] = field(default_factory=dict)


Advantage = Callable[[Sequence[GroupRewards], Stage], AdvantageOutputs]
"""From the groups of one domain that a step learns from."""
