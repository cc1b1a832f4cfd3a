"""What is reported about one benchmark: a plain dictionary, ready for JSON, from one row per response.

Undefined numbers (pass@k for k > n, an error bar of one question) are NaN here and null in JSON.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ratchet.evaluation.benchmarks import cluster_of, difficulty_of, rating_of, topics_of
from ratchet.evaluation.pass_at_k import all_pass_table, majority_at_k, pass_at_k_by_subsampling, pass_at_k_table
from ratchet.evaluation.rating import map_rating
from ratchet.evaluation.regimes import pass_at_k_bound, solve_rate_variance
from ratchet.evaluation.statistics import (
    bootstrap_over_questions,
    share_interval,
    standard_error_across_clusters,
    standard_error_across_questions,
    standard_error_across_runs,
    standard_error_at_fixed_questions,
)
from ratchet.evaluation.topics import by_topic
from ratchet.evaluation.votes import RIGHT
from ratchet.infra.problems import Problem
from ratchet.verifiers.outcome import Outcome

NAN = float("nan")
Row = Mapping[str, Any]


def score(
    rows: Sequence[Row],
    problems: Sequence[Problem],
    pass_at: Sequence[int],
    vote: bool,
    contaminated: Collection[str] | None = None,
) -> dict[str, Any]:
    """Scores of one benchmark.

    `rows` have `problem_id`, `sample`, `finish_reason`, `tokens`, `outcome`, `answer_class`; `problems` is the
    benchmark in order, questions without a single row included. Rows whose outcome is `infra_error` say nothing about
    the model: they are counted, and left out of everything else. `vote` adds maj@k, for domains whose answers can be
    compared with one another. `contaminated` are the problem_ids found in the training set, None when nobody looked.
    pass@1 is always among the scores.
    """
    graded = [row for row in rows if row["outcome"] != Outcome.INFRA_ERROR]
    by_problem: dict[str, list[Row]] = {problem.problem_id: [] for problem in problems}
    for row in sorted(graded, key=lambda row: row["sample"]):
        by_problem[row["problem_id"]].append(row)
    answered = {problem: rows for problem, rows in by_problem.items() if rows}
    pass_at = sorted({1, *pass_at})
    n = np.array([len(rows) for rows in answered.values()], dtype=int)
    c = np.array([sum(map(_passed, rows)) for rows in answered.values()], dtype=int)
    rates = dict(zip(answered, (c / n).tolist(), strict=True))
    curves = pass_at_k_table(n, c)
    clusters = {p.problem_id: cluster for p in problems if (cluster := cluster_of(p))}

    result = {
        "questions": len(by_problem),
        "questions_graded": len(answered),
        "samples": len(rows),
        "samples_graded": len(graded),
        "infra_errors": len(rows) - len(graded),
        "infra_error_rate": (len(rows) - len(graded)) / len(rows) if rows else NAN,
        "pass_at": {str(k): _at(curves, k) for k in pass_at},
        "pass_curve": _pass_curve(curves),
        "all_pass_at": {str(k): _at(all_pass_table(n, c), k) for k in pass_at},
        "pass_at_by_subsampling": {str(k): _subsampled(n, c, k) for k in pass_at},
        "pass_at_bound": {str(k): pass_at_k_bound(n, c, k) for k in pass_at},
        "average": _average(answered, n, c, clusters),
        **_rates(graded),
        "response_tokens": response_tokens(graded),
        "length_histogram": length_histogram(graded),
        "solve_rates": solve_rates(n, c) if n.size else None,
        "topics": by_topic(rates, *({p.problem_id: of(p) for p in problems} for of in (topics_of, difficulty_of))),
        "rating": _rating(problems, rates),
        "contamination": None
        if contaminated is None
        else _contamination(list(answered), curves, pass_at, contaminated),
        "problems": {problem: [sum(map(_passed, rows)), len(rows)] for problem, rows in by_problem.items()},
        "clusters": clusters,
    }
    if vote:
        result["majority_at"] = {str(k): _majority(answered, k) for k in pass_at}
    return result


def _passed(row: Row) -> bool:
    return row["outcome"] == Outcome.PASSED


def _at(curves: np.ndarray, k: int) -> dict[str, Any]:
    """Mean over the questions with at least k graded responses; how many those are is part of the score."""
    values = curves[:, k - 1] if 1 <= k <= curves.shape[1] else np.array([])
    return estimate(values[~np.isnan(values)])


def estimate(values: np.ndarray) -> dict[str, Any]:
    """Mean over questions with its error across questions and `share_interval`'s 95 %."""
    if not values.size:
        return {"value": NAN, "standard_error": NAN, "low": NAN, "high": NAN, "questions": 0}
    value, error = float(values.mean()), standard_error_across_questions(values)
    low, high = share_interval(value, error, values.size)
    return {"value": value, "standard_error": error, "low": low, "high": high, "questions": int(values.size)}


