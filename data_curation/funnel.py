"""The funnel: how many rows each rule of each step took, as a table and a picture, and samples of what was taken."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

FUNNEL_SCHEMA = pa.schema(
    [
        ("step", pa.string()),
        ("rule", pa.string()),
        ("rows_in", pa.int64()),
        ("dropped", pa.int64()),
        ("rows_out", pa.int64()),
    ]
)


def funnel(summaries: Sequence[Mapping[str, Any]]) -> pa.Table:
    """One row a rule, in the order of the chain, from the summaries of its steps; rules that took nothing included."""
    rows = []
    for summary in summaries:
        rows_in = summary["rows_in"]
        for rule, dropped in summary["dropped"].items():
            rows.append((summary["step"], rule, rows_in, dropped, rows_in - dropped))
            rows_in -= dropped
    return pa.Table.from_pylist(
        [dict(zip(FUNNEL_SCHEMA.names, row, strict=True)) for row in rows], schema=FUNNEL_SCHEMA
    )


def figure(table: pa.Table, domain: str) -> bytes:
    """A PNG: one bar a step, what is left in full colour, what each step dropped in a lighter one."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    steps: dict[str, list[int]] = {}
    for row in table.to_pylist():
        steps.setdefault(row["step"], [row["rows_in"], 0])[1] += row["dropped"]
    picture = Figure(figsize=(7.5, 0.7 + 0.42 * len(steps)), layout="constrained")
    FigureCanvasAgg(picture)
    axes = picture.subplots()
    for position, (rows_in, dropped) in enumerate(steps.values()):
        left = rows_in - dropped
        axes.barh(position, left, color="#2f6f9f")
        axes.barh(position, dropped, left=left, color="#d9a066")
        axes.annotate(f"{left:,}  (−{dropped:,})", (rows_in, position), (4, 0), textcoords="offset points", va="center")
    axes.set_yticks(range(len(steps)), list(steps))
    axes.invert_yaxis()
    axes.set_xlim(0, max((rows_in for rows_in, _ in steps.values()), default=1) * 1.2 or 1)
    axes.set_xlabel("problems")
    axes.set_title(f"{domain}: rows kept (blue) and dropped (orange) by each step", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    buffer = io.BytesIO()
    picture.savefig(buffer, dpi=130)
    return buffer.getvalue()


def samples(rejected: pa.Table, count: int = 10) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """To each (step, rule), in order of first use, up to `count` of its rows, from all parts of the table."""
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rejected.to_pylist():
        rows.setdefault((row["step"], row["rule"]), []).append(row)
    return {
        name: [of_rule[i * len(of_rule) // count] for i in range(count)] if len(of_rule) > count else of_rule
        for name, of_rule in rows.items()
    }
