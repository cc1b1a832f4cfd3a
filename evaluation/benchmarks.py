"""A benchmark's problems: reading and checking them, and the metadata that scores use."""

import hashlib
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ratchet.infra.errors import RatchetError
from ratchet.infra.problems import Problem, from_table
from ratchet.infra.recipe.evaluation import Benchmark
from ratchet.verifiers.domain import domain_of

PUBLISHED_IDS = ("question_id", "task_id", "unique_id", "id")  # the first that a row has is its published id
DECISIVE = ("problem_id", "prompt", "answer", "tests", "entry_point", "starter_code", "time_limit_s", "memory_limit_mb",
            "metadata")  # fmt: skip
REFERENCE = DECISIVE[2:-1]
"""What decides whether a response to a prompt is right."""


def load_problems(benchmark: Benchmark, path: str | Path) -> tuple[Problem, ...]:
    """A benchmark's problems from a Parquet file in `PROBLEM_SCHEMA`. Errors name the rows of the user's own file,
    `benchmark.path`, if there is one.

    A row that repeats another, with the same reference, is one question. Raises RatchetError naming file, row and field
    when the file is empty, has a problem of another domain, one problem with two references, two problems with one id,
    or a problem that cannot be graded (no answer or tests, or a reference that does not verify against itself).
    """
    path, name, published = Path(path), benchmark.name, benchmark.path
    problems = tuple(from_table(pq.read_table(path)))
    if not problems:
        raise RatchetError(f"benchmark {name}: {published or path} has no problems")
    distinct: dict[str, Problem] = {}
    rows: dict[tuple[str, str], str] = {}  # the row of each problem_id and of each published id
    for number, problem in enumerate(problems):
        row = problem.source_id if published and problem.source_id else str(number)
        where = f"benchmark {name}: {published or path}, row {row} (problem {problem.problem_id})"
        if problem.domain != benchmark.domain:
            raise RatchetError(f"{where}: domain is {problem.domain!r}, the benchmark's is {benchmark.domain!r}")
        if fault := domain_of(problem.domain).reference_fault(problem):
            raise RatchetError(f"{where}: no response can be graded, {fault}; fix or remove the row")
        before = distinct.setdefault(problem.problem_id, problem)
        deciding = REFERENCE if problem.answer or problem.tests else (*REFERENCE, "metadata")
        if before is not problem and all(getattr(before, name) == getattr(problem, name) for name in deciding):
            continue
        for kind, value in (("problem_id", problem.problem_id), ("id", metadata_value(problem, PUBLISHED_IDS))):
            its_row = row if value is None else rows.setdefault((kind, str(value)), row)
            if its_row != row:
                raise RatchetError(f"{where}: the same {kind} as row {its_row}; keep one of them")
    asked = {*sorted(distinct)[: benchmark.limit]}  # ids are hashes
    return tuple(problem for problem_id, problem in distinct.items() if problem_id in asked)


def content_hash(problems: Sequence[Problem]) -> str:
    """sha256 of everything that decides a score, in any order: scores with the same hash are comparable."""
    digest = hashlib.sha256()
    for problem in sorted(problems, key=lambda problem: problem.problem_id):
        digest.update(json.dumps([getattr(problem, name) for name in DECISIVE]).encode())
    return digest.hexdigest()


# ------------------------------------------------------------------------------------------- metadata

TOPIC_KEYS = ("topic", "topics", "subject", "subfield", "problem_type", "type", "tags", "cf_tags", "unique_id",
              "task")  # fmt: skip
DIFFICULTY_KEYS = ("difficulty", "level", "rating", "cf_rating")
CLUSTER_KEYS = ("contest_id", "cf_contest_id", "paraphrase_of", "original_id", "seed_question")
MATH500_ID = re.compile(r"(?:train|test)/(\w+)/\d+\.json")  # some copies of MATH500 have the subject here


def topics_of(problem: Problem) -> tuple[str, ...]:
    """The topics that the file states; there may be several, or none."""
    metadata = _metadata(problem)
    value = next((metadata[key] for key in TOPIC_KEYS if metadata.get(key)), None)
    if isinstance(value, str) and (found := MATH500_ID.fullmatch(value)):
        value = found[1]
    elif isinstance(value, str) and value == metadata.get("unique_id"):
        return ()
    values = value if isinstance(value, list) else [] if value is None else [value]
    return tuple(dict.fromkeys(str(topic).replace("_", " ").strip().lower() for topic in values))


def difficulty_of(problem: Problem) -> float | str | None:
    """A number, or a word such as "hard"; None if the file states none."""
    value = metadata_value(problem, DIFFICULTY_KEYS)
    if value is None:
        return None
    try:
        number = float(value)
    except ValueError:
        return str(value).strip().lower()
    return number if math.isfinite(number) else None


def cluster_of(problem: Problem) -> str | None:
    """The contest it comes from, or the question that it is a paraphrase or variant of."""
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