def _subsampled(n: np.ndarray, c: np.ndarray, k: int) -> dict[str, float]:
    value, error = pass_at_k_by_subsampling(n, c, k)
    return {"value": value, "monte_carlo_error": error}


def _pass_curve(curves: np.ndarray) -> dict[str, list]:
    """pass@k for every k at powers of two and at n, with 95 % intervals across questions."""
    top = curves.shape[1]
    ks = sorted({2**i for i in range(top.bit_length()) if 2**i <= top} | ({top} if top else set()))
    points = [_at(curves, k) for k in ks]
    return {"k": ks, **{name: [point[name] for point in points] for name in ("value", "low", "high")}}


def _average(
    answered: Mapping[str, Sequence[Row]], n: np.ndarray, c: np.ndarray, clusters: Mapping[str, str]
) -> dict[str, Any]:
    """avg@n with the error bars of `evaluation.statistics`."""
    if not n.size:
        return {"value": NAN}
    runs: dict[int, list[bool]] = {}
    for rows in answered.values():
        for row in rows:
            runs.setdefault(row["sample"], []).append(_passed(row))
    rates = c / n
    band = bootstrap_over_questions(rates)
    average = {
        "value": float(rates.mean()),
        "samples_per_question": float(n.mean()),
        "standard_error_across_questions": standard_error_across_questions(rates),
        "standard_error_at_fixed_questions": standard_error_at_fixed_questions(c, n),
        # Of the mean over all runs; one run alone spreads by sqrt(runs) times this.
        "standard_error_across_runs": standard_error_across_runs([float(np.mean(run)) for run in runs.values()]),
        "bootstrap_standard_error": band.standard_error,
        "bootstrap_low": band.low,
        "bootstrap_high": band.high,
    }
    names = [clusters.get(problem, (problem,)) for problem in answered]  # no cluster is called like a question
    if 1 < len(set(names)) < len(names):
        average["clusters"] = len(set(names))
        average["standard_error_across_clusters"] = standard_error_across_clusters(rates, names)
    return average


def _rating(problems: Sequence[Problem], rates: Mapping[str, float]) -> dict[str, float] | None:
    """`map_rating` from the solve rates of the problems that have a rating, where there are any."""
    rated = {p.problem_id: rating for p in problems if (rating := rating_of(p)) is not None and p.problem_id in rates}
    if not rated:
        return None
    found = map_rating(list(rated.values()), [rates[problem] for problem in rated])
    return {"value": found.value, "standard_error": found.standard_error, "problems": found.observations}


def _contamination(
    questions: Sequence[str], curves: np.ndarray, pass_at: Sequence[int], contaminated: Collection[str]
) -> dict[str, Any]:
    """Which questions stand in the training set, and the scores over the others alone."""
    clean = np.array([question not in contaminated for question in questions], dtype=bool)
    return {
        "flagged": sorted(contaminated),
        "pass_at_without": {str(k): _at(curves[clean], k) for k in pass_at},
    }


