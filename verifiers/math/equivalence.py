"""Do two answers mean the same? Cheapest evidence first.

1. `string`: equal after normalizing notation. 2. `exact`: rational numbers. 3. `structure`: tuples, lists, sets,
intervals, ±, matrices, equations, element by element. 4. `cost`: an unevaluated question, or what would be expensive
to evaluate, is refused. 5. `numeric`: evaluated to many digits, with a proof. 6. `symbolic`: computer algebra, in a
process that is killed when it takes too long. All but the last decide in microseconds and never run long.
"""

from __future__ import annotations

import ast
import atexit
import functools
import re
import threading
from typing import NamedTuple

from ratchet.verifiers.extraction import MAX_ANSWER_CHARACTERS, boxed_answer, no_answer_reason
from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.comparison import Algebra, same_answer
from ratchet.verifiers.math.cost import too_expensive, unevaluated
from ratchet.verifiers.math.structure import parse_answer
from ratchet.verifiers.math.symbolic import Symbolic, SymbolicTimeout
from ratchet.verifiers.outcome import Outcome, Verdict

_INTEGER = re.compile(r"-?\d{1,18}")

_COUNTED = "one|two|three|four|five|six|seven|eight|nine|ten|twelve|fifteen|[a-z]+ty|hundred"
_PERCENT_ASKED = re.compile(
    rf"\b(?:what|which)\b(?:(?!\b(?:{_COUNTED})\b)[^.?!;\d$]){{0,60}}?\bpercent|\b(?:as|in)\s+(?:an?\s+)?percent",
    re.IGNORECASE,
)
"""Percentages that are asked for, not given ("after twenty percent off, what")."""
_SHOWN_CHARACTERS = 60
_HOW = {
    "exact": "as exact numbers",
    "structure": "part by part",
    "numeric": "evaluated to 57 digits",
    "symbolic": "by computer algebra",
}


class Decision(NamedTuple):
    """Is the answer the reference? `same` is None when only algebra could tell. `tier` decided it, `why` explains."""

    same: bool | None
    tier: str
    why: str = ""


def reference_text(reference: str) -> str:
    """A reference as published, or an answer that copies its form, as one answer: `"['2']"` is 2, and a list of several
    is all of them."""
    text = reference.strip()
    if text[:2] not in ("['", '["') or len(text) > MAX_ANSWER_CHARACTERS:
        return text
    # The backslashes of LaTeX may or may not have been doubled when the list was written; undoubled ones turn into
    # control characters (\f of \frac) or stay.
    for literal in (text, text.replace("\\", "\\\\")):
        try:
            items = ast.literal_eval(literal)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(items, list) and items and all(isinstance(item, str) for item in items):
            joined = ", ".join(items)
            if joined.isprintable():
                return joined
    return text


def asked_reference(reference: str, question: str | None) -> str:
    """The reference as the question wants it: 25 is 25% where "what percent" is asked for. Shares of at most one are
    left alone: they may be meant either way."""
    if question and _PERCENT_ASKED.search(question):
        answer = parse_answer(reference_text(reference))
        if answer.value is not None and answer.value > 1 and answer.unit is None and not answer.percent:
            return f"{answer.text}\\%"
    return reference


@functools.lru_cache(maxsize=16_384)
def reference_fault(reference: str) -> str:
    """Why nothing can be verified against this reference; "" when it can: boxed, it is read back as it is."""
    text = reference_text(reference)
    if not text:
        return "the reference is empty"
    if len(text) > MAX_ANSWER_CHARACTERS:
        return f"the reference is longer than {MAX_ANSWER_CHARACTERS} characters"
    if boxed_answer(f"\\boxed{{{text}}}") != text:
        return "the reference does not verify against itself: its braces do not match, or it holds a box or <think>"
    if not any(character.isalnum() or character in "∞∅{}" for character in text):
        return "the reference holds neither a number nor a word"
    return ""


def decide(reference: str, answer: str) -> Decision:
    """All tiers that need no other process."""
    if reference == answer:
        return Decision(True, "string", "written the same")
    if max(len(reference), len(answer)) > MAX_ANSWER_CHARACTERS:
        return Decision(False, "cost", "too long")
    if _INTEGER.fullmatch(reference) and _INTEGER.fullmatch(answer):
        return _decision(int(reference) == int(answer), "exact", reference, answer)
    wanted, got = parse_answer(reference), parse_answer(answer)
    if wanted.text == got.text and wanted.unit == got.unit and wanted.percent == got.percent:
        return Decision(True, "string", f"both are written {_shown(wanted.text)}")
    if reason := unevaluated(wanted.text, got.text):
        return Decision(False, "cost", reason)
    algebra = Algebra()
    same = same_answer(wanted, got, algebra)
    if same is None and (reason := too_expensive(wanted.text, got.text)):
        return Decision(False, "cost", reason)
    both_numbers = wanted.value is not None and got.value is not None
    return _decision(same, algebra.used or ("exact" if both_numbers else "structure"), wanted, got)


