r"""Solutions with a free letter: numbers for each integer (`x = \frac{\pi}{4} + k\pi`), lines, planes, integrals.

The letter has any name, and a solution any beginning and direction.
"""

import itertools
from fractions import Fraction

from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.nodes import Node, kinds_of, names_of, rational_value, replaced
from ratchet.verifiers.math.numeric import constant_value, same_value
from ratchet.verifiers.math.points import drawn
from ratchet.verifiers.math.readings import without_constant

INTEGERS = frozenset("klmnpqj")
_PARAMETERS = frozenset("tskrumnpqahcvw") | {"\\lambda", "\\mu", "\\alpha", "\\beta"}
_COORDINATES = ("x", "y", "z", "w")
_CLOSE = Fraction(1, 10**30)
_MOST_PARAMETERS = 3
Flat = tuple[list[Fraction], list[list[Fraction]]]
"""A point and independent directions, reduced: the same for the same line or plane."""


def same_progression(one: Node, other: Node) -> bool:
    """True if a + bk and c + dm are the same numbers for all integers: b is ±d, and divides a - c."""
    ours, theirs = _progression(one), _progression(other)
    if not ours or not theirs or abs(abs(ours[1]) - abs(theirs[1])) > _CLOSE * abs(ours[1]):
        return False
    steps = (ours[0] - theirs[0]) / ours[1]
    return abs(steps - round(steps)) < _CLOSE


def _progression(node: Node) -> tuple[Fraction, Fraction] | None:
    """Beginning and step of numbers that are linear in one integer."""
    names = names_of(node)
    if len(names) != 1 or not names <= INTEGERS or kinds_of(node) - {"+", "-", "*", "/", "number", "name", "root"}:
        return None
    at = [constant_value(replaced(node, {("name", *names): ("number", Fraction(each))})) for each in range(3)]
    if None in at:
        return None
    zero, one, two = (each or Fraction(0) for each in at)
    step = one - zero
    return (zero, step) if step and abs(two - one - step) <= _CLOSE * abs(step) else None


def in_residue_class(congruence: Answer, equation: Answer) -> bool:
    """`n = 7k + 2` for `n \\equiv 2 \\pmod 7`."""
    residue, modulus = (part.value for part in congruence.parts)
    found = _progression(equation.node) if equation.node else None
    if found is None or residue is None or not modulus or abs(found[1]) != modulus:
        return False
    return (found[0] - residue) % modulus == 0


def is_of_integers(answer: Answer) -> bool:
    """True if it is a number for each integer, such as k\\pi."""
    names = names_of(answer.node) if answer.kind == "scalar" and answer.node else frozenset()
    return len(names) == 1 and names <= INTEGERS


def differ_by_constant(one: Node, other: Node, work: list[int]) -> bool:
    """True if two integrals with an arbitrary constant differ by a number: they gain the same between two points."""
    ours, theirs = without_constant(one), without_constant(other)
    if ours is None or theirs is None or names_of(ours) != names_of(theirs) or len(names_of(ours)) != 1:
        return False
    [name] = names_of(ours)
    shifted = {("name", name): ("+", ("name", name), ("number", drawn(one, other)))}
    ours, theirs = (("-", node, replaced(node, shifted)) for node in (ours, theirs))
    return same_value(ours, theirs, work) is True


def flat(answer: Answer) -> Flat | None:
    """The line or plane that an answer describes with parameters."""
    return _of_equations(answer) if answer.kind in ("equation", "collection") else _of_entries(answer)


def same_lattice(one: Answer, other: Answer) -> bool:
    """True if both are the same points for all integers: x = 2 + 5t, y = -1 - 3t and (-3 + 5n, 2 - 3n)."""
    ours, theirs = _of_integers(one), _of_integers(other)
    if not ours or not theirs or len(ours[0]) != len(theirs[0]) or len(ours[1]) != 1 or len(theirs[1]) != 1:
        return False
    [step], [got_step] = ours[1], theirs[1]
    if got_step not in (step, [-each for each in step]):
        return False
    moved = [a - b for a, b in zip(ours[0], theirs[0], strict=True)]
    turns = {a / b for a, b in zip(moved, step, strict=True) if b} if any(step) else {Fraction(1, 2)}
    fixed = all(not a for a, b in zip(moved, step, strict=True) if not b)
    return fixed and len(turns) == 1 and min(turns).denominator == 1


def _of_integers(answer: Answer) -> Flat | None:
    """The point and the step of coordinates that are given by name, in the order of the names, or in brackets."""
    if answer.kind != "collection":
        return _linear([entry.node for entry in answer.parts]) if answer.kind == "tuple" else None
    sides = {part.parts[0].text: part.parts[1].node for part in answer.parts if part.kind == "equation"}
    return _linear([sides[name] for name in sorted(sides)]) if len(sides) == len(answer.parts) else None


def is_factor(node: Node) -> bool:
    """True if it may stand before a direction: a number, a parameter, or both."""
    return kinds_of(node) <= {"number", "name", "*", "/"} and names_of(node) <= _PARAMETERS


def _of_entries(answer: Answer) -> Flat | None:
    """Of `(1 + 3t, -t, 2 + t)`, also as a column."""
    is_column = answer.kind == "matrix" and all(len(row.parts) == 1 for row in answer.parts)
    entries = [row.parts[0] for row in answer.parts] if is_column else [*answer.parts]
    if answer.kind == "tuple" and (answer.brackets != "()" or answer.variable):
        return None
    return _reduced([entry.node for entry in entries])


def _reduced(entries: list[Node | None]) -> Flat | None:
    found = _linear(entries)
    return found and _canonical(*found)


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
    """In reduced row echelon form; the point is zero where a direction leads."""
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


def _of_equations(answer: Answer) -> Flat | None:
    """Of `x = 1 + 3t, y = -t, z = 2 + t` and `\\frac{x-1}{3} = \\frac{y}{-1} = z - 2`."""
    if answer.kind == "equation":
        return None if answer.words else _symmetric(answer)
    sides = {part.parts[0].text: part.parts[1].node for part in answer.parts if part.kind == "equation"}
    names = [name for name in _COORDINATES if name in sides]
    if len(names) != len(answer.parts) or answer.words == "or":
        return None
    return _reduced([sides[name] for name in names])


def _symmetric(answer: Answer) -> Flat | None:
    point, direction = dict[str, Fraction](), dict[str, Fraction]()
    for part in answer.parts:
        names = names_of(part.node) if part.node and not part.percent and part.unit is None else frozenset()
        if len(names) != 1 or not names <= {*_COORDINATES} or kinds_of(part.node or ()) - {*"+-*/", "number", "name"}:
            return None
        [name] = names
        zero, one, two = (rational_value(part.node or (), {name: Fraction(at)}) for at in range(3))
        if name in point or zero is None or one is None or two is None or one - zero != two - one or one == zero:
            return None
        point[name], direction[name] = zero / (zero - one), 1 / (one - zero)
    if len(point) < 2:
        return None
    return _canonical(
        [point[name] for name in sorted(point, key=_COORDINATES.index)],
        [[direction[name] for name in sorted(point, key=_COORDINATES.index)]],
    )


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
