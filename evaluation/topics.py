"""Accuracy by topic, also with the difficulty of the topic's questions taken out.

Accuracy by topic alone is confounded: LiveCodeBench Pro finds 75 % on a topic that demands a rating of 1,900 and 37 %
on one that demands 2,500. The adjusted accuracy compares each question with questions as hard as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ratchet.evaluation.statistics import share_interval, standard_error_across_questions

STRATA = 5  # of numeric difficulty, by quantiles
FEWEST = 3  # questions that make a topic


def by_topic(
    rates: Mapping[str, float], topics: Mapping[str, Sequence[str]], difficulties: Mapping[str, float | str | None]
) -> list[dict[str, Any]]:
    """One row a topic, most questions first: plain accuracy, and adjusted accuracy where difficulties are known.

    All three by problem_id; `rates` are solve rates. adjusted = mean over all questions + mean over the topic's
    questions of (solve rate - mean rate of all questions in the same difficulty stratum), cut to [0, 1]: what the
    accuracy would be if the topic were as hard as the benchmark. Its error is that of the differences across the
    topic's questions.
    """
    questions = list(rates)
    rate = np.array([rates[question] for question in questions])
    members: dict[str, list[int]] = {}
    for i, question in enumerate(questions):
        for topic in topics.get(question, ()):
            members.setdefault(topic, []).append(i)
    expected = _expected(rate, [difficulties.get(question) for question in questions])
    rows = []
    for topic, chosen in sorted(members.items(), key=lambda item: (-len(item[1]), item[0])):
        if len(chosen) < FEWEST:
            continue
        own = rate[chosen]
        error = standard_error_across_questions(own)
        low, high = share_interval(float(own.mean()), error, own.size)
        row = {"topic": topic, "questions": own.size, "value": float(own.mean()), "standard_error": error}
        row |= {"low": low, "high": high, "adjusted": None, "adjusted_standard_error": None}
        if expected is not None:
            over = own - expected[chosen]
            row["adjusted"] = float(np.clip(rate.mean() + over.mean(), 0, 1))
            row["adjusted_standard_error"] = standard_error_across_questions(over)
        rows.append(row)
    return rows


def _expected(rate: np.ndarray, difficulties: Sequence[float | str | None]) -> np.ndarray | None:
    """The mean rate of each question's difficulty stratum, shape [questions]; None where difficulties are missing."""
    if not len(rate) or any(difficulty is None for difficulty in difficulties):
        return None
    try:
        values = np.array([float(difficulty) for difficulty in difficulties])
    except ValueError:
        _, strata = np.unique([str(difficulty) for difficulty in difficulties], return_inverse=True)
    else:
        distinct = np.unique(values)
        if distinct.size <= STRATA:
            strata = np.searchsorted(distinct, values)
        else:
            strata = np.searchsorted(np.quantile(values, np.arange(1, STRATA) / STRATA), values, side="right")
    sums, sizes = np.bincount(strata, rate), np.bincount(strata)
    return (sums / np.maximum(sizes, 1))[strata]
