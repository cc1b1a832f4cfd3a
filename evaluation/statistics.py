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

UNSEEN = 0.1  # raises the coverage of pass@32 on thirty AIME-like questions from 90 to 95 % (benchmarks.coverage)
MOVED, SPREAD = 2.5, 8.0
"""The least change for a paired interval: its total in questions, and the effective number of changed clusters."""


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


def student_interval(value: float, standard_error: float, units: int, level: float = 0.95) -> tuple[float, float]:
    """value ± t · standard error, with units - 1 degrees of freedom; NaN for fewer than two units (questions, or
    clusters)."""
    if units < 2:
        return NAN, NAN
    half = float(stdtrit(units - 1, 0.5 + level / 2)) * standard_error
    return value - half, value + half


def share_interval(value: float, standard_error: float, units: int, level: float = 0.95) -> tuple[float, float]:
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
    t = float(stdtrit(units - 1, 0.5 + level / 2))
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


def paired_interval(gains: ArrayLike, clusters: Sequence[Hashable]) -> tuple[float, float, str]:
    """Student's 95 % interval of a mean gain in [-1, 1], across clusters, and ""; NaN, NaN and the reason where too
    little changed for the interval to be valid.

    Near a ceiling nearly all gains are 0, and a sample that misses the few others shows no spread: at 64 questions such
    an interval covers as little as 0 to 85 %. So the cluster sums u must add up to at least `MOVED` in absolute value,
    and be spread over at least `SPREAD` clusters, counted as (sum |u|)^2 / sum u^2 (`python -m benchmarks.coverage`).
    """
    gains = np.asarray(gains, dtype=np.float64)
    sums = cluster_sums(gains, clusters)
    moved, squares = float(np.abs(sums).sum()), float((sums**2).sum())
    if moved < MOVED or moved**2 < SPREAD * squares:
        of = "questions" if sums.size == gains.size else "clusters"
        spread = moved**2 / squares if squares else 0.0
        return NAN, NAN, f"too little change ({moved:.1f} in total, in {spread:.0f} of {sums.size} {of})"
    low, high = student_interval(float(gains.mean()), standard_error_across_clusters(gains, clusters), sums.size)
    return low, high, ""


def cluster_sums(values: np.ndarray, clusters: Sequence[Hashable]) -> np.ndarray:
    """The sum of each cluster's values, in order of first appearance."""
    numbers = {cluster: i for i, cluster in enumerate(dict.fromkeys(clusters))}
    return np.bincount([numbers[cluster] for cluster in clusters], values, minlength=len(numbers))


def gain_limit(gains: ArrayLike, clusters: Sequence[Hashable], level: float = 0.975) -> float:
    """One-sided upper confidence limit of a mean gain in [-1, 1] at `level`, valid also where few questions changed;
    NaN for fewer than two clusters.

    "Did not rise" needs such a limit; a missing significance star is no evidence. Where 5 % of the questions gain
    everything, a fifth of the samples of thirty questions show no gain at all, and Student's interval is then a point.
    The gained and the lost share each get `share_interval`'s limits, combined by their squares (Newcombe 1998,
    "Interval estimation for the difference between independent proportions", method 10). The two shares exclude each
    other; Wilson's limits, wide for small shares, compensate for treating them as independent.
    """
    gains, units = np.asarray(gains, dtype=np.float64), len(dict.fromkeys(clusters))
    if units < 2:
        return NAN
    won, lost = np.maximum(gains, 0), np.maximum(-gains, 0)
    limits = [
        share_interval(part.mean(), standard_error_across_clusters(part, clusters), units, 2 * level - 1)
        for part in (won, lost)
    ]
    half = np.hypot(limits[0][1] - won.mean(), lost.mean() - limits[1][0])
    return min(float(gains.mean() + half), 1.0)
