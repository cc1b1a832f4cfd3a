"""REINFORCE++'s advantages: normalized over the whole batch instead of within each group."""

from collections.abc import Sequence

from ratchet.infra.recipe.training import Stage
from ratchet.training.advantages.advantage import ZERO_VARIANCE, AdvantageOutputs, GroupRewards


def advantages(groups: Sequence[GroupRewards], settings: Stage) -> AdvantageOutputs:
    """A_i = (r_i - mean_batch r) / std_batch r, mean and deviation over all response tokens of the batch (Hu et al.
    2025, arXiv 2501.03262, REINFORCE++: A^norm of its global advantage normalization).

    The paper subtracts the KL from the reward; here it is the stage's KL term. A group with equal rewards has
    advantages too, relative to the batch. Metrics: `batch_mean` and `batch_std` of the normalized values.
    """
    return _normalized([group.rewards for group in groups], groups)


def baseline_advantages(groups: Sequence[GroupRewards], settings: Stage) -> AdvantageOutputs:
    """As `advantages`, of r_i - mean r over the group instead of r_i: the paper's variant with a baseline, for several
    responses per prompt and rewards of 0 and 1."""
    return _normalized([group.centered() for group in groups], groups)


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
