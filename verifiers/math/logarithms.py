"""Compare products of factorials, binomials and powers by their logarithms: `\\binom{2023}{1011}` has 607 digits, and
is never multiplied out."""

from fractions import Fraction

from flint import arb, ctx, fmpq

from ratchet.verifiers.math.nodes import Node, rational_value
from ratchet.verifiers.math.precision import PRECISION

PRODUCTS = {"factorial", "binomial"}
_BITS, _AGREED = 2048, 1600
_LARGEST = 10**9


def same_product(one: Node, other: Node) -> bool | None:
    """True if two products of positive numbers, powers and factorials are equal; None for anything else."""
    with PRECISION, ctx.workprec(_BITS):
        ours, theirs = _logarithm(one), _logarithm(other)
        if ours is None or theirs is None:
            return None
        difference = ours - theirs
        if not difference.contains(0):
            return False
        return True if difference.abs_upper() < arb(2) ** -_AGREED else None


def _logarithm(node: Node) -> arb | None:
    kind = node[0]
    if kind == "number":
        return _exact(node[1]).log() if node[1] > 0 else None
    if kind in ("*", "/"):
        one, two = _logarithm(node[1]), _logarithm(node[2])
        return None if one is None or two is None else one + two if kind == "*" else one - two
    if kind == "^":
        base, exponent = _logarithm(node[1]), rational_value(node[2])
        return None if base is None or exponent is None or abs(exponent) > _LARGEST else base * _exact(exponent)
    if kind == "factorial":
        return _of_factorial(rational_value(node[1]))
    if kind == "binomial":
        above, below = rational_value(node[1]), rational_value(node[2])
        if above is None or below is None:
            return None
        whole, part, rest = (_of_factorial(each) for each in (above, below, above - below))
        return None if whole is None or part is None or rest is None else whole - part - rest
    return None


def _of_factorial(value: Fraction | None) -> arb | None:
    is_natural = value is not None and value.denominator == 1 and 0 <= value <= _LARGEST
    return (_exact(value) + 1).lgamma() if is_natural and value is not None else None


def _exact(value: Fraction) -> arb:
    return arb(fmpq(value.numerator, value.denominator))
