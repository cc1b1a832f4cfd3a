"""The HTML page of a curated set: what came in and what was kept, what each rule took, with samples to look at."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ratchet.data_curation.data_card import file_names
from ratchet.data_curation.funnel import samples
from ratchet.data_curation.tokens import cut
from ratchet.evaluation.document import Document, Headline, Section, to_html
from ratchet.evaluation.figures import LAST, MUTED, Drawing, Painter, draw

STATEMENT_CHARACTERS = 500
EVIDENCE_CHARACTERS = 300
SHOWN_IN_THE_STATEMENT = ("text", "span", "item_text", "item_span", "tokens")
DROPPED = "#d9730d"

Manifest = Mapping[str, Any]


def page(
    domain: str,
    funnel: pa.Table,
    kept: pa.Table,
    rejected: pa.Table,
    steps: Sequence[Manifest],
    not_done: Mapping[str, str],
    scores: Sequence[Mapping[str, Any]] = (),
) -> str:
    """`steps` are the manifests of the chain, in order; `scores` say how well each rule did, where that is known."""
    decontaminated = next((m["summary"] for m in steps if m["step"] == "decontaminate"), None)
    missing = "; ".join(f"`{step}` ({reason})" for step, reason in not_done.items())
    sections = [
        Section(
            "Funnel", f"**Not done:** {missing}." if missing else "", _rules(funnel), drawing=_funnel_drawing(funnel)
        ),
        Section("What was kept", drawing=_kept_drawing(kept)),
    ]
    if decontaminated:
        threshold = next(m["parameters"] for m in steps if m["step"] == "decontaminate")
        sections += _contamination(decontaminated, threshold, rejected)
    if scores:
        text = "Against what the tiny world did to each row, which curation never reads."
        sections.append(Section("How well each rule did", text, [dict(score) for score in scores]))
    sections += _samples(rejected)
    sections.append(Section("How it was made", "", [_made(manifest) for manifest in steps]))
    document = Document(
        f"Curated {domain} problems",
        ", ".join(f"`{name}`" for name in file_names(steps[0])) if steps else "",
        _headlines(funnel, len(kept), decontaminated),
        sections,
    )
    return to_html(document)


def _headlines(funnel: pa.Table, kept: int, decontaminated: Mapping[str, Any] | None) -> list[Headline]:
    rows = funnel.to_pylist()
    rows_in = rows[0]["rows_in"] if rows else kept
    headlines = [Headline("Problems kept", f"{kept:,}", f"{kept / max(rows_in, 1):.1%} of {rows_in:,} rows")]
    by_step = Counter[str]()
    for row in rows:
        by_step[row["step"]] += row["dropped"]
    for step, dropped in by_step.most_common(2):
        headlines.append(
            Headline(f"Dropped by {step.replace('_', ' ')}", f"{dropped:,}", f"{dropped / max(rows_in, 1):.1%}")
        )
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


def _rules(funnel: pa.Table) -> list[dict[str, Any]]:
    rows = []
    for row in funnel.to_pylist():
        names = {name: row[name].replace("_", " ") for name in ("step", "rule")}
        share = f"{row['dropped'] / max(row['rows_in'], 1):.1%}"
        rows.append(
            names | {"rows in": row["rows_in"], "dropped": row["dropped"], "share": share, "rows out": row["rows_out"]}
        )
    return rows


def _funnel_drawing(funnel: pa.Table) -> Drawing:
    steps: dict[str, list[int]] = {}
    for row in funnel.to_pylist():
        steps.setdefault(row["step"].replace("_", " "), [row["rows_in"], 0])[1] += row["dropped"]

    def paint(axes: Axes) -> None:
        left = [rows_in - dropped for rows_in, dropped in steps.values()]
        dropped = [dropped for _, dropped in steps.values()]
        axes.barh(range(len(steps)), left, color=LAST, height=0.62)
        axes.barh(range(len(steps)), dropped, left=left, color=DROPPED, height=0.62)
        for place, (rows_in, gone) in enumerate(steps.values()):
            text = f"{rows_in - gone:,} left, {gone:,} dropped"
            axes.annotate(
                text, (rows_in, place), (6, 0), textcoords="offset points", va="center", fontsize=9, color=MUTED
            )
        axes.set_yticks(range(len(steps)), list(steps))
        axes.invert_yaxis()
        axes.set_xlim(0, max([rows_in for rows_in, _ in steps.values()] or [1]) * 1.32)
        axes.grid(axis="y", visible=False)

    return draw("funnel", "Rows after each step (blue) and rows that it dropped (orange).", [("", paint)], width=8.0)


def _kept_drawing(kept: pa.Table) -> Drawing:
    words = [len(text.split()) for text in kept.column("prompt").to_pylist()]
    panels = [("Length of the statement", _histogram(words, "words"))]
    sources = Counter(source or "–" for source in kept.column("source").to_pylist())
    difficulty = Counter(level for level in kept.column("difficulty").to_pylist() if level is not None)
    if difficulty:
        levels = {str(level): difficulty[level] for level in range(9)}
        panels.append(("Difficulty: failed teacher attempts out of eight", _bars(levels)))
    tokens = [count for count in kept.column("teacher_tokens").to_pylist() if count is not None]
    if tokens:
        panels.append(("Mean length of a teacher's answer", _histogram(tokens, "tokens")))
    if len(sources) > 1:
        panels.append(("Source", _bars(dict(sources.most_common(8)), horizontal=True)))
    return draw("kept", "The problems that were kept.", panels)


def _histogram(values: Sequence[float], unit: str) -> Painter:
    def paint(axes: Axes) -> None:
        if values:
            top = float(np.percentile(values, 99.5)) or 1.0  # a few endless statements would flatten the rest
            axes.hist(np.minimum(values, top), bins=min(30, max(len(set(values)), 1)), color=LAST)
        axes.set_xlabel(unit)
        axes.set_ylabel("problems")
        axes.grid(axis="x", visible=False)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))

    return paint


def _bars(counts: Mapping[str, int], horizontal: bool = False) -> Painter:
    def paint(axes: Axes) -> None:
        places = range(len(counts))
        bars = (axes.barh if horizontal else axes.bar)(places, list(counts.values()), 0.7, color=LAST)
        axes.bar_label(bars, labels=[f"{count:,}" for count in counts.values()], fontsize=8, color=MUTED, padding=3)
        axes.margins(x=0.14 if horizontal else 0.03, y=0.1)
        if horizontal:
            axes.set_yticks(places, list(counts))
            axes.invert_yaxis()
        else:
            axes.set_xticks(places, list(counts))
        axes.grid(axis="y" if horizontal else "x", visible=False)

    return paint


def _contamination(summary: Mapping[str, Any], parameters: Mapping[str, Any], rejected: pa.Table) -> list[Section]:
    counts, threshold = summary["coverage_histogram"], parameters["coverage"]

    def paint(axes: Axes) -> None:
        edges = np.arange(len(counts)) / len(counts)
        colours = [DROPPED if edge >= threshold - 1e-9 else LAST for edge in edges]
        axes.bar(edges, counts, width=0.9 / len(counts), align="edge", color=colours)
        axes.axvline(threshold, color=MUTED, linestyle=":", linewidth=1.5)
        if max(counts) > 20:  # nearly all rows share a phrase at most
            axes.set_yscale("symlog", linthresh=1)
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        else:
            axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
        axes.set_ylim(0, max(*counts, 1) * 1.3)
        axes.set_xlabel("coverage of the nearest benchmark item")
        axes.set_ylabel("rows")
        axes.grid(axis="x", visible=False)

    caption = f"Rows that share any n-gram with an item. From {threshold:g} on (orange) the preset coverage drops them."
    test = summary["self_test"]
    text = (
        f"Against {summary['items']:,} benchmark items, {parameters['ngram']}-grams of tokens, preset "
        f"`{summary['preset']}`. By n-grams `coverage` takes {summary['coverage_hits']:,} rows, `paper` "
        f"{summary['paper_hits']:,}.\n\n"
        f"Self-test: of {test['items']:,} items in each disguise, how many are found."
    )
    table = [{"disguise": name, "recall": recall} for name, recall in test["recall_by_disguise"].items()]
    note = f"Unprotected: {', '.join(test['unprotected'][:20])}." if test["unprotected"] else ""
    note += f" Missed, for example: {', '.join(test['missed'])}." if test["missed"] else ""
    items = Counter[tuple[str, str]]()
    for row in rejected.to_pylist():
        evidence = json.loads(row["evidence"])
        if row["step"] == "decontaminate" and "item" in evidence:
            items[evidence["benchmark"], evidence["item"]] += 1
    drawing = draw("coverage", caption, [("", paint)], width=7.2)
    sections = [Section("Contamination", text, table, drawing=drawing, note=_plain(note))]
    if items:
        rows = [{"benchmark": name, "item": item, "rows dropped": n} for (name, item), n in items.most_common(10)]
        sections.append(Section("Benchmark items that met most rows", "", rows))
    return sections


def _samples(rejected: pa.Table) -> list[Section]:
    tables: dict[str, list[dict[str, Any]]] = {}
    counts = Counter(zip(*(rejected.column(name).to_pylist() for name in ("step", "rule")), strict=True))
    for (step, rule), rows in samples(rejected).items():
        heading = f"{rule.replace('_', ' ')}: {len(rows)} of {counts[step, rule]:,}"
        tables.setdefault(step, []).extend(
            {"rule": heading, "row": f"{_plain(str(row['source']))}:{row['source_id']} `{row['problem_id'] or '–'}`",
             "statement": _statement(row), "evidence": _evidence(row)}
            for row in rows
        )  # fmt: skip
    note = "`ratchet why` and the row, or its id, tells the whole story, with what it was compared with beside it."
    return [
        Section(f"Samples: dropped by {step.replace('_', ' ')}", "", rows, group_by="rule", note=note)
        for step, rows in tables.items()
    ]


def _statement(row: Mapping[str, Any]) -> str:
    """The statement, cut around what the rule saw, which is bold."""
    text, span = row["prompt"], json.loads(row["evidence"]).get("span")
    if not text:
        return "–"
    if not span:
        return _plain(text[:STATEMENT_CHARACTERS]) + ("…" if len(text) > STATEMENT_CHARACTERS else "")
    size = len(text.encode(errors="replace"))
    before, seen, after = (cut(text, part) for part in ((0, span[0]), span, (span[1], size)))
    room = max(STATEMENT_CHARACTERS - len(seen), 120) // 2
    before = "…" + before[-room:] if len(before) > room else before
    after = after[:room] + "…" if len(after) > room else after
    return f"{_plain(before)}**{_plain(seen)}**{_plain(after)}" if seen.strip() else _plain(before + after)


def _evidence(row: Mapping[str, Any]) -> str:
    evidence = json.loads(row["evidence"])
    told = []
    if "item" in evidence:
        told.append(f"item {evidence.pop('item')} of {evidence.pop('benchmark')}")
    if isinstance(stays := evidence.pop("kept", None), dict):
        told.append(f"{stays['source']}:{stays['source_id']} stays")
    for name, value in evidence.items():
        if name not in SHOWN_IN_THE_STATEMENT:
            told.append(
                f"{name.replace('_', ' ')} {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
            )
    text = ", ".join(told)
    return _plain(text if len(text) <= EVIDENCE_CHARACTERS else text[:EVIDENCE_CHARACTERS] + "…")


def _made(manifest: Manifest) -> dict[str, Any]:
    parameters = ", ".join(f"{name} {value}" for name, value in manifest["parameters"].items() if value is not None)
    inputs = ", ".join(f"{facts['name']} {facts['key'][:12]}" for facts in manifest["inputs"])
    return {"step": manifest["step"].replace("_", " "), "parameters": _plain(parameters), "made from": _plain(inputs),
            "seconds": round(manifest["seconds"], 1)}  # fmt: skip


def _plain(text: str) -> str:
    """Text of a data set, in which nothing is markup of the page."""
    return re.sub(r"\s+", " ", text.replace("`", "'").replace("*", "∗").replace("](", "] ("))