def decide_symbolically(reference: str, answer: str, symbolic: Symbolic) -> Decision:
    """The last tier, for pairs that `decide` left open. Raises SymbolicTimeout."""
    wanted, got, algebra = parse_answer(reference), parse_answer(answer), Algebra(symbolic)
    with symbolic.budget():
        same = bool(same_answer(wanted, got, algebra))
    return _decision(same, algebra.used or "structure", wanted, got)


def _decision(same: bool | None, tier: str, wanted: Answer | str, got: Answer | str) -> Decision:
    return Decision(same, tier, f"{_described(got)} {'is' if same else 'is not'} {_described(wanted)}, {_HOW[tier]}")


def _described(answer: Answer | str) -> str:
    if isinstance(answer, str):
        return answer
    kind = "" if answer.kind == "scalar" else f"{answer.kind} "
    return f"{kind}{_shown(answer.text)}{'%' if answer.percent else ''}{' (with a unit)' if answer.unit else ''}"


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def verify_math(response: str, reference: str, finished: bool = True) -> Verdict:
    """Is the boxed answer of a response the reference answer?

    `finished` is False when the response was cut at its token limit: a failure, whatever it holds.
    """
    verdict, answer = verify_math_quickly(response, reference, finished)
    if verdict is not None:
        return verdict
    with _shared_lock:
        return verify_math_symbolically(answer, reference, _shared_symbolic())


def verify_math_quickly(response: str, reference: str, finished: bool = True) -> tuple[Verdict | None, str]:
    """`verify_math` without its last tier: (verdict, answer); no verdict when only algebra could tell."""
    if fault := reference_fault(reference):
        return Verdict(Outcome.UNPARSEABLE, decided_by="reference", detail=fault), ""
    if not finished:
        return Verdict(Outcome.FAILED, decided_by="truncated"), ""
    answer = boxed_answer(response)
    if answer is None:
        return Verdict(Outcome.UNPARSEABLE, decided_by="no_answer", detail=no_answer_reason(response)), ""
    return verify_answer_quickly(answer, reference), answer


def verify_answer_quickly(answer: str, reference: str) -> Verdict | None:
    """A bare answer, as it would stand in the box; None when only algebra could tell."""
    if fault := reference_fault(reference):
        return Verdict(Outcome.UNPARSEABLE, decided_by="reference", detail=fault)
    if not answer.strip():
        return Verdict(Outcome.UNPARSEABLE, decided_by="no_answer", detail="the answer is empty")
    decision = decide(reference_text(reference), reference_text(answer))
    return None if decision.same is None else _verdict(decision, answer)


def verify_answer(answer: str, reference: str) -> Verdict:
    """A bare answer, with every tier."""
    verdict = verify_answer_quickly(answer, reference)
    if verdict is not None:
        return verdict
    with _shared_lock:
        return verify_math_symbolically(answer.strip(), reference, _shared_symbolic())


def verify_math_symbolically(answer: str, reference: str, symbolic: Symbolic) -> Verdict:
    try:
        return _verdict(decide_symbolically(reference_text(reference), reference_text(answer), symbolic), answer)
    except SymbolicTimeout as timeout:
        return Verdict(Outcome.TIMEOUT, decided_by="symbolic", detail=str(timeout), extracted=answer)


def _verdict(decision: Decision, answer: str) -> Verdict:
    outcome = Outcome.PASSED if decision.same else Outcome.FAILED
    return Verdict(outcome, float(bool(decision.same)), decision.tier, decision.why, answer)


def equivalent(one: str, other: str) -> bool:
    """Do two answers mean the same? Symmetric. What algebra cannot settle in its time is not equivalent."""
    one, other = reference_text(one), reference_text(other)
    forth, back = decide(one, other).same, decide(other, one).same
    if forth or back:
        return True
    with _shared_lock:
        symbolic = _shared_symbolic()
        for verdict, pair in ((forth, (one, other)), (back, (other, one))):
            try:
                if verdict is None and decide_symbolically(*pair, symbolic).same:
                    return True
            except SymbolicTimeout:
                continue
    return False


_shared_lock = threading.Lock()


@functools.cache
def _shared_symbolic() -> Symbolic:
    symbolic = Symbolic()
    atexit.register(symbolic.close)
    return symbolic
