"""Points where an expression may change its law: |x - c|, \\sqrt{(x - c)^2} and floors.

Whatever else is evaluated here is analytic: it is the same everywhere if it is the same at random points. These are
not, and random points of usual sizes may all be on one side of c. So there are points on both sides of every zero of
what is linear, and at every size of the constants in the rest.
"""

import itertools
import random
from collections.abc import Iterator
from fractions import Fraction

from ratchet.verifiers.math.nodes import Node, Point, linear, names_of, nodes_of, rational_value

KINKED = {"abs", "floor", "root"}
_MOST_KINKS, _MOST_RUNGS = 12, 6
_USUAL_BITS = 6
"""Random points have sizes up to 60."""


def far_points(node: Node, names: list[str], draw: random.Random) -> Iterator[Point]:
    """Each moves one name, and has the others at random."""
    arguments = {_base(each[1]) for each in nodes_of(node) if each[0] in KINKED and names_of(each[1])}
    for name in names:
        inside = sorted((each for each in arguments if name in names_of(each)), key=repr)[:_MOST_KINKS]
        others = {each: Fraction(draw.randrange(2**31, 2**33), 2**31) for each in names}
        zeros = [linear(each, name, others) for each in inside]
        places = _between(sorted({zero[0] for zero in zeros if zero is not None}))
        curved = [each for each, zero in zip(inside, zeros, strict=True) if zero is None]
        for place in places + _ladder(curved):
            yield others | {name: place * (1 + Fraction(draw.getrandbits(30), 2**60))}


def _base(node: Node) -> Node:
    """x - c of (x - c)^2, whose root has its kink where that is zero."""
    return _base(node[1]) if node[0] == "^" and node[2][0] == "number" else node


def _between(zeros: list[Fraction]) -> list[Fraction]:
    """A place before, between and behind these."""
    if not zeros:
        return []
    middle = [(one + other) / 2 for one, other in itertools.pairwise(zeros)]
    return [zeros[0] - abs(zeros[0]) - 1, *middle, zeros[-1] + abs(zeros[-1]) + 1]


def _ladder(curved: list[Node]) -> list[Fraction]:
    """Powers of two, of both signs, over the sizes of the constants."""
    constants = {abs(value) for node in curved for each in nodes_of(node) if (value := rational_value(each))}
    bits = [size.numerator.bit_length() - size.denominator.bit_length() for size in constants]
    low, high = min(bits, default=0), max(bits, default=0)
    if low >= -_USUAL_BITS and high <= _USUAL_BITS:
        return []
    step = max(1, (high - low + 4) // _MOST_RUNGS)
    return [sign * Fraction(2) ** rung for rung in range(high + 2, low - 3, -step) for sign in (1, -1)]
