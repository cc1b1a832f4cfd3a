"""Do two answers that have been read mean the same? Part by part, each scalar by the cheapest evidence there is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.numeric import constant_value, same_value
from ratchet.verifiers.math.structure import is_symbol, with_letter_unit
from ratchet.verifiers.math.symbolic import Symbolic
from ratchet.verifiers.math.units import DEGREE, RADIAN

_CONGRUENCE = re.compile(r"\\(?:equiv|p?mod|bmod)(?![A-Za-z])")
_DECIMAL = re.compile(r"-?\d*\.?(\d*)")


@dataclass
class Algebra:
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


def same_answer(wanted: Answer, got: Answer, algebra: Algebra) -> bool | None:
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
    return _all(same_answer(one, other, algebra) for one, other in zip(wanted.parts, got.parts, strict=True))


def _all(results: Iterable[bool | None]) -> bool | None:
    undecided = False
    for result in results:
        if result is False:
            return False
        undecided |= result is None
    return None if undecided else True


def _same_scalar(wanted: Answer, got: Answer, algebra: Algebra) -> bool | None:
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
    assert wanted.value is not None and got.value is not None
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
    ours, theirs = ([part.value for part in parts if part.value] for parts in (one, other))
    if not len(ours) == len(one) == len(other) == len(theirs):
        return False
    return all(ours[0] * b == theirs[0] * a for a, b in zip(ours, theirs, strict=True))


def _same_congruence(wanted: Answer, got: Answer, algebra: Algebra) -> bool | None:
    """12 mod 7 is 5 mod 7; n may be left out, but not renamed."""
    if wanted.variable and got.variable and wanted.variable != got.variable:
        return False
    (residue, modulus), (got_residue, got_modulus) = wanted.parts, got.parts
    one, other = residue.value, got_residue.value
    if one is not None and other is not None and modulus.value and modulus.value == got_modulus.value:
        return (one - other) % modulus.value == 0
    return _all(same_answer(one, two, algebra) for one, two in zip(wanted.parts, got.parts, strict=True))


def _same_across_kinds(wanted: Answer, got: Answer, algebra: Algebra) -> bool | None:
    for one, other in ((wanted, got), (got, wanted)):

        def same(part: Answer, other: Answer, swapped: bool = one is got) -> bool | None:
            return same_answer(other, part, algebra) if swapped else same_answer(part, other, algebra)

        if one.kind == "collection" and len(one.parts) == 1:
            return same(one.parts[0], other)
        if one.kind == "text" and other.kind == "scalar" and other.value is None:
            spelled = [answer.text.replace(" ", "") for answer in (one, other)]
            return spelled[0] == spelled[1] or (len(spelled[0]) > 1 and spelled[0].casefold() == spelled[1].casefold())
        if one.kind == "ratio":
            if other.kind == "scalar" and len(one.parts) == 2 and (whole := one.parts[1].value):
                part = one.parts[0].value
                return part is not None and part / whole == other.value
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


def _same_collection(wanted: tuple[Answer, ...], got: tuple[Answer, ...], algebra: Algebra) -> bool | None:
    """One to one, in any order. 1,2,3 is not 1,2,3,3."""
    if len(wanted) != len(got):
        return False
    quick = Algebra(used=algebra.used)
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


def _same_member(wanted: Answer, got: Answer, algebra: Algebra) -> bool | None:
    """{5} answers 5, but {1, {5}} is not {1, 5}."""
    return (wanted.kind == "collection") == (got.kind == "collection") and same_answer(wanted, got, algebra)


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


def _same_equation(wanted: Answer, got: Answer, algebra: Algebra) -> bool | None:
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
        return _all(same_answer(one, two, algebra) for one, two in pairs)
    if len(wanted.parts) != 2 or len(got.parts) != 2:
        return wanted.text == got.text
    (left, right), (got_left, got_right) = wanted.parts, got.parts
    if is_symbol(left) and is_symbol(got_left):
        if left.text != got_left.text:
            return False
        return same_answer(right, got_right, algebra)
    for pair in ((got_left, got_right), (got_right, got_left)):
        if _all(same_answer(one, two, Algebra()) for one, two in zip((left, right), pair, strict=True)):
            return True
    return algebra.equal(wanted.text, got.text)
