r"""Solutions with a free letter: numbers for each integer (`x = \frac{\pi}{4} + k\pi`), lines, planes, integrals.

The letter has any name, and a solution any beginning and direction.
"""

import itertools
import operator
from fractions import Fraction

from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.nodes import (
    Node,
    in_radians,
    kinds_of,
    linear,
    names_of,
    nodes_of,
    rational_value,
    replaced,
)
from ratchet.verifiers.math.numeric import constant_value, proportional, same_value
from ratchet.verifiers.math.points import drawn
from ratchet.verifiers.math.readings import without_constant
from ratchet.verifiers.math.symbols import is_symbol

INTEGERS = frozenset("klmnpqj")
_PARAMETERS = frozenset("tskrumnpqahcvw") | {"\\lambda", "\\mu", "\\alpha", "\\beta"}
_COORDINATES = ("x", "y", "z", "w")
_CLOSE = Fraction(1, 10**30)
_MOST_PARAMETERS = 3
_MOST_RESIDUES = 64
Progression = tuple[Fraction, Fraction]
"""The first member, and the step between members."""
Flat = tuple[list[Fraction], list[list[Fraction]]]
"""A point and independent directions in reduced form: the same for the same line or plane."""


def same_families(reference: Answer, answer: Answer) -> bool:
    """True if two lists of numbers for each integer are the same numbers: \\pm\\frac{\\pi}{3} + 2k\\pi in any
    notation."""
    is_periodic = "Z" in (reference.domain, answer.domain) or any(
        "\\pi" in part.symbols for part in _members(reference)
    )
    if not is_periodic or len({*map(_name, (*_members(reference), *_members(answer))), ""}) > 2:
        return False
    if not (ours := progressions(reference)) or not (theirs := progressions(answer)):
        return False
    step = ours[0][1]
    for _, other in ours + theirs:  # a common multiple
        ratio = (other / step).limit_denominator(_MOST_RESIDUES)
        if abs(ratio - other / step) > _CLOSE:
            return False
        step *= ratio.numerator
    if any(abs(step / other) > _MOST_RESIDUES for _, other in ours + theirs):
        return False
    mine, others = (_residues(each, abs(step)) for each in (ours, theirs))
    return len(mine) == len(others) and all(any(_are_close(a, b, abs(step)) for b in others) for a in mine)


def _members(answer: Answer) -> tuple[Answer, ...]:
    return answer.parts if answer.kind == "collection" else (answer,)


def _name(member: Answer) -> str:
    return member.parts[0].text if member.kind == "equation" else ""


def progressions(answer: Answer) -> list[Progression]:
    """The progressions of all members; empty if one is not a family. (-1)^k has one sign for even numbers, the other
    for odd ones."""
    found: list[Progression] = []
    for member in _members(answer):
        value = member.stated
        names = names_of(value.node) if value.kind == "scalar" and value.node else frozenset()
        if len(names) != 1 or not names <= INTEGERS or value.unit or value.percent or not _is_arithmetic(value.node):
            return []
        node = in_radians(value.node or ()) if "\\degree" in value.symbols else value.node or ()
        at = [constant_value(replaced(node, {("name", *names): ("number", Fraction(i))})) for i in range(6)]
        values = [each for each in at if each is not None]
        steps = [two - one for one, two in zip(values, values[2:], strict=False)]
        if len(values) < 6 or not steps[0] or any(abs(each - steps[0]) > _CLOSE * abs(steps[0]) for each in steps):
            return []
        is_one = abs(2 * (values[1] - values[0]) - steps[0]) <= _CLOSE * abs(steps[0])
        found += [(values[0], steps[0] / 2)] if is_one else [(values[0], steps[0]), (values[1], steps[0])]
    return found


def _is_arithmetic(node: Node | None) -> bool:
    """True if it has only sums, products, roots and arcs, and powers of -1."""
    nodes = nodes_of(node or ())
    known = {"+", "-", "*", "/", "number", "name", "root", "arcsin", "arccos", "arctan", "^"}
    return {each[0] for each in nodes} <= known and all(
        rational_value(each[1]) == -1 for each in nodes if each[0] == "^"
    )


def _residues(progressions: list[Progression], step: Fraction) -> list[Fraction]:
    """The different residues of all members modulo the step."""
    found: list[Fraction] = []
    for begin, each in progressions:
        for turn in range(round(abs(step / each))):
            residue = (begin + turn * each) % step
            found += [residue] * (not any(_are_close(residue, other, step) for other in found))
    return found


def _are_close(one: Fraction, other: Fraction, step: Fraction) -> bool:
    distance = abs(one - other)
    return min(distance, step - distance) < _CLOSE * step


