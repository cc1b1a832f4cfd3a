r"""Tokens of statements with LaTeX and prose, for finding equal texts.

A token is a run of letters, a run of digits, one mathematical sign, or one ideograph; case, spacing and punctuation are
ignored. The many spellings that Unicode has for a text become one (`folding.py`). A LaTeX command is a word, but
commands of appearance (`\left`, `\text`, `\displaystyle`) are ignored, and synonyms (`\dfrac` and `\frac`, `\leq` and
`≤`) are one token. Single letters separated by blanks are one word: `A x` is `Ax`. So `$\dfrac{1}{2}x y$,` and `\(½
xy\)` have the same tokens. Different numbers are never the same token.

Columns are tokenized as arrays of UTF-8 bytes, never by character or word; positions are bytes of the text.
"""

import sys
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ratchet.data_curation.folding import Origin, folded_bytes
from ratchet.verifiers.yaml_files import load_yaml

NOTHING, LETTER, DIGIT, SINGLE = 0, 1, 2, 3
OPERATORS = "+-*/=<>^|%&~"
_COMMANDS = load_yaml(Path(__file__).with_name("tokens.yaml"))
LOOK_ONLY = _COMMANDS["look_only"].split()
SYNONYMS = dict(pair.split("=", 1) for pair in _COMMANDS["synonyms"].split())
_CANONICAL = {word.encode(): meant.encode() for word, meant in SYNONYMS.items()}
_FLOORS = "⌊⌋⌈⌉"
_PLANE = 0x10000
_BASE = 0x9E3779B97F4A7C15  # odd, so that multiplication modulo 2^64 is invertible
_BATCH_BYTES = 1 << 19  # a batch and its temporaries fit the processor's cache
_PAD = bytes(8)
_BACKSLASH = ord("\\")
_MAX_GAP = 8  # largest distance in bytes between letters of one word; an HTML blank takes six
_BLANKS = b"\0\t\n\r "
_BLANK = np.isin(np.arange(256), list(_BLANKS))

Texts = Sequence[str] | pa.Array | pa.ChunkedArray


