"""A benchmark as data: a name, a domain, and problems that can be graded."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from infra.errors import RatchetError
from infra.problems import DOMAINS, PROBLEM_SCHEMA, Problem, as_row, from_table

REQUIRED = {"math": "answer", "code": "tests"}  # what a verifier cannot do without


@dataclass(frozen=True)
class Benchmark:
    name: str
    domain: str
    problems: tuple[Problem, ...]
    content_hash: str
    """sha256 of the problems, in order: two scores are comparable when these are equal."""


def load_benchmark(name: str, domain: str, path: str | Path) -> Benchmark:
    """Read a Parquet file in `PROBLEM_SCHEMA`.

    Raises RatchetError, naming file, row and field, when the file is missing, is not such a Parquet, is empty, holds
    a problem of another domain, one twice, or one that cannot be graded: a benchmark that silently lost a question is
    another benchmark.
    """
    path = Path(path)
    if domain not in DOMAINS:
        raise RatchetError(f"benchmark {name}: domain {domain!r}; there is {', '.join(DOMAINS)}")
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
    first_row: dict[str, int] = {}
    for row, problem in enumerate(problems):
        where = f"benchmark {name}: {path}, row {row} (problem {problem.problem_id})"
        if problem.domain != domain:
            raise RatchetError(f"{where}: domain is {problem.domain!r}, the benchmark's is {domain!r}")
        if not getattr(problem, REQUIRED[domain]):
            raise RatchetError(f"{where}: {REQUIRED[domain]} is empty, so no response can be graded; remove the row")
        if problem.problem_id in first_row:
            raise RatchetError(f"{where}: the same problem_id as row {first_row[problem.problem_id]}; keep one of them")
        first_row[problem.problem_id] = row
    return Benchmark(name, domain, problems, content_hash(problems))


def content_hash(problems: tuple[Problem, ...]) -> str:
    digest = hashlib.sha256()
    for problem in problems:
        digest.update(json.dumps(as_row(problem), sort_keys=True, default=str).encode())
    return digest.hexdigest()
