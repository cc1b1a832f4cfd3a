"""The funnel, which counts the rows dropped by each rule of each step; and samples of dropped rows, with the reason."""

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from ratchet.data_curation.split import to_json

_COUNTS = ("rows_in", "dropped", "rows_out")
FUNNEL_SCHEMA = pa.schema([("step", pa.string()), ("rule", pa.string()), *((name, pa.int64()) for name in _COUNTS)])


def funnel(summaries: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The funnel with one row per rule, in the order of the steps, from their summaries."""
    rows = []
    for summary in summaries:
        rows_in = summary["rows_in"]
        for rule, dropped in summary["dropped"].items():
            rows.append((summary["step"], rule, rows_in, dropped, rows_in - dropped))
            rows_in -= dropped
    return pa.Table.from_pylist([dict(zip(FUNNEL_SCHEMA.names, row, strict=True)) for row in rows], FUNNEL_SCHEMA)


def samples(rejected: pa.Table, count: int = 10) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Up to `count` rows of each (step, rule), evenly spread over the table."""
    places: dict[tuple[str, str], list[int]] = {}
    names = (zip(*batch.to_pydict().values(), strict=True) for batch in rejected.select(["step", "rule"]).to_batches())
    for place, (step, rule) in enumerate(chain.from_iterable(names)):
        places.setdefault((step, rule), []).append(place)
    return {
        name: [rejected.slice(of_rule[i * len(of_rule) // n], 1).to_pylist()[0] for i in range(n)]
        for name, of_rule in places.items()
        if (n := min(count, len(of_rule)))
    }


def reason(evidence: Mapping[str, Any], without: Collection[str] = ()) -> str:
    """The evidence of a dropped row as a phrase, without the fields of these names."""
    facts = dict(evidence)
    phrases = []
    if item_met(facts):
        phrases.append(f"item {facts.pop('item')} of {facts.pop('benchmark')}")
    if stays := row_that_stays(facts):
        phrases.append(f"{stays['source']}:{stays['source_id']} stays")
        del facts["kept"]
    for name, value in facts.items():
        if name not in without:
            phrases.append(f"{name.replace('_', ' ')} {value if isinstance(value, str) else to_json(value)}")
    return ", ".join(phrases)


def item_met(evidence: Mapping[str, Any]) -> tuple[str, str] | None:
    """The benchmark and the item that a row contains. Fields of the names that a step of the user's own gave are none,
    and neither are those of the next function."""
    return (evidence["benchmark"], evidence["item"]) if {"benchmark", "item"} <= evidence.keys() else None


def row_that_stays(evidence: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The place of the row of which a dropped row is a copy."""
    kept = evidence.get("kept")
    return kept if isinstance(kept, Mapping) and {"source", "source_id"} <= kept.keys() else None


def shortened(text: str, limit: int) -> str:
    """The text, cut after `limit` characters with an ellipsis."""
    return text if len(text) <= limit else text[:limit] + "…"
