"""A benchmark's problems: read, checked that each can be graded, and what their file says of them."""

import hashlib
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.infra.errors import RatchetError
from ratchet.infra.problems import PROBLEM_SCHEMA, Problem, from_table
from ratchet.infra.recipe.evaluation import Benchmark
from ratchet.verifiers.domain import domain_of

PUBLISHED_IDS = ("question_id", "task_id", "unique_id", "id")  # the first of them that a row has names its problem
DECISIVE = ("problem_id", "prompt", "answer", "tests", "entry_point", "starter_code", "time_limit_s", "memory_limit_mb",
            "metadata")  # fmt: skip


def load_problems(benchmark: Benchmark, path: str | Path) -> tuple[Problem, ...]:
    """Read the benchmark's problems from a Parquet file in `PROBLEM_SCHEMA`. Errors name the rows of the file that the
    user gave, `benchmark.path`, where the problems were made from one.

    Raises RatchetError, naming file, row and field, when the file is missing, is not such a Parquet, is empty, holds
    a problem of another domain, one twice, or one that cannot be graded (no answer or tests, a reference that does not
    verify against itself): a benchmark that silently lost a question is another benchmark.
    """
    path, name, published = Path(path), benchmark.name, benchmark.path
    if not path.is_file():
        raise RatchetError(f"benchmark {name}: no file {path}. Give the path of a Parquet file of problems.")
    try:
        table = pq.read_table(path)
        absent = [field.name for field in PROBLEM_SCHEMA if not field.nullable and field.name not in table.column_names]
        if absent:
            raise ValueError(f"no column {', '.join(absent)}")
        table = table.select([n for n in PROBLEM_SCHEMA.names if n in table.column_names])
        table = table.cast(pa.schema([PROBLEM_SCHEMA.field(n) for n in table.column_names]))
        problems = tuple(from_table(table))
    except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError, TypeError) as error:
        raise RatchetError(f"benchmark {name}: {path} is not a Parquet file of problems: {error}") from error
    if not problems:
        raise RatchetError(f"benchmark {name}: {path} holds no problems")
    first: dict[tuple[str, str], tuple[int, str]] = {}  # where each problem_id, and each id of the publisher, stands
    for number, problem in enumerate(problems):
        row = problem.source_id if published and problem.source_id else str(number)
        where = f"benchmark {name}: {published or path}, row {row} (problem {problem.problem_id})"
        if problem.domain != benchmark.domain:
            raise RatchetError(f"{where}: domain is {problem.domain!r}, the benchmark's is {benchmark.domain!r}")
        if fault := domain_of(problem.domain).reference_fault(problem):
            raise RatchetError(f"{where}: no response can be graded, {fault}; fix or remove the row")
        for kind, value in (("problem_id", problem.problem_id), ("id", metadata_value(problem, PUBLISHED_IDS))):
            before, its_row = first.setdefault((kind, str(value)), (number, row))
            if value is not None and before != number:
                raise RatchetError(f"{where}: the same {kind} as row {its_row}; keep one of them")
    asked = {*sorted(problem.problem_id for problem in problems)[: benchmark.limit]}  # ids are hashes
    return tuple(problem for problem in problems if problem.problem_id in asked)


def content_hash(problems: Sequence[Problem]) -> str:
    """sha256 of all that decides a score, in any order: two scores are comparable when these are equal."""
    digest = hashlib.sha256()
    for problem in sorted(problems, key=lambda problem: problem.problem_id):
        digest.update(json.dumps([getattr(problem, name) for name in DECISIVE]).encode())
    return digest.hexdigest()


# ------------------------------------------------------------------------ what its file says of a question

TOPIC_KEYS = ("topic", "topics", "subject", "subfield", "problem_type", "type", "tags", "cf_tags", "unique_id",
              "task")  # fmt: skip
DIFFICULTY_KEYS = ("difficulty", "level", "rating", "cf_rating")
RATING_KEYS = ("rating", "cf_rating")
CLUSTER_KEYS = ("contest_id", "cf_contest_id", "paraphrase_of", "original_id", "seed_question")
MATH500_ID = re.compile(r"(?:train|test)/(\w+)/\d+\.json")  # where some copies of MATH500 keep the subject


def topics_of(problem: Problem) -> tuple[str, ...]:
    """What a question is about; it may have several topics, or none."""
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
    if value is None:
        return None
    try:
        number = float(value)
    except ValueError:
        return str(value).strip().lower()
    return number if math.isfinite(number) else None


def rating_of(problem: Problem) -> float | None:
    """Its rating on Codeforces, where the file has one."""
    value = metadata_value(problem, RATING_KEYS)
    return float(value) if isinstance(value, int | float) else None


def cluster_of(problem: Problem) -> str | None:
    """What it is alike with: the contest it comes from, or the question of which it is a paraphrase or a variant."""
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
