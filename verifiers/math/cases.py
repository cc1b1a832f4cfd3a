r"""Functions by cases: equal if they are so on every interval and wherever a condition begins or ends."""

import itertools
import math
from fractions import Fraction

from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.nodes import Node, names_of, replaced
from ratchet.verifiers.math.numeric import constant_value, same_value
from ratchet.verifiers.math.regions import Cut, Region, complement, region_of, union, variable_of

_CLOSE = Fraction(1, 10**30)
Rows = list[tuple[Region, Node]]


def same_function(one: Answer, other: Answer, work: list[int]) -> bool:
    """True if both have the same values, however their conditions divide the line; False if that is not decided."""
    ours, theirs = _rows(one), _rows(other)
    if not ours or not theirs:
        return False
    names = {name for _, node in (*ours, *theirs) for name in names_of(node)}
    if names - {*_variables(one), *_variables(other)} or len(names) > 1:
        return False
    places = sorted({cut.value for region, _ in (*ours, *theirs) for cut, _ in region} | {-math.inf, math.inf})
    for low, high in itertools.pairwise(places):
        mine, others = (_at(rows, Cut(low, True), Cut(high, False)) for rows in (ours, theirs))
        if (mine is None) != (others is None) or (mine and others and same_value(mine, others, work) is not True):
            return False
    finite = [Fraction(place) for place in places if not isinstance(place, float)]
    return all(_same_at(ours, theirs, place, min(names, default="")) for place in finite)


def _variables(answer: Answer) -> set[str]:
    conditions = [row.parts[-1] for row in answer.parts if row.parts]
    return {each.variable or (variable_of(each.parts[0]) if each.kind == "equation" else "") for each in conditions} - {
        ""
    }


def _rows(answer: Answer) -> Rows:
    """Each condition's region and its value; empty if one is no region, or if two overlap."""
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
    return rows if len(rest) < 2 and len(_variables(answer)) == 1 else []


def _place(condition: Answer) -> Answer:
    """The value of `x = 0`."""
    is_place = condition.kind == "equation" and not condition.words and variable_of(condition.parts[0])
    return condition.parts[1] if is_place and len(condition.parts) == 2 else condition


def _at(rows: Rows, low: Cut, high: Cut) -> Node | None:
    """The value between two cuts, which no condition divides."""
    for region, node in rows:
        cuts = [cut for cut, _ in region]
        if any(begin <= low and high <= end for begin, end in zip(cuts[::2], cuts[1::2], strict=True)):
            return node
    return None


def _same_at(ours: Rows, theirs: Rows, place: Fraction, name: str) -> bool:
    nodes = [_at(rows, Cut(place, False), Cut(place, True)) for rows in (ours, theirs)]
    if None in nodes:
        return nodes[0] is nodes[1]
    one, other = (constant_value(replaced(node or (), {("name", name): ("number", place)})) for node in nodes)
    return one is not None and other is not None and abs(one - other) < _CLOSE
