"""Error bars, each named for the repetition it answers for.

Two questions have two different answers. *Would other questions of the same kind give this score?* is the error
across questions; it already contains the noise of sampling. *Would the same questions give this score again?* is the
error at fixed questions; it is the smaller one, and the one published beside avg@64. Both are reported.

`scores` is one number per question, shape [questions]; questions whose score is undefined are left out by the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

NAN = float("nan")
EXACT_SIGN_FLIPS = 14  # differing questions up to which all 2^m sign patterns are enumerated


def standard_error_across_questions(scores: Sequence[float]) -> float:
    """sd(scores) / sqrt(questions): the error if the questions had been other ones. NaN for fewer than two."""
    scores = np.asarray(scores, dtype=np.float64)
    return float(scores.std(ddof=1) / np.sqrt(scores.size)) if scores.size > 1 else NAN


def standard_error_at_fixed_questions(passed: Sequence[int], graded: Sequence[int]) -> float:
    """sqrt(sum_i p_i (1 - p_i) / (n_i - 1)) / questions: the error of avg@n if only the sampling were repeated.

    `passed` and `graded` are counts per question; dividing by n_i - 1 makes each variance unbiased. NaN when a
    question has fewer than two responses, because one response shows no spread.
    """
    passed, graded = np.asarray(passed, dtype=np.float64), np.asarray(graded, dtype=np.float64)
    if graded.size == 0 or graded.min() < 2:
        return NAN
    p = passed / graded
    return float(np.sqrt((p * (1 - p) / (graded - 1)).sum()) / graded.size)


def standard_error_across_runs(run_scores: Sequence[float]) -> float:
    """sd(run scores) / sqrt(runs), where run j is the benchmark's mean over the j-th response of every question.

    Estimates the same thing as `standard_error_at_fixed_questions` without assuming that samples are independent,
    but from as few numbers as there are runs. NaN for fewer than two.
    """
    return standard_error_across_questions(run_scores)


def student_interval(value: float, standard_error: float, questions: int, level: float = 0.95) -> tuple[float, float]:
    """value ± t · standard error, with questions - 1 degrees of freedom; NaN for fewer than two questions."""
    if questions < 2:
        return NAN, NAN
    half = float(stdtrit(questions - 1, 0.5 + level / 2)) * standard_error
    return value - half, value + half


@dataclass(frozen=True)
class Bootstrap:
    standard_error: float
    low: float
    high: float


def bootstrap_over_questions(
    scores: Sequence[float],
    statistic: Callable[..., np.ndarray] = np.mean,
    draws: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> Bootstrap:
    """Resample questions with replacement; the standard error is the plain sd of the resampled statistics.

    `statistic` is a numpy reduction that takes `axis`. The interval is the percentile one. NaN for fewer than two.
    """
    scores = np.asarray(scores, dtype=np.float64)
    if scores.size < 2:
        return Bootstrap(NAN, NAN, NAN)
    picks = np.random.default_rng(seed).integers(scores.size, size=(draws, scores.size))
    values = statistic(scores[picks], axis=1)
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return Bootstrap(float(values.std(ddof=1)), float(low), float(high))


@dataclass(frozen=True)
class PairedDifference:
    """`after` minus `before` on the same questions."""

    questions: int
    difference: float
    standard_error: float
    low: float
    high: float
    p_value: float
    newly_solved: tuple[str, ...]
    """Questions that no response solved before and at least one solves after."""
    newly_lost: tuple[str, ...]


def paired_difference(
    before: dict[str, tuple[int, int]],
    after: dict[str, tuple[int, int]],
    level: float = 0.95,
    seed: int = 0,
) -> PairedDifference:
    """Compare two evaluations question by question.

    `before` and `after` map a question to (passed, graded) counts; only questions graded in both count. The standard
    error is that of the mean of d_i = after_i - before_i across questions, which is where pairing gains: what makes a
    question hard is common to both and cancels. The interval is Student's, the p-value is the sign-flip test's.
    """
    common = [q for q in before if q in after and before[q][1] > 0 and after[q][1] > 0]
    if not common:
        return PairedDifference(0, NAN, NAN, NAN, NAN, NAN, (), ())
    differences = np.array([after[q][0] / after[q][1] - before[q][0] / before[q][1] for q in common])
    mean, error = float(differences.mean()), standard_error_across_questions(differences)
    low, high = student_interval(mean, error, len(common), level)
    return PairedDifference(
        questions=len(common),
        difference=mean,
        standard_error=error,
        low=low,
        high=high,
        p_value=sign_flip_p_value(differences, seed=seed),
        newly_solved=tuple(q for q in common if before[q][0] == 0 and after[q][0] > 0),
        newly_lost=tuple(q for q in common if before[q][0] > 0 and after[q][0] == 0),
    )


def sign_flip_p_value(differences: Sequence[float], draws: int = 10_000, seed: int = 0) -> float:
    """Two-sided p-value of "no difference": how often do random signs give a mean at least as far from zero?

    Signs are flipped per question, never per response, because the responses to one question are not independent
    evidence. All patterns are enumerated where few questions differ; else `draws` random ones, the observed pattern
    counted among them, so that the p-value is never 0. 1 when nothing differs.
    """
    differences = np.asarray(differences, dtype=np.float64)
    differences = differences[differences != 0]
    m = differences.size
    if m == 0:
        return 1.0
    observed = abs(differences.sum()) * (1 - 1e-12)  # sums of the same numbers in another order still tie
    if m <= EXACT_SIGN_FLIPS:
        signs = 1 - 2 * ((np.arange(2**m)[:, None] >> np.arange(m)) & 1)
        return float(np.mean(np.abs(signs @ differences) >= observed))
    signs = 1.0 - 2.0 * np.random.default_rng(seed).integers(2, size=(draws, m))
    return float((1 + np.sum(np.abs(signs @ differences) >= observed)) / (draws + 1))
