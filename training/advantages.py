"""Advantages, chosen by a stage's `advantage`: a name from here, or your own import path (docs/reference/losses.md).

An advantage is a function of the groups of one domain that a step learns from.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from ratchet.infra.recipe.training import Stage
from ratchet.verifiers.registry import Registry, takes_two

ZERO_VARIANCE = 1e-9
"""Difference of a group's rewards up to which they count as equal."""


@dataclass(frozen=True)
class GroupRewards:
    """Rewards and lengths (tokens) of the valid responses to one prompt, without infra errors and, if the stage masks
    them, truncated responses."""

    rewards: tuple[float, ...]
    lengths: tuple[int, ...]

    @property
    def nothing_to_compare(self) -> bool:
        """True for fewer than two responses, or if all have the same reward."""
        return len(self.rewards) < 2 or max(self.rewards) - min(self.rewards) <= ZERO_VARIANCE

    def centered(self) -> tuple[float, ...]:
        """The centered rewards r_i - mean r in float64; exactly zero if there is nothing to compare: the rounding
        residue of equal rewards would be divided by a tiny deviation."""
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
ADVANTAGES: Registry[Advantage] = Registry(
    "advantage",
    {
        name: f"ratchet.training.advantages:{name}"
        for name in ("grpo", "dr_grpo", "rloo", "reinforce_pp", "reinforce_pp_baseline", "none")
    },
    is_member=takes_two,
    group="ratchet.advantages",
)
GROUP_LOCAL_ADVANTAGES = ("grpo", "dr_grpo", "rloo", "none")
"""Advantages that do not depend on other groups of the batch."""


def grpo(groups: Sequence[GroupRewards], settings: Stage) -> AdvantageOutputs:
    """GRPO's advantages A_i = (r_i - mean r) / (std r + 1e-6) over the group (Shao et al. 2024, arXiv 2402.03300,
    section 4.1.2).

    Exactly zero if all rewards are equal, and in a group of one. Metric: `group_std`, the mean of std r.
    """
    centered = [group.centered() for group in groups]
    deviations = [(sum(c**2 for c in each) / len(each)) ** 0.5 if each else 0.0 for each in centered]
    return AdvantageOutputs(
        values=[[c / (deviation + 1e-6) for c in each] for each, deviation in zip(centered, deviations, strict=True)],
        metrics={"group_std": fmean(deviations)},
    )


def dr_grpo(groups: Sequence[GroupRewards], settings: Stage) -> AdvantageOutputs:
    """Dr. GRPO's advantages A_i = r_i - mean r over the group (Liu et al. 2025, arXiv 2503.20783, section 3.2).

    Dividing by the deviation would give more weight to prompts that nearly all or no responses solve. Use with the loss
    `dr_grpo`.
    """
    return AdvantageOutputs([group.centered() for group in groups])


def rloo(groups: Sequence[GroupRewards], settings: Stage) -> AdvantageOutputs:
    """RLOO's advantages A_i = r_i - 1/(n-1) Σ_{j≠i} r_j over the group of n (Kool et al. 2019, "Buy 4 REINFORCE
    Samples, Get a Baseline for Free!"; Ahmadian et al. 2024, arXiv 2402.14740, section 2.2).

    Computed as n/(n-1) · (r_i - mean r), which is equal, and exactly zero if all rewards are equal. The baseline of a
    response excludes its own reward, so the gradient is unbiased.
    """
    sizes = [len(group.rewards) for group in groups]
    return AdvantageOutputs(
        [[c * n / (n - 1) if n > 1 else 0.0 for c in group.centered()] for group, n in zip(groups, sizes, strict=True)]
    )


def reinforce_pp(groups: Sequence[GroupRewards], settings: Stage) -> AdvantageOutputs:
    """REINFORCE++'s advantages A_i = (r_i - mean_batch r) / std_batch r, mean and deviation over all response tokens of
    the batch (Hu et al. 2025, arXiv 2501.03262: A^norm of its global advantage normalization).

    The paper subtracts the KL from the reward; here it is the stage's KL term. A group with equal rewards has
    advantages too, relative to the batch. Metrics: `batch_mean` and `batch_std` of the normalized values.
    """
    return _normalized([group.rewards for group in groups], groups)


def reinforce_pp_baseline(groups: Sequence[GroupRewards], settings: Stage) -> AdvantageOutputs:
    """REINFORCE++'s advantages from r_i - mean r over the group instead of r_i: the paper's variant with a baseline,
    for several responses per prompt and rewards of 0 and 1."""
    return _normalized([group.centered() for group in groups], groups)


def none(groups: Sequence[GroupRewards], settings: Stage) -> AdvantageOutputs:
    """Advantages of zero: rewards are measured only, and the KL term alone trains, as in on-policy distillation."""
    return AdvantageOutputs([[0.0] * len(group.rewards) for group in groups])


def _normalized(values: Sequence[Sequence[float]], groups: Sequence[GroupRewards]) -> AdvantageOutputs:
    flat = [
        (v, n) for each, group in zip(values, groups, strict=True) for v, n in zip(each, group.lengths, strict=True)
    ]
    tokens = sum(n for _, n in flat)
    mean = sum(v * n for v, n in flat) / tokens if tokens else 0.0
    deviation = (sum((v - mean) ** 2 * n for v, n in flat) / tokens) ** 0.5 if tokens else 0.0
    metrics = {"batch_mean": mean, "batch_std": deviation}
    if deviation <= ZERO_VARIANCE:
        return AdvantageOutputs([[0.0] * len(each) for each in values], metrics)
    return AdvantageOutputs([[(v - mean) / deviation for v in each] for each in values], metrics)
