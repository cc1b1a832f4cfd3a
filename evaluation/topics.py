"""What a benchmark's file says of its questions, and accuracy by topic with the difficulty of its questions taken out.

Accuracy by topic alone is confounded: LiveCodeBench Pro finds 75 % on a topic that demands a rating of 1,900 and 37 %
on one that demands 2,500. The adjusted accuracy compares each question with questions as hard as it is.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ratchet.evaluation.statistics import share_interval, standard_error_across_questions
from ratchet.infra.problems import Problem

TOPIC_KEYS = ("topic", "topics", "subject", "subfield", "problem_type", "type", "tags", "cf_tags", "unique_id")
DIFFICULTY_KEYS = ("difficulty", "level", "rating", "cf_rating")
RATING_KEYS = ("rating", "cf_rating")
CLUSTER_KEYS = ("contest_id", "cf_contest_id")
MATH500_ID = re.compile(r"(?:train|test)/(\w+)/\d+\.json")  # where some copies of MATH500 keep the subject
STRATA = 5  # of numeric difficulty, by quantiles
FEWEST = 3  # questions that make a topic


def topics_of(problem: Problem) -> tuple[str, ...]:
    """What a benchmark's file says a question is about; a question may have several topics, or none."""
    metadata = _metadata(problem)
    value = next((metadata[key] for key in TOPIC_KEYS if metadata.get(key)), None)
    if isinstance(value, str) and (found := MATH500_ID.fullmatch(value)):
        value = found[1]
    elif isinstance(value, str) and value == metadata.get("unique_id"):
        return ()
    values = value if isinstance(value, list) else [] if value is None else [value]
    return tuple(dict.fromkeys(str(topic).replace("_", " ").strip().lower() for topic in values))


def difficulty_of(problem: Problem) -> float | str | None:
    """A number where it is one, else a word such as "hard"; None where the file says nothing."""
    value = metadata_value(problem, DIFFICULTY_KEYS)
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value).strip().lower() if value is not None else None
    return number if math.isfinite(number) else None


def rating_of(problem: Problem) -> float | None:
    """Its rating on Codeforces, where the file has one."""
    value = metadata_value(problem, RATING_KEYS)
    return float(value) if isinstance(value, int | float) else None


def cluster_of(problem: Problem) -> str | None:
    """The contest it comes from: problems of one contest are alike."""
    value = metadata_value(problem, CLUSTER_KEYS)
    return None if value is None else str(value)


def metadata_value(problem: Problem, keys: Sequence[str]) -> str | int | float | None:
    """The first of these entries of the problem's metadata that is a text or a number, and says anything."""
    metadata = _metadata(problem)
    value = next((metadata[key] for key in keys if metadata.get(key) not in (None, "")), None)
    return value if isinstance(value, str | int | float) and not isinstance(value, bool) else None


def _metadata(problem: Problem) -> dict[str, Any]:
    metadata = json.loads(problem.metadata or "{}")
    return metadata if isinstance(metadata, dict) else {}


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