def _majority(answered: Mapping[str, Sequence[Row]], k: int) -> dict[str, Any]:
    votes = ([(row["answer_class"], row["answer_class"] == RIGHT) for row in rows] for rows in answered.values())
    values = np.array([majority_at_k(each, k) for each in votes])
    return estimate(values[~np.isnan(values)])


def _rates(graded: Sequence[Row]) -> dict[str, float]:
    """Shares of the graded responses. `no_answer_rate`: ended by themselves without anything to judge. What depends on
    how a response ended is undefined where that is unknown, as in outputs imported from elsewhere."""
    names = ("truncation_rate", "no_answer_rate", "timeout_rate", "accuracy_given_completion")
    if not graded:
        return dict.fromkeys(names, NAN)
    completed = [row for row in graded if row["finish_reason"] == "stop"]
    known = all(row["finish_reason"] != "unknown" for row in graded)
    unanswered = sum(row["outcome"] == Outcome.UNPARSEABLE for row in (completed if known else graded))
    return {
        "truncation_rate": sum(row["finish_reason"] == "length" for row in graded) / len(graded) if known else NAN,
        "no_answer_rate": unanswered / len(graded),
        "timeout_rate": sum(row["outcome"] == Outcome.TIMEOUT for row in graded) / len(graded),
        "accuracy_given_completion": float(np.mean([_passed(row) for row in completed])) if completed else NAN,
    }


def response_tokens(graded: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Response length in tokens, over all graded responses and by correctness; NaN where lengths are unknown."""
    groups = {
        "all": graded,
        "correct": [row for row in graded if _passed(row)],
        "wrong": [row for row in graded if not _passed(row)],
    }
    return {
        name: _length_statistics([r["tokens"] for r in rows if r["tokens"] is not None])
        for name, rows in groups.items()
    }


def _length_statistics(tokens: Sequence[int]) -> dict[str, float]:
    if not tokens:
        return dict.fromkeys(("mean", "median", "p90", "p99"), NAN)
    median, p90, p99 = np.quantile(tokens, [0.5, 0.9, 0.99])
    return {"mean": float(np.mean(tokens)), "median": float(median), "p90": float(p90), "p99": float(p99)}


LENGTH_BINS = 24


def length_histogram(graded: Sequence[Row]) -> dict[str, list] | None:
    """Responses by length, right and wrong apart: `edges` in tokens, one more than there are counts."""
    known = [row for row in graded if row["tokens"] is not None]
    if not known:
        return None
    edges = np.linspace(0, max(row["tokens"] for row in known) + 1, LENGTH_BINS + 1)
    counted = {
        name: np.histogram([row["tokens"] for row in known if _passed(row) is right], edges)[0].tolist()
        for name, right in (("correct", True), ("wrong", False))
    }
    return {"edges": edges.tolist(), **counted}


SOLVE_RATE_EDGES = (0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0)


def solve_rates(n: np.ndarray, c: np.ndarray) -> dict[str, Any]:
    """Histogram of the questions' solve rates. Bins: exactly 0; eight of equal width, open below 1; exactly 1.

    Never and always are bins of their own because the question "does training reach what it never solved" is
    about the first, and because at n = 16 each inner bin then holds the same number of possible rates but one.
    """
    rates = c / n
    inner = rates[(rates > 0) & (rates < 1)]
    counts, _ = np.histogram(inner, bins=SOLVE_RATE_EDGES)
    variance, debiased = solve_rate_variance(n, c)
    labels = [f"{low * 100:g}–{high * 100:g} %" for low, high in itertools.pairwise(SOLVE_RATE_EDGES)]
    return {
        "bins": ["never", *labels, "always"],
        "questions": [int((rates == 0).sum()), *map(int, counts), int((rates == 1).sum())],
        "mean": float(rates.mean()),
        "variance": variance,
        "variance_without_sampling_noise": debiased,
    }


def without_nan(value: Any) -> Any:
    """The same structure with null for NaN, which JSON does not have."""
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value
