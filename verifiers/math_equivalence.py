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
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

from verifiers.answer import Answer
from verifiers.answer_cost import too_expensive, unevaluated
from verifiers.answer_structure import is_symbol, parse_answer, with_letter_unit
from verifiers.extraction import MAX_ANSWER_CHARACTERS, boxed_answer, no_answer_reason
from verifiers.numeric import constant_value, same_value
from verifiers.outcome import Outcome, Verdict
from verifiers.symbolic import Symbolic, SymbolicTimeout
from verifiers.units import DEGREE, RADIAN

_CONGRUENCE = re.compile(r"\\(?:equiv|p?mod|bmod)(?![A-Za-z])")
_DECIMAL = re.compile(r"-?\d*\.?(\d*)")
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


@dataclass
class _Algebra:
    """What may be asked about two expressions, and the last tier that answered."""

    symbolic: Symbolic | None = None
    used: str = ""

    def equal(self, wanted: str, got: str) -> bool | None:
        if _CONGRUENCE.search(wanted) or _CONGRUENCE.search(got):
            return False  # read as an equation by the parser
        if (same := same_value(wanted, got)) is not None:
            self.used = self.used or "numeric"
            return same
        if self.symbolic is None:
            return None
        self.used = "symbolic"
        return self.symbolic.equal(wanted, got)


def reference_text(reference: str) -> str:
    """A reference as published, as one answer: `"['2']"` is 2, and a list of several is all of them."""
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


def asked_reference(reference: str, question: str) -> str:
    """The reference as the question wants it: 25 is 25% where "what percent" is asked for. Shares of at most one are
    left alone: they may be meant either way."""
    if _PERCENT_ASKED.search(question):
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
    algebra = _Algebra()
    same = _same(wanted, got, algebra)
    if same is None and (reason := too_expensive(wanted.text, got.text)):
        return Decision(False, "cost", reason)
    both_numbers = wanted.value is not None and got.value is not None
    return _decision(same, algebra.used or ("exact" if both_numbers else "structure"), wanted, got)


def decide_symbolically(reference: str, answer: str, symbolic: Symbolic) -> Decision:
    """The last tier, for pairs that `decide` left open. Raises SymbolicTimeout."""
    wanted, got, algebra = parse_answer(reference), parse_answer(answer), _Algebra(symbolic)
    with symbolic.budget():
        same = bool(_same(wanted, got, algebra))
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
    decision = decide(reference_text(reference), answer.strip())
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
        return _verdict(decide_symbolically(reference_text(reference), answer, symbolic), answer)
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


# ------------------------------------------------------------------------------------------ structure


def _same(wanted: Answer, got: Answer, algebra: _Algebra) -> bool | None:
    """Three-valued: None is "only algebra could tell", and does not occur when `algebra` has a worker."""
    if "equation" in (wanted.kind, got.kind):
        return _same_equation(wanted, got, algebra)
    if wanted.kind == got.kind == "scalar":
        return _same_scalar(wanted, got, algebra)
    if wanted.kind != got.kind:
        return _same_across_kinds(wanted, got, algebra)
    if wanted.kind in ("text", "based"):
        is_same = wanted.text == got.text or (" " in wanted.text and wanted.text.rstrip("s") == got.text.rstrip("s"))
        return is_same and not _units_differ(wanted, got)
    if wanted.kind == "collection":
        return _same_collection(wanted.parts, got.parts, algebra)
    if wanted.kind == "congruence":
        return _same_congruence(wanted, got, algebra)
    if wanted.kind == "ratio":
        return wanted.text == got.text or _proportional(wanted.parts, got.parts)
    if wanted.brackets != got.brackets or len(wanted.parts) != len(got.parts):
        return False
    if wanted.variable and got.variable and wanted.variable != got.variable:
        return False
    return _all(_same(one, other, algebra) for one, other in zip(wanted.parts, got.parts, strict=True))


def _all(results: list[bool | None]) -> bool | None:
    undecided = False
    for result in results:
        if result is False:
            return False
        undecided |= result is None
    return None if undecided else True


