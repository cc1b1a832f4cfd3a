"""Keeping held-out problems held out: rows that share text with a benchmark item are dropped, with the text.

Two presets. `paper` (AceReason, section 3.1) drops a row for a single shared n-gram; boilerplate such as "relatively
prime positive integers" makes most of its hits false. `coverage` drops a row that holds at least the given share of
**one** item's distinct n-grams. What both would say is written into every row's metadata, so that either can be quoted
from one run. An item shorter than n tokens has no n-gram, and is matched whole.

Finding is done on 64-bit hashes of token n-grams of the whole table at once; what is found is then compared as text,
so that a drop never rests on a hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from data_curation.split import Rejection, Split, add_metadata, partition
from data_curation.tokens import Tokens, token_texts, tokenise
from data_curation.urls import problem_key
from infra.recipe.model import Decontamination

STEP = "decontaminate"
RULES = ("released_after", "url", "whole_match", "ngram")
ROWS_AT_ONCE = 4096
MIN_CONTAINED_TOKENS = 5
"""A shorter item must be the whole row: "Find x" inside a longer problem is no copy of it."""


@dataclass(frozen=True)
class Overlap:
    """How a row meets the item it covers best. `shared` counts the item's distinct n-grams that the row holds."""

    item: int = -1
    coverage: float = 0.0
    shared: int = 0
    items_hit: int = 0  # how many items share at least one n-gram: the paper's rule is `items_hit > 0`


class BenchmarkIndex:
    """The n-grams of all benchmark items. `prompts[i]` is named by `names[i]`, (benchmark, item id)."""

    def __init__(self, prompts: Sequence[str], names: Sequence[tuple[str, str]], n: int):
        self.prompts, self.names, self.n = list(prompts), list(names), n
        self.tokens = tokenise(self.prompts)
        grams, first = self.tokens.ngrams(n)
        owners = self.tokens.texts[first]
        order = np.lexsort((owners, grams))
        grams, owners = grams[order], owners[order]
        new = np.ones(len(grams), bool)
        new[1:] = (grams[1:] != grams[:-1]) | (owners[1:] != owners[:-1])
        self._posting_grams, self._posting_items = grams[new], owners[new]
        self.gram_counts = np.bincount(self._posting_items, minlength=len(self.prompts))
        # One flag for each value of a gram's top 22 bits: nearly all grams of clean rows end here.
        self._seen = np.zeros(1 << 22, bool)
        self._seen[(self._posting_grams >> np.uint64(42)).astype(np.int64)] = True
        # Of each length below n: the hash of all its tokens, to the item.
        self._short_items: dict[int, dict[int, int]] = {}
        lengths = np.diff(self.tokens.bounds)
        for length in sorted(set(lengths[(lengths > 0) & (lengths < n)].tolist())):
            grams, first = self.tokens.ngrams(length)
            whole = lengths[self.tokens.texts[first]] == length
            items = self.tokens.texts[first[whole]]
            self._short_items[length] = dict(zip(grams[whole].tolist(), items.tolist(), strict=True))

    def compare(self, prompts: Sequence[str]) -> tuple[list[Overlap], dict[int, int]]:
        """The best overlap of each row, and row to item for whole matches; some rows at a time, so that what is in
        work fits the processor's cache and memory is bounded."""
        overlaps: list[Overlap] = []
        whole: dict[int, int] = {}
        for first in range(0, len(prompts), ROWS_AT_ONCE):
            tokens = tokenise(prompts[first : first + ROWS_AT_ONCE])
            whole |= {first + row: item for row, item in self._whole_matches(tokens).items()}
            overlaps += self._overlaps(tokens)
        return overlaps, whole

    def _overlaps(self, tokens: Tokens) -> list[Overlap]:
        """The best overlap of each row; ties go to the longer shared text, then the earlier item."""
        rows = len(tokens.bounds) - 1
        grams, first = tokens.ngrams(self.n)
        likely = self._seen[(grams >> np.uint64(42)).astype(np.int64)]
        grams, owners = grams[likely], tokens.texts[first[likely]]
        left = np.searchsorted(self._posting_grams, grams, side="left")
        right = np.searchsorted(self._posting_grams, grams, side="right")
        # One line for each (row, gram, item); a gram that stands twice in a row counts once.
        counts = right - left
        lines = np.repeat(np.arange(len(grams)), counts)
        postings = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + left[lines]
        size = max(len(self._posting_grams), 1)
        gram_rows, posting = np.divmod(np.unique(owners[lines] * size + postings), size)
        pairs, shared = np.unique(gram_rows * len(self.prompts) + self._posting_items[posting], return_counts=True)
        pair_rows, pair_items = np.divmod(pairs, max(len(self.prompts), 1))
        best = [Overlap()] * rows
        items_hit = np.bincount(pair_rows, minlength=rows)
        for row, item, count in zip(pair_rows.tolist(), pair_items.tolist(), shared.tolist(), strict=True):
            coverage = count / int(self.gram_counts[item])
            if (coverage, count) > (best[row].coverage, best[row].shared):
                best[row] = Overlap(item, coverage, count, int(items_hit[row]))
        return best

    def _whole_matches(self, tokens: Tokens) -> dict[int, int]:
        """Row to item, for items too short for an n-gram that are the row or stand in it as a whole."""
        row_lengths = np.diff(tokens.bounds)
        matches: dict[int, int] = {}
        for length, items in self._short_items.items():
            grams, first = tokens.ngrams(length)
            hits = np.isin(grams, np.fromiter(items, np.uint64, len(items)))
            for gram, row in zip(grams[hits].tolist(), tokens.texts[first[hits]].tolist(), strict=True):
                if length >= MIN_CONTAINED_TOKENS or row_lengths[row] == length:
                    matches[row] = items[gram]
        return matches


