"""One problem is one row: the schema that all data sets share.

Structured columns (`tests`, `metadata`) are JSON text, not Arrow structs: sources disagree about their shape, and files
with different structs cannot be concatenated.
"""

import hashlib
import json
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Annotated, Any, get_args, get_type_hints

import pyarrow as pa

Text = Annotated[str | None, pa.string()]
LongText = Annotated[str | None, pa.large_string()]
Number = Annotated[float | None, pa.float64()]
Count = Annotated[int | None, pa.int32()]


@dataclass(frozen=True)
class CodeTest:
    """One test of a code problem. JSON in `tests`: `{"input": str, "output": str}` for stdin/stdout,
    `{"call": {"args": [...], "kwargs": {...}}, "output": <JSON value>}` for a function call, or
    `{"check": "<Python source that defines check(candidate)>"}`, which raises when the candidate is wrong. With
    `"exact": true` a call's value must equal the output in Python; otherwise a tuple counts as a list and floats may
    differ a little.

    The judge runs a `check` apart from the solution, on copies of its return values: a check cannot see what the
    candidate did to its arguments.
    """

    output: Any = None
    input: str | None = None
    call: dict[str, Any] | None = None
    check: str | None = None
    exact: bool = False


@dataclass(frozen=True)
class Problem:
    """A problem as verifiers, rollouts and benchmarks see it: one row of `PROBLEM_SCHEMA`."""

    problem_id: Annotated[str, pa.string()]
    domain: Annotated[str, pa.string()]
    prompt: Annotated[str, pa.large_string()]
    source: Text = None  # data set and split, e.g. "MATH/train"
    source_id: Text = None  # the row's id in its source, or its row number
    source_url: Text = None
    released: Annotated[date | None, pa.date32()] = None
    answer: LongText = None  # math: the reference answer, as published
    tests: LongText = None  # JSON list; code: see `CodeTest`; instructions: `id`, `kwargs`
    entry_point: Text = None  # code: the function to call; null means stdin/stdout
    starter_code: LongText = None
    golden_solutions: Annotated[list[str] | None, pa.list_(pa.large_string())] = None
    time_limit_s: Number = None
    memory_limit_mb: Number = None
    metadata: LongText = None  # JSON object: everything else in the source
    # Added by curation; null until the step that measures it has run.
    teacher_passes: Count = None
    teacher_attempts: Count = None
    teacher_tokens: Number = None
    difficulty: Count = None  # failed teacher attempts out of eight

    def code_tests(self) -> list[CodeTest]:
        """The parsed tests. Raises ValueError when the JSON is not a list of tests."""
        return self._tests

    @cached_property
    def _tests(self) -> list[CodeTest]:
        return [CodeTest(**test) for test in json.loads(self.tests)] if self.tests else []


def _schema() -> pa.Schema:
    hints = get_type_hints(Problem, include_extras=True)
    names = list(hints)
    names.insert(names.index("answer") - 1, names.pop(names.index("prompt")))  # in files the origin comes first
    kinds = {name: (hints[name].__metadata__[0], type(None) in get_args(hints[name].__origin__)) for name in names}
    return pa.schema([pa.field(name, kind, nullable) for name, (kind, nullable) in kinds.items()])


PROBLEM_SCHEMA = _schema()
APPENDED_OPTIONS = "appended_options"
"""Metadata: the lines of options that a reader appended to the statement."""


def problem_id(domain: str, prompt: str, entry_point: str | None = None) -> str:
    """Content identity, 16 hex digits, of the statement in Unicode's NFKC with white space folded.

    The answer is left out, so that deduplication compares two sources that disagree about it.
    """
    folded = " ".join(unicodedata.normalize("NFKC", prompt).split())
    return hashlib.sha256(f"{domain}\x00{entry_point or ''}\x00{folded}".encode()).hexdigest()[:16]


def to_table(problems: Iterable[Problem | dict[str, Any]]) -> pa.Table:
    """Rows to an Arrow table with `PROBLEM_SCHEMA`; dictionary keys outside the schema are an error."""
    rows = [row if isinstance(row, dict) else as_row(row) for row in problems]
    for row in rows:
        unknown = row.keys() - set(PROBLEM_SCHEMA.names)
        if unknown:
            raise ValueError(f"problem {row.get('problem_id')}: columns outside the schema: {sorted(unknown)}")
    return pa.Table.from_pylist(rows, schema=PROBLEM_SCHEMA)


def as_row(problem: Problem) -> dict[str, Any]:
    return {name: getattr(problem, name) for name in PROBLEM_SCHEMA.names}


def from_table(table: pa.Table) -> list[Problem]:
    """Arrow rows to problems; extra columns are ignored, missing optional ones are None."""
    columns = {name: table.column(name).to_pylist() for name in PROBLEM_SCHEMA.names if name in table.column_names}
    return [Problem(**dict(zip(columns, values, strict=True))) for values in zip(*columns.values(), strict=True)]
