r"""Fold the many spellings that Unicode has for a text into one, before texts are compared.

NFKC with care for mathematics. `x²` and `x₂` become `x^2` and `x_2`, never `x2`; `½` and `\frac12` become `1/2`; `≠`
stays a sign of its own although it is an equals sign with a stroke. Full-width and mathematical letters, circled
digits, ligatures and the digits of other scripts become the plain ones; accents, soft hyphens and characters without a
width disappear, because texts are copied with and without them. Letters that only look alike (Latin a, Cyrillic a) stay
different.

Texts are folded as UTF-8; each byte of the result can be traced to the character that it comes from (`Origin`).
"""

import re
import unicodedata
from bisect import bisect
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

# Patterns of markup are replaced by as many bytes, so that positions stay. NUL separates words like a blank.
_EMPTY_SUPERSCRIPT = b"^{}"  # left by AoPS's editor
_TAG = re.compile(rb"<(/?)su([bp])>")
_ENTITY = re.compile(rb"&(nbsp|lt|gt|amp|times|minus|quot|#39);")
_ENTITIES: dict[bytes, bytes] = dict(zip((b"nbsp", b"lt", b"gt", b"amp", b"times", b"minus", b"quot", b"#39"),
                     (b"\0", b"<", b">", b"&", b"*", b"-", b'"', b"'"), strict=True))  # fmt: skip
_ARGUMENT = rb"\s*(?:\{\s*([a-zA-Z0-9]+)\s*\}|([a-zA-Z0-9]))"
_FRACTION = re.compile(rb"\\[dtc]?frac(?![a-zA-Z])" + _ARGUMENT + _ARGUMENT)
_STROKE = "\u0338".encode()
_SUPER, _SUB, _PLAIN = 1, 2, 0
_DIACRITICS = ((0x300, 0x36F), (0x1AB0, 0x1AFF), (0x1DC0, 0x1DFF), (0x20D0, 0x20FF), (0xFE20, 0xFE2F))
_SIGNS = {
    "-": "‐‑‒–—―−", "*": "×✕✖·⋅∙∗⋆", "'": "‘’‛", '"': "“”‟", "≤": "⩽", "≥": "⩾", ":": "∶", "|": "∣", "△": "∆",
    "/": "⁄∕", "^\\circ\0": "°º˚", "\\circ\0": "∘", "a": "ª", "tm": "™", "sm": "℠",
}  # fmt: skip
"""Other typefaces of the same sign."""
_SIGN_OF = {other: sign for sign, others in _SIGNS.items() for other in others}
_LONGEST = 0x110000
_CHARACTERS = (*range(0x80, 0x3400), *range(0xA000, 0x20000), *range(0x2F800, 0x2FA20), *range(0xE0000, 0xE01F0))
"""All characters but ideographs, which stay."""


class Origin(NamedTuple):
    """The origin of folded bytes: characters at the bytes `old` of the text, `widths` bytes long, are now at `new`,
    `lengths` bytes long."""

    old: np.ndarray
    widths: np.ndarray
    new: np.ndarray
    lengths: np.ndarray

    def of(self, place: int) -> int:
        """The first byte in the text of the character that became the folded byte at `place`."""
        at = int(np.searchsorted(self.new, place, side="right")) - 1
        if at < 0:
            return place
        beyond = place - int(self.new[at] + self.lengths[at])
        return int(self.old[at]) + (int(self.widths[at]) + beyond if beyond >= 0 else 0)

    def now(self, places: np.ndarray) -> np.ndarray:
        """The new places of the characters at these bytes of the text."""
        at = np.searchsorted(self.old, places)  # replaced characters before each
        shifts = np.cumsum(self.lengths - self.widths)
        return places + np.concatenate([[0], shifts])[at]


def folded(text: str) -> str:
    """The folded text."""
    raw = text.encode(errors="replace")
    return folded_bytes(raw, np.array([0, len(raw)]))[0].decode(errors="replace")


def folded_bytes(raw: bytes, offsets: np.ndarray) -> tuple[bytes, Origin | None]:
    """The folded bytes of several texts, which begin at `offsets`, and their origin; None if each byte is in its
    place."""
    origin = None
    if not raw.isascii():
        if _STROKE in raw:
            pattern, struck = _struck()
            raw = pattern.sub(_within(offsets.tolist(), lambda parts: struck[parts[0]]), raw)
        at, entries = _folding_characters(raw)
        if len(at):
            raw, origin = _replaced(raw, at, entries, offsets)
            offsets = origin.now(offsets)
    raw = raw.replace(_EMPTY_SUPERSCRIPT, b"   ")
    begins = offsets.tolist()
    raw = _TAG.sub(_within(begins, lambda tag: b"" if tag[1] else b"_" if tag[2] == b"b" else b"^"), raw)
    raw = _ENTITY.sub(_within(begins, lambda entity: _ENTITIES[entity[1]]), raw)
    return _FRACTION.sub(_within(begins, _division), raw), origin


Replace = Callable[[re.Match[bytes]], bytes]


def _within(begins: list[int], make: Replace) -> Replace:
    """A replacement for each match that keeps its number of bytes; a match that begins in one text and ends in another
    stays."""

    def replacement(match: re.Match[bytes]) -> bytes:
        start, end = match.span()
        if bisect(begins, start) < bisect(begins, end - 1):
            return match[0]
        return make(match).ljust(end - start, b"\0")

    return replacement


def _division(match: re.Match[bytes]) -> bytes:
    r"""`\frac{1}{2}` as `1/2`, from its first byte to its last one."""
    above, below = (match[1] or match[2]) + b"/", match[3] or match[4]
    return above + below.rjust(len(match[0]) - len(above), b"\0")


