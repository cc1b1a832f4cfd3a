"""Science: the letter of a choice, a number with its unit within a tolerance, or an expression compared as in math.

`Problem.answer` is the reference. `Problem.tests`, a JSON object, says how it is compared: `{"options": [...]}`, or
`{"unit": "m/s", "tolerance": 0.05}`; without it, as an expression.
"""

import json
import re
from dataclasses import replace
from functools import lru_cache
from string import ascii_uppercase
from typing import Any, NamedTuple

from ratchet.infra.problems import Problem
from ratchet.verifiers.domain import Domain, Work, domain_of
from ratchet.verifiers.extraction import boxed_answer
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.science.quantity import Quantity, read_quantity, read_unit, same_quantity
from ratchet.verifiers.submission import JudgeSettings, Submission

TOLERANCE = 0.05
"""Share of the reference by which a number may differ if the data do not say: SciBench's (arXiv 2307.10635)."""
MAX_PROSE_WORDS = 4
"""A reference of more words is a sentence, which no expression equals."""

_WRAPPED = re.compile(r"\\(?:text|mathrm|mathbf|textbf|textrm|boldsymbol|bf|rm)\s*\{([^{}]*)\}|\$")
_LETTER = re.compile(r"\(?\s*([A-Za-z])\s*\)?\s*\.?")
_LETTER_AND_TEXT = re.compile(r"\(?\s*([A-Za-z])\s*(?:\)|[.:)])\s*(.+)", re.DOTALL)
_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}")


class Reference(NamedTuple):
    """One of three: options of a choice, a quantity, or neither for an expression."""

    answer: str
    options: tuple[str, ...] = ()
    quantity: Quantity | None = None
    scale: float = 1.0
    tolerance: float = TOLERANCE


@lru_cache(maxsize=4096)
def read_reference(answer: str, tests: str | None) -> Reference:
    """Raises ValueError that says why nothing can be compared with it."""
    answer, facts = answer.strip(), json.loads(tests) if tests else {}
    if not answer:
        raise ValueError("it has no answer")
    if not isinstance(facts, dict) or facts.keys() - {"options", "unit", "tolerance"}:
        raise ValueError("tests is not an object with options, or with unit and tolerance")
    if "options" in facts:
        return _choice(answer, facts["options"])
    if facts:
        return _quantity(answer, facts.get("unit") or "", facts.get("tolerance", TOLERANCE))
    if len(_WORD.findall(answer)) > MAX_PROSE_WORDS:
        raise ValueError("its answer is prose: no letter, number or expression")
    return Reference(answer)


def _choice(answer: str, options: Any) -> Reference:
    texts = isinstance(options, list) and all(isinstance(option, str) and option.strip() for option in options)
    if not texts or not 2 <= len(options) <= len(ascii_uppercase):
        raise ValueError("its options are not from 2 to 26 texts")
    if answer not in ascii_uppercase[: len(options)] or len(answer) != 1:
        raise ValueError(f"its answer {answer[:40]!r} is the letter of none of its {len(options)} options")
    return Reference(answer, tuple(map(_folded, options)))


def _quantity(answer: str, unit: Any, tolerance: Any) -> Reference:
    found = read_quantity(answer)
    if found is None or found.unit:
        raise ValueError(f"its answer {answer[:40]!r} is not a number")
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 0 <= tolerance < 1:
        raise ValueError(f"its tolerance {tolerance!r} is not from 0 to 1")
    known = read_unit(unit) if isinstance(unit, str) else None
    scale, name = known or (1.0, "")  # of an unknown unit only the number is compared
    return Reference(answer, (), Quantity(found.value, name), scale, tolerance)


def _plain(text: str) -> str:
    return " ".join(_WRAPPED.sub(r"\1", text).split())


def _folded(text: str) -> str:
    return _plain(text).casefold().rstrip(".")


def chosen(answer: str, options: tuple[str, ...]) -> str | None:
    """The letter of the one option that an answer names: by its letter, its text, or both if they agree."""
    text, letters = _plain(answer), ascii_uppercase[: len(options)]
    if (found := _LETTER.fullmatch(text)) and found[1].upper() in letters:
        return found[1].upper()
    if found := _LETTER_AND_TEXT.fullmatch(text):
        letter = found[1].upper()
        return letter if letter in letters and options[letters.index(letter)] == _folded(found[2]) else None
    named = [letter for letter, option in zip(letters, options, strict=True) if option == _folded(text)]
    return named[0] if len(named) == 1 else None


class Science(Domain):
    name = "science"
    compares_math = True
    templates = {
        "science": "{prompt}\n\nReason step by step and put the final answer in \\boxed{{}}.",
        "science_choice": "{prompt}\n\nReason step by step and put the letter of the right option in \\boxed{{}}.",
        "science_number": "{prompt}\n\nReason step by step and put the final answer, a decimal number, in \\boxed{{}}.",
    }
    curation = "ratchet.data_curation.domains.science:SCIENCE"

    def template(self, problem: Problem) -> str:
        facts = json.loads(problem.tests or "{}")
        return "science_choice" if "options" in facts else "science_number" if facts else "science"

    def fault(self, problem: Problem) -> str:
        try:
            read_reference(problem.answer or "", problem.tests)
        except (ValueError, RecursionError) as error:
            return str(error)
        return ""

    def reference_fault(self, problem: Problem) -> str:
        return self.fault(problem) or ("" if problem.tests else domain_of("math").reference_fault(problem))

    def reference(self, problem: Problem) -> str:
        facts, answer = json.loads(problem.tests or "{}"), problem.answer or ""
        if "options" in facts:
            return f"{answer}. {facts['options'][ascii_uppercase.index(answer)]}"
        return f"{answer} {facts.get('unit') or ''}".strip()

    def is_open(self, problem: Problem, verdict: Verdict) -> bool:
        return verdict.decided_by == "unread" or (not problem.tests and domain_of("math").is_open(problem, verdict))

    def extract(self, response: str) -> str | None:
        return boxed_answer(response)

    def prepare(self, submission: Submission) -> Verdict | Work:
        problem = submission.problem
        reference = read_reference(problem.answer or "", problem.tests)
        if not reference.options and reference.quantity is None:
            return domain_of("math").prepare(replace(submission, problem=replace(problem, domain="math")))
        return super().prepare(submission)

    def judged(self, problem: Problem, answer: str, settings: JudgeSettings) -> Verdict:
        reference = read_reference(problem.answer or "", problem.tests)
        given = chosen(answer, reference.options) if reference.options else read_quantity(answer)
        if given is None:
            return Verdict(Outcome.FAILED, decided_by="unread", extracted=answer)
        if isinstance(given, str) or reference.quantity is None:
            right, how = given == reference.answer, "choice"
        else:
            right, how = same_quantity(given, reference.quantity, reference.scale, reference.tolerance), "quantity"
        return Verdict(Outcome.PASSED if right else Outcome.FAILED, float(right), how, extracted=answer)
