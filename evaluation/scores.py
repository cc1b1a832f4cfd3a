"""What is reported about one benchmark: a plain dictionary, ready for JSON, from one row per response.

Undefined numbers (pass@k for k > n, an error bar of one question) are NaN here and null in JSON.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evaluation.pass_at_k import majority_at_k, pass_at_every_k
from evaluation.statistics import (
    bootstrap_over_questions,
    standard_error_across_questions,
    standard_error_across_runs,
    standard_error_at_fixed_questions,
    student_interval,
)
from verifiers.outcome import Outcome

NAN = float("nan")
RIGHT = object()  # the equivalence class of every answer that the verifier found right


def score(rows: Sequence[Mapping[str, Any]], problem_ids: Sequence[str], pass_at: Sequence[int], vote: bool) -> dict:
    """Scores of one benchmark.

    `rows` have `problem_id`, `sample`, `finish_reason`, `tokens`, `outcome`, `extracted`; `problem_ids` is the
    benchmark in order, questions without a single row included. Rows whose outcome is `infra_error` say nothing about
    the model: they are counted, and left out of everything else. `vote` adds maj@k, for domains whose answers can
    be compared with one another. pass@1 is always among the scores.
    """
    graded = [row for row in rows if row["outcome"] != Outcome.INFRA_ERROR]
    by_problem: dict[str, list[Mapping[str, Any]]] = {problem: [] for problem in problem_ids}
    for row in sorted(graded, key=lambda row: row["sample"]):
        by_problem[row["problem_id"]].append(row)
    answered = {problem: rows for problem, rows in by_problem.items() if rows}
    pass_at = sorted({1, *pass_at})
    n = np.array([len(rows) for rows in answered.values()], dtype=int)
    c = np.array([sum(map(_passed, rows)) for rows in answered.values()], dtype=int)

    result = {
        "questions": len(by_problem),
        "questions_graded": len(answered),
        "samples": len(rows),
        "samples_graded": len(graded),
        "infra_errors": len(rows) - len(graded),
        "pass_at": {str(k): _at(_curves(n, c), k) for k in pass_at},
        "pass_curve": _pass_curve(n, c),
        "average": _average(answered, n, c),
        **_rates(graded),
        "response_tokens": response_tokens(graded),
        "solve_rates": solve_rates(c / n) if n.size else None,
        "problems": {problem: [sum(map(_passed, rows)), len(rows)] for problem, rows in by_problem.items()},
    }
    if vote:
        result["majority_at"] = {str(k): _majority(answered, k) for k in pass_at}
    return result


def _passed(row: Mapping[str, Any]) -> bool:
    return row["outcome"] == Outcome.PASSED


def _curves(n: np.ndarray, c: np.ndarray) -> np.ndarray:
    """pass@k of each question, shape [questions, max n], NaN beyond a question's own n."""
    curves = np.full((n.size, n.max(initial=0)), NAN)
    for i, (total, passed) in enumerate(zip(n, c, strict=True)):
        curves[i, :total] = pass_at_every_k(int(total), int(passed))
    return curves


def _at(curves: np.ndarray, k: int) -> dict[str, Any]:
    """Mean over the questions with at least k graded responses; how many those are is part of the score."""
    values = curves[:, k - 1] if 1 <= k <= curves.shape[1] else np.array([])
    return estimate(values[~np.isnan(values)])


def estimate(values: np.ndarray) -> dict[str, Any]:
    """Mean over questions with its error across questions and a 95 % interval, cut to [0, 1]."""
    if not values.size:
        return {"value": NAN, "standard_error": NAN, "low": NAN, "high": NAN, "questions": 0}
    value, error = float(values.mean()), standard_error_across_questions(values)
    low, high = student_interval(value, error, values.size)
    # Where nearly every question agrees the normal theory gives an interval of no width or one past the end.
    low, high = (max(low, 0.0), min(high, 1.0)) if values.size > 1 else (NAN, NAN)
    return {"value": value, "standard_error": error, "low": low, "high": high, "questions": int(values.size)}


def _pass_curve(n: np.ndarray, c: np.ndarray) -> dict[str, list]:
    """pass@k for every k at powers of two and at n, with bootstrap bands over questions."""
    if not n.size:
        return {"k": [], "value": [], "low": [], "high": []}
    curves = _curves(n, c)
    top = int(n.max())
    ks = sorted({2**i for i in range(top.bit_length())} | {top})
    points = []
    for k in ks:
        values = curves[:, k - 1][~np.isnan(curves[:, k - 1])]
        band = bootstrap_over_questions(values)
        points.append((k, float(values.mean()), band.low, band.high))
    return {name: [point[i] for point in points] for i, name in enumerate(("k", "value", "low", "high"))}


