"""Drop rows that share text with a benchmark item, with the text as evidence.

The preset `paper` (AceReason, section 3.1) drops a row for one shared n-gram; most of its hits are boilerplate such as
"relatively prime positive integers". `coverage` drops a row that shares a large part of **one** item's n-grams, unless
it is another problem with the same passage; an item with other numbers is dropped or kept by choice. The results of
both presets are recorded in every row's metadata.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from ratchet.data_curation.curation_step import CurationStep, Rows, StepContext, held_out
from ratchet.data_curation.decontamination.overlaps import CLEAN, BenchmarkIndex, find
from ratchet.data_curation.decontamination.self_test import self_test
from ratchet.data_curation.domains import domain_in, plan_of
from ratchet.data_curation.domains.plain import PLAIN
from ratchet.data_curation.settings.curation import Decontamination
from ratchet.data_curation.split import Rejection, Split, add_metadata, partition
from ratchet.data_curation.tokens import Texts
from ratchet.data_curation.urls import problem_key
from ratchet.verifiers.errors import RatchetError

STEP = "decontaminate"
RULES = ("released_after", "undated", "url", "whole_match", "ngram", "variant", "reworded")


@dataclass(frozen=True)
class Decontaminate(CurationStep):
    """Drop rows that share text or a URL with a held-out problem."""

    settings: Decontamination | None = None
    name: ClassVar[str] = STEP
    version: ClassVar[int] = 10
    needs: ClassVar[tuple[str, ...]] = ("benchmarks",)

    def parameters(self, context: StepContext) -> Decontamination:
        return with_ngram(self.settings or context.curation.decontaminate, context.domain)

    def code(self, context: StepContext) -> Sequence[str]:
        return ()

    def check(self, context: StepContext) -> None:
        if not context.benchmarks:
            raise RatchetError(
                f"curation.{context.domain}.benchmarks is empty: give the held-out files to decontaminate against, "
                "e.g. --benchmark math500.json."
            )

    def run(self, rows: Rows, context: StepContext) -> Iterable[Split]:
        items = context.items()
        decontaminator = Decontaminator(items, self.parameters(context))
        without_text = sum(len(Rows(one)) for one in context.benchmarks) - len(items)
        if without_text:
            context.warning(
                f"{without_text:,} rows of the benchmarks have no statement that can be read, and are not held out: "
                "see rejected.parquet of each."
            )
        context.result.summary = decontaminator.facts() | {"items_without_text": without_text}
        return context.each(decontaminator.split, rows.batches(), len(rows))


def with_ngram(settings: Decontamination, domain: str) -> Decontamination:
    """The settings with the domain's n-gram if they have none."""
    return settings.model_copy(update={"ngram": settings.ngram or plan_of(domain).ngram})


class Decontaminator:
    """A comparison of batches of rows with the items of `benchmarks`, whose `source` and `source_id` name benchmark and
    item. Can be pickled."""

    def __init__(self, benchmarks: pa.Table, settings: Decontamination) -> None:
        sources, ids, texts, answers, urls, domains = (
            benchmarks.column(name).to_pylist()
            for name in ("source", "source_id", "prompt", "answer", "source_url", "domain")
        )
        names = list(zip(sources, ids, strict=True))
        self.settings = settings
        self.index = BenchmarkIndex(texts, names, settings.ngram or PLAIN.ngram, answers, next(iter(domains), "math"))
        self.urls = {key: item for item, url in enumerate(urls) if (key := problem_key(url))}

    def judge(
        self, texts: Texts, answers: Sequence[str | None] | None = None, released: Sequence[date | None] = (),
        urls: pa.ChunkedArray | None = None,
    ) -> tuple[dict[int, dict[str, Any]], dict[int, Rejection], dict[str, int]]:  # fmt: skip
        """The facts of the rows that share text with an item, and the rejections, both by row; then the counts of a
        summary. A row is rejected for its date, or else its URL, or else its text. Nulls reject nothing unless the
        settings drop undated rows."""
        facts, rejections = find(texts, self.index, self.settings, answers)
        if self.urls and urls is not None:
            for row in np.flatnonzero(urls.is_valid()).tolist():
                if (key := problem_key(str(urls[row].as_py()))) in self.urls:
                    details = facts.get(row, CLEAN) | {"url": key} | self.index.named(self.urls[key])
                    rejections[row] = Rejection("url", details)
        if latest := self.settings.released_after:
            for row, day in enumerate(released):
                if day is None and self.settings.undated == "drop":
                    rejections[row] = Rejection("undated", {"limit": str(latest)} | facts.get(row, CLEAN))
                elif day is not None and day > latest:
                    evidence = {"released": str(day), "limit": str(latest)} | facts.get(row, CLEAN)
                    rejections[row] = Rejection("released_after", evidence)
        counts = {
            "paper_hits": sum(found["paper_hit"] for found in facts.values()),
            "coverage_hits": sum(found["coverage_hit"] for found in facts.values()),
            "kept_sharing": sum(found["paper_hit"] for row, found in facts.items() if row not in rejections),
            "variants": sum(found.get("match") == "variant" for found in facts.values()),
            "passages": sum(found.get("match") == "passage" for found in facts.values()),
        }
        return facts, rejections, counts

    def split(self, table: pa.Table) -> Split:
        """Reject rows that share text (`ngram`, `whole_match`) or URL (`url`) with an item, state an item with other
        numbers (`variant`, unless these are kept) or in other words (`reworded`), were released after the settings'
        date, or have no date with `undated: drop`.

        Each kept row's metadata gains `decontaminate`: the item with the highest coverage, that `coverage`,
        `paper_hit` and `coverage_hit`, and `match` if it covers enough of the item: `copy`, `variant` or `passage`. The
        summary counts the hits of both presets, the kept rows that share an n-gram with an item (`kept_sharing`), and
        the variants and the rows that share a passage (`variants`, `passages`), kept or not.
        """
        released, answers = table["released"].to_pylist(), table["answer"].to_pylist()
        facts, rejections, counts = self.judge(table["prompt"], answers, released, table["source_url"])
        measured = [facts.get(row, CLEAN) for row in range(len(table))]
        verdicts = [rejections.get(row) for row in range(len(table))]
        counted: dict[str, Any] = {"preset": self.settings.preset, **counts}
        if self.settings.released_after:
            counted["undated"] = table.column("released").null_count
        return partition(STEP, RULES, add_metadata(table, STEP, measured), verdicts, **counted)

    def facts(self) -> dict[str, Any]:
        """The summary's facts about the items, with the recall on disguised copies (`self_test`)."""
        return {
            "items": len(self.index.texts),
            "items_without_ngram": int((self.index.gram_counts == 0).sum()),
            "self_test": self_test(self.index, self.settings),
        }


def decontaminate(
    table: pa.Table, benchmarks: pa.Table | Iterable[pa.Table], settings: Decontamination = Decontamination()
) -> Split:
    """Reject rows of one domain that share their text with a held-out item; the summary counts what was compared.

    `benchmarks` is a table of items, or several; a `Split` also holds out rejected rows by their statement. Without
    `settings.ngram` n-grams have the domain's length."""
    items = held_out([benchmarks] if isinstance(benchmarks, pa.Table) else benchmarks, domain_in(table))
    decontaminator = Decontaminator(items, with_ngram(settings, domain_in(table)))
    split = decontaminator.split(table)
    return replace(split, summary=split.summary | decontaminator.facts())
