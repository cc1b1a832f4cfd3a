"""Copies in other words, with other names or in another order: their n-grams differ, but not their numbers and answers.

Candidates have the same digits. Those of deduplication also have the same answer and a word in common that MinHash
draws, so that their number grows with the number of copies. The words of a text are a set; `same_problem.reworded`
decides. Texts in scripts without spaces have no words here.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from ratchet.data_curation.deduplication import minhash
from ratchet.data_curation.deduplication.minhash import Shingles
from ratchet.data_curation.deduplication.same_problem import (
    INSTRUCTION_WORDS,
    differing_numbers,
    reworded,
    sentences,
)
from ratchet.data_curation.folding import folded
from ratchet.data_curation.tokens import Texts, Tokens, bitmap, look_up, mixed, tokenize_texts
from ratchet.verifiers.math.tokens import VOCABULARY

LEAST = 0.25
"""Least Jaccard similarity of the words of candidates; `same_problem.reworded` demands more of most of them."""
MIN_TEMPLATE = 12
"""Words that a text needs to be compared without its numbers: exercises of a few words are all alike."""
MIN_WORDS = 4
"""Words that a text needs to be compared by words; a shorter one is compared by its n-grams only."""
DRAWS = 12
"""Words that MinHash draws from each text: three in a hundred pairs at `LEAST` have none in common."""
_SEEN_BITS = 16
_DIGITS = re.compile(r"\d+(?:\.\d+)?")
_NUMBERS = VOCABULARY["numbers"]
_VALUES = {word: value for value, word in enumerate(_NUMBERS["ones"].split())}
_VALUES |= {word: 10 * value for value, word in enumerate(_NUMBERS["tens"].split(), 2)}
_VALUES |= {f"{word}s": value for word, value in _NUMBERS["parts"].items()}  # "two thirds"; the third one is no number
_VALUES |= _NUMBERS["magnitudes"] | {"half": 2}
_VALUES |= dict.fromkeys(("twice", "double", "doubles", "doubled"), 2)
_VALUES |= dict.fromkeys(("thrice", "triple", "triples", "tripled"), 3)
# By character: digits add up, in any order. 0 and 1 count for nothing: "200" is "two hundred", and "one" a pronoun.
_WEIGHTS = np.zeros(256, np.uint64)
_WEIGHTS[ord("2") : ord("9") + 1] = mixed(np.arange(2, 10, dtype=np.uint64))


class _Known(NamedTuple):
    """The tokens of some texts: those that say nothing of a story, and the weights of those that are number words."""

    tokens: Tokens
    is_known: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, tokens: Tokens) -> "_Known":
        listed, weights, seen = _listed()
        perhaps = np.flatnonzero(look_up(seen, tokens.hashes, _SEEN_BITS))  # nearly all others are excluded
        place = np.minimum(np.searchsorted(listed, tokens.hashes[perhaps]), len(listed) - 1)
        is_listed = listed[place] == tokens.hashes[perhaps]
        is_known, weighs = np.zeros(len(tokens.hashes), bool), np.zeros(len(tokens.hashes), np.uint64)
        is_known[perhaps] = is_listed
        weighs[perhaps[is_listed]] = weights[place[is_listed]]
        return cls(tokens, is_known, weighs)

    def words(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        tokens = self.tokens
        texts, data = len(tokens.bounds) - 1, np.frombuffer(tokens.folded, np.uint8)
        first = data[tokens.starts]
        is_ideograph = (first >= 0xE3) & (first <= 0xE9)  # the UTF-8 of U+3000 to U+9FFF
        is_word = (first >= ord("a")) & (tokens.ends - tokens.starts > 1) & ~is_ideograph
        counted = np.flatnonzero((data - np.uint8(ord("2"))) < 8)
        digits = _sums(_WEIGHTS[data[counted]], np.searchsorted(counted, tokens.offsets))
        digits += _sums(self.weights, tokens.bounds)
        places = np.flatnonzero(is_word & ~self.is_known)
        counts = np.bincount(tokens.texts[places], minlength=texts)
        silent = np.cumsum(counts)[counts == 0]  # a text needs at least one shingle
        hashes = np.insert(tokens.hashes[places].astype(np.uint32), silent, 0)
        counts[counts == 0] = 1
        return hashes, counts, digits

    def templates(self) -> np.ndarray:
        """A hash of each text without its numbers; 0 for a text of few words, or without a number."""
        tokens = self.tokens
        first = np.frombuffer(tokens.folded, np.uint8)[tokens.starts]
        is_number = (first - ord("0") < 10) | (self.weights > 0)
        is_word = (first >= ord("a")) & (tokens.ends - tokens.starts > 1) & ~is_number
        numbers, words = (_sums(each.astype(np.uint64), tokens.bounds) for each in (is_number, is_word))
        sums = _sums(np.where(is_number, np.uint64(0), mixed(tokens.hashes)), tokens.bounds)
        return np.where((numbers > 0) & (words >= MIN_TEMPLATE), sums, np.uint64(0))


def words(tokens: Tokens) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shingle texts by their meaningful words, with a hash of each text's digits: a kind of `minhash.shingle`."""
    return _Known.of(tokens).words()


