"""The result of every curation step: kept rows, rejected rows, and counts.

A step is a function from a table to a `Split`. It keeps each row or rejects it by exactly one rule, with evidence;
`partition` does the rest, so that no step can lose a row or drop one without evidence.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import pyarrow as pa

from ratchet.data_curation.base.problem_table import PROBLEM_SCHEMA
from ratchet.verifiers.errors import RatchetError

REJECTED_SCHEMA = pa.schema(
    [
        pa.field("problem_id", pa.string()),  # null for unreadable rows
        pa.field("source", pa.string()),
        pa.field("source_id", pa.string()),
        pa.field("step", pa.string(), nullable=False),
        pa.field("rule", pa.string(), nullable=False),
        pa.field("evidence", pa.large_string(), nullable=False),  # JSON object
        pa.field("prompt", pa.large_string()),
    ]
)


@dataclass(frozen=True)
class Rejection:
    """The reason for rejecting a row. `evidence` must be JSON; a `span` in it counts UTF-8 bytes of the prompt."""

    rule: str
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Split:
    """The result of a step. `kept` has `PROBLEM_SCHEMA`, `rejected` has `REJECTED_SCHEMA`, both in input order.
    `summary` is a small JSON object with at least `step`, `rows_in`, `rows_out` and `dropped`: the number of rows by
    rule, in the order in which rules are applied, zeros included."""

    kept: pa.Table
    rejected: pa.Table
    summary: dict[str, Any]

    def __post_init__(self) -> None:
        assert self.kept.schema.equals(PROBLEM_SCHEMA), "kept rows must have PROBLEM_SCHEMA"
        assert self.rejected.schema.equals(REJECTED_SCHEMA), "rejected rows must have REJECTED_SCHEMA"
        rows_in, dropped = self.summary["rows_in"], sum(self.summary["dropped"].values())
        assert len(self.kept) + len(self.rejected) == rows_in, "a step must account for each row of its input"
        assert (len(self.kept), len(self.rejected)) == (self.summary["rows_out"], dropped), "counts must be the rows'"

    def __iter__(self) -> Iterator[pa.Table]:
        return iter((self.kept, self.rejected))


def partition(
    step: str, rules: Sequence[str], table: pa.Table, verdicts: Sequence[Rejection | None], **measured: Any
) -> Split:
    """Split `table` by one verdict per row (None keeps it). `measured` is added to the summary. Raises RatchetError for
    another number of verdicts, and for a rule that is not among `rules`."""
    if len(verdicts) != len(table):
        raise RatchetError(f"the step {step} gave {len(verdicts)} verdicts for {len(table)} rows: give one for each.")
    if odd := next((each for each in verdicts if each is not None and each.rule not in rules), None):
        raise RatchetError(f"the step {step} rejects by {odd.rule!r}, which is none of its rules: {', '.join(rules)}.")
    keep = pa.array([verdict is None for verdict in verdicts], pa.bool_())
    drop = pa.array([verdict is not None for verdict in verdicts], pa.bool_())
    dropped = table.filter(drop).select(["problem_id", "source", "source_id", "prompt"]).to_pylist()
    reasons = [verdict for verdict in verdicts if verdict is not None]
    rows = [
        row | {"step": step, "rule": reason.rule, "evidence": to_json(reason.evidence)}
        for row, reason in zip(dropped, reasons, strict=True)
    ]
    return assemble(step, rules, table.filter(keep), rows, **measured)


def assemble(step: str, rules: Sequence[str], kept: pa.Table, rejected: list[dict[str, Any]], **measured: Any) -> Split:
    """A `Split` from kept rows and rejected rows (dictionaries with the columns of `REJECTED_SCHEMA`)."""
    dropped = dict.fromkeys(rules, 0)
    for row in rejected:
        dropped[row["rule"]] += 1
    summary = {"step": step, "rows_in": len(kept) + len(rejected), "rows_out": len(kept), "dropped": dropped}
    return Split(kept, pa.Table.from_pylist(rejected, schema=REJECTED_SCHEMA), summary | measured)


def joined(splits: Iterable[Split]) -> Split:
    """One `Split` of the splits of all batches."""
    parts = list(splits)
    kept, rejected = (pa.concat_tables([getattr(part, side) for part in parts]) for side in ("kept", "rejected"))
    return Split(kept, rejected, merged([part.summary for part in parts]))


def merged(summaries: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The summary of all batches: numbers are added, also in mappings; the first of several texts stays."""
    return reduce(_added, summaries, {})


def _added(one: Any, other: Any) -> Any:
    if isinstance(one, Mapping):
        return {**one, **other} | {name: _added(one[name], other[name]) for name in one.keys() & other.keys()}
    return one if isinstance(one, str) else one + other


def to_json(value: Any) -> str:
    """The value as JSON on one line with sorted keys; JSON has no NaN and no infinity, which become null."""
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str, allow_nan=False)
    except ValueError:
        return json.dumps(finite(value), ensure_ascii=False, sort_keys=True, default=str)


def finite(value: Any) -> Any:
    """The value with null for NaN and infinities, which are not JSON."""
    if isinstance(value, Mapping):
        return {name: finite(held) for name, held in value.items()}
    if isinstance(value, list | tuple):
        return [*map(finite, value)]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def set_column(table: pa.Table, name: str, values: Sequence[Any]) -> pa.Table:
    """The table with the column `name` of `PROBLEM_SCHEMA` replaced."""
    index = PROBLEM_SCHEMA.get_field_index(name)
    return table.set_column(index, PROBLEM_SCHEMA.field(name), pa.array(values, PROBLEM_SCHEMA.field(name).type))


def add_metadata(table: pa.Table, key: str, values: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The table with `values[i]` under `key` in the JSON metadata of row i, or under `ratchet.key` if the row has a
    column of that name. Metadata can be long: it is only parsed if the key may exist already."""
    written = {key: to_json(value) for key, value in {id(value): value for value in values}.items()}
    old = table.column("metadata").to_pylist()
    merged = [_with(text, key, value, written[id(value)]) for text, value in zip(old, values, strict=True)]
    return set_column(table, "metadata", merged)


def step_facts(metadata: str | None, step: str) -> Mapping[str, Any]:
    """What a step added to a row's metadata."""
    known = json.loads(metadata or "{}")
    found = (known.get(f"ratchet.{step}"), known.get(step))  # the second may be a column of the row
    return next((facts for facts in found if isinstance(facts, Mapping)), {})


def _with(metadata: str | None, key: str, value: Mapping[str, Any], written: str) -> str:
    metadata = (metadata or "{}").strip()
    if metadata == "{}":
        return f'{{"{key}": {written}}}'
    if f'"{key}"' in metadata or not metadata.endswith("}"):
        known = json.loads(metadata)
        own_column = not isinstance(known.get(key, {}), dict)  # what an earlier curation wrote is an object
        return to_json(known | {f"ratchet.{key}" if own_column else key: value})
    return f'{metadata[:-1]}, "{key}": {written}}}'
