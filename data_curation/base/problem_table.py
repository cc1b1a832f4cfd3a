"""Problems as an Arrow table: the schema that all data sets share.

Structured columns (`tests`, `metadata`) are JSON text, not Arrow structs: files with different structs cannot be
concatenated.
"""

from collections.abc import Iterable
from datetime import date
from typing import Any, get_args, get_type_hints

import pyarrow as pa

from ratchet.verifiers.problem import Problem

_LONG = {"prompt", "answer", "tests", "starter_code", "metadata"}
"""Columns that may exceed 2 GiB of text in one table."""
_TYPES = {
    str: pa.string(), float: pa.float64(), int: pa.int32(), date: pa.date32(), list[str]: pa.list_(pa.large_string()),
}  # fmt: skip


def _schema() -> pa.Schema:
    hints = get_type_hints(Problem)
    names = list(hints)
    names.insert(names.index("answer") - 1, names.pop(names.index("prompt")))  # in files the origin comes first
    fields = []
    for name in names:
        kinds = [kind for kind in get_args(hints[name]) if kind is not type(None)] or [hints[name]]
        nullable = type(None) in get_args(hints[name])
        fields.append(pa.field(name, pa.large_string() if name in _LONG else _TYPES[kinds[0]], nullable))
    return pa.schema(fields)


PROBLEM_SCHEMA = _schema()


def to_table(problems: Iterable[Problem | dict[str, Any]]) -> pa.Table:
    """Convert rows to an Arrow table with `PROBLEM_SCHEMA`. Keys outside the schema are an error."""
    rows = [row if isinstance(row, dict) else {n: getattr(row, n) for n in PROBLEM_SCHEMA.names} for row in problems]
    for row in rows:
        unknown = row.keys() - set(PROBLEM_SCHEMA.names)
        if unknown:
            raise ValueError(f"problem {row.get('problem_id')}: columns outside the schema: {sorted(unknown)}")
    return pa.Table.from_pylist(rows, schema=PROBLEM_SCHEMA)


def from_table(table: pa.Table) -> list[Problem]:
    """Convert Arrow rows to problems. Extra columns are ignored; missing optional ones are None."""
    columns = {name: table.column(name).to_pylist() for name in PROBLEM_SCHEMA.names if name in table.column_names}
    return [Problem(**dict(zip(columns, values, strict=True))) for values in zip(*columns.values(), strict=True)]
