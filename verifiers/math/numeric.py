"""Do two expressions have the same value? Evaluated at points, with error bounds, to a proof either way.

A difference larger than its error bound at one point refutes equality. A difference of zero is proven where both sides
are algebraic there (integers, + - * /, powers, roots): then it is either exactly zero or larger than a bound that its
operations give (Burnikel, Funke, Mehlhorn, Schirra and Schmitt 2001), and enough digits tell which. With variables,
two points with random 32-bit coordinates stand for all; π and e, when both are algebraic in them, are variables too.

No process, no rounding to doubles, no signal: ball arithmetic of bounded precision (Arb, in FLINT: Johansson 2017) on
what a small grammar accepts. Everything else is left to computer algebra.
"""

from __future__ import annotations

import hashlib
import math
import operator
import random
import threading
from collections.abc import Iterator
from fractions import Fraction

from flint import acb, arb, ctx, fmpq

from ratchet.verifiers.math.expression import Node, Point, Unsupported, parse_expression, rational_value

_OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
_PROBE_BITS = 192
_MOST_BITS = 8192
_LARGEST_EXPONENT = 512
_LARGEST_ARGUMENT = arb(2) ** 40
_precision = threading.RLock()
"""FLINT has one precision for all threads: bounds hold at any, but what can be told depends on it."""


def same_value(one: str, other: str) -> bool | None:
    """Are two normalized expressions equal wherever both are real (or as complex numbers)? None: cannot tell."""
    left, right = parse_expression(one), parse_expression(other)
    if left is None or right is None:
        return None
    difference = ("-", left.node, right.node)
    names = sorted(left.names | right.names)
    exponential = left.exponential or right.exponential
    agreed = 0
    for point, constants in _points(names, exponential, one + "\0" + other):
        try:
            if not _value(difference, point, _PROBE_BITS).contains(0):
                return False
            if not (left.algebraic and right.algebraic) or exponential:
                return None
            # As functions of π and e: equal ones are equal; unequal ones are left to algebra.
            if not _proven_zero(difference, point | constants):
                return None if left.transcendental or right.transcendental else False
            agreed += 1
        except (Unsupported, ZeroDivisionError, ValueError, OverflowError):
            continue
        if agreed == 2 or not names:
            return True
    return None


def constant_value(text: str, digits: int = 40) -> Fraction | None:
    """The value of a real expression without variables, to about `digits` digits after the point; None when not one."""
    parsed = parse_expression(text)
    if parsed is None or parsed.names:
        return None
    try:
        value = _value(parsed.node, {}, _PROBE_BITS)
    except (Unsupported, ZeroDivisionError, ValueError, OverflowError):
        return None
    if not value.imag.is_zero() or value.real.rad() > arb(10) ** -digits:
        return None
    mantissa, exponent = value.real.mid().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


# --------------------------------------------------------------------------------------------- points


def _points(names: list[str], exponential: bool, salt: str) -> Iterator[tuple[Point, Point]]:
    """Where to look, and what to put for π and e: positive first, then of mixed signs.

    Drawn from the pair itself, so that nobody can aim at the points.
    """
    draw = random.Random(hashlib.sha256(salt.encode("utf-8", "surrogatepass")).digest())
    for attempt in range(6 if names else 1):
        point = {}
        for name in names:
            size = draw.randrange(5, 40) if exponential else draw.randrange(2**31, 2**32)
            point[name] = Fraction(-size if attempt % 3 and draw.random() < 0.6 else size)
        yield point, {name: Fraction(draw.randrange(2**31, 2**32)) for name in ("\\pi", "e")}


# ------------------------------------------------------------------------------------------ evaluation


def _value(node: Node, point: Point, bits: int) -> acb:
    with _precision, ctx.workprec(bits):
        return _evaluate(node, point)


def _proven_zero(difference: Node, point: Point) -> bool:
    """Exactly zero? Either |E| = 0 or log2 |E| >= -((D - 1) log2 u(E) + log2 l(E))."""
    degree = [1]
    upper, lower = _bounds(difference, point, degree)
    bits = math.ceil((degree[0] - 1) * upper + lower) + 32
    for precision in (bits + 2 * math.ceil(upper) + 96, 3 * bits + 6 * math.ceil(upper)):
        if precision > _MOST_BITS:
            raise Unsupported
        value = _value(difference, point, precision)
        if value.abs_upper() < arb(2) ** -bits:
            return True
        if not value.contains(0):
            return False
    raise Unsupported


