"""Facts about a problem from the file that it was read from: topics, difficulty, contest."""

import json
import math
import re
from collections.abc import Sequence
from typing import Any

from ratchet.verifiers.problem import Problem

TOPIC_KEYS = ("topic", "topics", "subject", "subfield", "problem_type", "type", "tags", "cf_tags", "unique_id",
              "task")  # fmt: skip
DIFFICULTY_KEYS = ("difficulty", "level", "rating", "cf_rating")
CLUSTER_KEYS = ("contest_id", "cf_contest_id", "paraphrase_of", "original_id", "seed_question")
MATH500_ID = re.compile(r"(?:train|test)/(\w+)/\d+\.json")  # some copies of MATH500 have the subject here


def topics_of(problem: Problem) -> tuple[str, ...]:
    """The topics that the file states for a problem; there may be several, or none."""
    metadata = _metadata(problem)
    value = next((metadata[key] for key in TOPIC_KEYS if metadata.get(key)), None)
    if isinstance(value, str) and (match := MATH500_ID.fullmatch(value)):
        value = match[1]
    elif isinstance(value, str) and value == metadata.get("unique_id"):
        return ()
    values = value if isinstance(value, list) else [] if value is None else [value]
    return tuple(dict.fromkeys(str(topic).replace("_", " ").strip().lower() for topic in values))


def difficulty_of(problem: Problem) -> float | str | None:
    """The difficulty that the file states: a number, or a word such as "hard"; None if it states none."""
    value = metadata_value(problem, DIFFICULTY_KEYS)
    if value is None:
        return None
    try:
        number = float(str(value).lower().removeprefix("level "))  # MATH's own files have "Level 2"
    except ValueError:
        return str(value).strip().lower()
    return number if math.isfinite(number) else None


def cluster_of(problem: Problem) -> str | None:
    """The contest of a problem, or the question that it is a paraphrase or variant of."""
    value = metadata_value(problem, CLUSTER_KEYS)
    return None if value is None else str(value)


def metadata_value(problem: Problem, keys: Sequence[str]) -> str | int | float | None:
    """The first non-empty text or number among these entries of the problem's metadata."""
    metadata = _metadata(problem)
    value = next((metadata[key] for key in keys if metadata.get(key) not in (None, "")), None)
    return value if isinstance(value, str | int | float) and not isinstance(value, bool) else None


def _metadata(problem: Problem) -> dict[str, Any]:
    metadata = json.loads(problem.metadata or "{}")
    return metadata if isinstance(metadata, dict) else {}