def decontaminate(table: pa.Table, benchmarks: pa.Table, settings: Decontamination) -> Split:
    """Reject rows that share text (`ngram`, `whole_match`) or address (`url`) with an item of `benchmarks`, or that
    were released after the settings' date.

    `benchmarks` has `PROBLEM_SCHEMA`; its `source` and `source_id` name benchmark and item. Each kept row's metadata
    gains `decontaminate`: `coverage` of the item it covers most, that item, and `paper_hit`.
    """
    prompts = table.column("prompt").to_pylist()
    names = list(zip(*(benchmarks.column(c).to_pylist() for c in ("source", "source_id")), strict=True))
    index = BenchmarkIndex(benchmarks.column("prompt").to_pylist(), names, settings.ngram)
    overlaps, whole = index.compare(prompts)
    item_urls = {k: i for i, url in enumerate(benchmarks.column("source_url").to_pylist()) if (k := problem_key(url))}
    latest = settings.released_after

    measured, verdicts = [], []
    columns = (table.column(c).to_pylist() for c in ("released", "source_url"))
    for row, (prompt, released, url) in enumerate(zip(prompts, *columns, strict=True)):
        overlap = overlaps[row]
        found = {"coverage": round(overlap.coverage, 4), "paper_hit": overlap.items_hit > 0}
        if overlap.item >= 0:
            found |= _named(index, overlap.item) | {"shared_ngrams": overlap.shared, "items_hit": overlap.items_hit}
        measured.append(found)
        if latest and released and released > latest:
            verdicts.append(Rejection("released_after", {"released": str(released), "limit": str(latest)} | found))
        elif (key := problem_key(url)) and key in item_urls:
            verdicts.append(Rejection("url", found | {"url": key} | _named(index, item_urls[key])))
        elif row in whole and (evidence := _shared_text(index, prompt, whole[row])):
            verdicts.append(Rejection("whole_match", found | evidence))
        elif _drops(overlap, index, settings) and (evidence := _shared_text(index, prompt, overlap.item, index.n)):
            verdicts.append(Rejection("ngram", found | evidence))
        else:
            verdicts.append(None)

    coverage = settings.model_copy(update={"preset": "coverage"})
    hits = {
        "paper_hits": sum(found["paper_hit"] for found in measured),
        "coverage_hits": sum(_drops(overlap, index, coverage) for overlap in overlaps),
        "items": len(names),
        "items_without_ngram": int((index.gram_counts == 0).sum()),
    }
    return partition(STEP, RULES, add_metadata(table, STEP, measured), verdicts, preset=settings.preset, **hits)


def _drops(overlap: Overlap, index: BenchmarkIndex, settings: Decontamination) -> bool:
    if settings.preset == "paper":
        return overlap.items_hit > 0
    if overlap.item < 0:
        return False
    # An item with fewer n-grams than the minimum is protected by all that it has.
    needed = min(settings.min_shared_ngrams, int(index.gram_counts[overlap.item]))
    return overlap.coverage >= settings.coverage and overlap.shared >= needed


def _named(index: BenchmarkIndex, item: int) -> dict[str, Any]:
    benchmark, item_id = index.names[item]
    return {"benchmark": benchmark, "item": item_id}


def _shared_text(index: BenchmarkIndex, prompt: str, item: int, n: int | None = None) -> dict[str, Any] | None:
    """The evidence of a match: the item, and the longest text of at least n tokens (None: the whole item) that row and
    item share. None when there is no such text, which means that hashes agreed by accident."""
    tokens, item_tokens = token_texts(prompt), token_texts(index.prompts[item])
    found = _longest_run([t for t, _, _ in tokens], [t for t, _, _ in item_tokens], n or len(item_tokens))
    if found is None:
        return None
    start, at, length = found
    span = [tokens[start][1], tokens[start + length - 1][2]]
    item_span = [item_tokens[at][1], item_tokens[at + length - 1][2]]
    return _named(index, item) | {
        "text": prompt[slice(*span)],
        "span": span,
        "item_text": index.prompts[item][slice(*item_span)],
        "item_span": item_span,
        "tokens": length,
    }


def _longest_run(row: list[str], item: list[str], n: int) -> tuple[int, int, int] | None:
    """(place in the row, place in the item, length) of the longest run of at least n tokens in both."""
    places: dict[tuple[str, ...], int] = {}
    for start in range(len(item) - n + 1):
        places.setdefault(tuple(item[start : start + n]), start)
    best = None
    for start in range(len(row) - n + 1):
        at = places.get(tuple(row[start : start + n]))
        if at is None:
            continue
        length = n
        while row[start + length : start + length + 1] == item[at + length : at + length + 1] != []:
            length += 1
        if best is None or length > best[2]:
            best = (start, at, length)
    return best
