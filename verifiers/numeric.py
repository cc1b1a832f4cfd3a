"""Do two expressions have the same value? Evaluated at points, with error bounds, to a proof either way.

A difference larger than its error bound at one point refutes equality. A difference of zero is proven where both sides
are algebraic there (integers, + - * /, powers, roots): then it is either exactly zero or larger than a bound that its
operations give (Burnikel, Funke, Mehlhorn, Schirra and Schmitt 2001), and enough digits tell which. With variables,
two points with random 32-bit coordinates stand for all; π and e, when both are algebraic in them, are variables too.

No process, no rounding to doubles, no signal: only bounded arithmetic on what a small grammar accepts. Everything else
is left to computer algebra.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from mpmath import libmp

from verifiers.expression import Node, Point, Unsupported, parse_expression, rational_value

_PROBE_BITS = 192
_MOST_BITS = 8192
_LARGEST_EXPONENT = 512
_ROUND = "n"
_NOTHING = -(10**9)  # log2 of zero


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
            if _certainly_not_zero(_evaluate(difference, point, _PROBE_BITS)):
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
        (real, imaginary), error = _evaluate(parsed.node, {}, _PROBE_BITS)
    except (Unsupported, ZeroDivisionError, ValueError, OverflowError):
        return None
    if imaginary != libmp.fzero or error > -4 * digits:
        return None
    return Fraction(int(libmp.to_int(libmp.mpf_mul(real, libmp.from_int(10**digits)))), 10**digits)


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


class _Value(NamedTuple):
    """A complex number as mpmath's pair of parts, and log2 of a bound on its error."""

    parts: Any
    error: int


def _certainly_not_zero(value: _Value) -> bool:
    return _size(value.parts) - 1 > value.error


def _size(parts: Any) -> int:
    """The least s with |value| < 2^s, or one more; the value is at least 2^(s - 2)."""
    return max((part[2] + part[3] if part[1] else _NOTHING) for part in parts) + (parts[1] != libmp.fzero)


def _proven_zero(difference: Node, point: Point) -> bool:
    """Exactly zero? Either |E| = 0 or log2 |E| >= -((D - 1) log2 u(E) + log2 l(E))."""
    degree = [1]
    upper, lower = _bounds(difference, point, degree)
    bits = math.ceil((degree[0] - 1) * upper + lower) + 32
    for precision in (bits + 2 * math.ceil(upper) + 96, 3 * bits + 6 * math.ceil(upper)):
        if precision > _MOST_BITS:
            raise Unsupported
        value = _evaluate(difference, point, precision)
        if max(_size(value.parts), value.error) + 1 < -bits:
            return True
        if _certainly_not_zero(value):
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


def _evaluate(node: Node, point: Point, bits: int) -> _Value:
    kind = node[0]
    if kind == "number":
        return _rounded((libmp.from_rational(node[1].numerator, node[1].denominator, bits, _ROUND), libmp.fzero), bits)
    if kind == "name":
        return _leaf(node[1], point, bits)
    if kind in ("+", "-", "*", "/"):
        return _arithmetic(kind, _evaluate(node[1], point, bits), _evaluate(node[2], point, bits), bits)
    if kind == "^":
        return _power(node, point, bits)
    if kind == "root":
        return _root(_evaluate(node[1], point, bits), node[2], point, bits)
    if kind == "factorial":
        value = rational_value(node[1], point)
        if value is None or value.denominator != 1 or not 0 <= value <= 300:
            raise Unsupported
        return _rounded((libmp.from_int(math.factorial(int(value)), bits, _ROUND), libmp.fzero), bits)
    if kind == "binomial":
        top, bottom = rational_value(node[1], point), rational_value(node[2], point)
        if top is None or bottom is None or top.denominator * bottom.denominator != 1 or not 0 <= bottom <= top <= 900:
            raise Unsupported
        return _rounded((libmp.from_int(math.comb(int(top), int(bottom)), bits, _ROUND), libmp.fzero), bits)
    if kind == "abs":
        value = _evaluate(node[1], point, bits)
        return _rounded((libmp.mpc_abs(value.parts, bits), libmp.fzero), bits, value.error)
    return _function(kind, _evaluate(node[1], point, bits), bits)


def _rounded(parts: Any, bits: int, *errors: int) -> _Value:
    """A result with the error of its rounding and those that it inherits."""
    if any(part in (libmp.finf, libmp.fninf, libmp.fnan) for part in parts):
        raise Unsupported
    return _Value(parts, max(_size(parts) - bits, *errors, _NOTHING) + 3)


def _arithmetic(kind: str, one: _Value, two: _Value, bits: int) -> _Value:
    if kind in "+-":
        operation = libmp.mpc_add if kind == "+" else libmp.mpc_sub
        return _rounded(operation(one.parts, two.parts, bits, _ROUND), bits, one.error, two.error)
    size, other = _size(one.parts), _size(two.parts)
    if kind == "*":
        errors = (size + two.error, other + one.error, one.error + two.error)
        return _rounded(libmp.mpc_mul(one.parts, two.parts, bits, _ROUND), bits, *errors)
    if two.error > other - 8:
        raise Unsupported  # perhaps a division by zero
    result = libmp.mpc_div(one.parts, two.parts, bits, _ROUND)
    return _rounded(result, bits, one.error - other + 3, _size(result) + two.error - other + 3)


