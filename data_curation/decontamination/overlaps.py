"""Text shared with benchmark items: how much of which item, and where.

Candidates are found by 64-bit hashes of token n-grams, in batches of rows, and then confirmed as text. An item of fewer
than n tokens has no n-gram and is matched whole.

**Coverage** of a row and an item is the share of the shorter text's n-grams that the other one has too: a whole item in
a long row and a row that is part of a long item both count as copies. N-grams of drawings in code are ignored where a
text has enough other n-grams, because all drawings look alike.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ratchet.data_curation.deduplication.rewording import Items
from ratchet.data_curation.split import Rejection
from ratchet.data_curation.tokens import Texts, Tokens, cut, run_hashes, tokenise, tokenised_batches
from ratchet.infra.recipe.curation import Decontamination

MIN_SHARED_NGRAMS = 3
"""Fewer never drop a row under `coverage`: one or two are shared by chance."""
MIN_CONTAINED_TOKENS = 5
"""A shorter item must equal the whole row: "Find x" in a longer problem is no copy."""
MIN_PROSE_NGRAMS = 12
"""Texts with fewer n-grams outside of drawings are compared with their drawings."""
TIED_ITEMS = 5
"""Items with the same coverage whose shared texts are compared."""
CLEAN = {"coverage": 0.0, "paper_hit": False, "coverage_hit": False}
"""The facts of a row that shares no n-gram with an item."""
DRAWINGS = (
    (b"[asy]", b"[/asy]"), (rb"\begin{tikzpicture}", rb"\end{tikzpicture}"),
    # Instructions about the form of the answer are as uninformative.
    *((words, b".") for words in (b"enter your answer", b"express your answer", b"can be written", b"can be expressed",
                                  b"in the form", b"enter the letter")),
)  # fmt: skip
_SEEN_BITS, _SHORT_BITS = 22, 16
_PLACES = 16  # repetitions of an n-gram within an item that are followed


@dataclass(frozen=True)
class Overlaps:
    """One entry per row: the `item` with the highest `coverage` (-1: none; of several, the one that shares more, then
    the earlier), the number of distinct n-grams `shared` with it, the number of items that share an n-gram (the
    paper's rule is `items_hit > 0`), and an item of fewer than n tokens that the row contains `whole` (-1: none)."""

    item: np.ndarray
    coverage: np.ndarray
    shared: np.ndarray
    items_hit: np.ndarray
    whole: np.ndarray


@dataclass(frozen=True)
class Pairs:
    """Every (row, item) with a shared n-gram, sorted by row, with coverage and number of shared n-grams."""

    rows: np.ndarray
    items: np.ndarray
    coverage: np.ndarray
    shared: np.ndarray


class BenchmarkIndex:
    """The n-grams of all benchmark items; `names[i]` is the (benchmark, item id) of `texts[i]`."""

    def __init__(
        self, texts: Sequence[str], names: Sequence[tuple[str, str]], n: int,
        answers: Sequence[str | None] | None = None, domain: str = "math",
    ) -> None:  # fmt: skip
        self.texts, self.names, self.n = list(texts), list(names), n
        self.reworded = Items(self.texts, answers or [None] * len(self.texts), domain)
        self.tokens = tokenise(self.texts)
        grams, first = self.tokens.ngrams(n)
        owners = self.tokens.texts[first]
        drawn = np.zeros(len(self.tokens.hashes), bool)
        for text in range(len(self.texts)):
            for touched in _drawn_ngrams(self.tokens, text, n, DRAWINGS):
                drawn[touched] = True
        # A repeated n-gram of an item counts once, as prose if one occurrence is outside of drawings.
        order = np.lexsort((drawn[first], grams, owners))
        grams, owners, drawn = grams[order], owners[order], drawn[first][order]
        new = _first_of_equals(grams, owners)
        grams, self._owners, self._prose = grams[new], owners[new], ~drawn[new]
        self.gram_counts = np.bincount(self._owners, minlength=len(self.texts))
        self._prose_counts = np.bincount(self._owners[self._prose], minlength=len(self.texts))
        # The occurrences of each n-gram, in the order of items.
        self._places = np.argsort(grams, kind="stable")
        self._grams, self._first_place, self._place_counts = np.unique(
            grams[self._places], return_index=True, return_counts=True
        )
        self._seen = _bitmap(self._grams, _SEEN_BITS)

        # For each length below n: the sorted hashes of whole items, and the items.
        self._short: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        lengths = np.diff(self.tokens.bounds)
        for length in sorted(set(lengths[(lengths > 0) & (lengths < n)].tolist())):
            items = np.flatnonzero(lengths == length)
            hashes = self.tokens.runs(length)[self.tokens.bounds[items]]
            order = np.argsort(hashes, kind="stable")
            self._short[length] = hashes[order], items[order]
        held = np.flatnonzero((lengths >= MIN_CONTAINED_TOKENS) & (lengths < n))
        openings = self.tokens.runs(MIN_CONTAINED_TOKENS)
        self._short_seen = _bitmap(openings[self.tokens.bounds[held]] if len(held) else openings[:0], _SHORT_BITS)

    def compare(self, tokens: Tokens) -> tuple[Overlaps, Pairs]:
        """Compare each text of `tokens` with all items."""
        rows = len(tokens.bounds) - 1
        pairs = self._pairs(tokens)
        best = np.lexsort((-pairs.items, pairs.shared, pairs.coverage, pairs.rows))
        sorted_rows = pairs.rows[best]
        best = best[np.roll(_first_of_equals(sorted_rows), -1)]  # the last of each row
        overlaps = Overlaps(
            np.full(rows, -1), np.zeros(rows), np.zeros(rows, np.int64),
            np.bincount(pairs.rows, minlength=rows), self._whole_matches(tokens),
        )  # fmt: skip
        overlaps.item[pairs.rows[best]] = pairs.items[best]
        overlaps.coverage[pairs.rows[best]] = pairs.coverage[best]
        overlaps.shared[pairs.rows[best]] = pairs.shared[best]
        return overlaps, pairs

    def _pairs(self, tokens: Tokens) -> Pairs:
        grams = tokens.runs(self.n)
        at = np.flatnonzero(_look_up(self._seen, grams, _SEEN_BITS))  # excludes nearly all n-grams of clean rows
        known = np.minimum(np.searchsorted(self._grams, grams[at]), len(self._grams) - 1)
        rows, inside = _rows_of(tokens, at, self.n)
        same = inside & (self._grams[known] == grams[at])
        rows, known = rows[same], known[same]
        # One line for each distinct (row, n-gram, item), grouped by row and item.
        counts = self._place_counts[known]
        offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        places = self._places[np.repeat(self._first_place[known], counts) + offsets]
        size = max(len(self._owners), 1)
        lines = np.sort(np.repeat(rows, counts) * size + places)
        rows, places = np.divmod(lines[_first_of_equals(lines)], size)
        items = self._owners[places]
        first = np.flatnonzero(_first_of_equals(rows, items))
        shared = np.diff(np.append(first, len(rows)))
        shared_prose = np.add.reduceat(self._prose[places], first, dtype=np.int64) if len(first) else first
        return self._coverage(tokens, rows[first], items[first], shared, shared_prose)

    def _coverage(
        self, tokens: Tokens, rows: np.ndarray, items: np.ndarray, shared: np.ndarray, shared_prose: np.ndarray
    ) -> Pairs:
        """Coverage of pairs from the numbers of shared n-grams, in all and outside of drawings."""
        total = np.maximum(np.diff(tokens.bounds) - self.n + 1, 0)
        prose = total.copy()
        drawings = [kind for kind in DRAWINGS if kind[0] in tokens.folded]
        for row in rows[_first_of_equals(rows)].tolist() if drawings else ():
            for touched in _drawn_ngrams(tokens, row, self.n, drawings):
                prose[row] -= touched.stop - touched.start
        # Without drawings where both texts have enough other n-grams.
        plain = (self._prose_counts[items] >= MIN_PROSE_NGRAMS) & (prose[rows] >= MIN_PROSE_NGRAMS)
        shared = np.where(plain, shared_prose, shared)
        shorter = np.where(
            plain, np.minimum(self._prose_counts[items], prose[rows]), np.minimum(self.gram_counts[items], total[rows])
        )
        return Pairs(rows, items, np.minimum(shared / np.maximum(shorter, 1), 1), shared)

    def _whole_matches(self, tokens: Tokens) -> np.ndarray:
        """For each row the longest contained item that is too short for an n-gram."""
        matches = np.full(len(tokens.bounds) - 1, -1)
        row_lengths = np.diff(tokens.bounds)
        held = np.flatnonzero(_look_up(self._short_seen, tokens.runs(MIN_CONTAINED_TOKENS), _SHORT_BITS))
        for length, (hashes, items) in self._short.items():
            at = tokens.bounds[:-1][row_lengths == length] if length < MIN_CONTAINED_TOKENS else held
            rows, inside = _rows_of(tokens, at, length)
            at, rows = at[inside], rows[inside]
            if len(at):
                runs = tokens.runs_at(at, length)
                place = np.minimum(np.searchsorted(hashes, runs), len(hashes) - 1)
                same = hashes[place] == runs
                matches[rows[same]] = items[place[same]]
        return matches


@dataclass(frozen=True)
class Findings:
    """The comparison of a column of texts: overlaps, whether each preset hits a row by n-grams, and the rejections by
    the active preset or a whole match."""

    index: BenchmarkIndex
    overlaps: Overlaps
    paper_hit: np.ndarray
    coverage_hit: np.ndarray
    rejections: dict[int, Rejection]

    def facts(self, row: int) -> dict[str, Any]:
        """The facts recorded for every row, kept or not."""
        if (item := int(self.overlaps.item[row])) < 0:
            return CLEAN
        return named(self.index, item) | {
            "coverage": round(float(self.overlaps.coverage[row]), 4),
            "paper_hit": bool(self.paper_hit[row]),
            "coverage_hit": bool(self.coverage_hit[row]),
            "shared_ngrams": int(self.overlaps.shared[row]),
            "items_hit": int(self.overlaps.items_hit[row]),
        }


def find(
    texts: Texts, index: BenchmarkIndex, settings: Decontamination, answers: Sequence[str | None] | None = None
) -> Findings:
    """Compare every text with every item. Rejections have the rule `whole_match`, `ngram` or `reworded`; their evidence
    is the benchmark, the item, and the longest shared text with its spans in both, in bytes of UTF-8; of `reworded`,
    the item's whole text and the similarity of the words."""
    parts: list[Overlaps] = []
    found: dict[int, tuple[str, dict[str, Any]]] = {}
    first = 0
    for tokens in tokenised_batches(texts):
        overlaps, pairs = index.compare(tokens)
        hit = _hits(index, overlaps, settings)
        for row in np.flatnonzero(hit | (overlaps.whole >= 0)).tolist():
            text = str(texts[first + row])
            whole = int(overlaps.whole[row])
            if whole >= 0 and (evidence := _shared_text(index, tokens, row, text, whole, None)):
                found[first + row] = ("whole_match", evidence)
            elif hit[row] and (evidence := _best_evidence(index, tokens, row, text, pairs)):
                found[first + row] = ("ngram", evidence)

        def read(row: int, first: int = first) -> tuple[str, str | None]:
            return str(texts[first + row]), answers[first + row] if answers else None

        asked = np.array([first + row not in found for row in range(len(overlaps.item))], bool)
        for row, item, alike in index.reworded.find(tokens, asked, read):
            evidence = named(index, item) | {"item_text": index.texts[item], "words": round(alike, 4)}
            found[first + row] = ("reworded", evidence)
        parts.append(overlaps)
        first += len(overlaps.item)
    joined = Overlaps(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Overlaps)))
    findings = Findings(index, joined, joined.items_hit > 0, _coverage_hits(index, joined, settings), {})
    for row, (rule, evidence) in found.items():
        findings.rejections[row] = Rejection(rule, findings.facts(row) | evidence)
    return findings


