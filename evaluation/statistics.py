"""Standard errors and 95 % intervals, each named for the repetition that it describes.

The error *across questions* is that of a repetition with other questions of the same kind; it includes sampling noise.
Where questions come in groups (problems of one contest, paraphrases of one question), the error *across clusters*
replaces it. The error *at fixed questions* is that of sampling the same questions again: it is smaller, and it is the
one published beside avg@64.

`scores` has one number per question, shape [questions], without undefined ones.
"""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from ratchet.evaluation.pass_at_k import NAN

QUANTILE = 0.5 + 0.95 / 2  # the upper end of a 95 % interval
UNSEEN = 0.1  # raises the coverage of pass@32 on thirty AIME-like questions from 90 to 95 % (benchmarks.coverage)
SPREAD, UNSEEN_WHOLE = 10.0, 2.5
"""Where a paired interval is Student's: the least effective number of changed clusters, and half its width in them."""


def standard_error_at_fixed_questions(passed: ArrayLike, graded: ArrayLike) -> float:
    """sqrt(sum_i p_i (1 - p_i) / (n_i - 1)) / questions: the error of avg@n under repeated sampling.

    `passed` and `graded` are counts per question; dividing by n_i - 1 makes each variance unbiased. NaN when a
    question has fewer than two responses, because one response shows no spread.
    """
    passed, graded = np.asarray(passed, dtype=np.float64), np.asarray(graded, dtype=np.float64)
    if graded.size == 0 or graded.min() < 2:
        return NAN
    p = passed / graded
    return float(np.sqrt((p * (1 - p) / (graded - 1)).sum()) / graded.size)


def standard_error_across_clusters(scores: ArrayLike, clusters: Sequence[Hashable]) -> float:
    """sqrt(C / (C-1) sum_g (sum_{i in g} (s_i - mean))^2) / questions.

    `clusters` names the cluster of each question; C is their number. With one question per cluster this is the error
    across questions, sd / sqrt(questions). NaN for fewer than two clusters.
    """
    scores = np.asarray(scores, dtype=np.float64)
    if len(set(clusters)) < 2:
        return NAN
    sums = cluster_sums(scores - scores.mean(), clusters)
    return float(np.sqrt(sums.size / (sums.size - 1) * (sums**2).sum()) / scores.size)


def student_interval(value: float, standard_error: float, units: int) -> tuple[float, float]:
    """value ± t · standard error, with units - 1 degrees of freedom; NaN for fewer than two units (questions, or
    clusters)."""
    if units < 2:
        return NAN, NAN
    half = float(stdtrit(units - 1, QUANTILE)) * standard_error
    return value - half, value + half


def share_interval(value: float, standard_error: float, units: int) -> tuple[float, float]:
    """Interval of a mean of scores in [0, 1] that stays in [0, 1] and keeps its coverage near 0 and 1.

    Wilson's interval at the effective number of trials value (1 - value) / standard_error^2, with Student's quantile at
    units - 1 degrees of freedom (Dean and Pagano 2015, "Evaluating confidence interval methods for binomial proportions
    in clustered surveys"). A small sample can miss the rare scores at the other end, which cause most of the spread
    when pass@k is close to 1: the less spread it shows, the more of `UNSEEN` questions at each end is added. The number
    of trials never falls below the number of units, which is also used where all scores are 0, or all 1. NaN for fewer
    than two units.
    """
    if units < 2 or np.isnan(standard_error):
        return NAN, NAN
    t = float(stdtrit(units - 1, QUANTILE))
    spread, worst = value * (1 - value), 1 / units  # variances, of a score and, over it, of the mean
    if spread > 0:
        seen = standard_error**2 / spread
        unseen = UNSEEN * (1 - 2 * spread) / spread * max(1 - (units - 1) * seen, 0.0) / (units * (units - 1))
        trials = 1 / max(seen, min(seen + unseen, worst))
    else:
        trials = units
    center = (value + t**2 / (2 * trials)) / (1 + t**2 / trials)
    half = t / (1 + t**2 / trials) * np.sqrt(max(spread, 0) / trials + (t / (2 * trials)) ** 2)
    return max(float(center - half), 0.0), min(float(center + half), 1.0)


def paired_interval(gains: ArrayLike, clusters: Sequence[Hashable]) -> tuple[float, float]:
    """95 % interval of a mean gain in [-1, 1] across clusters; NaN for fewer than two.

    Student's interval is valid where the change is spread over many clusters. Where few changed, or a few changed whole
    beside many with sampling noise, a sample can miss the rare ones and still show some spread. So it is used only
    where the cluster sums u have an effective number (sum u^2)^2 / sum u^4 of at least `SPREAD` and it reaches
    `UNSEEN_WHOLE` clusters to each side; else `unseen_half`, wider, replaces it (`python -m benchmarks.coverage`).
    """
    gains = np.asarray(gains, dtype=np.float64)
    mean, error = float(gains.mean()), standard_error_across_clusters(gains, clusters)
    sums = cluster_sums(gains, clusters)
    if np.isnan(error):
        return NAN, NAN
    low, high = student_interval(mean, error, sums.size)
    spread = (sums**2).sum() ** 2 >= SPREAD * (sums**4).sum()
    if spread and high - mean >= UNSEEN_WHOLE / effective_clusters(clusters):
        return low, high
    half = unseen_half(error, clusters)
    return max(mean - half, -1.0), min(mean + half, 1.0)


def unseen_half(standard_error: float, clusters: Sequence[Hashable]) -> float:
    """t^2 / 2C + t sqrt(se^2 + (t / 2C)^2), for C effective clusters: how far a mean of scores with a range of 1 may be
    from that of a sample, also where the sample missed the few clusters that change whole.

    It is the width of Wilson's interval for a rare event of probability p, whose error is sqrt(p / C), with any noise
    added: 3.8 clusters where nothing changed at all.
    """
    t, effective = float(stdtrit(len(set(clusters)) - 1, QUANTILE)), effective_clusters(clusters)
    return t**2 / (2 * effective) + t * float(np.hypot(standard_error, t / (2 * effective)))


def effective_clusters(clusters: Sequence[Hashable]) -> float:
    """(sum of the sizes)^2 / sum of their squares: the number of clusters if all have the same size."""
    sizes = cluster_sums(np.ones(len(clusters)), clusters)
    return float(sizes.sum() ** 2 / (sizes**2).sum())


def cluster_sums(values: np.ndarray, clusters: Sequence[Hashable]) -> np.ndarray:
    """The sum of each cluster's values, in order of first appearance."""
    numbers = {cluster: i for i, cluster in enumerate(dict.fromkeys(clusters))}
    return np.bincount([numbers[cluster] for cluster in clusters], values)


def gain_limit(gains: ArrayLike, clusters: Sequence[Hashable]) -> float:
    """One-sided upper confidence limit, at 97.5 %, of a mean gain in [-1, 1], valid also where few questions changed;
    NaN for fewer than two clusters.

    "Did not rise" needs such a limit; a missing significance star is no evidence. Where 5 % of the questions gain
    everything, a fifth of the samples of thirty questions show no gain at all, and Student's interval is then a point.
    """
    gains = np.asarray(gains, dtype=np.float64)
    error = standard_error_across_clusters(gains, clusters)
    return NAN if np.isnan(error) else min(float(gains.mean()) + unseen_half(error, clusters), 1.0)
