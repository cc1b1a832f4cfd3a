"""RLOO's advantage: by how much a response is better than the others of its group."""

from collections.abc import Sequence

from ratchet.infra.recipe.training import Stage
from ratchet.training.advantages.advantage import AdvantageOutputs, GroupRewards


def advantages(groups: Sequence[GroupRewards], settings: Stage) -> AdvantageOutputs:
    """A_i = r_i - 1/(n-1) Σ_{j≠i} r_j over the group of n (Kool et al. 2019, "Buy 4 REINFORCE Samples, Get a Baseline
    for Free!"; Ahmadian et al. 2024, arXiv 2402.14740, section 2.2).

    Computed as n/(n-1) · (r_i - mean r), which is equal, and exactly zero if all rewards are equal. The baseline of a
    response excludes its own reward, so the gradient is unbiased.
    """
    return AdvantageOutputs([_leave_one_out(group) for group in groups])


def _leave_one_out(group: GroupRewards) -> list[float]:
    n = len(group.rewards)
    return [c * n / (n - 1) if n > 1 else 0.0 for c in group.centered()]
