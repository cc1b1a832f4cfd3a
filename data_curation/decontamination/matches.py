"""Classify the text that a row and a benchmark item share: the whole problem, its words with other numbers, or only a
passage.

N-grams alone cannot tell. One number changed breaks a few of them, so that coverage stays high; an identity, a long
instruction or a famous text can be most of two different problems. Both texts are therefore aligned, with all numbers
equal, and compared by the text in and between the aligned parts.
"""

from collections import Counter
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from ratchet.data_curation.deduplication.same_problem import INSTRUCTION_WORDS, differing_numbers
from ratchet.data_curation.tokens import Tokens, cut

Kind = Literal["copy", "variant", "passage"]
LEAST_TOKENS = 3
"""Least tokens of an aligned run; a shorter one is chance."""
MOST_OF_A_TEXT = 0.8
"""Share of either text's tokens in common: different problems have less, copies nearly always more."""
NEARLY_ALL = 0.95
"""Share of aligned tokens up to which the rest still counts if it is a question of its own in both texts."""
OWN_WORDS = 0.2
"""Share of a text's words, at least three, that make a question of its own: they are outside of the aligned parts, and
the other text has less than half of them anywhere. Five words are needed if no numbers differ."""
EDGE = 8
"""Tokens before the first aligned part and after the last one that are compared too: a text may end with a number."""
MOST_TOKENS = 4000
"""Tokens of a text that are aligned, from its beginning."""


class Text(NamedTuple):
    """The tokens `first:end` of a text."""

    tokens: Tokens
    number: int
    text: str

    @property
    def bounds(self) -> tuple[int, int]:
        first, end = self.tokens.bounds[self.number : self.number + 2].tolist()
        return first, min(end, first + MOST_TOKENS)

    @property
    def words(self) -> list[bytes]:
        return self.tokens.words(*self.bounds)

    def between(self, start: int, end: int) -> str:
        """The text of the tokens `start:end`, counted from its first."""
        first, _ = self.bounds
        return cut(self.text, self.tokens.span(self.number, first + start, first + end - 1)) if start < end else ""


class Match(NamedTuple):
    """The kind of match between a row and an item."""

    kind: Kind
    numbers: tuple[list[str], list[str]] = ([], [])
    """The numbers of a variant: those that only the row has, and those that only the item has."""

    @property
    def evidence(self) -> dict[str, Any]:
        return {"numbers": list(self.numbers[0]), "item_numbers": list(self.numbers[1])} if any(self.numbers) else {}


def match(row: Text, item: Text) -> Match:
    """Classify the shared text of a row and an item that have n-grams in common.

    `copy`: no text has numbers that the other one lacks, or only one of them has. `variant`: the aligned parts have
    other numbers. `passage`: each text has a question of its own beside them.
    """
    words, its_words = row.words, item.words
    masked = [0 if word.isdigit() else word for word in words], [0 if word.isdigit() else word for word in its_words]
    aligned = SequenceMatcher(None, *masked, autojunk=False).get_matching_blocks()
    blocks = [block for block in aligned if block.size >= LEAST_TOKENS]
    if not blocks:
        return Match("copy")
    differing = all(differing_numbers(row.text, item.text))
    common = sum(block.size for block in blocks) / max(1, min(len(words), len(its_words)))
    enough, most = (3, NEARLY_ALL) if differing else (5, MOST_OF_A_TEXT)
    if common < most:
        own = _own(words, [(block.a, block.size) for block in blocks], its_words)
        its_own = _own(its_words, [(block.b, block.size) for block in blocks], words)
        both_ask = min(own.words, its_own.words) >= enough and min(own.share, its_own.share) >= OWN_WORDS
        if both_ask and max(own.known, its_own.known) < 0.5:
            return Match("passage")
    if not differing:
        return Match("copy")
    if common < MOST_OF_A_TEXT:
        return Match("passage")
    first, last = blocks[0], blocks[-1]
    before = min(first.a, first.b)
    before = before if before <= EDGE else 0
    after = min(len(words) - last.a - last.size, len(its_words) - last.b - last.size)
    after = after if after <= EDGE else 0
    numbers = differing_numbers(
        row.between(first.a - before, last.a + last.size + after),
        item.between(first.b - before, last.b + last.size + after),
    )
    return Match("variant", numbers) if all(numbers) else Match("copy")


class _Own(NamedTuple):
    words: int
    share: float
    known: float


def _own(words: list[bytes], aligned: list[tuple[int, int]], others: list[bytes]) -> _Own:
    """The words of a text outside of its aligned parts: how many, their share of all its words, and the share of them
    that the other text has somewhere."""
    outside = np.ones(len(words), bool)
    for start, size in aligned:
        outside[start : start + size] = False
    every = Counter(word for word in words if _says_something(word))
    own = Counter(word for word, is_outside in zip(words, outside, strict=True) if is_outside and _says_something(word))
    count = own.total()
    return _Own(count, count / max(1, every.total()), (own & Counter(others)).total() / max(1, count))


@lru_cache(maxsize=1 << 14)
def _says_something(word: bytes) -> bool:
    return len(word) > 1 and not word.isdigit() and (word[0] >= 0x80 or word.isalpha()) and (
        word.decode(errors="replace") not in INSTRUCTION_WORDS
    )  # fmt: skip
