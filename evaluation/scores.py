"""The scores of one benchmark: a plain dictionary, ready for JSON, from one row per response.

Undefined numbers (pass@k for k > n, an error bar of one question) are NaN here and null in JSON.
"""

import itertools
import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ratchet.data_curation.base.metadata import cluster_of, difficulty_of, topics_of
from ratchet.evaluation.grading import RIGHT
from ratchet.evaluation.pass_at_k import NAN, all_pass_table, majority_at_k, pass_at_k_table
from ratchet.evaluation.statistics import (
    share_interval,
    standard_error_across_clusters,
    standard_error_at_fixed_questions,
)
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.problem import Problem

STRATA = 5  # of numeric difficulty, by quantiles
FEWEST = 3  # questions that make a topic
BUDGETS = 6  # lengths, for scores by length


def score(
    rows: pd.DataFrame,
    problems: Sequence[Problem],
    pass_at: Sequence[int],
    vote: bool,
    contaminated: Collection[str] | None = None,
) -> dict[str, Any]:
    """Score one benchmark.

    `rows`, one per response, have `problem_id`, `sample`, `finish_reason`, `tokens`, `outcome`, `decided_by`,
    `answer_class` and `empty`; `problems` is the whole benchmark in order. Rows with the outcome `infra_error`
    are counted, and are part of no score. `vote` adds maj@k, for domains whose answers can be compared with one
    another. `contaminated` are the problem_ids found in the training set, None without a check. pass@1 is
    always among the scores.
    """
    rows = rows.assign(right=rows.outcome == Outcome.PASSED.value).sort_values("sample", kind="stable")
    graded = rows.loc[rows.outcome != Outcome.INFRA_ERROR.value]
    counts = graded.groupby("problem_id").right.agg(c="sum", n="count")
    counts = counts.reindex([problem.problem_id for problem in problems], fill_value=0)
    answered = counts[counts.n > 0]
    n, c = answered.n.to_numpy(int), answered.c.to_numpy(int)
    rates = dict(zip(answered.index, (c / n).tolist(), strict=True))
    pass_at = sorted({1, *pass_at})
    clusters = {p.problem_id: cluster for p in problems if (cluster := cluster_of(p))}
    groups = [clusters.get(question, (question,)) for question in answered.index]  # a tuple equals no cluster's name
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
        "standard_error_at_fixed_questions": standard_error_at_fixed_questions(c, n),
        **_rates(graded),
        "response_tokens": response_tokens(graded),
        "solve_rates": solve_rates(n, c) if n.size else None,
        "topics": by_topic(
            rates,
            {p.problem_id: topics_of(p) for p in problems},
            {p.problem_id: difficulty_of(p) for p in problems},
            clusters,
        ),
        "months": _by_month(problems, rates, clusters),
        "budgets": _by_budget(graded, groups, answered.index),
        "contamination": None,
        "problems": dict(zip(counts.index, counts[["c", "n"]].to_numpy().tolist(), strict=True)),
        "clusters": clusters,
    }
    if contaminated is not None:
        clean = curves.of(~answered.index.isin(list(contaminated)))
        without = {str(k): clean.at(k) for k in pass_at}
        flagged = sorted({*contaminated}.intersection(counts.index))  # of the questions that were asked
        result["contamination"] = {"flagged": flagged, "pass_at_without": without}
    if vote:
        classes = graded.groupby("problem_id").answer_class.agg(list).reindex(answered.index)
        votes = [[(None if pd.isna(a) else int(a), a == RIGHT) for a in each] for each in classes]
        result["majority_at"] = {
            str(k): estimate(np.array([majority_at_k(v, k) for v in votes]), groups) for k in pass_at
        }
    return result


def estimate(values: np.ndarray, clusters: Sequence[Hashable]) -> dict[str, Any]:
    """The mean over the questions with a defined value, its standard error across `clusters` (the cluster of each
    question), and `share_interval`'s 95 % interval."""
    defined = ~np.isnan(values)
    values, units = values[defined], [cluster for cluster, is_known in zip(clusters, defined, strict=True) if is_known]
    if not values.size:
        return {"value": NAN, "standard_error": NAN, "low": NAN, "high": NAN, "questions": 0}
    value, error = float(values.mean()), standard_error_across_clusters(values, units)
    low, high = share_interval(value, error, len(set(units)))
    return {"value": value, "standard_error": error, "low": low, "high": high, "questions": int(values.size)}