def _same_scalar(wanted: Answer, got: Answer, algebra: _Algebra) -> bool | None:
    if wanted.unit is not None and got.unit is None and got.value is None:
        got = with_letter_unit(got)
    if _units_differ(wanted, got):
        return False
    scale = got.unit.size / wanted.unit.size if wanted.unit and got.unit else Fraction(1)
    is_angle = {wanted.unit, got.unit} == {DEGREE, RADIAN}
    if wanted.value is not None and got.value is not None and not is_angle:
        return _same_number(wanted, replace(got, value=got.value * scale))
    if wanted.text == got.text and scale == 1 and not is_angle:
        return wanted.percent == got.percent or wanted.percent
    if wanted.percent != got.percent or (wanted.text.isdigit() and got.text.isalpha()):
        return False
    if wanted.places is not None and (value := constant_value(got.text)) is not None:
        algebra.used = algebra.used or "numeric"
        return _rounds_to(value * scale, wanted)
    one, other = _in_radians(wanted, got), _in_radians(got, wanted)
    return algebra.equal(
        one, other if scale == 1 else f"({other})\\cdot\\frac{{{scale.numerator}}}{{{scale.denominator}}}"
    )


def _units_differ(wanted: Answer, got: Answer) -> bool:
    """A unit that is missing on one side is not held against the answer."""
    if wanted.unit is None or got.unit is None or {wanted.unit, got.unit} == {DEGREE, RADIAN}:
        return False
    return wanted.unit.dimension != got.unit.dimension


def _in_radians(answer: Answer, other: Answer) -> str:
    """30° is π/6 radians, which need no unit where they speak of π."""
    if answer.unit == DEGREE and (other.unit == RADIAN or (other.unit is None and "\\pi" in other.text)):
        return f"({answer.text})\\cdot\\frac{{\\pi}}{{180}}"
    return answer.text


def _same_number(wanted: Answer, got: Answer) -> bool:
    """By what the reference says. 50% as a reference asks for a percentage: 50%, 50 and 0.5 all state it. A reference
    without the sign is a number: p% is p/100, and only of a share of at most one. A rounded decimal accepts what
    rounds to it."""
    if wanted.percent == got.percent:
        return wanted.value == got.value or _rounds_to(got.value, wanted, got.text)
    if wanted.percent:
        return got.value in (wanted.value, wanted.value / 100)
    return abs(wanted.value) <= 1 and got.value == 100 * wanted.value


def _rounds_to(value: Fraction, reference: Answer, text: str = "") -> bool:
    """Does a value with more digits than the rounded reference round to it? A decimal with fewer does not."""
    if reference.places is None or reference.value is None:
        return False
    if text and (decimal := _DECIMAL.fullmatch(text)) and len(decimal[1]) <= reference.places:
        return False
    return abs(value - reference.value) <= Fraction(1, 2 * 10**reference.places)


def _proportional(one: tuple[Answer, ...], other: tuple[Answer, ...]) -> bool:
    values = [part.value for part in (*one, *other)]
    if len(one) != len(other) or not all(values):
        return False
    return all(one[0].value * b.value == other[0].value * a.value for a, b in zip(one, other, strict=True))


def _same_congruence(wanted: Answer, got: Answer, algebra: _Algebra) -> bool | None:
    """12 mod 7 is 5 mod 7; n may be left out, but not renamed."""
    if wanted.variable and got.variable and wanted.variable != got.variable:
        return False
    (residue, modulus), (got_residue, got_modulus) = wanted.parts, got.parts
    if None not in (residue.value, got_residue.value, modulus.value) and modulus.value == got_modulus.value != 0:
        return (residue.value - got_residue.value) % modulus.value == 0
    return _all(_same(one, two, algebra) for one, two in zip(wanted.parts, got.parts, strict=True))


def _same_across_kinds(wanted: Answer, got: Answer, algebra: _Algebra) -> bool | None:
    for one, other in ((wanted, got), (got, wanted)):

        def same(part: Answer, other: Answer, swapped: bool = one is got) -> bool | None:
            return _same(other, part, algebra) if swapped else _same(part, other, algebra)

        if one.kind == "collection" and len(one.parts) == 1:
            return same(one.parts[0], other)
        if one.kind == "text" and other.kind == "scalar" and other.value is None:
            spelled = [answer.text.replace(" ", "") for answer in (one, other)]
            return spelled[0] == spelled[1] or (len(spelled[0]) > 1 and spelled[0].casefold() == spelled[1].casefold())
        if one.kind == "ratio":
            if other.kind == "scalar" and len(one.parts) == 2 and one.parts[1].value:
                return one.parts[0].value / one.parts[1].value == other.value
            return other.kind == "text" and one.text == other.text
        if one.kind == "tuple" and one.brackets == "()" and not one.variable:
            if other.kind == "matrix" and all(len(row.parts) == 1 for row in other.parts):
                return same(one, replace(one, parts=tuple(row.parts[0] for row in other.parts)))
            if other.kind == "collection" and (values := _named_values(other)):
                return same(one, replace(one, parts=values))
    return False


