r"""Tokens of statements in which LaTeX and prose mix, for finding texts that say the same.

A token is a run of letters, a run of digits, one mathematical operator, or one ideograph; case, spacing and
punctuation say nothing. A LaTeX command is a word like any other, except that those that only change the look
(`\left`, `\text`, `\displaystyle`) are no tokens and that synonyms (`\dfrac`, `\frac`) are one. So `$\dfrac{1}{2}$,`
and `\(\frac 1 2\)` have the same tokens, while another number is another token.

Whole tables are tokenised at once, as arrays of code points: every position is a character of the text, so that
evidence can be cut out of it.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

NOTHING, LETTER, DIGIT, SINGLE = 0, 1, 2, 3
OPERATORS = "+-*/=<>^|%&~"
LOOK_ONLY = """
    left right big bigg bigl bigr text textbf textit textrm texttt mathrm mathbf mathit mathsf mathbb mathcal mathfrak
    boldsymbol bm operatorname displaystyle textstyle limits nolimits quad qquad hspace vspace emph underline overline
    mbox hbox nonumber noindent smallskip medskip bigskip"""
SYNONYMS = {
    "dfrac": "frac", "tfrac": "frac", "cfrac": "frac", "leq": "le", "geq": "ge", "leqslant": "le", "geqslant": "ge",
    "neq": "ne", "dots": "ldots", "cdots": "ldots", "dotsc": "ldots", "dotsb": "ldots", "land": "wedge", "lor": "vee",
    "to": "rightarrow", "rarr": "rightarrow", "varnothing": "emptyset", "lvert": "vert", "rvert": "vert", "mid": "vert",
}  # fmt: skip
# The same sign in other typefaces. One character for one, so that positions stay.
_FOLDED = str.maketrans("−–—×·∗⋅÷’‘“”", "---****/''\"\"")
_PLANE = 0x10000
_BASE = np.uint64(0x9E3779B97F4A7C15)  # odd, so that powers of it can be undone modulo 2^64
_BATCH_CHARACTERS = 1 << 19  # temporaries of a batch stay in the processor's cache and bounded in memory


@dataclass(frozen=True)
class Tokens:
    """The tokens of several texts, one after another.

    Token i has hash `hashes[i]` and is characters `starts[i]:ends[i]` of text `texts[i]`, all int64 arrays except the
    uint64 hashes; text t owns the tokens `bounds[t]:bounds[t + 1]`.
    """

    hashes: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    texts: np.ndarray
    bounds: np.ndarray

    def ngrams(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Hashes of all n-grams inside a text, and for each the index of its first token."""
        if len(self.hashes) < n:
            return np.empty(0, np.uint64), np.empty(0, np.int64)
        count = len(self.hashes) - n + 1
        grams = np.zeros(count, np.uint64)
        for offset in range(n):
            grams = grams * _BASE + self.hashes[offset : offset + count]
        inside = np.flatnonzero(self.texts[:count] == self.texts[n - 1 :])
        return mixed(grams[inside]), inside


def tokenise(texts: Sequence[str]) -> Tokens:
    """Tokens of all texts; runs at tens of megabytes a second."""
    batches, first = [], 0
    size = 0
    for index, text in enumerate(texts):
        size += len(text) + 1
        if size >= _BATCH_CHARACTERS or index == len(texts) - 1:
            batches.append(_tokenise_batch(texts[first : index + 1], first))
            first, size = index + 1, 0
    if not batches:
        batches = [_tokenise_batch([""], 0)]
    hashes, starts, ends, owners = (np.concatenate(arrays) for arrays in zip(*batches, strict=True))
    bounds = np.searchsorted(owners, np.arange(len(texts) + 1))
    return Tokens(hashes, starts, ends, owners, bounds)


def token_texts(text: str) -> list[tuple[str, int, int]]:
    """The tokens of one text as (folded text, start, end): what `tokenise` hashes, in a form to read and compare."""
    tokens = tokenise([text])
    folded = _fold(text)
    return [
        (SYNONYMS.get(folded[s:e], folded[s:e]) if s and folded[s - 1] == "\\" else folded[s:e], s, e)
        for s, e in zip(tokens.starts.tolist(), tokens.ends.tolist(), strict=True)
    ]


