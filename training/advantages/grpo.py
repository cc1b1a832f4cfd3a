"""GRPO's advantage: how many deviations of its group a response is better than the group."""

from collections.abc import Sequence
from statistics import fmean

from ratchet.infra.recipe.training import Stage
from ratchet.training.advantages.advantage import AdvantageOutputs, GroupRewards


def advantages(groups: Sequence[GroupRewards], settings: Stage) -> AdvantageOutputs:
    """A_i = (r_i - mean r) / (std r + 1e-6) over the group (Shao et al. 2024, arXiv 2402.03300, section 4.1.2).

    Exactly zero if all rewards are equal, and in a group of one. Metric: `group_std`, the mean of std r.
    """
    centered = [group.centered() for group in groups]
    deviations = [(sum(c**2 for c in each) / len(each)) ** 0.5 if each else 0.0 for each in centered]
    return AdvantageOutputs(
        values=[[c / (deviation + 1e-6) for c in each] for each, deviation in zip(centered, deviations, strict=True)],
        metrics={"group_std": fmean(deviations)},
    )