def templates(tokens: Tokens) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shingle texts with hashes of the texts without their numbers as `wholes`, 0 for none: a kind of
    `minhash.shingle`."""
    texts = len(tokens.bounds) - 1
    return np.zeros(texts, np.uint32), np.ones(texts, np.int64), _Known.of(tokens).templates()


def without_numbers(text: str) -> list[bytes]:
    """The tokens of a text except its numbers, in order."""
    tokens = tokenize_texts([text])
    said = zip(tokens.words(0, len(tokens.hashes)), _Known.of(tokens).weights.tolist(), strict=True)
    return [word for word, weight in said if not word.isdigit() and not weight]


def is_variant(text: str, other: str) -> bool:
    """True if two texts differ in their numbers only, and each has one that the other lacks."""
    return without_numbers(text) == without_numbers(other) and all(differing_numbers(text, other))


def buckets(word_sets: Shingles, answers: Shingles, texts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The (text, bucket) pairs of texts with an answer, as in `minhash.buckets`."""
    (nothing,) = minhash.shingle([[""]], minhash.ngrams(1))
    keys = minhash.band_keys(word_sets, DRAWS, DRAWS, 1)
    keys += mixed(word_sets.wholes) + mixed(mixed(answers.wholes))
    fit = (answers.wholes != nothing.wholes[0]) & (np.diff(word_sets.bounds) >= MIN_WORDS)
    return minhash.buckets(keys, texts[fit[texts]])


class Items:
    """Benchmark items, with their answers if known, that rows may state in other words."""

    def __init__(self, texts: Sequence[str], answers: Sequence[str | None], domain: str) -> None:
        self._rows = [_row(domain, *row) for row in zip(texts, answers, strict=True)]
        (word_sets,) = minhash.shingle([texts], words)
        self._words = [word_sets.of(item) for item in range(len(texts))]
        fit = np.flatnonzero((word_sets.wholes != 0) & (np.diff(word_sets.bounds) >= MIN_WORDS))
        self._order = fit[np.argsort(word_sets.wholes[fit], kind="stable")]
        self._digits = word_sets.wholes[self._order]
        self._domain = domain
        (template,) = minhash.shingle([texts], templates)
        self._items_of: dict[int, list[int]] = defaultdict(list)
        for item, key in enumerate(template.wholes.tolist()):
            if key:
                self._items_of[key].append(item)
        self._templates = np.sort(np.array([*self._items_of], np.uint64))

    def find(
        self, tokens: Tokens, asked: np.ndarray, texts: Texts, answers: Sequence[str | None]
    ) -> Iterator[tuple[int, int, float]]:
        """The (row, item, similarity of the words) of the `asked` texts (a mask) that state an item; of several items,
        the most similar one. A similarity of 0 means the item with other numbers."""
        known = _Known.of(tokens)
        keys = known.templates()
        for row in np.flatnonzero(asked & np.isin(keys, self._templates)).tolist():
            text = str(texts[row])
            same = (one for one in self._items_of[int(keys[row])] if is_variant(text, self._rows[one]["prompt"]))
            yield from ((row, item, 0.0) for item in islice(same, 1))
        hashes, counts, digits = known.words()
        first, last = (np.searchsorted(self._digits, digits, side=side) for side in ("left", "right"))
        last = np.where(asked & (counts >= MIN_WORDS), last, first)
        shingles = Shingles(hashes, np.concatenate([[0], np.cumsum(counts)]), digits)
        for row in np.flatnonzero(last > first).tolist():
            own, items = shingles.of(row), self._order[first[row] : last[row]].tolist()
            similar = [(alike, item) for item in items if (alike := minhash.jaccard(own, self._words[item])) >= LEAST]
            stated = _row(self._domain, str(texts[row]), answers[row]) if similar else {}
            for alike, item in sorted(similar, key=lambda pair: (-pair[0], pair[1])):
                held = self._rows[item]
                if not _reordered(stated["prompt"], held["prompt"]) and reworded(stated, held, alike):
                    yield row, item, alike
                    break


def _reordered(one: str, other: str) -> bool:
    """True if two texts have the same numbers in another order, but not the same sentences: more often another problem
    than a copy."""
    ours, theirs = _DIGITS.findall(folded(one)), _DIGITS.findall(folded(other))
    return ours != theirs and sorted(ours) == sorted(theirs) and sentences(one) != sentences(other)


def _row(domain: str, prompt: str, answer: str | None) -> dict[str, Any]:
    return {"domain": domain, "prompt": prompt, "answer": answer, "tests": None, "entry_point": None}


def _sums(values: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values)])
    return sums[bounds[1:]] - sums[bounds[:-1]]


@cache
def _listed() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hashes, sorted, of the words that are no evidence of a story, their weights as numbers, and their `bitmap`."""
    listed = [*_VALUES, *sorted(INSTRUCTION_WORDS - _VALUES.keys())]
    tokens = tokenize_texts(listed)
    weights = [sum(int(_WEIGHTS[ord(digit)]) for digit in str(_VALUES.get(word, ""))) % 2**64 for word in listed]
    hashes = tokens.hashes[tokens.bounds[:-1]]
    order = np.argsort(hashes)
    return hashes[order], np.array(weights, np.uint64)[order], bitmap(hashes, _SEEN_BITS)
