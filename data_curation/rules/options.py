"""Questions whose options a reader appended (`readers.columns.RawRow.with_options`), and their rewriting as open
questions: the statement without options, and the value of the right one as the answer (after Big-Math, section 3)."""

import json
import re
from dataclasses import replace
from string import ascii_uppercase

from ratchet.data_curation.rules.evidence import any_of
from ratchet.data_curation.split import to_json
from ratchet.verifiers.math.equivalence import equivalent, reference_fault
from ratchet.verifiers.problem import APPENDED_OPTIONS, Problem, problem_id

REWRITTEN = "rewritten_as_open"
_LABEL = re.compile(r"\A\s*\(?([A-Za-z])\s?[).:]\s*")
_IN_ONE_LINE = re.compile(r"\s*,\s*(?=[a-z] \) )")  # MathQA: "a ) 38 , b ) 27.5 , c ) none of these"
_NEEDS_OPTIONS = any_of(
    r"\b(?:options?|choices?|choose|select|pick|following|these|those|listed|below|above|except|closest|nearest)\b",
    r"\b(?:approximate(?:ly)?|about|roughly|estimated?|best|most likely|least likely|not)\b",
    r"\b(?:could|can|may|might|must|cannot|should) (?:\w+ ){0,3}(?:be|equal|have|represent)\b",
    r"\b(?:a|one) (?:possible|factor|multiple|divisor|solution|root)\b",
    r"\b(?:true|false|correct|incorrect|statement|sufficient|equivalent|same as|figure|graph|diagram)\b",
    r"(?:\A|[.?!,;]\s*)which\b|\bwhich (?:one|is|are|number|value|equation|expression)\b|_{2,}|\(\s*\)",
)
_ASKS = any_of(r"\?\W*\Z", r"(?:\A|[.;,]\s+)(?:find|calculate|compute|determine|evaluate|solve)\b[^?]*\Z")
_VALUE = re.compile(r"[^A-Za-z]*\d[^A-Za-z]*(?:[A-Za-z.°²³/]+[^A-Za-z\d]*){0,2}|(?:[A-Za-z.$₹]+\s*){1}\d[\d.,/ ]*")
_ROUNDED = re.compile(r"\A(?!\s*(?:\$|rs)).*\.(?!(?:5|25|75)0*(?!\d))\d", re.IGNORECASE)
"""A decimal other than a half or a quarter, or an amount of money: only its options say how it was rounded."""
_WORDS = re.compile(r"[A-Za-z]+")
_NO_UNIT = {"and", "or", "none", "both", "all", "only", "either", "more", "less", "not", "to", "than", "am", "pm"}


def appended(problem: Problem) -> list[str] | None:
    """The lines of options under the statement, as its reader appended them; None if it did not."""
    if not problem.metadata or f'"{APPENDED_OPTIONS}"' not in problem.metadata:
        return None
    return json.loads(problem.metadata).get(APPENDED_OPTIONS)


def as_open(problem: Problem) -> Problem | str:
    """The problem as an open question, with what was removed in its metadata; or why it needs its options."""
    lines = appended(problem) or []
    stem = problem.prompt.removesuffix("\n".join(lines)).rstrip()
    if stem == problem.prompt:
        return "the options are not at its end"
    texts = _IN_ONE_LINE.split(lines[0]) if len(lines) == 1 else lines
    labels = [match[1].upper() if (match := _LABEL.match(text)) else "" for text in texts]
    values = [_LABEL.sub("", text).strip(" .,;\n") for text in texts]
    if len(values) < 2 or labels != list(ascii_uppercase[: len(values)]):
        return "the options are not labeled A, B, …"
    answer = (problem.answer or "").strip(" ().")
    right = values[labels.index(answer.upper())] if answer.upper() in labels else answer if answer in values else None
    if right is None:
        return "the answer names no option"
    if not _VALUE.fullmatch(right) or _NO_UNIT & {word.lower() for word in _WORDS.findall(right)}:
        return "the right option is no value"
    if _ROUNDED.search(right):
        return "the right option may be rounded"
    if match := _NEEDS_OPTIONS.search(stem):
        return f"the question needs its options: {match[0].strip()!r}"
    if not _ASKS.search(stem):
        return "without options, nothing is asked"
    opened = replace(problem, prompt=stem, answer=right, problem_id=problem_id(problem.domain, stem))
    if fault := reference_fault(right):
        return f"no response can be judged against {right!r}: {fault}"
    if sum(equivalent(right, value) for value in values) != 1:
        return "two options have the right value"
    evidence = {"options": values, "answer": problem.answer, "problem_id": problem.problem_id}
    metadata = json.loads(problem.metadata or "{}")
    del metadata[APPENDED_OPTIONS]
    return replace(opened, metadata=to_json(metadata | {REWRITTEN: evidence}))