@dataclass(frozen=True)
class Curves:
    """The curves of a score: its value at every k, shape [questions, largest k], NaN where undefined; and the cluster
    of each question."""

    table: np.ndarray
    clusters: Sequence[Hashable]

    def of(self, chosen: np.ndarray) -> "Curves":
        return Curves(self.table[chosen], [cluster for cluster, c in zip(self.clusters, chosen, strict=True) if c])

    def at(self, k: int) -> dict[str, Any]:
        """The mean over the questions with at least k graded responses, and their number."""
        undefined = k > self.table.shape[1]
        return estimate(np.full(len(self.table), NAN) if undefined else self.table[:, k - 1], self.clusters)

    def points(self) -> dict[str, list]:
        """Scores at powers of two and at n, the fewest responses to a question, with 95 % intervals."""
        top = int((~np.isnan(self.table)).all(axis=0).sum()) if len(self.table) else 0
        ks = sorted({2**i for i in range(top.bit_length()) if 2**i <= top} | ({top} if top else set()))
        estimates = [self.at(k) for k in ks]
        return {"k": ks, **{name: [point[name] for point in estimates] for name in ("value", "low", "high")}}


def _by_month(
    problems: Sequence[Problem], rates: Mapping[str, float], clusters: Mapping[str, Hashable]
) -> list[dict[str, Any]]:
    """pass@1 by month of release, where there are several months: a model may have been trained on older problems."""
    months = {p.problem_id: [f"{p.released:%Y-%m}"] for p in problems if p.released}
    if len({month for (month,) in months.values()}) < 2:
        return []
    return sorted(by_topic(rates, months, {}, clusters), key=lambda row: row["topic"])


def by_topic(
    rates: Mapping[str, float],
    topics: Mapping[str, Sequence[str]],
    difficulties: Mapping[str, float | str | None],
    clusters: Mapping[str, Hashable] = {},
) -> list[dict[str, Any]]:
    """A table with one row per topic, most questions first: plain accuracy, and, if all difficulties are known,
    adjusted accuracy. Plain accuracy is confounded with difficulty: LiveCodeBench Pro reports 75 % on a topic with a
    rating of 1,900 and 37 % on one with 2,500. The adjusted one compares each question with equally difficult ones.

    All arguments are by problem_id; `rates` are solve rates; errors are across `clusters`. adjusted = mean over all
    questions + mean over the topic's questions of (solve rate - mean rate of all questions in the same difficulty
    stratum), clipped to [0, 1]. Its error is that of these differences across the topic's questions.
    """
    rate = pd.Series(rates, dtype=float)
    expected = _expected(rate, [difficulties.get(question) for question in rates])
    own = pd.Series({question: list(topics.get(question, ())) for question in rates}, dtype=object).explode().dropna()
    rows = []
    for topic, chosen in sorted(own.groupby(own).groups.items(), key=lambda item: (-len(item[1]), item[0])):
        size = len(chosen)
        if size < FEWEST:
            continue
        groups = [clusters.get(question, (question,)) for question in chosen]
        value, error = float(rate[chosen].mean()), standard_error_across_clusters(rate[chosen], groups)
        low, high = share_interval(value, error, len(set(groups)))
        row = {"topic": topic, "questions": size, "value": value, "standard_error": error, "low": low, "high": high}
        over = None if expected is None else rate[chosen] - expected[chosen]
        row["adjusted"] = None if over is None else float(np.clip(rate.mean() + over.mean(), 0, 1))
        row["adjusted_standard_error"] = None if over is None else standard_error_across_clusters(over, groups)
        rows.append(row)
    return rows


def _expected(rate: pd.Series, difficulties: Sequence[float | str | None]) -> pd.Series | None:
    """The mean rate of each question's difficulty stratum, by question; None where difficulties are missing."""
    if rate.empty or any(difficulty is None for difficulty in difficulties):
        return None
    try:
        values = np.array([float(difficulty) for difficulty in difficulties])  # type: ignore[arg-type]
    except ValueError:
        strata = np.array([str(difficulty) for difficulty in difficulties])
    else:
        edges = np.quantile(values, np.arange(1, STRATA) / STRATA)
        strata = values if len(np.unique(values)) <= STRATA else np.searchsorted(edges, values, side="right")
    return rate.groupby(strata).transform("mean")


