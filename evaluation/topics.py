"""Accuracy by topic, plain and adjusted for difficulty.

Plain accuracy is confounded with difficulty: LiveCodeBench Pro reports 75 % on a topic with a rating of 1,900 and 37 %
on one with 2,500. The adjusted accuracy compares each question with equally difficult ones.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ratchet.evaluation.statistics import share_interval, standard_error_across_clusters

STRATA = 5  # of numeric difficulty, by quantiles
FEWEST = 3  # questions that make a topic


def by_topic(
    rates: Mapping[str, float],
    topics: Mapping[str, Sequence[str]],
    difficulties: Mapping[str, float | str | None],
    clusters: Mapping[str, Hashable] = {},
) -> list[dict[str, Any]]:
    """One row per topic, most questions first: plain accuracy, and adjusted accuracy if all difficulties are known.

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