@dataclass(frozen=True)
class Tokens:
    """The tokens of several texts in order. Token i has hash `hashes[i]` (uint64); text t has the tokens
    `bounds[t]:bounds[t + 1]`. `starts` and `ends` are positions in `folded`, the folded lower-case bytes of all texts,
    where text t begins at `offsets[t]`. `origin` maps these bytes to those in `raw`, where text t begins at
    `raw_offsets[t]`."""

    hashes: np.ndarray
    bounds: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    offsets: np.ndarray
    folded: bytes
    raw: bytes
    raw_offsets: np.ndarray
    origin: Origin | None

    @cached_property
    def texts(self) -> np.ndarray:
        """The text of each token."""
        return np.repeat(np.arange(len(self.bounds) - 1), np.diff(self.bounds))

    def ngrams(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Hashes of all n-grams within texts, and the index of the first token of each."""
        grams = self.runs(n)
        ends = np.repeat(self.bounds[1:], np.diff(self.bounds))[: len(grams)]
        inside = np.flatnonzero(np.arange(n, len(grams) + n) <= ends)
        return grams[inside], inside

    def runs(self, n: int) -> np.ndarray:
        """Hashes of any n consecutive tokens, also across texts."""
        return run_hashes(self.hashes, n)

    def runs_at(self, at: np.ndarray, n: int) -> np.ndarray:
        """Hashes of the n tokens from each token of `at`, as in `runs`; all n tokens must exist."""
        grams = self.hashes[at]
        for place in range(1, n):
            grams = grams * _power(1) + self.hashes[at + place]
        return grams

    def span(self, text: int, first: int, last: int) -> tuple[int, int]:
        """The UTF-8 bytes of `text` that its tokens `first` to `last`, inclusive, cover."""
        start, end = int(self.starts[first]), int(self.ends[last])
        if self.origin is not None:
            start, end = self.origin.of(start), self.origin.of(end - 1) + 1
            while end < len(self.raw) and self.raw[end] & 0xC0 == 0x80:  # inside of a character
                end += 1
        base = int(self.raw_offsets[text])
        return start - base, end - base

    def words(self, first: int, end: int) -> list[bytes]:
        """The hashed forms of the tokens `first:end`: lower case, synonyms replaced."""
        words = []
        for start, stop in zip(self.starts[first:end].tolist(), self.ends[first:end].tolist(), strict=True):
            word = self.folded[start:stop]
            if not word.isalnum():
                word = word.translate(None, _BLANKS)
            words.append(_CANONICAL.get(word, word) if start and self.folded[start - 1] == _BACKSLASH else word)
        return words


def run_hashes(hashes: np.ndarray, n: int) -> np.ndarray:
    """Polynomial hashes of every n consecutive values, computed by doubling."""
    if len(hashes) < n:
        return hashes[:0]
    if n == 1:
        return hashes
    half = run_hashes(hashes, n // 2)
    twice = half[: -(n // 2)] * _power(n // 2) + half[n // 2 :]
    return twice[:-1] * _power(1) + hashes[n - 1 :] if n % 2 else twice


def bitmap(hashes: np.ndarray, bits: int) -> np.ndarray:
    """The leading bits of these hashes as a mask, shape (2**bits,)."""
    seen = np.zeros(1 << bits, bool)
    seen[(hashes >> np.uint64(64 - bits)).view(np.int64)] = True
    return seen


def look_up(seen: np.ndarray, hashes: np.ndarray, bits: int) -> np.ndarray:
    """A mask of the hashes that may be among those of a `bitmap`."""
    return seen[(hashes >> np.uint64(64 - bits)).view(np.int64)]


def tokenize_texts(texts: Texts) -> Tokens:
    """Tokenize all texts, at tens of megabytes per second. A null is a text without tokens."""
    raw, offsets = _bytes(texts)
    return _tokenize(bytes(raw), offsets)


def tokenize_batches(texts: Texts) -> Iterator[Tokens]:
    """Tokenize texts in batches that fit the processor's cache; at least one."""
    raw, offsets = _bytes(texts)
    first = 0
    while first < len(offsets) - 1:
        last = int(np.searchsorted(offsets, offsets[first] + _BATCH_BYTES, side="right")) - 1
        last = max(last, first + 1)
        yield _tokenize(bytes(raw[offsets[first] : offsets[last]]), offsets[first : last + 1] - offsets[first])
        first = last
    if len(offsets) == 1:
        yield _tokenize(b"", offsets)


def byte_span(text: str, start: int, end: int) -> list[int]:
    """The characters `start:end` of a text as a span of its UTF-8 bytes, as in all evidence."""
    before = len(text[:start].encode(errors="replace"))
    return [before, before + len(text[start:end].encode(errors="replace"))]


def cut(text: str, span: Sequence[int]) -> str:
    """The UTF-8 bytes `span[0]:span[1]` of a text: the inverse of `byte_span`."""
    return text.encode(errors="replace")[span[0] : span[1]].decode(errors="replace")


def _bytes(texts: Any) -> tuple[memoryview, np.ndarray]:
    """The UTF-8 of all texts, and where each begins in it."""
    if not isinstance(texts, pa.Array | pa.ChunkedArray):
        try:
            texts = pa.array(texts, pa.large_string())
        except UnicodeEncodeError:  # half of a surrogate pair, from a broken JSON escape
            texts = pa.array([str(text).encode(errors="replace").decode() for text in texts], pa.large_string())
    column = pc.fill_null(texts.cast(pa.large_string()), "")
    column = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) and column.num_chunks else column
    if not len(column):
        return memoryview(b""), np.zeros(1, np.int64)
    _, offset_buffer, data = column.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[column.offset : column.offset + len(column) + 1]
    return memoryview(data or b"")[offsets[0] :], offsets - offsets[0]


