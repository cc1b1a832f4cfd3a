"""Decontamination's self-test: disguise benchmark items and measure how many are found."""

import re
from collections.abc import Callable
from random import Random
from typing import Any

from ratchet.data_curation.decontamination.overlaps import BenchmarkIndex, condemned
from ratchet.data_curation.settings.curation import Decontamination

CARRIER = "Before the exam the teacher wrote a few lines on the board for the class to think about. "
ITEMS = 500
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
}


def self_test(index: BenchmarkIndex, settings: Decontamination) -> dict[str, Any]:
    """The share of disguised items that are found, overall and by disguise, for up to `ITEMS` items.

    `unprotected` names the items of which not even a verbatim copy is found; `missed` up to ten examples, as
    `disguise benchmark:item`.
    """
    unprotected = [item for item, is_hit in enumerate(condemned(index.texts, index, settings)) if not is_hit]
    sample = sorted(Random(0).sample(range(len(index.texts)), min(ITEMS, len(index.texts))))
    recall, missed = {}, []
    for name, disguise in DISGUISES.items():
        is_hit = condemned([disguise(index.texts[item]) for item in sample], index, settings)
        recall[name] = round(sum(is_hit) / len(sample), 4) if sample else 1.0
        missed += [f"{name} {_name(index, item)}" for item, hit in zip(sample, is_hit, strict=True) if not hit]
    return {
        "items": len(sample),
        "recall": round(sum(recall.values()) / len(recall), 4),
        "recall_by_disguise": recall,
        "missed": missed[:10],
        "unprotected": [_name(index, item) for item in unprotected],
    }


def _name(index: BenchmarkIndex, item: int) -> str:
    return ":".join(map(str, index.names[item]))
