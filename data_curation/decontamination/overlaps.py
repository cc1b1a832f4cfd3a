"""Text shared with benchmark items: the item, the amount, and the place.

Candidates are found by 64-bit hashes of token n-grams, in batches of rows, and then confirmed as text. An item of fewer
than n tokens has no n-gram and is matched whole. One without a number or sign ("What is the value of x?") is no copy
behind the numbers and words of another problem.

**Coverage** of a row and an item is the share of the shorter text's n-grams that the other one has too: a whole item in
a long row and a row that is part of a long item both count as copies. N-grams of drawings in code are ignored where a
text has enough other n-grams, because all drawings look alike.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ratchet.data_curation.decontamination.matches import Match, Text, match
from ratchet.data_curation.deduplication.rewording import Items
from ratchet.data_curation.deduplication.same_problem import INSTRUCTION_WORDS, differing_numbers, numbers_of
from ratchet.data_curation.settings.curation import Decontamination
from ratchet.data_curation.split import Rejection
from ratchet.data_curation.tokens import (
    Texts,
    Tokens,
    bitmap,
    cut,
    look_up,
    run_hashes,
    tokenize_batches,
    tokenize_texts,
)

MIN_SHARED_NGRAMS = 3
"""Shared n-grams below which `coverage` never drops a row: one or two are shared by chance."""
MIN_CONTAINED_TOKENS = 5
"""Tokens below which an item must equal the whole row: "Find x" in a longer problem is no copy."""
MIN_GIVEN_WORDS = 3
"""Words, beside numbers or signs, that are given before a short question of another problem."""
MIN_PROSE_NGRAMS = 12
"""N-grams outside of drawings below which texts are compared with their drawings."""
TIED_ITEMS = 5
"""Most items with the same coverage whose shared texts are compared."""
CLEAN = {"coverage": 0.0, "paper_hit": False, "coverage_hit": False}
"""The facts of a row that shares no n-gram with an item."""
DRAWINGS = (
    (b"[asy]", b"[/asy]"), (rb"\begin{tikzpicture}", rb"\end{tikzpicture}"),
    # Instructions about the form of the answer are as uninformative.
    *((words, b".") for words in (b"enter your answer", b"express your answer", b"can be written", b"can be expressed",
                                  b"in the form", b"enter the letter")),
)  # fmt: skip
_GIVEN = re.compile(r"[\d=+*/^<>|≤≥]|\\[a-zA-Z]")
_SENTENCE_END, _WORD = re.compile(r"[.?!]"), re.compile(r"[^\W\d_]{2,}")
_SEEN_BITS, _SHORT_BITS = 22, 16
_PLACES = 16  # repetitions of an n-gram within an item that are followed


class Overlap(NamedTuple):
    """The n-grams that a row shares with an item: their coverage, and the number of distinct ones."""

    item: int
    coverage: float
    shared: int


class BenchmarkIndex:
    """An index of the n-grams of all benchmark items; `names[i]` is the (benchmark, item id) of `texts[i]`."""

    def __init__(
        self, texts: Sequence[str], names: Sequence[tuple[str, str]], n: int,
        answers: Sequence[str | None] | None = None, domain: str = "math",
    ) -> None:  # fmt: skip
        self.texts, self.names, self.n = list(texts), list(names), n
        self._domain = domain
        self.reworded = Items(self.texts, answers or [None] * len(self.texts), domain)
        self.tokens = tokenize_texts(self.texts)
        grams, first = self.tokens.ngrams(n)
        owners = self.tokens.texts[first]
        drawn = np.zeros(len(self.tokens.hashes), bool)
        for text in range(len(self.texts)):
            drawn[[*_drawn_ngrams(self.tokens, text, n, DRAWINGS)]] = True
        # A repeated n-gram of an item counts once, as prose if one occurrence is outside of drawings.
        order = np.lexsort((drawn[first], owners, grams))
        grams, owners, drawn = grams[order], owners[order], drawn[first][order]
        new = np.append(True, (grams[1:] != grams[:-1]) | (owners[1:] != owners[:-1]))[: len(grams)]
        self._grams, owners, prose = grams[new], owners[new], ~drawn[new]
        self._owners, self._is_prose = owners, prose
        self.gram_counts = np.bincount(owners, minlength=len(self.texts))
        self._prose_counts = np.bincount(owners[prose], minlength=len(self.texts))
        self._seen = bitmap(self._grams, _SEEN_BITS)

        # For each length below n: from the hash of a whole item to the first item that has it.
        self._short: dict[int, dict[int, int]] = {}
        lengths = np.diff(self.tokens.bounds)
        for length in sorted(set(lengths[(lengths > 0) & (lengths < n)].tolist())):
            items = np.flatnonzero(lengths == length)[::-1]
            hashes = self.tokens.runs_at(self.tokens.bounds[items], length)
            self._short[length] = dict(zip(hashes.tolist(), items.tolist(), strict=True))
        held = np.flatnonzero((lengths >= MIN_CONTAINED_TOKENS) & (lengths < n))
        openings = self.tokens.runs(MIN_CONTAINED_TOKENS)
        self._short_seen = bitmap(openings[self.tokens.bounds[held]] if len(held) else openings[:0], _SHORT_BITS)

    def named(self, item: int) -> dict[str, Any]:
        benchmark, item_id = self.names[item]
        return {"benchmark": benchmark, "item": item_id}

    def is_covered(self, overlap: Overlap, settings: Decontamination) -> bool:
        """True if a row covers enough of an item. If the item has fewer n-grams than the minimum, all must be
        shared."""
        enough = overlap.shared >= min(MIN_SHARED_NGRAMS, self.gram_counts[overlap.item])
        return bool(overlap.coverage >= settings.coverage and enough)

    def facts(self, overlaps: Sequence[Overlap], settings: Decontamination) -> dict[str, Any]:
        """The facts of a row with these overlaps, the highest coverage first."""
        best = overlaps[0]
        return self.named(best.item) | {
            "coverage": round(best.coverage, 4),
            "paper_hit": True,
            "coverage_hit": self.is_covered(best, settings),
            "shared_ngrams": best.shared,
            "items_hit": len(overlaps),
        }

    def compare(self, tokens: Tokens) -> dict[int, list[Overlap]]:
        """The overlaps of each text that shares an n-gram with an item: the highest coverage first, then the most
        shared n-grams, then the earliest item."""
        grams = tokens.runs(self.n)
        at = np.flatnonzero(look_up(self._seen, grams, _SEEN_BITS))  # excludes nearly all n-grams of clean rows
        rows, inside = _rows_of(tokens, at, self.n)
        first, end = (np.searchsorted(self._grams, grams[at], side=side) for side in ("left", "right"))
        hits = np.flatnonzero(inside & (end > first))
        counts = (end - first)[hits]
        places = np.repeat(first[hits] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        # An n-gram that a row repeats counts once.
        met = np.unique(np.repeat(rows[hits], counts) * len(self._grams) + places)
        rows, places = np.divmod(met, max(len(self._grams), 1))
        pairs, pair = np.unique(rows * len(self.texts) + self._owners[places], return_inverse=True)
        rows, items = np.divmod(pairs, max(len(self.texts), 1))

        totals = np.diff(tokens.bounds)[rows] - self.n + 1
        prose, its_prose = totals - self._drawn(tokens, rows), self._prose_counts[items]
        shared, shorter = np.bincount(pair, minlength=len(pairs)), np.minimum(self.gram_counts[items], totals)
        without = (its_prose >= MIN_PROSE_NGRAMS) & (prose >= MIN_PROSE_NGRAMS)  # drawings
        shared[without] = np.bincount(pair, self._is_prose[places], len(pairs))[without]
        shorter[without] = np.minimum(its_prose, prose)[without]
        coverage = np.minimum(shared / np.maximum(shorter, 1), 1.0)

        overlaps: dict[int, list[Overlap]] = {}
        best_first = np.lexsort((items, -shared, -coverage, rows))
        columns = (column[best_first].tolist() for column in (rows, items, coverage, shared))
        for row, *overlap in zip(*columns, strict=True):
            overlaps.setdefault(row, []).append(Overlap(*overlap))
        return overlaps

    def _drawn(self, tokens: Tokens, rows: np.ndarray) -> np.ndarray:
        """The number of n-grams that touch a drawing, for each of these sorted rows."""
        drawings = [kind for kind in DRAWINGS if kind[0] in tokens.folded]
        if not drawings:
            return np.zeros(len(rows), np.int64)
        distinct, place = np.unique(rows, return_inverse=True)
        counts = [len(_drawn_ngrams(tokens, row, self.n, drawings)) for row in distinct.tolist()]
        return np.array(counts, np.int64)[place]

    def whole_matches(self, tokens: Tokens) -> dict[int, list[int]]:
        """The items in each row that are too short for an n-gram, the longest first."""
        matches: dict[int, list[int]] = {}
        row_lengths = np.diff(tokens.bounds)
        held = np.flatnonzero(look_up(self._short_seen, tokens.runs(MIN_CONTAINED_TOKENS), _SHORT_BITS))
        for length, items in self._short.items():
            at = tokens.bounds[:-1][row_lengths == length] if length < MIN_CONTAINED_TOKENS else held
            rows, inside = _rows_of(tokens, at, length)
            for row, run in zip(rows[inside].tolist(), tokens.runs_at(at[inside], length).tolist(), strict=True):
                if run in items:
                    matches.setdefault(row, []).insert(0, items[run])
        return matches

    def whole_copy(self, text: Text, items: Sequence[int]) -> dict[str, Any] | None:
        """The evidence of the first of these items, all in the text, of which the text is a copy."""
        found = ((item, evidence) for item in items if (evidence := _shared_text(self, text, item, None)))
        is_code = self._domain == "code"  # "by using regex" behind an item of MBPP is the same task
        return next((e for item, e in found if is_code or not _only_asks(self.texts[item], text.text, e["span"])), None)


def find(
    texts: Texts, index: BenchmarkIndex, settings: Decontamination, answers: Sequence[str | None] | None = None
) -> tuple[dict[int, dict[str, Any]], dict[int, Rejection]]:
    """Compare every text with every item. Returns, by row, the facts of each text that shares an n-gram with an item or
    is one with other numbers, kept or not; and the rejections by the settings.

    Their rule is `whole_match`, `ngram`, `variant` or `reworded`; their evidence the benchmark, the item, and the
    longest shared text with its spans in both, in bytes of UTF-8; of `reworded`, the item's whole text and the
    similarity of the words; of `variant`, the numbers that differ."""
    all_facts: dict[int, dict[str, Any]] = {}
    all_rejections: dict[int, Rejection] = {}
    first = 0
    for tokens in tokenize_batches(texts):
        overlaps, whole = index.compare(tokens), index.whole_matches(tokens)
        rejections: dict[int, tuple[str, dict[str, Any]]] = {}
        for row in sorted({*overlaps, *whole}):
            facts, text = CLEAN, Text(tokens, row, str(texts[first + row]))
            if row in overlaps:
                facts = all_facts[first + row] = index.facts(overlaps[row], settings)
            if row in whole and (evidence := index.whole_copy(text, whole[row])):
                rejections[row] = ("whole_match", evidence)
                continue
            matching, found = overlaps.get(row, []), Match("copy")
            if facts["coverage_hit"]:
                found, alike = _matches(index, text, matching, settings)
                facts["match"] = found.kind
                if settings.preset == "coverage":
                    matching = alike
            rule = _rule(facts, settings)
            if rule and (evidence := _best_evidence(index, text, matching)):
                rejections[row] = (rule, evidence | (found.evidence if rule == "variant" else {}))
        rows = len(tokens.bounds) - 1
        asked = np.array([row not in rejections for row in range(rows)], bool)
        known = answers[first : first + rows] if answers else [None] * rows
        for row, item, similarity in index.reworded.find(tokens, asked, texts[first : first + rows], known):
            evidence = index.named(item) | {"item_text": index.texts[item]}
            if similarity:
                rejections[row] = ("reworded", evidence | {"words": round(similarity, 4)})
            elif settings.preset == "coverage" and "match" not in (facts := all_facts.get(first + row, CLEAN)):
                all_facts[first + row] = facts | index.named(item) | {"match": "variant"}
                if settings.variants == "drop":
                    numbers = Match("variant", differing_numbers(str(texts[first + row]), index.texts[item]))
                    rejections[row] = ("variant", evidence | numbers.evidence)
        for row, (rule, evidence) in rejections.items():
            all_rejections[first + row] = Rejection(rule, all_facts.get(first + row, CLEAN) | evidence)
        first += rows
    return all_facts, all_rejections


def condemned(texts: Sequence[str], index: BenchmarkIndex, settings: Decontamination) -> list[bool]:
    """A mask of the texts that `find` would reject as copies. Far cheaper, since it collects no evidence."""
    verdicts, first = list[bool](), 0
    for tokens in tokenize_batches(texts):
        overlaps, whole = index.compare(tokens), index.whole_matches(tokens)
        for row in range(len(tokens.bounds) - 1):
            text = Text(tokens, row, texts[first + row])
            if row in whole and index.whole_copy(text, whole[row]):
                verdicts.append(True)
            elif row not in overlaps or settings.preset == "paper":
                verdicts.append(row in overlaps)
            else:
                kinds = _kinds(index, text, overlaps[row], settings)
                verdicts.append(any(found.kind == "copy" for found, _ in kinds))
        first = len(verdicts)
    return verdicts


def _rule(facts: dict[str, Any], settings: Decontamination) -> str | None:
    """The rule by which a row with these facts is dropped."""
    if settings.preset == "paper":
        return "ngram" if facts["paper_hit"] else None
    kept = {"passage"} | ({"variant"} if settings.variants == "keep" else set())
    if not facts["coverage_hit"] or facts["match"] in kept:
        return None
    return "variant" if facts["match"] == "variant" else "ngram"


def _matches(
    index: BenchmarkIndex, text: Text, overlaps: list[Overlap], settings: Decontamination
) -> tuple[Match, list[Overlap]]:
    """The closest kind of match of a row with the items that it covers enough of, and the items of that kind."""
    found: dict[str, tuple[Match, list[Overlap]]] = {}
    for one, overlap in _kinds(index, text, overlaps, settings):
        found.setdefault(one.kind, (one, []))[1].append(overlap)
    return next(found[kind] for kind in ("copy", "variant", "passage") if kind in found)


def _kinds(
    index: BenchmarkIndex, text: Text, overlaps: list[Overlap], settings: Decontamination
) -> Iterator[tuple[Match, Overlap]]:
    """The match of a row with each of the items that it covers enough of. Text that is shared completely needs no
    comparison."""
    for overlap in overlaps[:TIED_ITEMS]:
        if index.is_covered(overlap, settings):
            item = Text(index.tokens, overlap.item, index.texts[overlap.item])
            yield Match("copy") if overlap.coverage == 1 else match(text, item), overlap


def shared_runs(one: np.ndarray, other: np.ndarray, n: int) -> list[tuple[int, int, int]]:
    """The (place in one, place in the other, length) of every maximal common run of at least n hashes."""
    places: dict[int, list[int]] = defaultdict(list)
    for at, gram in enumerate(run_hashes(other, n).tolist()):
        same = places[gram]
        if len(same) < _PLACES:
            same.append(at)
    starts = [(start, places[gram]) for start, gram in enumerate(run_hashes(one, n).tolist()) if gram in places]
    mine, its = one.tolist(), other.tolist()
    runs = []
    for start, matches in starts:
        for at in matches:
            if start and at and mine[start - 1] == its[at - 1]:
                continue  # inside a run found before
            length = 0
            while start + length < len(mine) and at + length < len(its) and mine[start + length] == its[at + length]:
                length += 1
            if length >= n:
                runs.append((start, at, length))
    return runs


def _only_asks(item: str, row: str, span: Sequence[int]) -> bool:
    """True if an item is a question without a number or a sign, as below a picture, and the row has what is given for
    another one: before it or in the same sentence, because what follows may say how to answer."""
    if _GIVEN.search(item) or numbers_of(item):
        return False
    before, behind = cut(row, [0, span[0]]), cut(row, [span[1], len(row.encode(errors="replace"))])
    given = f"{before} {_SENTENCE_END.split(behind, maxsplit=1)[0]}"
    words = [word for word in _WORD.findall(given.lower()) if word not in INSTRUCTION_WORDS]
    return len(words) >= MIN_GIVEN_WORDS and bool(numbers_of(given) or _GIVEN.search(given))


def _best_evidence(index: BenchmarkIndex, text: Text, overlaps: list[Overlap]) -> dict[str, Any] | None:
    """Evidence from the item with the longest shared text, among those with the highest coverage."""
    best = sorted(overlap.item for overlap in overlaps if overlap.coverage == overlaps[0].coverage)[:TIED_ITEMS]
    candidates = [evidence for item in best if (evidence := _shared_text(index, text, item, index.n))]
    return max(candidates, key=lambda evidence: evidence["tokens"], default=None)


def _shared_text(index: BenchmarkIndex, text: Text, item: int, n: int | None) -> dict[str, Any] | None:
    """The item and the longest shared text of at least n tokens (None: the whole item); None after a hash collision."""
    tokens, row = text.tokens, text.number
    row_first, row_end = tokens.bounds[row : row + 2].tolist()
    item_first, item_end = index.tokens.bounds[item : item + 2].tolist()
    mine, its = tokens.hashes[row_first:row_end], index.tokens.hashes[item_first:item_end]
    run = max(shared_runs(mine, its, n or len(its)), key=lambda candidate: candidate[2], default=None)
    if run is None:
        return None
    start, at, length = row_first + run[0], item_first + run[1], run[2]
    if tokens.words(start, start + length) != index.tokens.words(at, at + length):
        return None
    span, item_span = tokens.span(row, start, start + length - 1), index.tokens.span(item, at, at + length - 1)
    return index.named(item) | {
        "text": cut(text.text, span),
        "span": list(span),
        "item_text": cut(index.texts[item], item_span),
        "item_span": list(item_span),
        "tokens": length,
    }


def _drawn_ngrams(tokens: Tokens, text: int, n: int, drawings: Sequence[tuple[bytes, bytes]]) -> set[int]:
    """A text's n-grams, by first token, that touch a drawing; an unclosed one ends with the text."""
    begin, stop = tokens.offsets[text : text + 2].tolist()
    first, end = tokens.bounds[text : text + 2].tolist()
    touched: set[int] = set()
    for opening, closing in drawings:
        start = tokens.folded.find(opening, begin, stop)
        while start >= 0:
            closed = tokens.folded.find(closing, start, stop)
            after = closed + len(closing) if closed >= 0 else stop
            inside = np.searchsorted(tokens.starts, [start, after]).tolist()
            touched.update(range(max(first, inside[0] - n + 1), min(end - n + 1, inside[1])))
            start = tokens.folded.find(opening, after, stop)
    return touched


def _rows_of(tokens: Tokens, at: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """The row in which each run of `length` tokens begins, and whether it ends there."""
    rows = np.searchsorted(tokens.bounds, at, side="right") - 1
    return rows, at + length <= tokens.bounds[rows + 1]