def _named_values(collection: Answer) -> tuple[Answer, ...]:
    """`x=2, y=3` as the tuple (2, 3), in the order of the names; () when it is not that."""
    if not all(part.kind == "equation" and len(part.parts) == 2 for part in collection.parts):
        return ()
    values = {part.parts[0].text: part.parts[1] for part in collection.parts if is_symbol(part.parts[0])}
    return tuple(values[name] for name in sorted(values)) if len(values) == len(collection.parts) > 1 else ()


def _same_collection(wanted: tuple[Answer, ...], got: tuple[Answer, ...], algebra: _Algebra) -> bool | None:
    """One to one, in any order. 1,2,3 is not 1,2,3,3."""
    if len(wanted) != len(got):
        return False
    quick = _Algebra(used=algebra.used)
    edges = [[_same_member(one, other, quick) for other in got] for one in wanted]
    algebra.used = quick.used
    if _matched(edges, lambda edge: edge is True):
        return True
    if not _matched(edges, lambda edge: edge is not False):
        return False
    if algebra.symbolic is None:
        return None
    edges = [
        [_same_member(one, other, algebra) if edge is None else edge for edge, other in zip(row, got, strict=True)]
        for row, one in zip(edges, wanted, strict=True)
    ]
    return _matched(edges, lambda edge: edge is True)


def _same_member(wanted: Answer, got: Answer, algebra: _Algebra) -> bool | None:
    """{5} answers 5, but {1, {5}} is not {1, 5}."""
    return (wanted.kind == "collection") == (got.kind == "collection") and _same(wanted, got, algebra)


def _matched(edges: list[list[bool | None]], accepted: Callable[[bool | None], bool]) -> bool:
    """Is there a perfect matching? Augmenting paths (Kuhn 1955)."""
    owner: dict[int, int] = {}

    def place(row: int, seen: set[int]) -> bool:
        for column, edge in enumerate(edges[row]):
            if accepted(edge) and column not in seen:
                seen.add(column)
                if column not in owner or place(owner[column], seen):
                    owner[column] = row
                    return True
        return False

    return all(place(row, set()) for row in range(len(edges)))


def _same_equation(wanted: Answer, got: Answer, algebra: _Algebra) -> bool | None:
    """`x = 5` is 5, but not `y = 5`; `6 = 5` is nothing; two equations are compared by sides, then by algebra."""
    if wanted.kind != got.kind:
        equation, other = (wanted, got) if wanted.kind == "equation" else (got, wanted)
        name, *values = equation.parts
        if not is_symbol(name):
            values = list(equation.parts)
            if len(values) > 2 or None in (values[0].value, values[1].value):
                return False
            if not _same_number(*values) and not _same_number(*reversed(values)):
                return False
        pairs = [(value, other) if equation is wanted else (other, value) for value in values]
        return _all(_same(one, two, algebra) for one, two in pairs)
    if len(wanted.parts) != 2 or len(got.parts) != 2:
        return wanted.text == got.text
    (left, right), (got_left, got_right) = wanted.parts, got.parts
    if is_symbol(left) and is_symbol(got_left):
        if left.text != got_left.text:
            return False
        return _same(right, got_right, algebra)
    for pair in ((got_left, got_right), (got_right, got_left)):
        if _all(_same(one, two, _Algebra()) for one, two in zip((left, right), pair, strict=True)):
            return True
    return algebra.equal(wanted.text, got.text)


_shared_lock = threading.Lock()


@functools.cache
def _shared_symbolic() -> Symbolic:
    symbolic = Symbolic()
    atexit.register(symbolic.close)
    return symbolic