def _leaf(name: str, point: Point, bits: int) -> _Value:
    if name == "i":
        return _Value((libmp.fzero, libmp.fone), _NOTHING)
    if name in point:
        number = libmp.from_rational(point[name].numerator, point[name].denominator, bits, _ROUND)
    else:
        number = libmp.mpf_pi(bits) if name == "\\pi" else libmp.mpf_e(bits)
    return _rounded((number, libmp.fzero), bits)


def _power(node: Node, point: Point, bits: int) -> _Value:
    base, exponent = _evaluate(node[1], point, bits), rational_value(node[2], point)
    if exponent is None:
        if not _positive(base):
            raise Unsupported
        return _function(
            "\\exp", _arithmetic("*", _evaluate(node[2], point, bits), _function("\\ln", base, bits), bits), bits
        )
    if abs(exponent.numerator) > _LARGEST_EXPONENT or exponent.denominator > 64:
        raise Unsupported
    if exponent.denominator > 1:
        if not _positive(base):
            raise Unsupported  # a fractional power of what is not positive has several meanings
        base = _root(base, exponent.denominator, point, bits)
    if exponent.numerator == 0:
        if not _certainly_not_zero(base):
            raise Unsupported
        return _Value((libmp.fone, libmp.fzero), _NOTHING)
    size = _size(base.parts)
    if exponent.numerator != 1 and base.error > size - 16 - abs(exponent.numerator).bit_length():
        if exponent < 0 or size > base.error + 8:
            raise Unsupported
        bound = (max(size, base.error) + 1) * exponent.numerator  # zero, as far as one can tell
        return _Value((libmp.fzero, libmp.fzero), bound)
    result = libmp.mpc_pow_int(base.parts, exponent.numerator, bits, _ROUND)
    lost = base.error - size + abs(exponent.numerator).bit_length() + 4
    return _rounded(result, bits, _size(result) + max(lost, 10 - bits))


def _positive(value: _Value) -> bool:
    return value.parts[1] == libmp.fzero and not value.parts[0][0] and _certainly_not_zero(value)


def _root(value: _Value, index: int, point: Point, bits: int) -> _Value:
    real, imaginary = value.parts
    size = _size(value.parts)
    if value.error > size - 8:  # zero, as far as one can tell: the root is small too
        return _Value((libmp.fzero, libmp.fzero), (max(size, value.error) + 1) // index + 1)
    if imaginary != libmp.fzero:
        if index != 2 or (real[0] and _size((imaginary, libmp.fzero)) <= value.error + 2):
            raise Unsupported  # on which side of the cut?
        result = libmp.mpc_sqrt(value.parts, bits, _ROUND)
    elif not real[0]:
        root = libmp.mpf_sqrt(real, bits, _ROUND) if index == 2 else libmp.mpf_nthroot(real, index, bits)
        result = (root, libmp.fzero)
    elif index % 2:
        result = (libmp.mpf_neg(libmp.mpf_nthroot(libmp.mpf_neg(real), index, bits)), libmp.fzero)
    elif index != 2 or point.keys() - {"\\pi", "e"}:  # with variables: outside the real domain, roots do not multiply
        raise Unsupported
    else:
        result = (libmp.fzero, libmp.mpf_sqrt(libmp.mpf_neg(real), bits, _ROUND))
    return _rounded(result, bits, _size(result) + value.error - size + 3)


def _function(kind: str, value: _Value, bits: int) -> _Value:
    """Real arguments of moderate size, but for exp."""
    size = _size(value.parts)
    if size > 40 or value.error > -8:
        raise Unsupported
    if kind == "\\exp":
        result = libmp.mpc_exp(value.parts, bits, _ROUND)
        return _rounded(result, bits, _size(result) + value.error + 2)
    real, imaginary = value.parts
    if imaginary != libmp.fzero:
        raise Unsupported
    if kind == "\\arctan":
        return _rounded((libmp.mpf_atan(real, bits, _ROUND), libmp.fzero), bits, value.error)
    if kind == "\\ln":
        if not _positive(value):
            raise Unsupported
        return _rounded((libmp.mpf_log(real, bits, _ROUND), libmp.fzero), bits, value.error - size + 4)
    cosine, sine = (
        _rounded((part, libmp.fzero), bits, value.error, -bits) for part in libmp.mpf_cos_sin(real, bits, _ROUND)
    )
    one = _Value((libmp.fone, libmp.fzero), _NOTHING)
    top, bottom = {
        "\\sin": (sine, one), "\\cos": (cosine, one), "\\tan": (sine, cosine),
        "\\cot": (cosine, sine), "\\sec": (one, cosine), "\\csc": (one, sine),
    }[kind]  # fmt: skip
    return _arithmetic("/", top, bottom, bits)
