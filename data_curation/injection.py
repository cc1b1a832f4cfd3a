"""A test of decontamination on itself: benchmark items are disguised and put among the rows; how many are found?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa

from data_curation.decontamination import decontaminate
from infra.problems import PROBLEM_SCHEMA
from infra.recipe.model import Decontamination

CARRIER = "Before the exam the teacher wrote a few lines on the board for the class to think about. "


def _other_dollars(text: str) -> str:
    return re.sub(r"\$([^$]+)\$", r"\\(\1\\)", text)


def _other_fractions(text: str) -> str:
    return re.sub(r"\\d?frac\b", lambda found: "\\frac" if found[0] == "\\dfrac" else "\\dfrac", text)


def _other_spacing(text: str) -> str:
    return re.sub(r"\s+", "  \n", re.sub(r"([-+=<>(),])", r" \1 ", text))


def _other_punctuation(text: str) -> str:
    return re.sub(r"[.,;:]\s", " ", text).rstrip(".?! ")


DISGUISES: dict[str, Callable[[str], str]] = {
    "verbatim": str,
    "dollars": _other_dollars,
    "fractions": _other_fractions,
    "spacing": _other_spacing,
    "punctuation": _other_punctuation,
    "capitals": str.upper,
    "all": lambda text: _other_punctuation(_other_spacing(_other_fractions(_other_dollars(text)))).lower(),
    "embedded": lambda text: f"{CARRIER}{text} Explain each step of your solution to a friend.",
    "half": lambda text: text[: len(text) // 2],
}


def injection_recall(
    benchmarks: pa.Table, settings: Decontamination, limit: int = 500, seed: int = 0
) -> dict[str, dict[str, Any]]:
    """For each disguise the share of (up to `limit`) items that are found, and a few that are not.

    `half` is no copy: it shows how much of an item may pass. Returns disguise to `recall`, `items` and `missed`, the
    names of up to five items that were not found.
    """
    items = benchmarks.to_pylist()
    items = Random(seed).sample(items, min(limit, len(items)))
    report: dict[str, dict[str, Any]] = {}
    for name, disguise in DISGUISES.items():
        rows = [item | {"prompt": disguise(item["prompt"]), "source_url": None, "released": None} for item in items]
        split = decontaminate(pa.Table.from_pylist(rows, schema=PROBLEM_SCHEMA), benchmarks, settings)
        missed = [f"{source}:{item}" for source, item in zip(*(split.kept.column(c).to_pylist() for c in
                  ("source", "source_id")), strict=True)]  # fmt: skip
        found = Counter(split.rejected.column("rule").to_pylist())
        recall = round(len(split.rejected) / max(len(rows), 1), 4)
        report[name] = {
            "recall": recall,
            "items": len(rows),
            "missed": missed[:5],
            "rules": dict(sorted(found.items())),
        }
    return report