def _tokenize(written: bytes, written_offsets: np.ndarray) -> Tokens:
    raw, origin = folded_bytes(written.lower(), written_offsets)
    offsets = written_offsets if origin is None else origin.now(written_offsets)
    kinds = np.frombuffer(raw.translate(_ASCII_KINDS), np.uint8)
    folded = raw.lower()
    inner = None
    if not raw.isascii():
        kinds, folded, inner = _beyond_ascii(raw, kinds)

    edges = np.ones(len(kinds) + 1, bool)
    np.not_equal(kinds[1:], kinds[:-1], out=edges[1:-1])
    edges[:-1] |= kinds == SINGLE
    if inner is not None:
        edges[inner] = False
    edges[offsets] = True
    visible = kinds != NOTHING
    starts = np.flatnonzero(edges[:-1] & visible)
    ends = np.flatnonzero(edges[1:] & visible) + 1
    padded = np.frombuffer(folded + _PAD, np.uint8)
    hashes = _word_hashes(padded, starts, ends)

    dropped = np.zeros(len(hashes), bool)
    bounds = np.searchsorted(starts, offsets)
    dropped[_join_letters(padded, kinds, bounds, hashes, starts, ends)] = True
    after_backslash = padded[starts - 1] == _BACKSLASH  # for the first byte, the padding
    opening = bounds[bounds < len(starts)]
    after_backslash[opening[starts[opening] == offsets[bounds < len(starts)]]] = False  # belongs to the previous text
    commands = np.flatnonzero(after_backslash)
    hashes_known, meant, hidden = _command_hashes()
    place = np.minimum(np.searchsorted(hashes_known, hashes[commands]), len(hashes_known) - 1)
    is_command = hashes_known[place] == hashes[commands]
    commands, place = commands[is_command], place[is_command]
    hashes[commands] = meant[place]
    dropped[commands[hidden[place]]] = True
    if dropped.any():
        hashes, starts, ends = hashes[~dropped], starts[~dropped], ends[~dropped]
        bounds = np.searchsorted(starts, offsets)
    return Tokens(hashes, bounds, starts, ends, offsets, folded, written, written_offsets, origin)


