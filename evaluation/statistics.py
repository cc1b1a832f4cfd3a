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
from scipy.special import stdtr, stdtrit

from ratchet.evaluation.pass_at_k import NAN

QUANTILE = 0.5 + 0.95 / 2  # the upper end of a 95 % interval
ROUNDING = 1e-12  # errors below it are those of floating-point numbers
UNSEEN = 0.1  # raises the coverage of pass@32 on thirty AIME-like questions from 90 to 95 % (research.coverage)


def standard_error_at_fixed_questions(passed: ArrayLike, graded: ArrayLike) -> float:
    """The error of avg@n under repeated sampling: sqrt(sum_i p_i (1 - p_i) / (n_i - 1)) / questions.

    `passed` and `graded` are counts per question; dividing by n_i - 1 makes each variance unbiased. NaN when a
    question has fewer than two responses, because one response shows no spread.
    """
    passed, graded = np.asarray(passed, dtype=np.float64), np.asarray(graded, dtype=np.float64)
    if graded.size == 0 or graded.min() < 2:
        return NAN
    p = passed / graded
    return float(np.sqrt((p * (1 - p) / (graded - 1)).sum()) / graded.size)


def standard_error_across_clusters(scores: ArrayLike, clusters: Sequence[Hashable]) -> float:
    """The error across clusters: sqrt(C / (C-1) sum_g (sum_{i in g} (s_i - mean))^2) / questions.

    `clusters` names the cluster of each question; C is their number. With one question per cluster this is the error
    across questions, sd / sqrt(questions). NaN for fewer than two clusters; exactly 0 if
    all scores are equal.
    """
    scores = np.asarray(scores, dtype=np.float64)
    if len(set(clusters)) < 2:
        return NAN
    sums = cluster_sums(scores - scores.mean(), clusters)
    error = float(np.sqrt(sums.size / (sums.size - 1) * (sums**2).sum()) / scores.size)
    return error if error > ROUNDING else 0.0


def share_interval(value: float, standard_error: float, units: int) -> tuple[float, float]:
    """The 95 % interval of a mean of scores in [0, 1], which stays in [0, 1] and keeps its coverage near 0 and 1.

    Wilson's interval at the effective number of trials value (1 - value) / standard_error^2, with Student's quantile at
    units - 1 degrees of freedom (Dean and Pagano 2015, "Evaluating confidence interval methods for binomial proportions
    in clustered surveys"). A small sample can miss the rare scores at the other end, which cause most of the spread
    when pass@k is close to 1: the less spread it shows, the more of `UNSEEN` questions at each end is added. The number
    of trials never falls below the number of units, which is also used where all scores are equal: they do not show how
    far one can be from its question's true value. NaN for fewer than two units.
    """
    if units < 2 or np.isnan(standard_error):
        return NAN, NAN
    t = float(stdtrit(units - 1, QUANTILE))
    spread, worst = value * (1 - value), 1 / units  # variances, of a score and, over it, of the mean
    if spread > 0 and standard_error > 0:
        seen = standard_error**2 / spread
        unseen = UNSEEN * (1 - 2 * spread) / spread * max(1 - (units - 1) * seen, 0.0) / (units * (units - 1))
        trials = 1 / max(seen, min(seen + unseen, worst))
    else:
        trials = units
    center = (value + t**2 / (2 * trials)) / (1 + t**2 / trials)
    half = t / (1 + t**2 / trials) * np.sqrt(max(spread, 0) / trials + (t / (2 * trials)) ** 2)
    return max(float(center - half), 0.0), min(float(center + half), 1.0)


def paired_interval(gains: ArrayLike, clusters: Sequence[Hashable]) -> tuple[float, float]:
    """The 95 % interval of a mean gain in [-1, 1] across clusters: mean ± t · `paired_standard_error`, with Student's
    quantile at C - 1 degrees of freedom for C clusters; NaN for fewer than two."""
    gains = np.asarray(gains, dtype=np.float64)
    mean, error, degrees = float(gains.mean()), paired_standard_error(gains, clusters), len(set(clusters)) - 1
    if np.isnan(error):
        return NAN, NAN
    half = float(stdtrit(degrees, QUANTILE)) * error
    return max(mean - half, -1.0), min(mean + half, 1.0)


def paired_p_value(gains: ArrayLike, clusters: Sequence[Hashable]) -> float:
    """The two-sided p-value of "the mean gain is 0", by the t test whose interval is `paired_interval`: below 0.05
    exactly where that excludes 0. NaN for fewer than two clusters."""
    gains = np.asarray(gains, dtype=np.float64)
    error = paired_standard_error(gains, clusters)
    return NAN if np.isnan(error) else float(2 * stdtr(len(set(clusters)) - 1, -abs(gains.mean()) / error))


def paired_standard_error(gains: ArrayLike, clusters: Sequence[Hashable]) -> float:
    """The standard error across clusters of a mean gain in [-1, 1], sqrt(se^2 + 1 / C^2), as if one more of the C
    (effective) clusters had changed completely; NaN for fewer than two.

    A sample in which few questions changed can miss the rare ones that do, and its own error is then too small, or 0 if
    nothing changed. Wald's interval of a paired difference has the same cure: half a question is added that was won and
    half a one that was lost (Agresti and Min 2005, "Simple improved confidence intervals for comparing matched
    proportions"). `python -m research.coverage` measures coverage and power.
    """
    gains = np.asarray(gains, dtype=np.float64)
    return float(np.hypot(standard_error_across_clusters(gains, clusters), 1 / effective_clusters(clusters)))


def effective_clusters(clusters: Sequence[Hashable]) -> float:
    """The number of clusters if all had the same size: (sum of the sizes)^2 / sum of their squares."""
    sizes = cluster_sums(np.ones(len(clusters)), clusters)
    return float(sizes.sum() ** 2 / (sizes**2).sum())


def cluster_sums(values: np.ndarray, clusters: Sequence[Hashable]) -> np.ndarray:
    """The sum of each cluster's values, in order of first appearance."""
    numbers = {cluster: i for i, cluster in enumerate(dict.fromkeys(clusters))}
    return np.bincount([numbers[cluster] for cluster in clusters], values)


def gain_limit(gains: ArrayLike, clusters: Sequence[Hashable]) -> float:
    """The one-sided upper confidence limit, at 97.5 %, of a mean gain in [-1, 1], valid also where few questions
    changed; NaN for fewer than two clusters.

    It is mean + t^2 / 2C + t sqrt(se^2 + (t / 2C)^2), for C effective clusters: the upper end of Wilson's interval for
    a rare event, whose variance is p / C, with any noise added. Where nothing changed at all it is 3.8 clusters.
    "Did not rise" needs such a limit; a missing significance star is no evidence. Where 5 % of the questions gain
    everything, a fifth of the samples of thirty questions show no gain at all, and Student's interval is then a point.
    """
    gains = np.asarray(gains, dtype=np.float64)
    error, effective = standard_error_across_clusters(gains, clusters), effective_clusters(clusters)
    if np.isnan(error):
        return NAN
    t = float(stdtrit(len(set(clusters)) - 1, QUANTILE))
    return min(float(gains.mean()) + t**2 / (2 * effective) + t * float(np.hypot(error, t / (2 * effective))), 1.0)
