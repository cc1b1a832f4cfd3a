"""Test decontamination itself: disguise benchmark items and measure how many are found.

The disguises are made from Unicode's names, not from the tables that undo them, so that gaps in these show.
"""

import re
import unicodedata
from collections.abc import Callable
from itertools import zip_longest
from random import Random
from typing import Any

from ratchet.data_curation.decontamination.overlaps import BenchmarkIndex, condemned
from ratchet.data_curation.settings.curation import Decontamination

CARRIER = "Before the exam the teacher wrote a few lines on the board for the class to think about. "
ITEMS = 200
Replacements = tuple[tuple[str, str], ...]
DOLLARS: Replacements = ((r"\$([^$]+)\$", r"\\(\1\\)"),)
FRACTIONS: Replacements = ((r"\\dfrac\b", r"\\?frac"), (r"\\frac\b", r"\\dfrac"), (r"\\\?frac", r"\\frac"))
SPACING: Replacements = ((r"([-+=<>(),])", r" \1 "), (r"\s+", "  \n"))
PUNCTUATION: Replacements = ((r"[.,;:]\s", " "), (r"[.?! ]+\Z", ""))
SIGNS: Replacements = (
    (r"\\leq?\b", "≤"), (r"\\geq?\b", "≥"), (r"\\neq?\b", "≠"), (r"\\(times|cdot)\b", "×"), (r"\\infty\b", "∞"),
    (r"\\pi\b", "π "), ("-", "−"), ("'", "’"), (" ", "\u00a0"),
)  # fmt: skip


def replaced(text: str, replacements: Replacements) -> str:
    for pattern, replacement in replacements:
        text = re.sub(pattern, replacement, text)
    return text


RAISED, LOWERED = (
    {character: f"{kind} {unicodedata.name(character).removeprefix('DIGIT ')}" for character in "0123456789+()"}
    | {"-": f"{kind} MINUS"}
    for kind in ("SUPERSCRIPT", "SUBSCRIPT")
)
VULGAR = {("1", "2"): "½", ("1", "3"): "⅓", ("2", "3"): "⅔", ("1", "4"): "¼", ("3", "4"): "¾", ("1", "5"): "⅕",
          ("1", "6"): "⅙", ("1", "8"): "⅛", ("3", "8"): "⅜"}  # fmt: skip
WIDE = {code: chr(code + 0xFEE0) for code in range(0x21, 0x7F)} | {0x20: "\u3000"}


def beside_commands(pattern: str, disguise: Callable[[str], str]) -> Callable[[str], str]:
    r"""Disguise the matches of `pattern` in a text, except in TeX's commands and the names of its environments."""
    parts = re.compile(rf"(\\[a-zA-Z]+|\{{[a-z]+\}})|{pattern}")
    return lambda text: parts.sub(lambda part: part[1] or disguise(part[0]), text)


def shifted(mark: str, names: dict[str, str]) -> Callable[[str], str]:
    """Write exponents (`^`) or indices (`_`) as characters of their own."""
    allowed = "".join(map(re.escape, names))
    parts = re.compile(rf"\{mark}(?:\{{([{allowed}]+)\}}|([{allowed}]))")
    characters = {ord(plain): unicodedata.lookup(name) for plain, name in names.items()}
    return lambda text: parts.sub(lambda part: (part[1] or part[2]).translate(characters), text)


def in_math_letters(style: str) -> Callable[[str], str]:
    def one(character: str) -> str:
        kind = "DIGIT " if character.isdigit() else "CAPITAL " if character.isupper() else "SMALL "
        try:
            return unicodedata.lookup(f"MATHEMATICAL {style} {kind}{unicodedata.name(character).split()[-1]}")
        except KeyError:  # the italic h is the Planck constant, and there are no italic digits
            return "\u210e" if (style, character) == ("ITALIC", "h") else character

    return beside_commands("[a-zA-Z0-9]", one)


def between_letters(mark: str) -> Callable[[str], str]:
    """Put a character without a width after every third letter of a word."""
    return beside_commands("[a-zA-Z]{4,}", lambda word: mark.join(re.findall(r".{1,3}", word)))


