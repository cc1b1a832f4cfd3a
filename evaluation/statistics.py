"""Error bars, each named for the repetition it answers for.

Two questions have two different answers. *Would other questions of the same kind give this score?* is the error
across questions; it already contains the noise of sampling. *Would the same questions give this score again?* is the
error at fixed questions; it is the smaller one, and the one published beside avg@64. Both are reported. Where questions
come in groups (parts of one exercise, problems of one contest), the error across clusters replaces the first.

`scores` is one number per question, shape [questions]; questions whose score is undefined are left out by the caller.
"""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, stdtrit

from ratchet.evaluation.pass_at_k import NAN

UNSEEN = 0.1  # with it, pass@32 of thirty questions of AIME's kind is covered in 95 % of simulations, and else in 90 %

MOVED, SPREAD = 2.5, 8.0


def standard_error_across_questions(scores: ArrayLike) -> float:
    """sd(scores) / sqrt(questions): the error if the questions had been other ones. NaN for fewer than two."""
    scores = np.asarray(scores, dtype=np.float64)
    return float(scores.std(ddof=1) / np.sqrt(scores.size)) if scores.size > 1 else NAN


def standard_error_at_fixed_questions(passed: ArrayLike, graded: ArrayLike) -> float:
    """sqrt(sum_i p_i (1 - p_i) / (n_i - 1)) / questions: the error of avg@n if only the sampling were repeated.

    `passed` and `graded` are counts per question; dividing by n_i - 1 makes each variance unbiased. NaN when a
    question has fewer than two responses, because one response shows no spread.
    """
    passed, graded = np.asarray(passed, dtype=np.float64), np.asarray(graded, dtype=np.float64)
    if graded.size == 0 or graded.min() < 2:
        return NAN
    p = passed / graded
    return float(np.sqrt((p * (1 - p) / (graded - 1)).sum()) / graded.size)


def standard_error_across_clusters(scores: ArrayLike, clusters: Sequence[Hashable]) -> float:
    """sqrt(C / (C-1) sum_g (sum_{i in g} (s_i - mean))^2) / questions: the error if other clusters had been asked.

    `clusters` names the cluster of each question; C is their number. With one question a cluster it is the error
    across questions. NaN for fewer than two clusters.
    """
    scores = np.asarray(scores, dtype=np.float64)
    if len(set(clusters)) < 2:
        return NAN
    sums = _cluster_sums(scores - scores.mean(), clusters)
    return float(np.sqrt(sums.size / (sums.size - 1) * (sums**2).sum()) / scores.size)


def student_interval(value: float, standard_error: float, units: int, level: float = 0.95) -> tuple[float, float]:
    """value ± t · standard error, with units - 1 degrees of freedom; NaN for fewer than two units (questions, or
    clusters)."""
    if units < 2:
        return NAN, NAN
    half = float(stdtrit(units - 1, 0.5 + level / 2)) * standard_error
    return value - half, value + half


def share_interval(value: float, standard_error: float, units: int, level: float = 0.95) -> tuple[float, float]:
    """Interval of a mean of scores in [0, 1] that stays in [0, 1] and keeps its coverage near the ends.

    Wilson's interval at the effective number of trials value (1 - value) / standard_error^2, with Student's quantile at
    units - 1 degrees of freedom (Dean and Pagano 2015, "Evaluating confidence interval methods for binomial proportions
    in clustered surveys"). Thirty questions can all miss the rare kind at the other end, which is most of the spread
    when pass@k comes close to 1: the less of it they show, the more of `UNSEEN` questions at each end is added. No
    fewer trials than units come of that, the worst case, which also holds where all scores are 0, or all 1. NaN for
    fewer than two units.
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
    centre = (value + t**2 / (2 * trials)) / (1 + t**2 / trials)
    half = t / (1 + t**2 / trials) * np.sqrt(max(spread, 0) / trials + (t / (2 * trials)) ** 2)
    return max(float(centre - half), 0.0), min(float(centre + half), 1.0)


def paired_interval(gains: ArrayLike, clusters: Sequence[Hashable]) -> tuple[float, float, str]:
    """Student's 95 % interval of a mean gain in [-1, 1], across clusters, and "" where it can be trusted; NaN twice and
    the reason where it cannot.

    Near a ceiling nearly all gains are 0, and a sample that happens to miss the few that are not shows no spread: at 64
    questions such an interval covers as little as 0 to 85 %. It is given where the changes of all clusters add up to
    `MOVED` questions or more, and are spread over `SPREAD` clusters, counted as (sum |u|)^2 / sum u^2 of their sums u
    (`python -m benchmarks.coverage`).
    """
    gains = np.asarray(gains, dtype=np.float64)
    sums = _cluster_sums(gains, clusters)
    moved, squares = float(np.abs(sums).sum()), float((sums**2).sum())
    if moved < MOVED or moved**2 < SPREAD * squares:
        of = "questions" if sums.size == gains.size else "clusters"
        spread = moved**2 / squares if squares else 0.0
        return NAN, NAN, f"{moved:.1f} questions' worth of change, in {spread:.0f} of {sums.size} {of}, is too little"
    low, high = student_interval(float(gains.mean()), standard_error_across_clusters(gains, clusters), sums.size)
    return low, high, ""


def _cluster_sums(values: np.ndarray, clusters: Sequence[Hashable]) -> np.ndarray:
    numbers = {cluster: i for i, cluster in enumerate(dict.fromkeys(clusters))}
    return np.bincount([numbers[cluster] for cluster in clusters], values, minlength=len(numbers))


def gain_limit(gains: ArrayLike, clusters: Sequence[Hashable], level: float = 0.975) -> float:
    """The upper confidence limit of a mean gain in [-1, 1], one-sided at `level`, that also holds where few questions
    differ; NaN for fewer than two clusters.

    "It did not rise" needs a limit and not a missing star: where 5 % of the questions gain everything, thirty of them
    show no gain at all in every fifth sample, and Student's interval is then a point. What was won and what was lost
    are shares, each with `share_interval`'s limits, put together by their squares (Newcombe 1998, "Interval estimation
    for the difference between independent proportions", method 10). The two exclude each other, and taking them for
    independent is made up for by Wilson's limits, which are wide where shares are small.
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


def expanded_percentiles(draws: np.ndarray, units: int) -> tuple[float, float]:
    """The 95 % interval of a statistic from its bootstrapped values over so many resampled units: between quantiles
    that are further out for few units, as Student's are than the normal's (Hesterberg 2015, arXiv 1411.5279)."""
    tail = float(ndtr(-np.sqrt(units / (units - 1)) * stdtrit(units - 1, 0.975)))
    low, high = np.quantile(draws, [tail, 1 - tail])
    return float(low), float(high)