def _bounds(node: Node, point: Point, degree: list[int]) -> tuple[float, float]:
    """log2 of u and l of the bound; multiplies `degree` by the index of each root, each root's once an occurrence."""
    kind = node[0]
    if kind in ("number", "name"):
        value = node[1] if kind == "number" else (Fraction(1) if node[1] == "i" else point[node[1]])
        return math.log2(max(1, abs(value.numerator))), math.log2(value.denominator)
    if kind in "+-":
        (one_u, one_l), (two_u, two_l) = _bounds(node[1], point, degree), _bounds(node[2], point, degree)
        return max(one_u + two_l, two_u + one_l) + 1, one_l + two_l
    if kind == "*":
        (one_u, one_l), (two_u, two_l) = _bounds(node[1], point, degree), _bounds(node[2], point, degree)
        return one_u + two_u, one_l + two_l
    if kind == "/":
        (one_u, one_l), (two_u, two_l) = _bounds(node[1], point, degree), _bounds(node[2], point, degree)
        return one_u + two_l, one_l + two_u
    if kind == "^":
        exponent = _fixed_exponent(node[2], point)
        upper, lower = _bounds(node[1], point, degree)
        if exponent < 0:
            upper, lower = lower, upper
        size = abs(exponent.numerator)
        upper, lower = upper * size, lower * size
        if exponent.denominator > 1:
            return _root_bounds(upper, lower, exponent.denominator, degree)
        return upper, lower
    if kind == "root":
        return _root_bounds(*_bounds(node[1], point, degree), node[2], degree)
    raise Unsupported


def _root_bounds(upper: float, lower: float, index: int, degree: list[int]) -> tuple[float, float]:
    degree[0] *= index
    if degree[0] > 1024:
        raise Unsupported
    if upper >= lower:
        return (upper + (index - 1) * lower) / index, lower
    return upper, ((index - 1) * upper + lower) / index


def _fixed_exponent(node: Node, point: Point) -> Fraction:
    value = rational_value(node, point)
    if value is None or abs(value.numerator) > _LARGEST_EXPONENT or value.denominator > 64:
        raise Unsupported
    return value


def _evaluate(node: Node, point: Point) -> acb:
    value = _operation(node, point)
    if not value.is_finite():  # a division by what may be zero
        raise Unsupported
    return value


def _operation(node: Node, point: Point) -> acb:
    kind = node[0]
    if kind == "number":
        return _exact(node[1])
    if kind == "name":
        if node[1] in point:
            return _exact(point[node[1]])
        return {"i": lambda: acb(0, 1), "e": lambda: acb(arb.const_e()), "\\pi": acb.pi}[node[1]]()
    if kind in ("factorial", "binomial"):
        value = rational_value(node, point)
        if value is None:
            raise Unsupported
        return _exact(value)
    value = _evaluate(node[1], point)
    if kind == "^":
        return _power(value, node[2], point)
    if kind == "root":
        return _root(value, node[2], point)
    if kind == "abs":
        return acb(abs(value))
    if kind not in _OPERATORS:
        return _function(kind, value)
    return _OPERATORS[kind](value, _evaluate(node[2], point))


def _exact(value: Fraction) -> acb:
    return acb(fmpq(value.numerator, value.denominator))


def _power(base: acb, power: Node, point: Point) -> acb:
    exponent = rational_value(power, point)
    if exponent is None:
        return (_evaluate(power, point) * _positive(base).log()).exp()
    if abs(exponent.numerator) > _LARGEST_EXPONENT or exponent.denominator > 64:
        raise Unsupported
    if exponent.denominator > 1:  # a fractional power of what is not positive has several meanings
        base = _root(_positive(base), exponent.denominator, point)
    if exponent == 0 and base.contains(0):
        raise Unsupported
    return base ** int(exponent.numerator)


def _positive(value: acb) -> acb:
    if not value.imag.is_zero() or not value.real > 0:
        raise Unsupported
    return value


def _root(value: acb, index: int, point: Point) -> acb:
    if value.contains(0):  # zero, as far as one can tell: the root is small too
        bound = value.abs_upper().root(index).upper()
        return acb(arb(0, bound), arb(0, bound))
    if not value.imag.is_zero():
        if index != 2 or (not value.real > 0 and value.imag.contains(0)):
            raise Unsupported  # on which side of the cut?
        return value.sqrt()
    if value.real > 0:
        return acb(value.real.root(index))
    if index % 2:
        return -acb((-value.real).root(index))
    if index != 2 or point.keys() - {"\\pi", "e"}:  # with variables: outside the real domain, roots do not multiply
        raise Unsupported
    return value.sqrt()


def _function(kind: str, value: acb) -> acb:
    """Real arguments of moderate size, but for exp."""
    if not value.abs_upper() < _LARGEST_ARGUMENT:
        raise Unsupported
    if kind == "\\exp":
        return value.exp()
    if not value.imag.is_zero():
        raise Unsupported
    if kind == "\\ln":
        return _positive(value).log()
    return getattr(value, {"\\arctan": "atan"}.get(kind, kind[1:]))()