def _tokenise_batch(texts: Sequence[str], first: int) -> tuple[np.ndarray, ...]:
    classes, folds = _tables()
    joined = "\n".join(texts).translate(_FOLDED) + "\n"
    codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), np.uint32)
    codes = folds[np.minimum(codes, _PLANE)]
    kinds = classes[codes]

    begins = kinds != NOTHING
    begins[1:] &= (kinds[1:] != kinds[:-1]) | (kinds[1:] == SINGLE)
    starts = np.flatnonzero(begins)
    stops = kinds != NOTHING
    stops[:-1] &= (kinds[1:] != kinds[:-1]) | (kinds[:-1] == SINGLE)
    ends = np.flatnonzero(stops) + 1

    hashes = _span_hashes(codes, starts, ends)
    commands = np.flatnonzero((codes[np.maximum(starts - 1, 0)] == ord("\\")) & (kinds[starts] == LETTER))
    hidden, synonyms, canonical = _command_hashes()
    found = hashes[commands]
    position = np.minimum(np.searchsorted(synonyms, found), len(synonyms) - 1)
    hashes[commands] = np.where(synonyms[position] == found, canonical[position], found)
    visible = np.ones(len(hashes), bool)
    visible[commands] = ~np.isin(found, hidden)

    lengths = np.fromiter((len(text) + 1 for text in texts), np.int64, len(texts))
    text_starts = np.cumsum(lengths) - lengths
    owners = np.searchsorted(text_starts, starts, side="right") - 1
    kept = [hashes, starts - text_starts[owners], ends - text_starts[owners], owners + first]
    return tuple(array[visible] for array in kept)


def _span_hashes(codes: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Polynomial hashes of spans: sum of code[j] * B^(j - start), by differences of prefix sums."""
    powers, inverses = _powers(1 << max(len(codes) - 1, 1).bit_length())
    sums = np.zeros(len(codes) + 1, np.uint64)
    np.cumsum(codes.astype(np.uint64) * powers[: len(codes)], out=sums[1:])
    return mixed((sums[ends] - sums[starts]) * inverses[starts])


def mixed(values: np.ndarray) -> np.ndarray:
    """The 64-bit finaliser of MurmurHash3: spreads what polynomials leave in the low bits."""
    values = values ^ (values >> np.uint64(33))
    values = values * np.uint64(0xFF51AFD7ED558CCD)
    values = values ^ (values >> np.uint64(33))
    values = values * np.uint64(0xC4CEB9FE1A85EC53)
    return values ^ (values >> np.uint64(33))


@cache
def _powers(count: int) -> tuple[np.ndarray, np.ndarray]:
    """B^0, B^1, … and their inverses modulo 2^64."""
    inverse = np.uint64(pow(int(_BASE), -1, 1 << 64))
    powers, inverses = np.full(count, _BASE), np.full(count, inverse)
    powers[0] = inverses[0] = 1
    return np.cumprod(powers, dtype=np.uint64), np.cumprod(inverses, dtype=np.uint64)


@cache
def _tables() -> tuple[np.ndarray, np.ndarray]:
    """Class and case-folded code of each code point of the basic plane; all others count as one letter."""
    classes, folds = np.zeros(_PLANE + 1, np.uint8), np.arange(_PLANE + 1, dtype=np.uint32)
    classes[_PLANE] = LETTER
    for code in range(min(_PLANE, sys.maxunicode)):
        character = chr(code)
        category = unicodedata.category(character)
        if character in OPERATORS or _is_ideograph(code):
            classes[code] = SINGLE
        elif category[0] in "LM":
            classes[code] = LETTER
        elif category == "Nd":
            classes[code] = DIGIT
        elif category[0] in "S" and code > 127:
            classes[code] = SINGLE  # ∑, √, →, …: as much a token as an operator
        lower = character.lower()
        if len(lower) == 1:
            folds[code] = ord(lower)
    return classes, folds


def _is_ideograph(code: int) -> bool:
    """Scripts without spaces between words: each character is a token, or a sentence would be one."""
    return 0x3040 <= code <= 0x30FF or 0x3400 <= code <= 0x9FFF or 0xF900 <= code <= 0xFAFF


@cache
def _command_hashes() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hashes of the commands that say nothing; of the synonyms, sorted, and of what each stands for."""

    def hashed(words: Sequence[str]) -> np.ndarray:
        codes = np.frombuffer("".join(words).encode("utf-32-le"), np.uint32)
        lengths = np.array([len(word) for word in words])
        return _span_hashes(codes, np.cumsum(lengths) - lengths, np.cumsum(lengths))

    synonyms, canonical = hashed(list(SYNONYMS)), hashed(list(SYNONYMS.values()))
    order = np.argsort(synonyms)
    hidden = hashed(LOOK_ONLY.split())
    return hidden, synonyms[order], canonical[order]


def _fold(text: str) -> str:
    folds = _tables()[1]
    return "".join(chr(folds[ord(c)]) if ord(c) < _PLANE else c for c in text.translate(_FOLDED))