def _replaced(raw: bytes, at: np.ndarray, entries: np.ndarray, offsets: np.ndarray) -> tuple[bytes, Origin]:
    """Characters at these bytes replaced by entries of `_table`."""
    table, data = _table(), np.frombuffer(raw, np.uint8)
    sizes, widths, kinds = table.lengths[entries], _widths(data[at]), table.kinds[entries]
    # A run of raised or lowered characters has one sign before it, and an end: x²³y is x^23 y.
    follows = np.zeros(len(at), bool)
    follows[1:] = (at[1:] == at[:-1] + widths[:-1]) & (kinds[1:] == kinds[:-1]) & ~np.isin(at[1:], offsets)
    opens, closes = (kinds > 0) & ~follows, (kinds > 0) & ~np.append(follows[1:], False)
    lengths = sizes + opens + closes
    new = at + np.cumsum(lengths - widths) - lengths + widths
    out = np.zeros(len(data) + int((lengths - widths).sum()), np.uint8)
    stays, copied = np.ones(len(data), bool), np.ones(len(out), bool)
    for place in range(4):
        stays[(at + place)[widths > place]] = False
    for place in range(int(lengths.max())):
        copied[(new + place)[lengths > place]] = False
    out[copied] = data[stays]
    out[new[opens]] = np.where(kinds[opens] == _SUPER, ord("^"), ord("_"))
    for place in range(int(sizes.max())):
        has = sizes > place
        out[(new + opens + place)[has]] = table.written[entries[has], place]
    return out.tobytes(), Origin(at, widths, new, lengths)


def _folding_characters(raw: bytes) -> tuple[np.ndarray, np.ndarray]:
    """The first bytes of the characters that `_table` replaces, and the index of its entry for each."""
    data = np.frombuffer(raw + bytes(4), np.uint8)
    at = np.flatnonzero(data >= 0xC0)
    widths = _widths(data[at])
    codes = data[at] & np.array([0x7F, 0x7F, 0x1F, 0x0F, 0x07], np.uint8)[widths]
    codes = codes.astype(np.int64)
    for place in range(1, 4):
        more = widths > place
        codes[more] = codes[more] << 6 | data[at[more] + place] & 0x3F
    entries = _table().entries[np.minimum(codes, _LONGEST - 1)]
    found = entries >= 0
    return at[found], entries[found]


def _widths(leads: np.ndarray) -> np.ndarray:
    """Bytes of the characters that begin with these."""
    return 2 + (leads >= 0xE0).astype(np.int64) + (leads >= 0xF0)


class _Table:
    """The replacement of each character: `entries[code]` is its row in the other arrays, or -1."""

    def __init__(self) -> None:
        found = {code: fold for code in _CHARACTERS if (fold := _fold(chr(code))) is not None}
        self.entries = np.full(_LONGEST, -1, np.int32)
        self.entries[list(found)] = np.arange(len(found))
        texts = [text.encode() for text, _ in found.values()]
        self.kinds = np.array([kind for _, kind in found.values()], np.int8)
        self.lengths = np.array([len(text) for text in texts])
        self.written = np.zeros((len(texts), max(map(len, texts))), np.uint8)
        for row, text in enumerate(texts):
            self.written[row, : len(text)] = list(text)


@cache
def _table() -> _Table:
    return _Table()


def _fold(character: str) -> tuple[str, int] | None:
    """The replacement of a character, and whether it is raised or lowered; None if it stays."""
    if character in _SIGN_OF:
        return _SIGN_OF[character], _PLAIN
    code = ord(character)
    category = unicodedata.category(character)
    if category in ("Cs", "Cn", "Co"):
        return None
    if category == "Cf" or 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF:
        return "", _PLAIN
    if any(first <= code <= last for first, last in _DIACRITICS):
        return None if code in (0x338, 0x337) else ("", _PLAIN)
    if category == "Nd":
        return str(unicodedata.decimal(character)), _PLAIN
    decomposition = unicodedata.decomposition(character)
    if not decomposition:
        parts = unicodedata.normalize("NFD", character)  # of Hangul
        return (parts, _PLAIN) if parts != character else None
    tag, codes = "", decomposition.split()
    if codes[0].startswith("<"):
        tag, *codes = codes
    if not tag and codes[1:] == ["0338"]:  # ≠ is no =
        return None
    inner = "".join(_spelled(chr(int(each, 16))) for each in codes)
    if tag == "<fraction>":
        return f"\0{inner}\0", _PLAIN
    if tag in ("<circle>", "<square>") or (tag == "<compat>" and inner[:1] in "(0123456789"):
        return f"\0{inner}\0", _PLAIN
    kind = {"<super>": _SUPER, "<sub>": _SUB}.get(tag, _PLAIN)
    return (inner, kind) if inner != character else None


def _spelled(character: str) -> str:
    """`_fold` within a larger character: the squared metre is m^2."""
    fold = _fold(character)
    if fold is None:
        return character
    text, kind = fold
    return {_PLAIN: "", _SUPER: "^", _SUB: "_"}[kind] + text


@cache
def _struck() -> tuple[re.Pattern[bytes], dict[bytes, bytes]]:
    """Signs with a stroke as one character, by those that are written as two."""
    signs = [chr(code) for code in range(0x2000, 0x2B00)]
    signs = [sign for sign in signs if unicodedata.decomposition(sign).split()[1:] == ["0338"]]
    whole = {unicodedata.normalize("NFD", sign).encode(): sign.encode() for sign in signs}
    return re.compile(b"|".join(map(re.escape, whole))), whole
