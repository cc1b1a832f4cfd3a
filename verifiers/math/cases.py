r"""Functions by cases: equal if they are equal on every interval and wherever a condition begins or ends."""

import itertools
import math
from fractions import Fraction

from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.families import INTEGERS
from ratchet.verifiers.math.nodes import Node, names_of, replaced
from ratchet.verifiers.math.numeric import constant_value, same_value
from ratchet.verifiers.math.regions import Cut, Region, complement, region_of, union, variable_of

_CLOSE = Fraction(1, 10**30)
Rows = list[tuple[Region, Node]]


def same_function(one: Answer, other: Answer, work: list[int]) -> bool:
    """True if both have the same values, however their conditions divide the line; False if that is undecided, or if
    conditions that overlap give two values."""
    ours, theirs = _rows(one), _rows(other)
    if not ours or not theirs or variables(one) != variables(other):
        return False
    names = {name for _, node in (*ours, *theirs) for name in names_of(node)}
    if names - variables(one):
        return False
    places = sorted({cut.value for region, _ in (*ours, *theirs) for cut, _ in region} | {-math.inf, math.inf})
    for low, high in itertools.pairwise(places):
        mine, others = (_all_at(rows, Cut(low, True), Cut(high, False)) for rows in (ours, theirs))
        if bool(mine) != bool(others) or not _agree([*mine, *others], work):
            return False
    finite = [Fraction(place) for place in places if not isinstance(place, float)]
    return all(_same_at(ours, theirs, place, min(names, default="")) for place in finite)


def variables(answer: Answer) -> set[str]:
    """The names that the conditions restrict."""
    conditions = [row.parts[-1] for row in answer.parts if row.parts]
    pieces = [each for row in conditions for each in (row.parts if row.kind == "collection" else (row,))]  # x \\ne 0
    return {each.variable or (variable_of(each.parts[0]) if each.kind == "equation" else "") for each in pieces} - {""}


def cover_the_line(answer: Answer) -> bool | None:
    """True if some row's condition holds for every number, but for single ones; None if a condition is no region, or
    is one for whole numbers."""
    regions = [region_of(_place(row.parts[-1])) for row in answer.parts if row.parts]
    if None in regions or variables(answer) & INTEGERS:
        return None
    gaps = complement(union([region for region in regions if region is not None]))
    return all(low.value == high.value for (low, _), (high, _) in zip(gaps[::2], gaps[1::2], strict=True))


def _rows(answer: Answer) -> Rows:
    """Each condition's region and its value; empty if one is no region."""
    rows: Rows = []
    rest: list[Node] = []
    for row in answer.parts:
        value, condition = row.parts if len(row.parts) == 2 else (row, row)
        if value.node is None or value.kind != "scalar":
            return []
        if condition.words == "otherwise":
            rest.append(value.node)
        elif (region := region_of(_place(condition))) is not None:
            rows.append((region, value.node))
        else:
            return []
    if len(rest) == 1 and rows:
        rows.append((complement(union([region for region, _ in rows])), rest[0]))
    return rows if len(rest) < 2 and len(variables(answer)) == 1 else []


def _place(condition: Answer) -> Answer:
    """The value of `x = 0`."""
    is_place = condition.kind == "equation" and not condition.words and variable_of(condition.parts[0])
    return condition.parts[1] if is_place and len(condition.parts) == 2 else condition


def _all_at(rows: Rows, low: Cut, high: Cut) -> list[Node]:
    """The values between two cuts, which no condition divides."""
    found = []
    for region, node in rows:
        cuts = [cut for cut, _ in region]
        if any(begin <= low and high <= end for begin, end in zip(cuts[::2], cuts[1::2], strict=True)):
            found.append(node)
    return found


def _agree(nodes: list[Node], work: list[int]) -> bool:
    return all(same_value(nodes[0], node, work) is True for node in nodes[1:])


def _same_at(ours: Rows, theirs: Rows, place: Fraction, name: str) -> bool:
    mine, others = (_all_at(rows, Cut(place, False), Cut(place, True)) for rows in (ours, theirs))
    if not mine or not others:
        return not mine and not others
    values = [constant_value(replaced(node, {("name", name): ("number", place)})) for node in (*mine, *others)]
    return all(value is not None and values[0] is not None and abs(value - values[0]) < _CLOSE for value in values)
