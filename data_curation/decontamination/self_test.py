"""Decontamination's self-test: disguise benchmark items and measure how many are found.

The disguises are made from Unicode's names, not from the tables that undo them, so that what these lack is seen.
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
COMMAND = r"\\[a-zA-Z]+|\{[a-z]+\}"
"""What stays in TeX: its commands and the names of its environments."""


def shifted(text: str, mark: str, names: dict[str, str]) -> str:
    """Exponents (`^`) or indices (`_`) as characters of their own."""
    allowed = "".join(map(re.escape, names))
    characters = {plain: unicodedata.lookup(name) for plain, name in names.items()}
    return re.sub(
        rf"\{mark}(?:\{{([{allowed}]+)\}}|([{allowed}]))",
        lambda match: "".join(characters[one] for one in match[1] or match[2]),
        text,
    )


def in_math_letters(text: str, style: str) -> str:
    """Letters and digits as those of mathematics."""

    def one(match: re.Match[str]) -> str:
        character = match[0]
        if len(character) > 1:
            return character
        if character.isdigit():
            name = f"MATHEMATICAL {style} {unicodedata.name(character)}"
        else:
            name = f"MATHEMATICAL {style} {'CAPITAL' if character.isupper() else 'SMALL'} {character.upper()}"
        try:
            return unicodedata.lookup(name)
        except KeyError:  # the italic h is the Planck constant, and there are no italic digits
            return "\u210e" if (style, character) == ("ITALIC", "h") else character

    return re.sub(rf"{COMMAND}|[a-zA-Z0-9]", one, text)


def full_width(text: str) -> str:
    wide = {code: chr(code + 0xFEE0) for code in range(0x21, 0x7F)} | {0x20: "\u3000"}
    return re.sub(rf"({COMMAND})|([^\\]+)", lambda match: match[1] or match[2].translate(wide), text)


def between_letters(text: str, mark: str) -> str:
    """A character without a width after every third letter of a word."""
    return re.sub(rf"{COMMAND}|[a-zA-Z]{{4,}}", lambda match: (
        match[0] if match[0][0] in "\\{" else mark.join(re.findall(r".{1,3}", match[0]))), text)  # fmt: skip


def vulgar(text: str) -> str:
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
    "superscripts": lambda text: shifted(text, "^", RAISED),
    "subscripts": lambda text: shifted(text, "_", LOWERED),
    "HTML": lambda text: re.sub(
        r"\^(?:\{(\w+)\}|(\w))", r"<sup>\1\2</sup>", text.replace("<", "&lt;").replace(" ", "&nbsp;")
    ),
    "full width": full_width,
    "math italics": lambda text: in_math_letters(text, "ITALIC"),
    "math bold": lambda text: in_math_letters(text, "BOLD"),
    "math sans-serif": lambda text: in_math_letters(text, "SANS-SERIF"),
    "zero width": lambda text: between_letters(text, "\u200b"),
    "soft hyphens": lambda text: between_letters(text, "\u00ad"),
    "accents": lambda text: re.sub(
        rf"{COMMAND}|[aeiou]", lambda match: match[0] + "\u0301" * (match[0] in "aeiou"), text
    ),
    "ligatures": lambda text: text.replace("ffi", "ﬃ").replace("fi", "ﬁ").replace("fl", "ﬂ").replace("ff", "ﬀ"),
    "circled digits": lambda text: re.sub(
        r"(?<![\w.,/^{\\])[1-9](?![\w.,/}])", lambda match: chr(ord("①") + int(match[0]) - 1), text
    ),
    "vulgar fractions": vulgar,
}
"""Ways to write the same text; what one does not change is not measured with it."""


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
