"""Decide ProRL's regimes: did training extend what a model can solve, or only raise pass@1?

ProRL (arXiv 2505.24864, section 4) sorts tasks by eye into diminished, plateau and sustained, from pass@1 and pass@128
of the base model, an intermediate checkpoint and the last one. Here each regime is a tested claim: "rose" needs an
interval above zero, "did not rise" an upper limit below a margin.
"""

from collections.abc import Hashable, Mapping
from typing import Literal

from ratchet.evaluation.comparison import Counts, paired_difference
from ratchet.evaluation.pass_at_k import pass_at_k_table
from ratchet.evaluation.statistics import share_interval, standard_error_across_clusters

MARGIN = 0.05
"""The smallest gain of pass@k that matters."""
Regime = Literal["sustained", "at ceiling", "plateau", "diminish", "unclear"]


def regime(
    base: Counts, middle: Counts, last: Counts, k: int, clusters: Mapping[str, Hashable] | None = None
) -> Regime:
    """The regime of one task, from the questions with k graded responses at each of three checkpoints.

    "Rose": the paired 95 % interval is above 0 and the upper limit (97.5 %) not below `MARGIN`. "Did not rise": that
    limit is below `MARGIN`. The first that holds:
    sustained: pass@k rose, and its interval from the middle to the last checkpoint is above 0, too.
    at ceiling: the base model's pass@k is above 1 - `MARGIN` (97.5 %), so that no gain could be seen.
    plateau: pass@k rose from base to middle, and did not rise afterwards.
    diminish: pass@1 rose, and pass@k did not.
    unclear: nothing of this is shown, for example with few questions. Raises ValueError for fewer than two questions.
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
    flat = at_k.upper_limit < MARGIN
    rose = at_k.low > 0 and not flat
    verdict: Regime = "unclear"
    if rose and late.low > 0:
        verdict = "sustained"
    elif low > 1 - MARGIN:
        verdict = "at ceiling"
    elif rose and early.low > 0 and late.upper_limit < MARGIN:
        verdict = "plateau"
    elif at_1.low > 0 and flat:
        verdict = "diminish"
    return verdict