def same_span(one: Answer, other: Answer, together: bool, one_way: bool) -> bool:
    """True if vectors of numbers span the same space: all `together` (bases), or each of one as one of the other; a
    vector that points `one_way` differs from its opposite."""
    ours, theirs = _vectors(one), _vectors(other)
    if not ours or not theirs or len(ours) != len(theirs) or {len(each) for each in ours + theirs} != {len(ours[0])}:
        return False
    if together:
        mine, others = (_canonical([Fraction(0)] * len(ours[0]), each) for each in (ours, theirs))
        return mine is not None and mine == others
    if one_way and sum(map(operator.mul, ours[0], theirs[0])) < 0:
        return False
    lines = [[_canonical([Fraction(0)] * len(v), [v]) for v in each] for each in (ours, theirs)]
    return None not in lines[0] and sorted(map(repr, lines[0])) == sorted(map(repr, lines[1]))


def _vectors(answer: Answer) -> list[list[Fraction]]:
    members = answer.parts if answer.kind == "collection" else (_coordinates(answer),)
    values = [[entry.value for entry in member.entries] for member in members if member.kind in ("tuple", "matrix")]
    if len(values) < len(members) or any(None in each or len(each) < 2 for each in values):
        return []
    return [[each or Fraction(0) for each in vector] for vector in values]


def differ_by_constant(one: Node, other: Node, work: list[int]) -> bool:
    """True if two integrals with an arbitrary constant differ by a number: they gain the same between two points."""
    ours, theirs = without_constant(one), without_constant(other)
    if ours is None or theirs is None or names_of(ours) != names_of(theirs) or len(names_of(ours)) != 1:
        return False
    [name] = names_of(ours)
    shifted = {("name", name): ("+", ("name", name), ("number", drawn(one, other)))}
    ours, theirs = (("-", node, replaced(node, shifted)) for node in (ours, theirs))
    return same_value(ours, theirs, work) is True


def same_parameter(one: Node, other: Node, fixed: frozenset[str], work: list[int]) -> bool:
    """True if two expressions that are linear in an arbitrary constant have the same values: x^2 + cx, x^2 + (a - 1)x.
    `fixed` are the names that are not constants."""
    ours, theirs = names_of(one) - fixed, names_of(other) - fixed
    if len(ours) != 1 or len(theirs) != 1 or names_of(one) - ours != names_of(other) - theirs:
        return False
    begins, slopes = [], []
    for node, names in ((one, ours), (other, theirs)):
        at = [replaced(node, {("name", *names): ("number", Fraction(i))}) for i in range(3)]
        if not same_value(("-", at[1], at[0]), ("-", at[2], at[1]), work):
            return False
        begins.append(at[0])
        slopes.append(("-", at[1], at[0]))
    (begin, other_begin), (slope, other_slope) = begins, slopes
    moved = ("-", begin, other_begin)
    return bool(proportional(slope, other_slope, False, work)) and bool(
        same_value(begin, other_begin, work) or proportional(slope, moved, False, work)
    )


def _coordinates(answer: Answer) -> Answer:
    """The coordinates without the name of what has them: `\\vec r = ...`, `(x, y, z) = ...`."""
    named = answer.kind == "equation" and len(answer.parts) == 2 and not answer.words and is_symbol(answer.parts[0])
    return answer.parts[1] if named and answer.parts[1].kind in ("tuple", "matrix") else answer


def same_flat(reference: Answer, answer: Answer) -> bool:
    """True if both are the same line or plane, which the reference writes as one, or the same points of a lattice."""
    if reference.kind in ("scalar", "text"):
        return False
    ours, theirs = _coordinates(reference), _coordinates(answer)
    if ours.kind == theirs.kind == "collection" and _names(ours) != _names(theirs):
        return False
    if reference.domain == "Z":
        return same_lattice(ours, theirs)
    is_free = {reference.domain, answer.domain} <= {"R", "any"}  # (t, 2 - t) for all t
    if not (ours.words == "line" or ours.kind == "equation" or ours.brackets == "" or is_free) or ours.kind == "scalar":
        return False
    if "Z" in (reference.domain, answer.domain) or theirs.kind not in ("tuple", "matrix", "equation", "collection"):
        return False
    found = flat(ours)
    return found is not None and found == flat(theirs)


def flat(answer: Answer) -> Flat | None:
    """The line or plane that an answer describes with parameters: `(1 + 3t, -t, 2 + t)`, also as a column,
    `x = 1 + 3t, y = -t, z = 2 + t` and `\\frac{x-1}{3} = \\frac{y}{-1} = z - 2`."""
    if answer.kind == "equation":
        return None if answer.words else _symmetric(answer)
    is_known = answer.kind != "collection" or (answer.words != "or" and {*_names(answer)} <= {*_COORDINATES})
    found = _linear(_entries(answer)) if is_known else None
    return found and _canonical(*found)