def condemned(texts: Sequence[str], index: BenchmarkIndex, settings: Decontamination) -> np.ndarray:
    """Whether `find` would reject each text; far cheaper, without evidence."""
    found = [index.compare(tokens)[0] for tokens in tokenised_batches(texts)]
    return np.concatenate([_hits(index, overlaps, settings) | (overlaps.whole >= 0) for overlaps in found])


def shared_runs(one: np.ndarray, other: np.ndarray, n: int) -> list[tuple[int, int, int]]:
    """(place in one, place in the other, length) of every maximal common run of at least n hashes."""
    places: dict[int, list[int]] = defaultdict(list)
    for at, gram in enumerate(run_hashes(other, n).tolist()):
        same = places[gram]
        if len(same) < _PLACES:
            same.append(at)
    starts = [(start, places[gram]) for start, gram in enumerate(run_hashes(one, n).tolist()) if gram in places]
    mine, its = one.tolist(), other.tolist()
    runs = []
    for start, found in starts:
        for at in found:
            if start and at and mine[start - 1] == its[at - 1]:
                continue  # inside a run found before
            length = 0
            while start + length < len(mine) and at + length < len(its) and mine[start + length] == its[at + length]:
                length += 1
            if length >= n:
                runs.append((start, at, length))
    return runs


