"""Find exact copies, near copies and problems of the same URL, and keep the best row of each.

Near copies are found with MinHash, and each candidate pair is measured exactly; copies in other words by their numbers
and answers (`rewording.py`). A row is always compared with the row that stays, so that a chain of small differences
never removes a problem that resembles no kept row.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ratchet.data_curation.curation_step import CurationStep, Rows, StepContext
from ratchet.data_curation.deduplication import minhash, rewording
from ratchet.data_curation.deduplication.minhash import Shingles, ngrams, shingle
from ratchet.data_curation.deduplication.same_problem import (
    READ,
    numbers_of,
    reworded,
    same_answer,
    same_problem,
    same_statement,
)
from ratchet.data_curation.settings.curation import Deduplication
from ratchet.data_curation.split import Rejection, Split, partition
from ratchet.data_curation.urls import problem_key
from ratchet.verifiers.domains import code_of

CHUNK = 8192
"""Rows whose statements are Python strings at the same time."""
_FEW = 8
"""Rows of a bucket that are compared one by one: cheaper than to read all their numbers."""
STEP = "deduplicate"
NAMES = ("problem_id", "source", "source_id")
RULES = ("exact", "url", "near", "variant", "reworded", "disagreement")


@dataclass(frozen=True)
class Deduplicate(CurationStep):
    """Keep the best row of each problem."""

    settings: Deduplication | None = None
    name: ClassVar[str] = STEP
    version: ClassVar[int] = 16

    def parameters(self, context: StepContext) -> Deduplication:
        return self.settings or context.curation.deduplicate

    def code(self, context: StepContext) -> Sequence[str]:
        return code_of([context.domain])

    def run(self, rows: Rows, context: StepContext) -> Iterable[Split]:
        table = rows.mapped(context.folder)
        verdicts, context.result.summary = judge(table, self.parameters(context))
        return splits(table, verdicts)


def deduplicate(table: pa.Table, settings: Deduplication = Deduplication()) -> Split:
    """Keep one of several copies of a problem. The others are rejected with the row that stays and the similarity to
    it."""
    verdicts, facts = judge(table, settings)
    return partition(STEP, RULES, table, verdicts, **facts)


def splits(table: pa.Table, verdicts: Sequence[Rejection | None]) -> Iterator[Split]:
    """Kept and rejected rows, in batches."""
    for first in range(0, max(len(table), 1), CHUNK):
        yield partition(STEP, RULES, table.slice(first, CHUNK), verdicts[first : first + CHUNK])


def judge(table: pa.Table, settings: Deduplication) -> tuple[list[Rejection | None], dict[str, Any]]:
    """Reject all but the best row of each problem.

    Rules: `exact` (the same tokens: other spacing, case or typesetting at most, by `same_statement`), `url` (the same
    problem of the same platform), `near` (a Jaccard similarity of token n-grams of at least `settings.jaccard`, and the
    same problem by `same_problem`), `variant` with `settings.variants: drop` (the same text with other numbers),
    `reworded` (the same numbers, the same answer and enough of the words, by `same_problem.reworded`). The best row has
    a golden solution, then more tests, then the answer of most exact copies, then comes first. The evidence names the
    row that stays, the similarity, the answers where they differ, and, for the copy of a copy, the row in between
    (`by`).

    Exact copies whose answers disagree are counted in the summary (`disagreeing`, rows); with
    `settings.drop_disagreeing` all of them are rejected by the rule `disagreement`.

    Memory, beside the table: about 8 bytes per token, and 8 bytes per band of each row.
    """
    shingles, word_sets = shingle(_chunks(table, "prompt"), ngrams(settings.ngram), rewording.words)
    rows = _Rows(table, _exact_groups(shingles, table))

    copies: dict[int, tuple[int, str]] = {}  # row -> the row it is a copy of, and by which rule
    for group in rows.exact:
        best, *others = sorted(group, key=rows.preference)
        copies |= {row: (best, "exact") for row in others}

    disputed = rows.disputed()
    gone: set[int] = {*disputed} if settings.drop_disagreeing else set()
    urls = table.column("source_url").to_pylist()
    first_at: dict[str, int] = {}
    out = copies.keys() | gone
    keys = {row: key for row, url in enumerate(urls) if url and row not in out and (key := problem_key(url))}
    shared = {key for key, count in Counter(keys.values()).items() if count > 1}
    for row in sorted((row for row, key in keys.items() if key in shared), key=rows.preference):
        best = first_at.setdefault(keys[row], row)
        if best != row:
            copies[row] = best, "url"

    left = np.ones(len(table), bool)
    left[[*copies, *gone]] = False
    bands = minhash.band_keys(shingles, minhash.PERMUTATIONS, *minhash.bands_of(settings))
    buckets = minhash.buckets(bands, np.flatnonzero(left))
    del bands
    for row, best in near_copies(shingles, buckets, settings.jaccard, rows.preference, rows.same, rows.numbers):
        copies[row] = best, "near"
    if settings.variants == "drop":
        left[[*copies]] = False
        (masked,) = shingle(_chunks(table, "prompt"), rewording.templates)
        copies |= {row: (best, "variant") for row, best in rows.variants(masked.wholes, np.flatnonzero(left))}
    if settings.reworded:
        left[[*copies]] = False
        (answers,) = shingle(_chunks(table, "answer"), ngrams(1))
        buckets = rewording.buckets(word_sets, answers, np.flatnonzero(left))
        candidates = word_sets, buckets, rewording.LEAST
        for row, best in near_copies(*candidates, rows.preference, rows.reworded, rows.numbers):
            copies[row] = best, "reworded"

    verdicts: list[Rejection | None] = [None] * len(table)
    for row in gone:
        verdicts[row] = Rejection("disagreement", {"answers": disputed[row]})
        copies.pop(row, None)
    for row, (by, rule) in copies.items():
        best = _root(copies, by)
        evidence = rows.evidence(row, best) | {"jaccard": _similarity(shingles, row, best)}
        if rule == "reworded":
            evidence["words"] = _similarity(word_sets, row, best)
        if by != best:
            evidence["by"] = rows.values(by, NAMES)
        verdicts[row] = Rejection(rule, evidence | ({"url": keys[row]} if rule == "url" else {}))
    return verdicts, {"minhash": minhash.described(settings), "disagreeing": len(disputed)}


def _chunks(table: pa.Table, column: str) -> Iterator[list[str]]:
    texts = table.column(column)
    return (texts.slice(first, CHUNK).to_pylist() for first in range(0, len(table), CHUNK))


def _root(copies: Mapping[int, tuple[int, str]], row: int) -> int:
    while row in copies:
        row = copies[row][0]
    return row


class _Rows:
    """The values that decide between copies, read only for rows that have one."""

    def __init__(self, table: pa.Table, exact: list[list[int]]) -> None:
        self._columns = {name: table.column(name) for name in (*NAMES, *READ)}
        lengths = pc.list_value_length(table.column("golden_solutions"))  # type: ignore  # made when pyarrow is imported
        self._has_golden = [bool(length) for length in lengths.to_pylist()]
        self._votes: dict[int, int] = {}  # of a row with exact copies: how many of them have its answer
        self.exact = [part for group in exact for part in self._one_statement_each(group)]
        for group in self.exact:
            answers = {row: self._value("answer", row) for row in group}
            counts = Counter(answers.values())
            self._votes |= {row: counts[answer] for row, answer in answers.items()}

    def _one_statement_each(self, group: list[int]) -> list[list[int]]:
        """The rows of a group of equal tokens by their statement, where two or more have it."""
        parts: list[list[dict[str, Any]]] = []
        for row in group:
            mine = self.values(row, READ) | {"row": row}
            home = next((part for part in parts if any(same_statement(mine, its) for its in part)), None)
            if home is None:
                parts.append(home := [])
            home.append(mine)
        return [[each["row"] for each in part] for part in parts if len(part) > 1]

    def preference(self, row: int) -> tuple[Any, ...]:
        """Sorts the better row first."""
        tests = self._value("tests", row)
        number = len(json.loads(tests)) if tests else 0
        return (not self._has_golden[row], -number, -self._votes.get(row, 1), row)

    def disputed(self) -> dict[int, list[str]]:
        """Rows with exact copies whose answers disagree, with these answers."""
        disagreements: dict[int, list[str]] = {}
        for group in self.exact:
            answers = list(dict.fromkeys(a for row in group if (a := self._value("answer", row))))
            domain = self._value("domain", group[0])
            if any(not same_answer(domain, answers[0], answer) for answer in answers[1:]):
                disagreements |= dict.fromkeys(group, answers)
        return disagreements

    def numbers(self, row: int) -> tuple[str, ...]:
        return numbers_of(self._value("prompt", row))

    def same(self, row: int, other: int, similarity: float) -> bool:
        return same_problem(self.values(row, READ), self.values(other, READ))

    def reworded(self, row: int, other: int, similarity: float) -> bool:
        return reworded(self.values(row, READ), self.values(other, READ), similarity)

    def variants(self, templates: np.ndarray, left: np.ndarray) -> Iterator[tuple[int, int]]:
        """(row, kept row) of the rows of `left` that differ from a better one in their numbers only; `templates` are
        hashes of their texts without numbers, 0 for none."""
        same = defaultdict(list)
        for row in left[templates[left] != 0].tolist():
            same[templates[row].item(), self._value("entry_point", row)].append(row)
        for group in same.values():
            best, *others = sorted(group, key=self.preference)
            text = self._value("prompt", best)
            yield from ((row, best) for row in others if rewording.is_variant(self._value("prompt", row), text))

    def evidence(self, row: int, kept: int) -> dict[str, Any]:
        answers = [self._value("answer", row), self._value("answer", kept)]
        evidence: dict[str, Any] = {"kept": self.values(kept, NAMES)}
        return evidence | ({"answers": answers} if answers[0] != answers[1] else {})

    def values(self, row: int, names: Sequence[str]) -> dict[str, Any]:
        return {name: self._value(name, row) for name in names}

    def _value(self, column: str, row: int) -> Any:
        return self._columns[column][row].as_py()


def _exact_groups(shingles: Shingles, table: pa.Table) -> list[list[int]]:
    """Rows, two or more, with the same tokens and the same entry point."""
    entry_points = table.column("entry_point").combine_chunks().dictionary_encode().indices.fill_null(-1).to_numpy()
    order = np.lexsort((entry_points, shingles.wholes))
    repeats = (np.diff(shingles.wholes[order]) == 0) & (np.diff(entry_points[order]) == 0)
    ends = np.flatnonzero(np.concatenate([[True], ~repeats, [True]])) if len(order) else np.empty(0, int)
    return [order[start:end].tolist() for start, end in pairwise(ends.tolist()) if end - start > 1]


def near_copies(
    shingles: Shingles,
    buckets: tuple[np.ndarray, np.ndarray],
    least: float,
    preference: Callable[[int], Any],
    same: Callable[[int, int, float], bool] = lambda row, other, similarity: True,
    part: Callable[[int], Hashable] = lambda row: None,
) -> Iterator[tuple[int, int]]:
    """The (row, kept row) of each row that is a near copy of a better row that stays: of several, the most similar one,
    then the first. Copies have a Jaccard similarity of at least `least` and are the `same`. `buckets` are those of
    `minhash.buckets`; a row in no bucket has no candidates. Rows of another `part` are never the same; a bucket of many
    rows is split by it, because the variants of a template share one and would each be compared with all others.
    """
    members, numbers = buckets
    rows, starts = np.unique(members, return_index=True)
    places = dict(zip(rows.tolist(), pairwise([*starts.tolist(), len(members)]), strict=True))
    kept_in: dict[int, _Bucket] = defaultdict(lambda: _Bucket(part))
    for row in sorted(places, key=preference):
        mine = [kept_in[number] for number in numbers[slice(*places[row])].tolist()]
        similar: list[tuple[float, int]] = []
        if others := {other for bucket in mine for other in bucket.candidates(row)}:
            own = shingles.of(row)
            for other in others:
                similarity = minhash.jaccard(own, shingles.of(other))
                if similarity >= least and same(row, other, similarity):
                    similar.append((-similarity, other))
        if similar:
            yield row, min(similar)[1]
        else:
            for bucket in mine:
                bucket.add(row)


class _Bucket:
    """Kept rows that a new one may be a copy of; more than `_FEW` are separated by their part."""

    __slots__ = ("_part", "_parts", "_rows")

    def __init__(self, part: Callable[[int], Hashable]) -> None:
        self._part = part
        self._rows: list[int] = []
        self._parts: dict[Hashable, list[int]] | None = None

    def candidates(self, row: int) -> list[int]:
        return self._rows if self._parts is None else self._parts.get(self._part(row), [])

    def add(self, row: int) -> None:
        new = [row]
        if self._parts is None:
            self._rows.append(row)
            if len(self._rows) <= _FEW:
                return
            self._parts, new = {}, self._rows
        for each in new:
            self._parts.setdefault(self._part(each), []).append(each)


def _similarity(shingles: Shingles, row: int, other: int) -> float:
    return round(minhash.jaccard(shingles.of(row), shingles.of(other)), 4)
