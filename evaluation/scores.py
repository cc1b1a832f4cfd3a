"""What is reported about one benchmark: a plain dictionary, ready for JSON, from one row per response.

Undefined numbers (pass@k for k > n, an error bar of one question) are NaN here and null in JSON.
"""

import itertools
import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ratchet.evaluation.benchmarks import cluster_of, difficulty_of, rating_of, topics_of
from ratchet.evaluation.grading import RIGHT
from ratchet.evaluation.pass_at_k import all_pass_table, majority_at_k, pass_at_k_by_subsampling, pass_at_k_table
from ratchet.evaluation.rating import map_rating
from ratchet.evaluation.regimes import pass_at_k_bound
from ratchet.evaluation.statistics import (
    NAN,
    share_interval,
    standard_error_across_clusters,
    standard_error_across_questions,
    standard_error_at_fixed_questions,
)
from ratchet.evaluation.topics import by_topic
from ratchet.infra.problems import Problem
from ratchet.verifiers.outcome import Outcome


def score(
    rows: pd.DataFrame,
    problems: Sequence[Problem],
    pass_at: Sequence[int],
    vote: bool,
    contaminated: Collection[str] | None = None,
) -> dict[str, Any]:
    """Scores of one benchmark.

    `rows`, one a response, have `problem_id`, `sample`, `finish_reason`, `tokens`, `outcome`, `answer_class`, `empty`;
    `problems` is the benchmark in order, questions without a single row included. Rows whose outcome is `infra_error`
    say nothing about the model: they are counted, and left out of everything else. `vote` adds maj@k, for domains whose
    answers can be compared with one another. `contaminated` are the problem_ids found in the training set, None when
    nobody looked. pass@1 is always among the scores.
    """
    rows = rows.assign(right=rows.outcome == Outcome.PASSED.value).sort_values("sample", kind="stable")
    graded = rows.loc[rows.outcome != Outcome.INFRA_ERROR.value]
    counts = graded.groupby("problem_id").right.agg(c="sum", n="count")
    counts = counts.reindex([problem.problem_id for problem in problems], fill_value=0)
    answered = counts[counts.n > 0]
    n, c = answered.n.to_numpy(int), answered.c.to_numpy(int)
    rates = dict(zip(answered.index, (c / n).tolist(), strict=True))
    pass_at = sorted({1, *pass_at})
    subsampled = {k: pass_at_k_by_subsampling(n, c, k) for k in pass_at}
    clusters = {p.problem_id: cluster for p in problems if (cluster := cluster_of(p))}
    groups = [
        clusters.get(question, (question,)) for question in answered.index
    ]  # no cluster is called like a question
    curves = Curves(pass_at_k_table(n, c), groups)
    all_pass = Curves(all_pass_table(n, c), groups)

    result = {
        "questions": len(counts),
        "questions_graded": len(answered),
        "samples": len(rows),
        "samples_graded": len(graded),
        "infra_errors": len(rows) - len(graded),
        "infra_error_rate": (len(rows) - len(graded)) / len(rows) if len(rows) else NAN,
        "pass_at": {str(k): curves.at(k) for k in pass_at},
        "pass_curve": curves.points(),
        "all_pass_at": {str(k): all_pass.at(k) for k in pass_at},
        "pass_at_by_subsampling": {str(k): {"value": v, "monte_carlo_error": e} for k, (v, e) in subsampled.items()},
        "pass_at_bound": {str(k): pass_at_k_bound(n, c, k) for k in pass_at},
        "average": _average(n, c, graded, groups),
        **_rates(graded),
        "response_tokens": response_tokens(graded),
        "length_histogram": length_histogram(graded),
        "solve_rates": solve_rates(n, c) if n.size else None,
        "topics": by_topic(
            rates,
            {p.problem_id: topics_of(p) for p in problems},
            {p.problem_id: difficulty_of(p) for p in problems},
            clusters,
        ),
        "months": _by_month(problems, rates, clusters),
        "budgets": _by_budget(graded, groups, answered.index),
        "rating": _rating(problems, rates),
        "contamination": None,
        "problems": dict(zip(counts.index, counts[["c", "n"]].to_numpy().tolist(), strict=True)),
        "clusters": clusters,
    }
    if contaminated is not None:
        clean = curves.of(~answered.index.isin(list(contaminated)))
        without = {str(k): clean.at(k) for k in pass_at}
        result["contamination"] = {"flagged": sorted(contaminated), "pass_at_without": without}
    if vote:
        classes = graded.groupby("problem_id").answer_class.agg(list).reindex(answered.index)
        votes = [[(None if pd.isna(a) else int(a), a == RIGHT) for a in each] for each in classes]
        result["majority_at"] = {
            str(k): estimate(np.array([majority_at_k(v, k) for v in votes]), groups) for k in pass_at
        }
    return result


