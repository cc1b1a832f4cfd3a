"""The funnel: how many rows each rule of each step took, as a table, a picture and a data card."""

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
EXAMPLE_CHARACTERS = 160


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


def card(domain: str, table: pa.Table, rejected: pa.Table, not_done: Mapping[str, str]) -> str:
    """The data card in Markdown: the funnel, one example of each rule with its evidence, and what was not done."""
    examples: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rejected.to_pylist():
        examples.setdefault((row["step"], row["rule"]), row)
    rows = table.to_pylist()
    kept = rows[-1]["rows_out"] if rows else 0
    lines = [f"# Curated {domain} problems", "", f"{rows[0]['rows_in'] if rows else 0:,} rows in, {kept:,} kept.", ""]
    if not_done:
        lines += ["**Not done:** " + "; ".join(f"`{step}` ({reason})" for step, reason in not_done.items()) + ".", ""]
    lines += ["| step | rule | rows in | dropped | rows out |", "|---|---|---:|---:|---:|"]
    lines += [f"| {r['step']} | {r['rule']} | {r['rows_in']:,} | {r['dropped']:,} | {r['rows_out']:,} |" for r in rows]
    lines += ["", "## One example of each", ""]
    for (step, rule), row in examples.items():
        lines.append(f"- `{step}:{rule}`, row {row['source_id']} of {row['source']}: {_short(row['prompt'])}")
        lines.append(f"  evidence: {_short(row['evidence'])}")
    return "\n".join(lines) + "\n"


def _short(text: str | None) -> str:
    """One line without Markdown's own marks: the text comes from a data set."""
    flat = " ".join((text or "(no statement)").split())
    flat = flat if len(flat) <= EXAMPLE_CHARACTERS else flat[: EXAMPLE_CHARACTERS - 1] + "…"
    return "`" + flat.replace("`", "'") + "`"
