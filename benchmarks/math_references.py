"""References for searches, some with their questions: those that the tests ship, or of files of problems."""

import gzip
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.math.boxes import boxed_answer
from ratchet.verifiers.math.equivalence import reference_fault, reference_text
from tests.verifiers.tricky_pairs import ROWS

_QUESTIONS = ("question", "problem", "Problem", "Question", "prompt")
CONTEXT = Path(__file__).parents[1] / "tests" / "verifiers" / "math_context.yaml"
_FIELDS = ("final_answer", "answer", "target", "Answer", "correct")
_INTEGER = re.compile(r"-?\d+")
_MOST_INTEGERS = 300
"""An integer can only be answered by its value: a few stand for all."""


def shipped_references() -> list[str]:
    """The references of the labeled pairs, each once."""
    return sorted({row["gold"] for row in ROWS if not reference_fault(row["gold"])})


def published_references(files: list[Path]) -> list[str]:
    """The references of JSON files or lines of JSON, perhaps compressed, each once, in an order drawn once; of integers
    a few. Raises RatchetError that names a file without references."""
    found: set[str] = set()
    for file in files:
        texts = {reference_text(text) for text in map(_reference, _rows(file)) if text}
        if not texts:
            raise RatchetError(
                f"{file} has no references: expected rows of JSON with {', '.join(_FIELDS)} or a solution."
            )
        found |= {text for text in texts if not reference_fault(text)}
    integers = sorted(text for text in found if _INTEGER.fullmatch(text))
    draw = random.Random(0)
    kept = sorted(found.difference(integers)) + draw.sample(integers, min(len(integers), _MOST_INTEGERS))
    draw.shuffle(kept)
    return kept


def shipped_questions() -> list[tuple[str, str]]:
    """(question, reference) of the labeled answers to questions."""
    return [(row["question"], row["reference"]) for row in yaml.safe_load(CONTEXT.read_text(encoding="utf-8"))]


def published_questions(files: list[Path]) -> list[tuple[str, str]]:
    """(question, reference) of the same files' rows that have both, in an order drawn once."""
    rows = [row for file in files for row in _rows(file)]
    asked = (next((str(row[field]) for field in _QUESTIONS if row.get(field)), "") for row in rows)
    pairs = {pair for pair in zip(asked, map(_reference, rows), strict=True) if all(pair)}
    kept = sorted((question, text) for question, text in pairs if not reference_fault(text))
    random.Random(0).shuffle(kept)
    return kept


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    raw = file.read_bytes()
    text = (gzip.decompress(raw) if file.suffix == ".gz" else raw).decode("utf-8")
    is_list = text.lstrip().startswith("[")
    yield from json.loads(text) if is_list else map(json.loads, filter(str.strip, text.splitlines()))


def _reference(row: dict[str, Any]) -> str:
    answers = [row[field] for field in _FIELDS if row.get(field)]
    value = answers[0] if answers else boxed_answer(str(row.get("solution") or ""))
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    text = "" if isinstance(value, list | dict) or value is None else str(value)
    return text.rpartition("####")[2].strip()