def estimate(values: np.ndarray, clusters: Sequence[Hashable]) -> dict[str, Any]:
    """Mean over the questions where it is defined, with its error across `clusters`, which names that of each question
    (questions, where each has its own), and `share_interval`'s 95 %."""
    known = ~np.isnan(values)
    values, units = values[known], [cluster for cluster, is_known in zip(clusters, known, strict=True) if is_known]
    if not values.size:
        return {"value": NAN, "standard_error": NAN, "low": NAN, "high": NAN, "questions": 0}
    value, error = float(values.mean()), standard_error_across_clusters(values, units)
    low, high = share_interval(value, error, len(set(units)))
    return {"value": value, "standard_error": error, "low": low, "high": high, "questions": int(values.size)}


@dataclass(frozen=True)
class Curves:
    """A score at every k, shape [questions, largest k], NaN where undefined; and the cluster of each question."""

    table: np.ndarray
    clusters: Sequence[Hashable]

    def of(self, chosen: np.ndarray) -> "Curves":
        return Curves(self.table[chosen], [cluster for cluster, c in zip(self.clusters, chosen, strict=True) if c])

    def at(self, k: int) -> dict[str, Any]:
        """Mean over the questions with at least k graded responses; how many those are is part of the score."""
        undefined = k > self.table.shape[1]
        return estimate(np.full(len(self.table), NAN) if undefined else self.table[:, k - 1], self.clusters)

    def points(self) -> dict[str, list]:
        """At powers of two and at n, the fewest responses to a question, with 95 % intervals: a larger k would be of
        other questions."""
        top = int((~np.isnan(self.table)).all(axis=0).sum()) if len(self.table) else 0
        ks = sorted({2**i for i in range(top.bit_length()) if 2**i <= top} | ({top} if top else set()))
        found = [self.at(k) for k in ks]
        return {"k": ks, **{name: [point[name] for point in found] for name in ("value", "low", "high")}}


def _by_month(
    problems: Sequence[Problem], rates: Mapping[str, float], clusters: Mapping[str, Hashable]
) -> list[dict[str, Any]]:
    """pass@1 by the month of release, where problems are of several: a model may know the older ones."""
    months = {p.problem_id: [f"{p.released:%Y-%m}"] for p in problems if p.released}
    if len({month for (month,) in months.values()}) < 2:
        return []
    return sorted(by_topic(rates, months, {}, clusters), key=lambda row: row["topic"])


BUDGETS = 6


def _by_budget(graded: pd.DataFrame, clusters: Sequence[Hashable], questions: pd.Index) -> list[dict[str, Any]]:
    """pass@1 if every response had been stopped after so many tokens: the longer ones are wrong. The longest response's
    power of two and those below; nothing where lengths are unknown."""
    if not len(graded) or graded.tokens.isna().any():
        return []
    most = math.ceil(math.log2(max(graded.tokens.max(), 2)))
    rows = []
    for tokens in (2**power for power in range(max(most - BUDGETS + 1, 0), most + 1)):
        within = (graded.right & (graded.tokens <= tokens)).groupby(graded.problem_id).mean().reindex(questions)
        rows.append({"tokens": tokens, **estimate(within.to_numpy(float), clusters)})
    return rows


