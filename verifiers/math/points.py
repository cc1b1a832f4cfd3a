r"""Sample points of a comparison: of every sign and several sizes, complex or whole if that tells more, and on both
sides of every kink."""

import functools
import hashlib
import itertools
import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from flint import acb, arb, fmpq

from ratchet.verifiers.math.nodes import Node, Point, kinds_of, linear, names_of, nodes_of, rational_value

_WHOLE_TURNS = 24
_WHOLE = frozenset("nmkN")
"""Beside a floor they are whole numbers: \\lfloor n/2 \\rfloor."""


def sample_points(difference: Node) -> Iterator[Point]:
    """Sample points of two sides, drawn with the pair itself as seed, so that an answer cannot aim at them. Terms that
    it adds, such as `+0!-1` or `+|z|-|z|`, cannot keep its variables whole or positive."""
    names, kinds = sorted(names_of(difference)), kinds_of(difference)
    if not names:
        yield {}
        return
    may_be_complex = kinds & {"abs", "conjugate"} or any("^*" in name for name in names)
    whole = _whole_names(difference)
    if not may_be_complex and not whole:  # nearly all that differ do so here, and need no drawing
        yield {name: _drawn_once(name) for name in names}
    draw = random.Random(hashlib.sha256(repr(difference).encode("utf-8", "surrogatepass")).digest())
    whole_values = functools.partial(_whole_values, draw, draw.randrange(3, 12) if whole else 3)
    if may_be_complex and (planar := sorted(_complex_names(difference))):
        for turn in range(8):
            sizes = (Fraction(draw.randrange(2**28, 2**33), 2**31) for _ in names)
            point: Point = {name: draw.choice((1, -1)) * size for name, size in zip(names, sizes, strict=True)}
            point |= whole_values(whole, turn)
            point |= {name: acb(*(arb(fmpq(draw.randrange(-(2**33), 2**33), 2**31)) for _ in "ri")) for name in planar}
            stars = [name for name in planar if name.rstrip("(").endswith("^*")]
            yield point | {name: point[name.replace("^*", "")].conjugate() for name in stars}
        return
    count = len(names)
    signs = [[1] * count, [-1] * count, [1] * count]
    signs += [[-1 if j == i else 1 for j in range(count)] for i in range(min(4, count)) if count > 1]
    signs += [[draw.choice((1, -1)) for _ in names] for _ in range(3 if count > 2 else 0)]
    for low, high in () if len(whole) == count else ((1.05, 4), (0.03, 0.95), (5, 60)):
        for turn, each in enumerate(signs):
            sizes = (Fraction(draw.randrange(int(low * 2**31), int(high * 2**31)), 2**31) for _ in names)
            point = {name: sign * size for name, sign, size in zip(names, each, sizes, strict=True)}
            yield point | whole_values(whole, turn)
    if len(whole) < count and kinds & KINKED:
        for turn, point in enumerate(far_points(difference, [name for name in names if name not in whole], draw)):
            yield point | whole_values(whole, turn)
    for turn in range(_WHOLE_TURNS if whole else 3):
        yield whole_values(names, turn)


def _whole_names(difference: Node) -> list[str]:
    """The names that only have whole values: in factorials and binomials of both sides, or those of a floor, or in the
    first side, the reference, in the exponent of a negative number, (-1)^n, or in \\cos n\\pi."""
    of_each = [
        {name for each in nodes_of(side) if each[0] in ("factorial", "binomial") for name in names_of(each)}
        for side in difference[1:]
    ]
    names = names_of(difference)
    has_floor = names <= _WHOLE and any(each[0] == "floor" and names_of(each) for each in nodes_of(difference))
    alternating = {
        name
        for each in nodes_of(difference[1])
        if each[0] == "^" and (rational_value(each[1]) or 0) < 0
        for name in names_of(each[2])
    } | {
        name
        for each in nodes_of(difference[1])
        if each[0] in ("sin", "cos") and "\\pi" in kinds_of(each[1], names=True)
        for name in names_of(each[1])
        if names_of(each[1]) == {name} and name in _WHOLE
    }
    return sorted(names if has_floor else set.intersection(*of_each) | alternating)


def _whole_values(draw: random.Random, start: int, names: list[str], turn: int) -> Point:
    if len(names) == 1 and turn % 4 == 3:  # powers of two, where the floor of a logarithm moves
        return {names[0]: Fraction(2 ** draw.randrange(1, 6))}
    if len(names) == 1:  # one after the other: (-1)^n and \\lfloor n/5\\rfloor may differ at few
        return {names[0]: Fraction(start + turn - turn // 4)}
    # Odd ones and even ones in turn; small ones, for (-1)^{nm}.
    even = [2 * draw.randrange(2, 11) for _ in names]
    chosen = sorted((each + 1 - (turn >> i) % 2 for i, each in enumerate(even)), reverse=turn % 2 == 1)
    return {name: Fraction(value) for name, value in zip(names, chosen, strict=True)}


def _complex_names(node: Node) -> set[str]:
    """The names in a conjugate (also c^*), in the absolute value of a z or a w, and the c of |c|^2."""
    kind, names = node[0], set[str]()
    if kind == "conjugate" or (kind == "abs" and {name[0] for name in names_of(node)} & {"z", "w"}):
        names |= names_of(node)
    elif kind == "^" and node[1][0] == "abs" and node[1][1][0] in ("name", "call", "applied"):
        names |= names_of(node[1][1][:2]) - {"x", "y", "t", "n"}
    elif kind in ("name", "call", "applied") and node[1].endswith("^*"):
        name = node[1] + "(" * (kind != "name")
        names |= {name, name.replace("^*", "")}
    return names.union(*(_complex_names(part) for part in node[1:] if isinstance(part, tuple)))


def drawn(*seed: Any) -> Fraction:
    """A number between 1/2 and 2 that depends on the seed alone."""
    digest = hashlib.sha256(repr(seed).encode("utf-8", "surrogatepass")).digest()
    return Fraction(1, 2) + Fraction(3 * int.from_bytes(digest[:6]), 2**49)


_drawn_once = functools.lru_cache(maxsize=1024)(drawn)


KINKED = {"abs", "floor", "root"}
_MOST_KINKS, _MOST_RUNGS = 12, 6
_USUAL_BITS = 6
"""Random points have sizes up to 60."""


def far_points(node: Node, names: list[str], draw: random.Random) -> Iterator[Point]:
    """Points that each move one name far, with the others at random."""
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