def same_lattice(one: Answer, other: Answer) -> bool:
    """True if both are the same points for all integers: x = 2 + 5t, y = -1 - 3t and (-3 + 5n, 2 - 3n)."""
    ours, theirs = _linear(_entries(one)), _linear(_entries(other))
    if not ours or not theirs or len(ours[0]) != len(theirs[0]) or len(ours[1]) != 1 or len(theirs[1]) != 1:
        return False
    [step], [got_step] = ours[1], theirs[1]
    if got_step not in (step, [-each for each in step]):
        return False
    moved = [a - b for a, b in zip(ours[0], theirs[0], strict=True)]
    turns = {a / b for a, b in zip(moved, step, strict=True) if b} if any(step) else {Fraction(1, 2)}
    fixed = all(not a for a, b in zip(moved, step, strict=True) if not b)
    return fixed and len(turns) == 1 and min(turns).denominator == 1


def _names(answer: Answer) -> list[str]:
    """The names of coordinates, in order."""
    return sorted(_name(part) for part in answer.parts)


def _entries(answer: Answer) -> list[Node | None]:
    """Coordinates in brackets, in a column, or by name, in the order of the names; empty for anything else."""
    if answer.kind == "collection":
        sides = {_name(part): part.parts[1].node for part in answer.parts if part.kind == "equation"}
        return [sides[name] for name in sorted(sides)] if len(sides) == len(answer.parts) else []
    is_interval = answer.kind == "tuple" and (answer.brackets != "()" or answer.variable)
    return [] if is_interval else [entry.node for entry in answer.entries]


def is_factor(node: Node) -> bool:
    """True if it may stand before a direction: a number, a parameter, or both."""
    return kinds_of(node) <= {"number", "name", "*", "/"} and names_of(node) <= _PARAMETERS


def _linear(entries: list[Node | None]) -> Flat | None:
    """The point and the directions of entries that are linear in parameters."""
    if not 2 <= len(entries) <= 4 or None in entries:
        return None
    nodes = [entry for entry in entries if entry]
    free = sorted(frozenset[str]().union(*map(names_of, nodes)))
    if not 1 <= len(free) <= _MOST_PARAMETERS or not _PARAMETERS.issuperset(free):
        return None
    if any(kinds_of(node) - {"+", "-", "*", "/", "number", "name"} for node in nodes):
        return None
    origin = dict.fromkeys(free, Fraction(0))
    point = [rational_value(node, origin) for node in nodes]
    steps = [[rational_value(node, origin | {name: Fraction(1)}) for node in nodes] for name in free]
    probe = {name: Fraction(2 + 3 * i) for i, name in enumerate(free)}
    far = [rational_value(node, probe) for node in nodes]
    if None in point or None in far or any(None in step for step in steps):
        return None
    begin = [value or Fraction(0) for value in point]
    directions = [[(a or Fraction(0)) - b for a, b in zip(step, begin, strict=True)] for step in steps]
    for i, value in enumerate(far):
        if value != begin[i] + sum(
            direction[i] * probe[name] for direction, name in zip(directions, free, strict=True)
        ):
            return None
    return begin, directions


def _canonical(point: list[Fraction], directions: list[list[Fraction]]) -> Flat | None:
    """The line or plane in reduced row echelon form; the point is zero where a direction leads."""
    rows, leads = [[*row] for row in directions], list[int]()
    for column in range(len(point)):
        pivot = next((row for row in rows[len(leads) :] if row[column]), None)
        if pivot is None:
            continue
        at = len(leads)
        place = next(i for i in range(at, len(rows)) if rows[i] is pivot)
        rows[place], rows[at] = rows[at], [each / pivot[column] for each in pivot]
        for i, row in enumerate(rows):
            if i != at and row[column]:
                rows[i] = [a - row[column] * b for a, b in zip(row, rows[at], strict=True)]
        leads.append(column)
    if len(leads) < len(directions):
        return None  # a parameter too many
    for row, column in zip(rows, leads, strict=True):
        point = [a - point[column] * b for a, b in zip(point, row, strict=True)]
    return point, rows


def _symmetric(answer: Answer) -> Flat | None:
    point, direction = dict[str, Fraction](), dict[str, Fraction]()
    for part in answer.parts:
        names = names_of(part.node) if part.node and not part.percent and part.unit is None else frozenset()
        if len(names) != 1 or not names <= {*_COORDINATES} or kinds_of(part.node or ()) - {*"+-*/", "number", "name"}:
            return None
        [name] = names
        crossing = linear(part.node or (), name)
        if name in point or crossing is None:
            return None
        point[name], direction[name] = crossing[0], 1 / crossing[1]
    if len(point) < 2:
        return None
    names = sorted(point)
    return _canonical([point[name] for name in names], [[direction[name] for name in names]])


def combined(terms: list[tuple[int, Node, list[Node]]]) -> list[Node] | None:
    """The entries of a sum of vectors, each with a sign and a factor."""
    length = {len(vector) for _, _, vector in terms}
    if len(length) != 1:
        return None
    entries = []
    for place in range(*length):
        parts = [
            ("*", factor, vector[place]) if sign > 0 else ("-", ("number", Fraction(0)), ("*", factor, vector[place]))
            for sign, factor, vector in terms
        ]
        entries.append(list(itertools.accumulate(parts, lambda one, other: ("+", one, other)))[-1])
    return entries