def _word_hashes(padded: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Hash eight bytes of a word at a time. Words of up to eight bytes never collide."""
    if not len(starts):
        return np.empty(0, np.uint64)
    eight = np.ndarray(len(padded) - 7, "<u8", padded, strides=(1,))  # the number that starts at each byte
    lengths = ends - starts
    hashes = _mixed(eight[starts] & _MASKS[np.minimum(lengths, 8)])
    longer, hashed = np.flatnonzero(lengths > 8), 8
    while len(longer):
        more = eight[starts[longer] + hashed] & _MASKS[np.minimum(lengths[longer] - hashed, 8)]
        hashes[longer] = _mixed(hashes[longer] * _power(1) + more)
        hashed += 8
        longer = longer[lengths[longer] > hashed]
    return hashes


def _join_letters(
    padded: np.ndarray, kinds: np.ndarray, bounds: np.ndarray, hashes: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> np.ndarray:
    """Join up to eight single letters separated by blanks into a word: `hashes` and `ends` of the first letter become
    the word's. Returns the other letters."""
    single = np.flatnonzero((ends - starts == 1) & (kinds[starts] == LETTER))
    after = single[1:][np.diff(single) == 1]  # letters after letters
    gap = starts[after] - ends[after - 1]
    opening = np.zeros(len(starts) + 1, bool)
    opening[bounds] = True
    blank = ~opening[after] & (gap <= _MAX_GAP)
    for place in range(_MAX_GAP):
        blank &= (gap <= place) | _BLANK[padded[np.minimum(ends[after - 1] + place, len(padded) - 1)]]
    after = after[blank]
    if not len(after):
        return after
    order = np.arange(len(after))
    place = 1 + order - np.maximum.accumulate(np.where(np.diff(after, prepend=-1) > 1, order, 0))
    after, place = after[place % 8 > 0], place[place % 8 > 0] % 8
    first, group = np.unique(after - place, return_index=True)
    letters = padded[starts[after]].astype(np.uint64) << (8 * place).astype(np.uint64)
    hashes[first] = _mixed(padded[starts[first]] + np.add.reduceat(letters, group))
    ends[first] = ends[after[np.append(group[1:], len(after)) - 1]]
    return after


def mixed(values: np.ndarray) -> np.ndarray:
    """Mix hashes by the 64-bit finalizer of MurmurHash3, a bijection."""
    return _mixed(values.copy())


def _mixed(values: np.ndarray) -> np.ndarray:
    """`mixed`, in place."""
    values ^= values >> np.uint64(33)
    values *= np.uint64(0xFF51AFD7ED558CCD)
    values ^= values >> np.uint64(33)
    values *= np.uint64(0xC4CEB9FE1A85EC53)
    values ^= values >> np.uint64(33)
    return values


def _power(exponent: int) -> np.uint64:
    return np.uint64(pow(_BASE, exponent, 1 << 64))


def _beyond_ascii(raw: bytes, kinds: np.ndarray) -> tuple[np.ndarray, bytes, np.ndarray]:
    """Kinds and folded bytes, corrected for characters of two and three bytes, and the positions inside of multi-byte
    signs. Characters of four bytes are letters, as their bytes are already."""
    data = np.frombuffer(raw + _PAD, np.uint8)
    kinds, folded = kinds.copy(), np.frombuffer(bytearray(raw.lower()), np.uint8)
    plane_kinds, plane_bytes = _plane()
    inner = []
    for length, lowest, highest in ((2, 0xC0, 0xDF), (3, 0xE0, 0xEF)):
        first = np.flatnonzero((data >= lowest) & (data <= highest))
        codes = data[first].astype(np.int64) & (0x1F if length == 2 else 0x0F)
        for place in range(1, length):
            codes = codes << 6 | data[first + place] & 0x3F
        for place in range(length):
            kinds[first + place] = plane_kinds[codes]
            folded[first + place] = plane_bytes[codes, place]
        signs = first[plane_kinds[codes] == SINGLE]
        inner += [signs + place for place in range(1, length)]
    return kinds, folded.tobytes(), np.concatenate(inner)


@cache
def _plane() -> tuple[np.ndarray, np.ndarray]:
    """Kind and folded UTF-8 (three bytes, padded with zeros) of each character of the basic plane."""
    kinds, folded = np.zeros(_PLANE, np.uint8), np.zeros((_PLANE, 3), np.uint8)
    for code in range(0x80, _PLANE):
        character = chr(code)
        kinds[code] = _kind(character)
        written = character.encode(errors="surrogatepass")
        other = character.lower().encode(errors="surrogatepass")
        # The few characters whose lower case has more bytes are not folded.
        canonical = other if len(other) <= len(written) else written
        folded[code, : len(canonical)] = list(canonical)
    return kinds, folded


def _kind(character: str) -> int:
    category = unicodedata.category(character)
    # In scripts without spaces each character is a token.
    if (
        character in OPERATORS
        or character in _FLOORS
        or "\u3040" <= character <= "\u30ff"
        or "\u3400" <= character <= "\u9fff"
    ):
        return SINGLE
    if "\uf900" <= character <= "\ufaff":
        return SINGLE
    if category[0] in "LM":
        return LETTER
    if category == "Nd":
        return DIGIT
    # ∑, √, →, …
    return SINGLE if category[0] == "S" and not character.isascii() else NOTHING


_ASCII_KINDS = bytes(_kind(chr(code)) for code in range(0x80)) + bytes([LETTER]) * 0x80
_MASKS = np.array([(1 << 8 * length) - 1 for length in range(9)], np.uint64)
assert sys.byteorder == "little", "words are hashed as little-endian numbers"


@cache
def _command_hashes() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hashes of all synonyms and ignored commands, sorted; the hashes that replace them; a mask of the ignored ones."""
    words = [*SYNONYMS, *LOOK_ONLY]
    meant = [*SYNONYMS.values(), *LOOK_ONLY]
    commands, replaced_by = (
        np.array([_word_hash(word.encode()) for word in side], np.uint64) for side in (words, meant)
    )
    order = np.argsort(commands)
    return commands[order], replaced_by[order], (np.arange(len(words)) >= len(SYNONYMS))[order]


def _word_hash(word: bytes) -> np.uint64:
    return _word_hashes(np.frombuffer(word + _PAD, np.uint8), np.array([0]), np.array([len(word)]))[0]