def named(index: BenchmarkIndex, item: int) -> dict[str, Any]:
    benchmark, item_id = index.names[item]
    return {"benchmark": benchmark, "item": item_id}


def _hits(index: BenchmarkIndex, overlaps: Overlaps, settings: Decontamination) -> np.ndarray:
    """Rows that the active preset drops by n-grams."""
    return overlaps.items_hit > 0 if settings.preset == "paper" else _coverage_hits(index, overlaps, settings)


def _coverage_hits(index: BenchmarkIndex, overlaps: Overlaps, settings: Decontamination) -> np.ndarray:
    """Rows that `coverage` drops. For an item with fewer n-grams than the minimum, all must be shared."""
    counts = np.append(index.gram_counts, 1)[overlaps.item]  # a value for item -1, never used
    enough = overlaps.shared >= np.minimum(MIN_SHARED_NGRAMS, counts)
    return (overlaps.item >= 0) & (overlaps.coverage >= settings.coverage) & enough


def _best_evidence(index: BenchmarkIndex, tokens: Tokens, row: int, text: str, pairs: Pairs) -> dict[str, Any] | None:
    """Of the items with the highest coverage, the one with the longest shared text."""
    mine = slice(*np.searchsorted(pairs.rows, [row, row + 1]))
    items, coverage = pairs.items[mine], pairs.coverage[mine]
    best = items[coverage == coverage.max()][:TIED_ITEMS].tolist()
    found = [evidence for item in best if (evidence := _shared_text(index, tokens, row, text, item, index.n))]
    return max(found, key=lambda evidence: evidence["tokens"], default=None)