def _average(n: np.ndarray, c: np.ndarray, graded: pd.DataFrame, clusters: Sequence[Hashable]) -> dict[str, Any]:
    """avg@n with the error bars of `evaluation.statistics`; `clusters` names that of each question."""
    if not n.size:
        return {"value": NAN}
    rates = c / n
    average = {
        "value": float(rates.mean()),
        "samples_per_question": float(n.mean()),
        "standard_error_across_questions": standard_error_across_questions(rates),
        "standard_error_at_fixed_questions": standard_error_at_fixed_questions(c, n),
        # Of the mean over all runs, of which run j is the j-th response to every question: estimates what the one above
        # does without assuming that samples are independent. One run alone spreads by sqrt(runs) times this.
        "standard_error_across_runs": standard_error_across_questions(graded.groupby("sample").right.mean()),
    }
    if 1 < len(set(clusters)) < len(clusters):
        average["clusters"] = len(set(clusters))
        average["standard_error_across_clusters"] = standard_error_across_clusters(rates, clusters)
    return average


def _rating(problems: Sequence[Problem], rates: Mapping[str, float]) -> dict[str, float] | None:
    """`map_rating` from the solve rates of the problems that have a rating, where there are any."""
    rated = {p.problem_id: rating for p in problems if (rating := rating_of(p)) is not None and p.problem_id in rates}
    if not rated:
        return None
    found = map_rating(list(rated.values()), [rates[problem] for problem in rated])
    return {"value": found.value, "standard_error": found.standard_error, "problems": found.observations}


def _rates(graded: pd.DataFrame) -> dict[str, float]:
    """Shares of the graded responses. `no_answer_rate`: ended by themselves without anything to judge;
    `empty_rate`: without any text but thinking. What depends on
    how a response ended is undefined where that is unknown, as in outputs imported from elsewhere."""
    completed, known = graded.finish_reason == "stop", (graded.finish_reason != "unknown").all()
    unparseable = graded.outcome == Outcome.UNPARSEABLE.value
    return {
        "truncation_rate": float((graded.finish_reason == "length").mean()) if known else NAN,
        "empty_rate": float(graded["empty"].mean()),
        "no_answer_rate": float((unparseable & (completed if known else True)).mean()),
        "timeout_rate": float((graded.outcome == Outcome.TIMEOUT.value).mean()),
        "accuracy_given_completion": float(graded.right[completed].mean()),
    }


def response_tokens(graded: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Response length in tokens, over all graded responses and by correctness; NaN where lengths are unknown."""
    found = {}
    for name, rows in (("all", graded), ("correct", graded[graded.right]), ("wrong", graded[~graded.right])):
        tokens = rows.tokens.dropna().astype(float)
        values = (tokens.mean(), *tokens.quantile([0.5, 0.9, 0.99]))
        found[name] = dict(zip(("mean", "median", "p90", "p99"), map(float, values), strict=True))
    return found


LENGTH_BINS = 24


def length_histogram(graded: pd.DataFrame) -> dict[str, list] | None:
    """Responses by length, right and wrong apart: `edges` in tokens, one more than there are counts."""
    known = graded.dropna(subset="tokens")
    if not len(known):
        return None
    edges = np.linspace(0, known.tokens.max() + 1, LENGTH_BINS + 1)
    counted = {
        name: np.histogram(known.tokens[known.right == right].astype(float), edges)[0].tolist()
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
    labels = [f"{low * 100:g}–{high * 100:g} %" for low, high in itertools.pairwise(SOLVE_RATE_EDGES)]
    return {
        "bins": ["never", *labels, "always"],
        "questions": [int((rates == 0).sum()), *map(int, counts), int((rates == 1).sum())],
    }


def without_nan(value: Any) -> Any:
    """The same structure with null for NaN, which JSON does not have."""
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value