def _average(answered: Mapping[str, Sequence[Mapping[str, Any]]], n: np.ndarray, c: np.ndarray) -> dict[str, Any]:
    """avg@n with the three error bars of `evaluation.statistics`."""
    if not n.size:
        return {"value": NAN}
    runs: dict[int, list[bool]] = {}
    for rows in answered.values():
        for row in rows:
            runs.setdefault(row["sample"], []).append(_passed(row))
    rates = c / n
    band = bootstrap_over_questions(rates)
    return {
        "value": float(rates.mean()),
        "samples_per_question": float(n.mean()),
        "standard_error_across_questions": standard_error_across_questions(rates),
        "standard_error_at_fixed_questions": standard_error_at_fixed_questions(c, n),
        # Of the mean over all runs; one run alone spreads by sqrt(runs) times this.
        "standard_error_across_runs": standard_error_across_runs([float(np.mean(run)) for run in runs.values()]),
        "bootstrap_low": band.low,
        "bootstrap_high": band.high,
    }


def _majority(answered: Mapping[str, Sequence[Mapping[str, Any]]], k: int) -> dict[str, Any]:
    values = np.array([majority_at_k([answer_class(row) for row in rows], k) for rows in answered.values()])
    return estimate(values[~np.isnan(values)])


def answer_class(row: Mapping[str, Any]) -> tuple[Any, bool]:
    """(equivalence class, right) of one response, for the vote.

    Answers that the verifier found right are one class, however they are written, because each equals the reference.
    Wrong ones are told apart by their text without white space, so equal wrong answers written differently are rivals:
    a vote for a wrong answer can be split, never one for the right answer.
    """
    if _passed(row):
        return RIGHT, True
    return ("".join(row["extracted"].split()) or None) if row["extracted"] else None, False


def _rates(graded: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Shares of the graded responses. `no_answer_rate`: ended by themselves without anything to judge."""
    if not graded:
        return dict.fromkeys(("truncation_rate", "no_answer_rate", "timeout_rate", "accuracy_given_completion"), NAN)
    completed = [row for row in graded if row["finish_reason"] == "stop"]
    return {
        "truncation_rate": sum(row["finish_reason"] == "length" for row in graded) / len(graded),
        "no_answer_rate": sum(row["outcome"] == Outcome.UNPARSEABLE for row in completed) / len(graded),
        "timeout_rate": sum(row["outcome"] == Outcome.TIMEOUT for row in graded) / len(graded),
        "accuracy_given_completion": float(np.mean([_passed(row) for row in completed])) if completed else NAN,
    }


def response_tokens(graded: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Response length in tokens, over all graded responses and by correctness."""
    groups = {
        "all": [row["tokens"] for row in graded],
        "correct": [row["tokens"] for row in graded if _passed(row)],
        "wrong": [row["tokens"] for row in graded if not _passed(row)],
    }
    return {
        name: {
            "mean": float(np.mean(tokens)) if tokens else NAN,
            "median": float(np.median(tokens)) if tokens else NAN,
            "p90": float(np.quantile(tokens, 0.9)) if tokens else NAN,
        }
        for name, tokens in groups.items()
    }


SOLVE_RATE_EDGES = (0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0)


def solve_rates(rates: np.ndarray) -> dict[str, Any]:
    """Histogram of the questions' solve rates. Bins: exactly 0; eight of equal width, open below 1; exactly 1.

    Never and always are bins of their own because the question "does training reach what it never solved" is
    about the first, and because at n = 16 each inner bin then holds the same number of possible rates but one.
    """
    inner = rates[(rates > 0) & (rates < 1)]
    counts, _ = np.histogram(inner, bins=SOLVE_RATE_EDGES)
    labels = [f"{low * 100:g}–{high * 100:g} %" for low, high in itertools.pairwise(SOLVE_RATE_EDGES)]
    return {
        "bins": ["never", *labels, "always"],
        "questions": [int((rates == 0).sum()), *map(int, counts), int((rates == 1).sum())],
        "mean": float(rates.mean()),
        "variance": float(rates.var(ddof=1)) if rates.size > 1 else NAN,
    }


def without_nan(value: Any) -> Any:
    """The same structure with null for NaN, which JSON does not have."""
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value