def vulgar(text: str) -> str:
    """Write small fractions as single characters: 1/2 as ½."""
    return re.sub(
        r"\\[dt]?frac\{(\d)\}\{(\d)\}|(?<![\d/])(\d)/(\d)(?![\d/])",
        lambda match: VULGAR.get((match[1] or match[3], match[2] or match[4]), match[0]),
        text,
    )


DISGUISES: dict[str, Callable[[str], str]] = {
    "verbatim": str,
    "dollars": lambda text: replaced(text, DOLLARS),
    "fractions": lambda text: replaced(text, FRACTIONS),
    "spacing": lambda text: replaced(text, SPACING),
    "punctuation": lambda text: replaced(text, PUNCTUATION),
    "unicode": lambda text: replaced(text, SIGNS),
    "capitals": str.upper,
    "all": lambda text: replaced(text, DOLLARS + FRACTIONS + SPACING + PUNCTUATION).lower(),
    "embedded": lambda text: f"{CARRIER}{text} Explain each step of your solution to a friend.",
    "superscripts": shifted("^", RAISED),
    "subscripts": shifted("_", LOWERED),
    "HTML": lambda text: re.sub(
        r"\^(?:\{(\w+)\}|(\w))", r"<sup>\1\2</sup>", text.replace("<", "&lt;").replace(" ", "&nbsp;")
    ),
    "full width": beside_commands(r"[^\\]+", lambda run: run.translate(WIDE)),
    "math italics": in_math_letters("ITALIC"),
    "math bold": in_math_letters("BOLD"),
    "math sans-serif": in_math_letters("SANS-SERIF"),
    "zero width": between_letters("\u200b"),
    "soft hyphens": between_letters("\u00ad"),
    "accents": beside_commands("[aeiou]", lambda vowel: f"{vowel}\u0301"),
    "ligatures": lambda text: text.replace("ffi", "ﬃ").replace("fi", "ﬁ").replace("fl", "ﬂ").replace("ff", "ﬀ"),
    "circled digits": lambda text: re.sub(
        r"(?<![\w.,/^{\\])[1-9](?![\w.,/}])", lambda match: chr(ord("①") + int(match[0]) - 1), text
    ),
    "vulgar fractions": vulgar,
}
"""Ways to write the same text; a text that one does not change is not measured with it."""


def self_test(index: BenchmarkIndex, settings: Decontamination) -> dict[str, Any]:
    """The share of disguised items that are found, overall and by disguise, for up to `ITEMS` items.

    `disguised` has how many items each disguise changes. `unprotected` names the items of which not even a verbatim
    copy is found; `missed` up to ten examples, as `disguise benchmark:item`.
    """
    unprotected = [item for item, is_hit in enumerate(condemned(index.texts, index, settings)) if not is_hit]
    sample = sorted(Random(0).sample(range(len(index.texts)), min(ITEMS, len(index.texts))))
    disguised, recall, missed, hits = {}, {}, [], 0
    for name, disguise in DISGUISES.items():
        texts = {item: disguise(index.texts[item]) for item in sample}
        changed = [item for item, text in texts.items() if name == "verbatim" or text != index.texts[item]]
        if not changed:
            continue
        is_hit = condemned([texts[item] for item in changed], index, settings)
        disguised[name], recall[name] = len(changed), round(sum(is_hit) / len(changed), 4)
        hits += sum(is_hit)
        missed.append([f"{name} {_name(index, item)}" for item, hit in zip(changed, is_hit, strict=True) if not hit])
    return {
        "items": len(sample),
        "recall": round(hits / max(1, sum(disguised.values())), 4) if sample else 1.0,
        "recall_by_disguise": recall,
        "disguised": disguised,
        "missed": [name for several in zip_longest(*missed) for name in several if name][:10],  # of each disguise
        "unprotected": [_name(index, item) for item in unprotected],
    }


def _name(index: BenchmarkIndex, item: int) -> str:
    return ":".join(map(str, index.names[item]))