def _shared_text(
    index: BenchmarkIndex, tokens: Tokens, row: int, text: str, item: int, n: int | None
) -> dict[str, Any] | None:
    """The item and the longest shared text of at least n tokens (None: the whole item); None after a hash collision."""
    row_first, row_end = tokens.bounds[row : row + 2].tolist()
    item_first, item_end = index.tokens.bounds[item : item + 2].tolist()
    mine, its = tokens.hashes[row_first:row_end], index.tokens.hashes[item_first:item_end]
    run = max(shared_runs(mine, its, n or len(its)), key=lambda found: found[2], default=None)
    if run is None:
        return None
    start, at, length = row_first + run[0], item_first + run[1], run[2]
    if tokens.words(start, start + length) != index.tokens.words(at, at + length):
        return None
    span, item_span = tokens.span(row, start, start + length - 1), index.tokens.span(item, at, at + length - 1)
    return named(index, item) | {
        "text": cut(text, span),
        "span": list(span),
        "item_text": cut(index.texts[item], item_span),
        "item_span": list(item_span),
        "tokens": length,
    }


def _drawn_ngrams(tokens: Tokens, text: int, n: int, drawings: Sequence[tuple[bytes, bytes]]) -> list[slice]:
    """Disjoint slices of a text's n-grams, by first tokens, that touch a drawing; unclosed ones end with the text."""
    begin, stop = tokens.offsets[text : text + 2].tolist()
    spans = []
    for opening, closing in drawings:
        start = tokens.folded.find(opening, begin, stop)
        while start >= 0:
            closed = tokens.folded.find(closing, start, stop)
            spans.append((start, closed + len(closing) if closed >= 0 else stop))
            start = tokens.folded.find(opening, spans[-1][1], stop)
    if not spans:
        return []
    first, end = tokens.bounds[text : text + 2].tolist()
    end -= n - 1
    slices = []
    for opened, closed in np.searchsorted(tokens.starts, sorted(spans)).tolist():
        first, last = max(first, opened - n + 1), min(end, closed)
        if first < last:
            slices.append(slice(first, last))
            first = last
    return slices


def _rows_of(tokens: Tokens, at: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """The row in which each run of `length` tokens begins, and whether it ends there."""
    rows = np.searchsorted(tokens.bounds, at, side="right") - 1
    return rows, at + length <= tokens.bounds[rows + 1]


def _first_of_equals(*columns: np.ndarray) -> np.ndarray:
    """Whether each of sorted values differs from the one before it."""
    new = np.ones(len(columns[0]), bool)
    new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return new


def _bitmap(hashes: np.ndarray, bits: int) -> np.ndarray:
    seen = np.zeros(1 << bits, bool)
    seen[(hashes >> np.uint64(64 - bits)).view(np.int64)] = True
    return seen


def _look_up(seen: np.ndarray, hashes: np.ndarray, bits: int) -> np.ndarray:
    return seen[(hashes >> np.uint64(64 - bits)).view(np.int64)]