def _by_budget(graded: pd.DataFrame, clusters: Sequence[Hashable], questions: pd.Index) -> list[dict[str, Any]]:
    """pass@1 with longer responses counted as wrong, at powers of two up to the longest response; nothing where lengths
    are unknown."""
    if not len(graded) or graded.tokens.isna().any():
        return []
    most = math.ceil(math.log2(max(graded.tokens.max(), 2)))
    rows = []
    for tokens in (2**power for power in range(max(most - BUDGETS + 1, 0), most + 1)):
        within = (graded.right & (graded.tokens <= tokens)).groupby(graded.problem_id).mean().reindex(questions)
        rows.append({"tokens": tokens, **estimate(within.to_numpy(float), clusters)})
    return rows


def _rates(graded: pd.DataFrame) -> dict[str, float]:
    """Shares of the graded responses. `no_answer_rate`: complete, with no answer to judge; `empty_rate`: no text beside
    thinking; `rewritten_rate`: of the right ones, those that only evaluation shows to be equal to their reference;
    `unevaluated_rate`: those that leave arithmetic to do."""
    completed = graded.finish_reason == "stop"
    unparseable = graded.outcome == Outcome.UNPARSEABLE.value
    return {
        "truncation_rate": float((graded.finish_reason == "length").mean()),
        "empty_rate": float(graded["empty"].mean()),
        "no_answer_rate": float((unparseable & completed).mean()),
        "rewritten_rate": float((graded.decided_by[graded.right] == "numeric").mean()),
        "unevaluated_rate": float((graded.decided_by == "unevaluated").mean()),
        "timeout_rate": float((graded.outcome == Outcome.TIMEOUT.value).mean()),
        "accuracy_given_completion": float(graded.right[completed].mean()),
    }


def response_tokens(graded: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Response length in tokens, over all graded responses and by correctness; NaN where lengths are unknown."""
    lengths = {}
    for name, rows in (("all", graded), ("correct", graded[graded.right]), ("wrong", graded[~graded.right])):
        tokens = rows.tokens.dropna().astype(float)
        values = (tokens.mean(), *tokens.quantile([0.5, 0.9, 0.99]))
        lengths[name] = dict(zip(("mean", "median", "p90", "p99"), map(float, values), strict=True))
    return lengths


SOLVE_RATE_EDGES = (-1, 1e-9, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0, 2.0)


def solve_rates(n: np.ndarray, c: np.ndarray) -> dict[str, Any]:
    """A histogram of the questions' solve rates. Bins: exactly 0; eight of equal width, open below 1; exactly 1."""
    inner = [f"{low * 100:g}–{high * 100:g} %" for low, high in itertools.pairwise((0.0, *SOLVE_RATE_EDGES[2:-1]))]
    return {"bins": ["never", *inner, "always"], "questions": np.histogram(c / n, SOLVE_RATE_EDGES)[0].tolist()}


def complete(points: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The points, by k, that are means over every graded question. Where some questions have fewer than k responses,
    the point is one of other questions than pass@1, and may lie below it."""
    return {k: point for k, point in points.items() if point["questions"] == points["1"]["questions"] > 0}


def of_all(points: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, float | None]:
    """The number of this name of each point, by k; None where the point is not `complete`."""
    whole = complete(points)
    return {k: whole[k][name] if k in whole else None for k in points}


def flat(scores: Mapping[str, Any]) -> dict[str, float | None]:
    """A benchmark's scores as flat names: `pass_at_K`, its `_standard_error`, `majority_at_K`, rates, the domain's own
    metrics and `response_tokens`, the mean."""
    numbers = {f"pass_at_{k}": value for k, value in of_all(scores["pass_at"], "value").items()}
    errors = of_all(scores["pass_at"], "standard_error")
    numbers |= {f"pass_at_{k}_standard_error": error for k, error in errors.items()}
    numbers |= {f"majority_at_{k}": value for k, value in of_all(scores.get("majority_at", {}), "value").items()}
    numbers |= {name: value for name, value in scores.items() if name.endswith("_rate")}
    numbers |= {"accuracy_given_completion": scores["accuracy_given_completion"], **scores.get("metrics", {})}
    return numbers | {"response_tokens": scores["response_tokens"]["all"]["mean"]}


def without_nan(value: Any) -> Any:
    """Replace NaN, which JSON does not have, by null."""
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value
