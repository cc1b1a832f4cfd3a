"""A benchmark as data: a name, a domain, and problems that can be graded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.evaluation.topics import metadata_value
from ratchet.infra.errors import RatchetError
from ratchet.infra.problems import PROBLEM_SCHEMA, Problem, from_table
from ratchet.verifiers.domain import domain_of

PUBLISHED_IDS = ("question_id", "task_id", "unique_id", "id")  # the first of them that a row has names its problem
DECISIVE = ("problem_id", "prompt", "answer", "tests", "entry_point", "starter_code", "time_limit_s", "memory_limit_mb",
            "metadata")  # fmt: skip


@dataclass(frozen=True)
class Benchmark:
    name: str
    domain: str
    problems: tuple[Problem, ...]
    content_hash: str
    """sha256 of all that decides a score, in any order: two scores are comparable when these are equal."""


def load_benchmark(name: str, domain: str, path: str | Path, published: str | None = None) -> Benchmark:
    """Read a Parquet file in `PROBLEM_SCHEMA`; `published` is the file that the user gave, whose rows errors then name.

    Raises RatchetError, naming file, row and field, when the file is missing, is not such a Parquet, is empty, holds
    a problem of another domain, one twice, or one that cannot be graded (no answer or tests, a reference that does not
    verify against itself): a benchmark that silently lost a question is another benchmark.
    """
    path = Path(path)
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
        if problem.domain != domain:
            raise RatchetError(f"{where}: domain is {problem.domain!r}, the benchmark's is {domain!r}")
        if fault := domain_of(domain).reference_fault(problem):
            raise RatchetError(f"{where}: no response can be graded, {fault}; fix or remove the row")
        for kind, value in (("problem_id", problem.problem_id), ("id", metadata_value(problem, PUBLISHED_IDS))):
            before, its_row = first.setdefault((kind, str(value)), (number, row))
            if value is not None and before != number:
                raise RatchetError(f"{where}: the same {kind} as row {its_row}; keep one of them")
    return Benchmark(name, domain, problems, content_hash(problems))


def content_hash(problems: Sequence[Problem]) -> str:
    digest = hashlib.sha256()
    for problem in sorted(problems, key=lambda problem: problem.problem_id):
        digest.update(json.dumps([getattr(problem, name) for name in DECISIVE]).encode())
    return digest.hexdigest()
