"""Did training widen what a model can do, or only make it surer? pass@k's ceiling, and ProRL's three regimes.

ProRL (arXiv 2505.24864, section 4) sorts tasks by eye into diminished, plateau and sustained, from pass@1 and pass@128
of the base model, a checkpoint in between and the last one. Here each word is a claim that has to be shown: what rose
by an interval above zero, what did not by a limit below a margin.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ratchet.evaluation.comparison import Counts, PairedDifference, paired_difference
from ratchet.evaluation.pass_at_k import pass_at_k_table
from ratchet.evaluation.statistics import share_interval, standard_error_across_clusters

MARGIN = 0.05
"""The least gain of pass@k that counts as one."""
Regime = Literal["sustained", "at ceiling", "plateau", "diminish", "unclear"]


def pass_at_k_bound(n: ArrayLike, c: ArrayLike, k: int) -> float:
    """1 - ((1 - E rho)^2 + Var rho)^(k/2), which no pass@k of k >= 2 exceeds (Dang et al. 2025, arXiv 2504.10478).

    rho is a question's solve rate: its mean and spread alone cap pass@k. Equality at k = 2; the inequality is Jensen's
    and turns around at k = 1, where the bound is undefined here (NaN). With the variance freed from the noise of n
    responses, (1 - E rho)^2 + Var rho is just 1 - pass@2 (unbiased, so n >= 2; questions with one response are left
    out); with the measured variance, which is too large, the bound would be too low.
    """
    if k < 2:
        return float("nan")
    at_2 = pass_at_k_table(n, c)[:, 1:2]
    at_2 = at_2[~np.isnan(at_2)]
    return float(1 - (1 - at_2.mean()) ** (k / 2)) if at_2.size else float("nan")


@dataclass(frozen=True)
class RegimeFound:
    regime: Regime
    gain_at_1: PairedDifference
    gain_at_k: PairedDifference
    late: PairedDifference
    """Of pass@k, from the checkpoint in between to the last."""


def regime(
    base: Counts, middle: Counts, last: Counts, k: int, clusters: Mapping[str, Hashable] | None = None
) -> RegimeFound:
    """Sort one task by three checkpoints, on the questions that have k graded responses at each.

    Rose: the paired 95 % interval is above 0, and its upper limit not below `MARGIN`. Did not rise: the gain's upper
    limit (97.5 %) is below `MARGIN`. The first that holds:
    sustained: pass@k rose, and its interval is above 0 also from the middle to the last checkpoint.
    at ceiling: the base model's pass@k is above 1 - `MARGIN` (97.5 %), so that no gain can be seen.
    plateau: pass@k rose, from base to middle, and later it did not rise.
    diminish: pass@1 rose, and pass@k did not.
    unclear: none is shown, as where questions are few. Raises ValueError for fewer than two.
    """
    common = [q for q in base if all(q in counts and counts[q][1] >= k for counts in (base, middle, last))]
    if len(common) < 2:
        raise ValueError(f"a regime needs two questions or more, each with {k} responses at every checkpoint")
    base, middle, last = ({q: counts[q] for q in common} for counts in (base, middle, last))
    at_1 = paired_difference(base, last, 1, clusters)
    at_k, early, late = (
        paired_difference(before, after, k, clusters)
        for before, after in ((base, last), (base, middle), (middle, last))
    )
    passed, graded = zip(*base.values(), strict=True)
    before = pass_at_k_table(graded, passed)[:, k - 1]
    groups = [clusters.get(q, (q,)) if clusters else q for q in common]
    low, _ = share_interval(before.mean(), standard_error_across_clusters(before, groups), len(set(groups)))
    flat = at_k.at_most < MARGIN
    rose = at_k.low > 0 and not flat
    found: Regime = "unclear"
    if rose and late.low > 0:
        found = "sustained"
    elif low > 1 - MARGIN:
        found = "at ceiling"
    elif rose and early.low > 0 and late.at_most < MARGIN:
        found = "plateau"
    elif at_1.low > 0 and flat:
        found = "diminish"
    return RegimeFound(found, at_1, at_k, late)
