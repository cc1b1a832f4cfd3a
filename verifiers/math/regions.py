r"""Sets of real numbers as intervals and points: solutions of inequalities in one variable, unions, intersections,
differences.

`x > 0, x \ne 1`, `(0,9) \cap (-1,5)`, `a \notin (0,4)`."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.nodes import ZERO, Node, kinds_of, linear, minus, names_of, rational_value
from ratchet.verifiers.math.numeric import constant_value
from ratchet.verifiers.math.tokens import Tokens

RELATIONS = {">": "<", "\\ge": "\\le", "<": ">", "\\le": "\\ge"}
"""Relations, each with its reverse."""
INFINITY: Node = ("name", "\\infty")
MINUS_INFINITY: Node = ("-", ZERO, INFINITY)


def expression(node: Node) -> Answer:
    """The answer for a node that was computed here; a rational one is a number."""
    value = rational_value(node)
    return Answer("scalar", node=node if value is None else ("number", value), value=value)


def line(low: Answer | None = None, high: Answer | None = None, brackets: str = "()", variable: str = "") -> Answer:
    """An interval, infinite if an end is missing."""
    ends = (low or expression(MINUS_INFINITY), high or expression(INFINITY))
    return Answer("tuple", parts=ends, brackets=brackets, variable=variable)


def of_sign(sign: str) -> Answer:
    """The numbers that compare so with zero: `>` for the positive ones."""
    zero = expression(ZERO)
    if sign == "\\ne":
        return Answer("collection", parts=(line(high=zero), line(zero)))
    brackets = {"\\ge": "[)", "\\le": "(]"}.get(sign, "()")
    return line(zero, None, brackets) if sign in (">", "\\ge") else line(None, zero, brackets)


def variable_of(answer: Answer | None) -> str:
    """The name that an answer consists of, such as x, \\theta, a_1 or f(x); otherwise ""."""
    node = answer.node if answer else None
    if answer and node and node[0] in ("call", "applied"):
        return answer.text
    return node[1] if node and node[0] in ("name", "vector") and node[1] not in ("e", "i", "\\pi", "\\infty") else ""


def solved(operators: list[str], sides: list[Answer]) -> tuple[Answer, ...]:
    """The solution of an inequality or a chain of two: one interval, or two for |x| > 3; () if unknown."""
    if len(sides) == 2 and (linear := _linear(operators[0], *sides)):
        operators, sides = linear
    if len(operators) > 2 or any(side.kind != "scalar" or side.node is None or side.percent for side in sides):
        return ()
    if len(sides) == 2 and sides[0].node and sides[0].node[0] == "abs":
        return _distance(operators[0], sides[0].node[1], sides[1])
    negated = [side.node[2] if side.node and side.node[0] == "-" and side.node[1] == ZERO else None for side in sides]
    if len(sides) == 2 and any(node and node[0] == "name" for node in negated):
        sides = [expression(node or minus(side.node or ZERO)) for node, side in zip(negated, sides, strict=True)]
        operators = [RELATIONS[operators[0]]]
    if operators[0] in (">", "\\ge"):
        operators, sides = [RELATIONS[operator] for operator in reversed(operators)], sides[::-1]
    if operators[-1] in (">", "\\ge"):
        return ()
    ends: list[Answer | None] = [*sides]
    if len(sides) == 2:
        first = bool(variable_of(sides[0]) and not variable_of(sides[1]))
        ends, operators = ([None, *sides], ["<", *operators]) if first else ([*sides, None], [*operators, "<"])
    name = variable_of(ends[1])
    return (line(ends[0], ends[2], _brackets(*operators), name),) if name else ()


def _linear(operator: str, left: Answer, right: Answer) -> tuple[list[str], list[Answer]] | None:
    """2a + 1 ≥ 0 as a ≥ -1/2: one name, with rational numbers."""
    if left.node is None or right.node is None or (variable_of(left) and not names_of(right.node)):
        return None
    difference = ("-", left.node, right.node)
    names = names_of(difference)
    if len(names) != 1 or kinds_of(difference) - {"+", "-", "*", "/", "number", "name"}:
        return None
    [name] = names
    if (crossing := linear(difference, name)) is None:
        return None
    bound, slope = crossing
    return [operator if slope > 0 else RELATIONS[operator]], [expression(("name", name)), expression(("number", bound))]


def _distance(operator: str, inside: Node, bound: Answer) -> tuple[Answer, ...]:
    r"""|x - c| < r is an interval, |x - c| > r two."""
    center = ZERO
    if inside[0] in ("+", "-") and inside[1][0] == "name":
        center, inside = inside[2] if inside[0] == "-" else ("-", ZERO, inside[2]), inside[1]
    if inside[0] != "name":
        return ()
    low, high = (expression((sign, center, bound.node)) for sign in "-+")
    if operator in ("<", "\\le"):
        return (line(low, high, _brackets(operator, operator), inside[1]),)
    one, other = ("(]", "[)") if operator == "\\ge" else ("()", "()")
    return line(None, low, one, inside[1]), line(high, None, other, inside[1])


def _brackets(low: str, high: str) -> str:
    return ("[" if low == "\\le" else "(") + ("]" if high == "\\le" else ")")


def usual_brackets(tokens: Tokens) -> Tokens:
    """Rewrite `]0,1[` as (0,1)."""
    if len(tokens) > 4 and tokens[0].isa("]"):
        tokens = (tokens[0]._replace(text="("), *tokens[1:])
    return (*tokens[:-1], tokens[-1]._replace(text=")")) if len(tokens) > 4 and tokens[-1].isa("[") else tokens


def without(whole: Answer, points: list[Answer]) -> Answer | None:
    r"""The intervals between points that are excluded: `x \ne 1, 2`, `[0,9]\setminus\{5\}`."""
    if (
        whole.kind != "tuple"
        or len(whole.parts) != 2
        or any(p.kind != "scalar" or p.node is None or p.percent for p in points)
    ):
        return None
    if len(points) > 1:
        if any(point.value is None for point in points):
            return None
        points = sorted(points, key=lambda point: point.value or Fraction(0))
    ends = [whole.parts[0], *points, whole.parts[1]]
    brackets = [whole.brackets[0] + ")", *["()"] * (len(points) - 1), "(" + whole.brackets[1]]
    gaps = [line(low, high, each) for low, high, each in zip(ends, ends[1:], brackets, strict=False)]
    return Answer("collection", parts=tuple(replace(gap, variable=whole.variable) for gap in gaps))


_PARTS = 10**40
"""Parts of a unit to which irrational ends are rounded before comparison."""
_INTERVALS = {"()", "(]", "[)", "[]"}


class Cut(NamedTuple):
    """A place between numbers: before or behind a value. A region is the places where it begins and ends, in turn."""

    value: Fraction | float
    is_behind: bool


Region = list[tuple[Cut, Answer]]
"""The cuts of a region, each with the end that it was written as."""


def region_of(answer: Answer) -> Region | None:
    """The region of an answer; None for anything but intervals, points and lists of them, with numbers as ends."""
    if answer.kind == "collection" and answer.brackets in ("", "{") and answer.words != "and":
        parts = [region_of(part) for part in answer.parts]
        return None if any(part is None for part in parts) else union([part for part in parts if part is not None])
    is_point = answer.kind == "scalar"
    if not is_point and (answer.kind != "tuple" or answer.brackets not in _INTERVALS or len(answer.parts) != 2):
        return None
    low, high = (answer, answer) if is_point else answer.parts
    brackets = "[]" if is_point else answer.brackets
    begin, end = _value(low), _value(high)
    if begin is None or end is None:
        return None
    cuts = (Cut(begin, brackets[0] == "("), Cut(end, brackets[1] == "]"))
    return [(cuts[0], low), (cuts[1], high)] if cuts[0] < cuts[1] else None


def _value(end: Answer) -> Fraction | float | None:
    if infinite := {INFINITY: math.inf, MINUS_INFINITY: -math.inf}.get(end.node or ()):
        return infinite
    if end.value is not None or end.node is None or end.unit is not None or names_of(end.node):
        return end.value if end.unit is None and not end.percent else None
    value = constant_value(end.node)
    return None if value is None else Fraction(round(value * _PARTS), _PARTS)


def union(regions: list[Region]) -> Region:
    """The numbers in any of the regions; regions that touch are joined."""
    return _covered(regions, 1)


def intersection(regions: list[Region]) -> Region:
    """The numbers in all regions."""
    return _covered(regions, len(regions))


def _covered(regions: list[Region], least: int) -> Region:
    """The numbers that at least `least` regions cover."""
    steps = [(cut, -1 if i % 2 else 1, end) for region in regions for i, (cut, end) in enumerate(region)]
    steps.sort(key=lambda step: (step[0], -step[1]))
    result: Region = []
    depth = 0
    for cut, step, end in steps:
        if (depth < least) != (depth + step < least):
            if result and result[-1][0] == cut and depth + step < least:
                result.pop()  # nothing between
            else:
                result.append((cut, end))
        depth += step
    return result


def complement(region: Region) -> Region:
    """The numbers outside of the region."""
    everything = line()
    ends = ((Cut(-math.inf, True), everything.parts[0]), (Cut(math.inf, False), everything.parts[1]))
    cuts = [ends[0], *region, ends[1]]
    return [cut for one, other in zip(cuts[::2], cuts[1::2], strict=True) if one[0] < other[0] for cut in (one, other)]


def joint(conditions: list[Answer], connective: str) -> Answer | None:
    """The numbers that fulfill all conditions on one variable; None for anything else. `x > 1, x < 3` is the interval
    between, since the union would be everything, and `x < 1, x > 3` is a union."""
    names = {part.variable for each in conditions for part in (each.parts if each.kind == "collection" else (each,))}
    if len(names) != 1 or "" in names:
        return None
    if len(conditions) == 2 and (between := _between(*conditions)):
        return between
    regions = [region for each in conditions if (region := region_of(each)) is not None]
    is_conjunction = connective == "and" or any(each.kind == "collection" for each in conditions)
    if len(regions) < len(conditions) or not (is_conjunction or union(regions) == complement([])):
        return None
    both = intersection(regions)
    return as_answer(both, *names) if both else None


def _between(one: Answer, other: Answer) -> Answer | None:
    """`a > c, a < b`, whatever b and c are."""
    low, high = sorted((one, other), key=lambda each: bool(each.parts) and each.parts[0].node == MINUS_INFINITY)
    if low.kind != "tuple" or high.kind != "tuple" or not names_of(low.parts[0].node or MINUS_INFINITY):
        return None
    if (low.parts[1].node, high.parts[0].node) != (INFINITY, MINUS_INFINITY):
        return None
    ends = low.parts[0], high.parts[1]
    return line(*ends, low.brackets[0] + high.brackets[1], low.variable)


def as_answer(region: Region, variable: str = "") -> Answer:
    """A region as an answer: a point, an interval, or a list of them; the empty set."""
    pieces = []
    for (begin, low), (end, high) in zip(region[::2], region[1::2], strict=True):
        if begin.value == end.value:
            pieces.append(low)
        else:
            brackets = ("(" if begin.is_behind else "[") + ("]" if end.is_behind else ")")
            pieces.append(replace(line(low, high, brackets), variable=variable))
    if len(pieces) == 1:
        return pieces[0]
    return Answer("collection", parts=tuple(pieces), brackets="" if pieces else "{")
