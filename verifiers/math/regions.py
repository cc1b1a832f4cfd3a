r"""Sets of real numbers as intervals and points: unions, intersections and what is left without them.

`x > 0, x \ne 1`, `(0,9) \cap (-1,5)`, `a \notin (0,4)`. Only if the ends are numbers, which have an order.
"""

import math
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.intervals import INFINITY, MINUS_INFINITY, line
from ratchet.verifiers.math.nodes import names_of
from ratchet.verifiers.math.numeric import constant_value

_PARTS = 10**40
"""Irrational ends are compared to so many parts."""
_INTERVALS = {"()", "(]", "[)", "[]"}


class Cut(NamedTuple):
    """A place between numbers: before or behind a value. A region is the places where it begins and ends, in turn."""

    value: Fraction | float
    is_behind: bool


Region = list[tuple[Cut, Answer]]
"""Each cut with the end that it was written as."""


def region_of(answer: Answer) -> Region | None:
    """None for anything but intervals, points and lists of them, with numbers as ends."""
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
    """What is in any of them; regions that touch are joined."""
    return _covered(regions, 1)


def intersection(regions: list[Region]) -> Region:
    return _covered(regions, len(regions))


def _covered(regions: list[Region], least: int) -> Region:
    """What at least so many regions cover."""
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
    everything = line()
    ends = ((Cut(-math.inf, True), everything.parts[0]), (Cut(math.inf, False), everything.parts[1]))
    cuts = [ends[0], *region, ends[1]]
    return [cut for one, other in zip(cuts[::2], cuts[1::2], strict=True) if one[0] < other[0] for cut in (one, other)]


def joint(conditions: list[Answer], connective: str) -> Answer | None:
    """What fulfills all conditions on one variable; None if they are no such conditions. `x > 1, x < 3` is the interval
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
    low, high = sorted((one, other), key=lambda each: each.parts[:1] and each.parts[0].node == MINUS_INFINITY)
    if low.kind != "tuple" or high.kind != "tuple" or not names_of(low.parts[0].node or MINUS_INFINITY):
        return None
    if (low.parts[1].node, high.parts[0].node) != (INFINITY, MINUS_INFINITY):
        return None
    ends = low.parts[0], high.parts[1]
    return line(*ends, low.brackets[0] + high.brackets[1], low.variable)


def as_answer(region: Region, variable: str = "") -> Answer:
    """A point, an interval, or a list of them; the empty set."""
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
