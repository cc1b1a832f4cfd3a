"""The page of a curated set and its data card, from the steps' manifests and tables."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.axes import Axes
from matplotlib.container import BarContainer

from ratchet.data_curation.funnel import reason, samples, shortened
from ratchet.data_curation.preview import FilePreview
from ratchet.data_curation.tokens import cut
from ratchet.infra.keys import flat
from ratchet.infra.pages import DROPPED, LAST, MUTED, Document, Drawing, Headline, compose, render, unmarked
from ratchet.infra.pages.drawing import count_axis, draw
from ratchet.infra.store.manifest import DatasetManifest

STATEMENT_CHARACTERS = 500
EVIDENCE_CHARACTERS = 300
SHOWN_IN_THE_STATEMENT = ("text", "span", "item_text", "item_span", "tokens")
SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M"))
WORDS = Path(__file__).with_name("curation_report.yaml")

Row = dict[str, Any]


def document(
    domain: str,
    funnel: pa.Table,
    kept: pa.Table,
    rejected: pa.Table,
    steps: Sequence[DatasetManifest],
    not_done: Mapping[str, str],
    previews: Sequence[Mapping[str, Any]] = (),
) -> Document:
    """The page as a document. `steps` are the manifests of the chain, in order; `previews` show how the rows of each
    source are read."""
    rules = funnel.to_pandas().replace({"step": "_", "rule": "_"}, " ", regex=True)
    decontaminated = next((m for m in steps if m.step == "decontaminate"), None)
    summary, parameters = (decontaminated.summary, decontaminated.parameters) if decontaminated else (None, {})
    self_test = summary["self_test"] if summary else None
    tables = {
        "funnel": _rules(rules[rules.dropped > 0]),
        "contamination": _disguises(self_test) if self_test else [],
        "items": _items_met(rejected),
        "samples": _samples(rejected),
        "read": _previews(previews),
        "sources": _sources(steps),
        "made": [_made(manifest) for manifest in steps],
        "columns": _columns(kept),
    }
    drawings = {"funnel": funnel_drawing(funnel), "kept": _kept_drawing(kept)}
    return compose(
        WORDS, _headlines(rules, len(kept), summary), tables, drawings, domain=domain, not_done=not_done,
        idle=[" ".join(names) for names in rules[rules.dropped == 0][["step", "rule"]].itertuples(index=False)],
        summary=summary, test=self_test, parameters=parameters, unmarked=unmarked,
        steps={manifest.step for manifest in steps},
    )  # fmt: skip


def card(document: Document, domain: str, kept: int) -> str:
    """The document as a data card: Markdown without the samples, under the header that dataset hubs read."""
    size = next((name for limit, name in SIZES if kept < limit), "n>10M")
    sections = [section for section in document.sections if section.group_by not in ("rule", "source")]
    text = render(WORDS.with_name("card.md"), **vars(replace(document, sections=sections)), domain=domain, size=size)
    return text.rstrip() + "\n"


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


def _rules(rules: pd.DataFrame) -> list[Row]:
    shares = (rules.dropped / rules.rows_in.clip(lower=1)).map("{:.1%}".format)
    columns = rules.assign(share=shares).reindex(columns=["step", "rule", "rows_in", "dropped", "share", "rows_out"])
    return cast(list[Row], columns.rename(columns={"rows_in": "rows in", "rows_out": "rows out"}).to_dict("records"))


def _disguises(self_test: Mapping[str, Any]) -> list[Row]:
    recalls, counts = self_test["recall_by_disguise"], self_test["disguised"]
    return [{"disguise": name, "items": counts[name], "recall": recall} for name, recall in recalls.items()]


def funnel_drawing(funnel: pa.Table, name: str = "funnel") -> Drawing:
    rules = funnel.to_pandas().replace({"step": "_"}, " ", regex=True)
    steps = rules.groupby("step", sort=False).agg(rows_in=("rows_in", "first"), dropped=("dropped", "sum"))[::-1]
    left = steps.rows_in - steps.dropped

    def paint(axes: Axes) -> None:
        bars = pd.DataFrame({"left": left, "dropped": steps.dropped})
        bars.plot.barh(ax=axes, stacked=True, width=0.62, color=[LAST, DROPPED], legend=False, ylabel="")
        labels = [f"{rest:,} left, {gone:,} dropped" for rest, gone in bars.itertuples(index=False)]
        axes.bar_label(cast(BarContainer, axes.containers[-1]), labels, fontsize=9, color=MUTED, padding=6)
        axes.set_xlim(0, max([*steps.rows_in, 1]) * 1.32)
        axes.grid(axis="y", visible=False)

    return draw(name, [("", paint)], width=8.0)


def _kept_drawing(table: pa.Table) -> Drawing:
    words = pc.count_substring_regex(table["prompt"], pattern=r"\S+").to_pandas()  # type: ignore  # made when pyarrow is imported
    kept = table.select(["difficulty", "teacher_tokens", "source"]).to_pandas()
    panels = [("Length of the statement", partial(_histogram, words, "words"))]
    difficulty = kept.difficulty.dropna().astype(int)
    if len(difficulty):
        levels = difficulty.value_counts().reindex(range(9), fill_value=0)
        panels.append(("Difficulty: failed teacher attempts out of eight", partial(_bars, levels)))
    if len(tokens := kept.teacher_tokens.dropna()):
        panels.append(("Mean length of a teacher's answer", partial(_histogram, tokens, "tokens")))
    sources = kept.source.fillna("–").value_counts()
    if len(sources) > 1:
        panels.append(("Source", partial(_bars, sources.head(8), horizontal=True)))
    return draw("kept", panels)


def _histogram(values: pd.Series, unit: str, axes: Axes) -> None:
    if len(values):
        top = float(np.percentile(values, 99.5)) or 1.0  # a few very long statements would flatten the rest
        values.clip(upper=top).plot.hist(ax=axes, bins=min(30, values.nunique()), color=LAST)
    axes.set_xlabel(unit)
    count_axis(axes, "problems")
    axes.grid(axis="x", visible=False)


def _bars(counts: pd.Series, axes: Axes, horizontal: bool = False) -> None:
    bars = counts.iloc[::-1] if horizontal else counts  # bars are drawn from the bottom up
    bars.plot(kind="barh" if horizontal else "bar", ax=axes, width=0.7, color=LAST, rot=0, xlabel="", ylabel="")
    axes.bar_label(cast(BarContainer, axes.containers[0]), fmt="{:,.0f}", fontsize=8, color=MUTED, padding=3)
    axes.margins(x=0.14 if horizontal else 0.03, y=0.1)
    axes.grid(axis="y" if horizontal else "x", visible=False)


def _items_met(rejected: pa.Table) -> list[Row]:
    rows = rejected.filter(pc.field("step") == "decontaminate")["evidence"].to_pylist()
    items = [(evidence["benchmark"], evidence["item"]) for evidence in map(json.loads, rows) if "item" in evidence]
    most = pd.DataFrame(items, columns=["benchmark", "item"]).value_counts().head(10)
    return cast(list[Row], most.rename("rows dropped").reset_index().to_dict("records"))


def _samples(rejected: pa.Table) -> list[Row]:
    counts = rejected.select(["step", "rule"]).to_pandas().value_counts()
    return [
        {"rule": f"{step}: {rule}: {len(rows)} of {counts[step, rule]:,}".replace("_", " "),
         "row": f"{unmarked(str(row['source']))}:{row['source_id']} `{row['problem_id'] or '–'}`",
         "statement": _statement(row), "evidence": unmarked(shortened(
             reason(json.loads(row["evidence"]), SHOWN_IN_THE_STATEMENT), EVIDENCE_CHARACTERS))}
        for (step, rule), rows in samples(rejected).items() for row in rows
    ]  # fmt: skip


def _statement(row: Mapping[str, Any]) -> str:
    """The statement around the text that the rule matched, which is bold."""
    text, span = row["prompt"], json.loads(row["evidence"]).get("span")
    if not text:
        return "–"
    if not span:
        return unmarked(shortened(text, STATEMENT_CHARACTERS))
    size = len(text.encode(errors="replace"))
    before, seen, after = (cut(text, part) for part in ((0, span[0]), span, (span[1], size)))
    room = max(STATEMENT_CHARACTERS - len(seen), 120) // 2
    before = "…" + before[-room:] if len(before) > room else before
    after = shortened(after, room)
    return f"{unmarked(before)}**{unmarked(seen)}**{unmarked(after)}" if seen.strip() else unmarked(before + after)


def _sources(steps: Sequence[DatasetManifest]) -> list[Row]:
    """The raw files, with as much of their paths as tells them apart."""
    files = steps[0].inputs
    sources = steps[0].parameters.get("sources") or [""] * len(files)
    names = [source if "/" in source else facts["name"] for source, facts in zip(sources, files, strict=True)]
    return [{"file": f"`{name}`", "sha256": facts["key"]} for name, facts in zip(names, files, strict=True)]


def _previews(previews: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The published fields of each shown row beside what is read from them, by file with its counts."""
    rows = []
    for preview in map(FilePreview.model_validate, previews):
        title = unmarked("; ".join(line.strip("! ") for line in preview.counts()))
        for shown in preview.shown:
            read = shown.read | ({"removed": " | ".join(shown.removed)} if shown.removed else {})
            read |= {"rejected": shown.rejected} if shown.rejected else {}
            for published, field in zip_longest(shown.published.items(), read.items()):
                rows.append(
                    {"source": title, "row": str(shown.row), "published": _field(published), "read": _field(field)}
                )
    return rows


def _field(item: tuple[str, str] | None) -> str:
    return f"**{unmarked(item[0])}** {unmarked(item[1])}" if item else ""


def _columns(kept: pa.Table) -> list[Row]:
    rows = max(len(kept), 1)
    return [{"column": f.name, "type": str(f.type), "filled": f"{1 - kept[f.name].null_count / rows:.0%}"}
            for f in kept.schema]  # fmt: skip


def _made(manifest: DatasetManifest) -> Row:
    leaves = flat(manifest.parameters).items()
    parameters = ", ".join(f"{name} {value}" for name, value in leaves if value is not None)
    inputs = ", ".join(f"{facts['name']} {facts['key'][:12]}" for facts in manifest.inputs)
    return {"step": manifest.step.replace("_", " "), "version": manifest.step_version,
            "code": manifest.code, "parameters": unmarked(parameters),
            "made from": unmarked(inputs), "seconds": round(manifest.seconds, 1)}  # fmt: skip
