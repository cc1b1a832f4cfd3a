"""The HTML page of a curated set: what came in and what was kept, what each rule took, with samples to look at."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.axes import Axes

from ratchet.data_curation.data_card import Manifest, file_names
from ratchet.data_curation.funnel import samples
from ratchet.data_curation.tokens import cut
from ratchet.infra.pages import Document, Drawing, Headline, Section, to_html, unmarked
from ratchet.infra.pages.drawing import LAST, MUTED, count_axis, draw

STATEMENT_CHARACTERS = 500
EVIDENCE_CHARACTERS = 300
SHOWN_IN_THE_STATEMENT = ("text", "span", "item_text", "item_span", "tokens")
DROPPED = "#d9730d"


def page(
    domain: str,
    funnel: pa.Table,
    kept: pa.Table,
    rejected: pa.Table,
    steps: Sequence[Manifest],
    not_done: Mapping[str, str],
    scores: Sequence[dict[str, Any]] = (),
) -> str:
    """`steps` are the manifests of the chain, in order; `scores` say how well each rule did, where that is known."""
    rules = funnel.to_pandas().replace({"step": "_", "rule": "_"}, " ", regex=True)
    decontaminated = next((m for m in steps if m["step"] == "decontaminate"), None)
    missing = "; ".join(f"`{step}` ({reason})" for step, reason in not_done.items())
    sections = [
        Section(
            "Funnel", f"**Not done:** {missing}." if missing else "", _rules(rules), drawing=funnel_drawing(funnel)
        ),
        Section("What was kept", drawing=_kept_drawing(kept.to_pandas())),
    ]
    if decontaminated:
        sections += _contamination(decontaminated, rejected)
    if scores:
        text = "Against what the tiny world did to each row, which curation never reads."
        sections.append(Section("How well each rule did", text, scores))
    sections += _samples(rejected)
    sections.append(Section("How it was made", table=[_made(manifest) for manifest in steps]))
    subtitle = ", ".join(f"`{name}`" for name in file_names(steps[0])) if steps else ""
    headlines = _headlines(rules, len(kept), decontaminated and decontaminated["summary"])
    return to_html(Document(f"Curated {domain} problems", subtitle, headlines, sections))


def _headlines(rules: pd.DataFrame, kept: int, decontaminated: Mapping[str, Any] | None) -> list[Headline]:
    rows_in = int(rules.rows_in.iloc[0]) if len(rules) else kept
    headlines = [Headline("Problems kept", f"{kept:,}", f"{kept / max(rows_in, 1):.1%} of {rows_in:,} rows")]
    for step, dropped in rules.groupby("step", sort=False).dropped.sum().nlargest(2).items():
        headlines.append(Headline(f"Dropped by {step}", f"{dropped:,}", f"{dropped / max(rows_in, 1):.1%}"))
    if decontaminated:
        test = decontaminated["self_test"]
        unprotected = len(test["unprotected"])
        headlines.append(
            Headline(
                "Disguised benchmark items found", f"{test['recall']:.1%}",
                f"{unprotected} of {decontaminated['items']:,} items unprotected", good=not unprotected,
            )
        )  # fmt: skip
    return headlines


def _rules(rules: pd.DataFrame) -> list[dict[str, Any]]:
    shares = (rules.dropped / rules.rows_in.clip(lower=1)).map("{:.1%}".format)
    shown = rules.assign(share=shares).reindex(columns=["step", "rule", "rows_in", "dropped", "share", "rows_out"])
    return shown.rename(columns={"rows_in": "rows in", "rows_out": "rows out"}).to_dict("records")


def funnel_drawing(funnel: pa.Table, name: str = "funnel") -> Drawing:
    steps = funnel.to_pandas().groupby("step", sort=False).agg(rows_in=("rows_in", "first"), dropped=("dropped", "sum"))
    left = steps.rows_in - steps.dropped

    def paint(axes: Axes) -> None:
        places = range(len(steps))
        axes.barh(places, left, color=LAST, height=0.62)
        axes.barh(places, steps.dropped, left=left, color=DROPPED, height=0.62)
        for place, rows_in, rest, gone in zip(places, steps.rows_in, left, steps.dropped, strict=True):
            axes.annotate(
                f"{rest:,} left, {gone:,} dropped", (rows_in, place), (6, 0), textcoords="offset points", va="center",
                fontsize=9, color=MUTED,
            )  # fmt: skip
        axes.set_yticks(places, [step.replace("_", " ") for step in steps.index])
        axes.invert_yaxis()
        axes.set_xlim(0, max([*steps.rows_in, 1]) * 1.32)
        axes.grid(axis="y", visible=False)

    return draw(name, "Rows after each step (blue) and rows that it dropped (orange).", [("", paint)], width=8.0)


def _kept_drawing(kept: pd.DataFrame) -> Drawing:
    panels = [("Length of the statement", partial(_histogram, kept.prompt.str.split().str.len(), "words"))]
    difficulty = kept.difficulty.dropna().astype(int)
    if len(difficulty):
        levels = difficulty.value_counts().reindex(range(9), fill_value=0)
        panels.append(("Difficulty: failed teacher attempts out of eight", partial(_bars, levels)))
    if len(tokens := kept.teacher_tokens.dropna()):
        panels.append(("Mean length of a teacher's answer", partial(_histogram, tokens, "tokens")))
    sources = kept.source.fillna("–").value_counts()
    if len(sources) > 1:
        panels.append(("Source", partial(_bars, sources.head(8), horizontal=True)))
    return draw("kept", "The problems that were kept.", panels)


def _histogram(values: pd.Series, unit: str, axes: Axes) -> None:
    if len(values):
        top = float(np.percentile(values, 99.5)) or 1.0  # a few endless statements would flatten the rest
        axes.hist(values.clip(upper=top), bins=min(30, values.nunique()), color=LAST)
    axes.set_xlabel(unit)
    count_axis(axes, "problems")
    axes.grid(axis="x", visible=False)


def _bars(counts: pd.Series, axes: Axes, horizontal: bool = False) -> None:
    places, names = range(len(counts)), counts.index.astype(str)
    bars = (axes.barh if horizontal else axes.bar)(places, counts, 0.7, color=LAST)
    axes.bar_label(bars, labels=[f"{count:,}" for count in counts], fontsize=8, color=MUTED, padding=3)
    axes.margins(x=0.14 if horizontal else 0.03, y=0.1)
    if horizontal:
        axes.set_yticks(places, names)
        axes.invert_yaxis()
    else:
        axes.set_xticks(places, names)
    axes.grid(axis="y" if horizontal else "x", visible=False)


def _contamination(manifest: Manifest, rejected: pa.Table) -> list[Section]:
    summary, parameters = manifest["summary"], manifest["parameters"]
    counts, threshold, test = summary["coverage_histogram"], parameters["coverage"], summary["self_test"]

    def paint(axes: Axes) -> None:
        edges = np.arange(len(counts)) / len(counts)
        colors = [DROPPED if edge >= threshold - 1e-9 else LAST for edge in edges]
        axes.bar(edges, counts, width=0.9 / len(counts), align="edge", color=colors)
        axes.axvline(threshold, color=MUTED, linestyle=":", linewidth=1.5)
        count_axis(axes, "rows")
        if max(counts) > 20:  # nearly all rows share a phrase at most
            axes.set_yscale("symlog", linthresh=1)
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set_ylim(0, max(*counts, 1) * 1.3)
        axes.set_xlabel("coverage of the nearest benchmark item")
        axes.grid(axis="x", visible=False)

    caption = f"Rows that share any n-gram with an item. From {threshold:g} on (orange) the preset coverage drops them."
    text = (
        f"Against {summary['items']:,} benchmark items, {parameters['ngram']}-grams of tokens, preset "
        f"`{summary['preset']}`. By n-grams `coverage` takes {summary['coverage_hits']:,} rows, `paper` "
        f"{summary['paper_hits']:,}.\n\n"
        f"Self-test: of {test['items']:,} items in each disguise, how many are found."
    )
    table = [{"disguise": name, "recall": recall} for name, recall in test["recall_by_disguise"].items()]
    note = f"Unprotected: {', '.join(test['unprotected'][:20])}." if test["unprotected"] else ""
    note += f" Missed, for example: {', '.join(test['missed'])}." if test["missed"] else ""
    drawing = draw("coverage", caption, [("", paint)], width=7.2)
    sections = [Section("Contamination", text, table, drawing=drawing, note=unmarked(note))]
    rows = rejected.filter(pc.field("step") == "decontaminate")["evidence"].to_pylist()
    items = [(found["benchmark"], found["item"]) for found in map(json.loads, rows) if "item" in found]
    if items:
        most = pd.DataFrame(items, columns=["benchmark", "item"]).value_counts().head(10)
        table = most.rename("rows dropped").reset_index().to_dict("records")
        sections.append(Section("Benchmark items that met most rows", table=table))
    return sections


def _samples(rejected: pa.Table) -> list[Section]:
    tables: dict[str, list[dict[str, Any]]] = {}
    counts = rejected.select(["step", "rule"]).to_pandas().value_counts()
    for (step, rule), rows in samples(rejected).items():
        heading = f"{rule.replace('_', ' ')}: {len(rows)} of {counts[step, rule]:,}"
        tables.setdefault(step, []).extend(
            {"rule": heading, "row": f"{unmarked(str(row['source']))}:{row['source_id']} `{row['problem_id'] or '–'}`",
             "statement": _statement(row), "evidence": _evidence(row)}
            for row in rows
        )  # fmt: skip
    note = "`ratchet why` and the row, or its id, tells the whole story, with what it was compared with beside it."
    return [
        Section(f"Samples: dropped by {step.replace('_', ' ')}", table=rows, group_by="rule", note=note)
        for step, rows in tables.items()
    ]


def _statement(row: Mapping[str, Any]) -> str:
    """The statement, cut around what the rule saw, which is bold."""
    text, span = row["prompt"], json.loads(row["evidence"]).get("span")
    if not text:
        return "–"
    if not span:
        return unmarked(_shortened(text, STATEMENT_CHARACTERS))
    size = len(text.encode(errors="replace"))
    before, seen, after = (cut(text, part) for part in ((0, span[0]), span, (span[1], size)))
    room = max(STATEMENT_CHARACTERS - len(seen), 120) // 2
    before = "…" + before[-room:] if len(before) > room else before
    after = _shortened(after, room)
    return f"{unmarked(before)}**{unmarked(seen)}**{unmarked(after)}" if seen.strip() else unmarked(before + after)


def _evidence(row: Mapping[str, Any]) -> str:
    evidence = json.loads(row["evidence"])
    told = []
    if "item" in evidence:
        told.append(f"item {evidence.pop('item')} of {evidence.pop('benchmark')}")
    if isinstance(stays := evidence.pop("kept", None), dict):
        told.append(f"{stays['source']}:{stays['source_id']} stays")
    for name, value in evidence.items():
        if name not in SHOWN_IN_THE_STATEMENT:
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            told.append(f"{name.replace('_', ' ')} {shown}")
    return unmarked(_shortened(", ".join(told), EVIDENCE_CHARACTERS))


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + "…"


def _made(manifest: Manifest) -> dict[str, Any]:
    parameters = ", ".join(f"{name} {value}" for name, value in manifest["parameters"].items() if value is not None)
    inputs = ", ".join(f"{facts['name']} {facts['key'][:12]}" for facts in manifest["inputs"])
    return {"step": manifest["step"].replace("_", " "), "parameters": unmarked(parameters),
            "made from": unmarked(inputs), "seconds": round(manifest["seconds"], 1)}  # fmt: skip
