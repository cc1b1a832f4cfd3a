"""Decide whether two expressions have the same value, by ball arithmetic with error bounds at sample points (Arb, in
FLINT: Johansson 2017).

A difference larger than its error bound at one point disproves equality. For equality the difference must vanish at
every sampled point, to more bits than expressions of that size are known to approach zero without being zero (van der
Hoeven 2001, witness conjectures; for algebraic numbers a theorem with larger constants). With variables the points are
random, of every sign and several sizes, complex if that helps, and small integers where only those have a meaning. Two
expressions are equal if they are wherever both are real. Work is limited.
"""

import functools
import math
import operator
import random
from fractions import Fraction
from typing import Any

from flint import acb, acb_mat, arb, ctx, fmpq

from ratchet.verifiers.math.logarithms import PRODUCTS, same_product
from ratchet.verifiers.math.nodes import Node, Point, Undefined, Unsupported, kinds_of, names_of, rational_value
from ratchet.verifiers.math.points import KINKED, drawn, sample_points
from ratchet.verifiers.math.precision import PRECISION

_OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
_OPERATORS |= {"cross": operator.mul, "dot": operator.mul}  # of numbers
_UNCOMMON = {"call", "applied", "series", "product", "rows", "vector", "matrix"}
_ARB = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "ln": "log"}
_ARB |= {"arsinh": "asinh", "arcosh": "acosh", "artanh": "atanh"}
_PROBE_BITS = 192
_MOST_BITS = 8192
MOST_WORK = 4_000_000
"""Operations times bits that the comparison of two answers may cost: about half a second."""
_LARGEST_EXPONENT = 512
_LARGEST_ARGUMENT = arb(2) ** 40
_LARGEST_GROWTH = 2000
"""Logarithm of the largest exponential."""
_LARGEST_GAMMA = 100
"""Largest number whose factorial is computed though it is not whole: of less than 600 bits."""
_AGREEMENTS = 3
_INSENSITIVE = {"number", "name", "+", "-", "*", "/", "sin", "cos", "tan", "sinh", "cosh", "tanh"}
"""Operations for which points of another sign show nothing more."""
_ERRORS = (Unsupported, TypeError, ZeroDivisionError, ValueError, OverflowError)


def same_value(one: Node, other: Node, work: list[int]) -> bool | None:
    """True if two expressions are equal wherever both are real (or as complex numbers); None if undecided. Subtracts
    from `work`."""
    if one == other:
        return True
    difference: Node = ("-", one, other)
    kinds, names, agreed = kinds_of(difference), names_of(difference), 0
    bends = bool(kinds & KINKED) and (_bends(one) or _bends(other))
    if kinds & PRODUCTS and (same := same_product(one, other)) is not None:
        return same
    for point in sample_points(difference):
        try:
            same = _is_zero(difference, point, work)
        except _ERRORS:
            is_positive = all(value > 0 for value in point.values() if isinstance(value, Fraction))
            if (is_positive or bends) and _is_defined(one, point, work) != _is_defined(other, point, work):
                return False  # ln(-x) is not ln x, though they are never both defined; x + ln x - ln x is not |x|
            if _is_number_beside_matrix(one, other, point, work):
                return False
            continue
        if same is False:
            return False
        agreed += bool(same)
        is_whole = all(isinstance(value, Fraction) and value.denominator == 1 for value in point.values())
        if agreed >= _AGREEMENTS and kinds <= _INSENSITIVE and not is_whole:
            break
    return True if agreed >= (_AGREEMENTS if names else 1) else None


def _bends(node: Node) -> bool:
    r"""True if its values for one sign of a variable say little of those for the other: |x|, \lfloor x \rfloor,
    \sqrt{x^2}. In ln|x| the bars say where it is defined, and may be left out."""
    if node[0] == "ln" and node[1][0] == "abs":
        return _bends(node[1][1])
    is_size = node[0] == "root" and node[1][0] == "^" and node[1][2] == ("number", node[2])
    is_bent = node[0] in ("abs", "floor") or is_size
    return bool(is_bent and names_of(node)) or any(_bends(part) for part in node[1:] if isinstance(part, tuple))


def proportional(one: Node, other: Node, positive: bool, work: list[int]) -> bool | None:
    """True if one expression is the other times a constant other than zero, for equations; times a `positive` one, for
    inequalities."""
    if names_of(one) != names_of(other) or not names_of(one):
        return False
    is_constant = all(name.endswith("(") for name in names_of(one))  # N(0) and N(1) are proportional, whatever they are
    ratio, agreed = None, 0
    for point in sample_points(("-", one, other)):
        try:
            with PRECISION, ctx.workprec(_PROBE_BITS):
                above, below = _evaluate(one, point, work), _evaluate(other, point, work)
                if isinstance(above, acb_mat) or isinstance(below, acb_mat):
                    continue
                if above.contains(0) or below.contains(0):
                    continue
                value = above / below
                if is_constant and not ((value - 1).contains(0) or (value + 1).contains(0)):
                    return False
        except _ERRORS:
            continue
        if (ratio is not None and not (ratio - value).contains(0)) or (positive and not value.real > 0):
            return False
        ratio, agreed = value, agreed + 1
    return True if agreed >= _AGREEMENTS else None


def constant_value(node: Node) -> Fraction | None:
    """The value of a real expression without variables, to about 40 decimals; None for any other."""
    try:
        with PRECISION, ctx.workprec(_PROBE_BITS):
            if names_of(node):
                return None
            value = _evaluate(node, {}, [MOST_WORK])
    except _ERRORS:
        return None
    if isinstance(value, acb_mat) or not value.imag.is_zero() or value.real.rad() > arb(10) ** -40:
        return None
    mantissa, exponent = value.real.mid().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def _is_zero(difference: Node, point: Point, work: list[int]) -> bool | None:
    """At this point. Raises one of _ERRORS if a side is undefined, or it costs too much."""
    probe = [work[0], 0]
    try:
        with PRECISION, ctx.workprec(_PROBE_BITS):
            if not all(entry.contains(0) for entry in _entries(_evaluate(difference, point, probe))):
                return False
    finally:
        work[0] = probe[0]
    size = _size(difference, point) + probe[1]  # e^{-1000} is small without being zero
    if 2 * size + 256 > _MOST_BITS:
        raise Unsupported
    with PRECISION, ctx.workprec(2 * size + 256):
        entries = _entries(_evaluate(difference, point, work))
        if all(entry.abs_upper() < arb(2) ** -(size + 128) for entry in entries):
            return True
        return None if all(entry.contains(0) for entry in entries) else False


def _is_number_beside_matrix(one: Node, other: Node, point: Point, work: list[int]) -> bool:
    """True if one of two is a matrix here, and the other a number that is not zero."""
    try:
        with PRECISION, ctx.workprec(_PROBE_BITS):
            sides = sorted(
                (_evaluate(each, point, work) for each in (one, other)), key=lambda s: isinstance(s, acb_mat)
            )
    except _ERRORS:
        return False
    number, matrix = sides
    return isinstance(matrix, acb_mat) and not isinstance(number, acb_mat) and not number.contains(0)


def _is_defined(node: Node, point: Point, work: list[int]) -> bool:
    try:
        with PRECISION, ctx.workprec(_PROBE_BITS):
            _evaluate(node, point, work)
    except Undefined:
        return False
    except _ERRORS:
        pass
    return True


def _size(node: Node, point: Point) -> int:
    """The bits of an expression's numbers, in powers as often as they are multiplied."""
    kind = node[0]
    if kind in ("number", "name"):
        value = node[1] if kind == "number" else point.get(node[1])
        return value.numerator.bit_length() + value.denominator.bit_length() if isinstance(value, Fraction) else 64
    if kind == "product":
        return 64 * _size(node[2], point)
    parts = sum(_size(part, point) for part in node[1:] if isinstance(part, tuple))
    if kind == "^" and (exponent := rational_value(node[2], point)) is not None and exponent.denominator < 1000:
        return parts + _size(node[1], point) * min(_MOST_BITS, abs(exponent.numerator))
    return parts + (1 if kind in _OPERATORS else 32)


def _entries(value: Any) -> list[acb]:
    return value.entries() if isinstance(value, acb_mat) else [value]


def _evaluate(node: Node, point: Point, work: list[int]) -> Any:
    """A number, or a matrix of them."""
    work[0] -= ctx.prec
    if work[0] < 0:
        raise Unsupported
    value = _operation(node, point, work)
    if not all(entry.is_finite() for entry in _entries(value)):  # a division by what may be zero
        raise Unsupported
    return value


@functools.lru_cache(maxsize=1024)
def _drawn_entries(node: Node, salt: str, count: int) -> list[tuple[Fraction, Fraction]]:
    """The real and imaginary parts of a matrix."""
    draw = random.Random(repr((node, salt)))
    return [
        (Fraction(draw.getrandbits(40) - 2**39, 2**39), Fraction(draw.getrandbits(40), 2**40))
        for _ in range(count // 2)
    ]


def _opaque(node: Node, point: Point, work: list[int]) -> acb:
    """An unknown function: a number drawn for its name and the value of its arguments."""
    seed = [node[1].removesuffix("^*")]
    for part in node[2:]:
        for entry in () if part[0] == "text" else _entries(_evaluate(part, point, work)):
            for each in (entry.real, entry.imag):
                seed.append(str((each * arb(2) ** 80 + arb("0.381966")).floor().unique_fmpz()))
        seed += part[1:] if part[0] == "text" else ["|"]
    if "None" in seed:
        raise Unsupported
    sign = point.get(f"{node[1]}(", Fraction(1))
    return _exact(drawn(*seed)) * (_exact(sign) if isinstance(sign, Fraction) else sign)


def _series(node: Node, point: Point, work: list[int]) -> Any:
    """A sum or product over an unknown range: over three indices, with weights that depend on its bounds."""
    is_sum, salt = node[0] == "series", str(sorted(point.items()))
    total: Any = acb(0 if is_sum else 1)
    for turn in range(3):
        places = {name: Fraction(int(drawn(node[1], turn, i) * 20)) for i, name in enumerate(node[3:])}
        weight, term = drawn(node[1], turn, salt), _evaluate(node[2], point | places, work)
        total = total + _exact(weight) * term if is_sum else total * term ** int(8 * weight - 3)
    return total


def _matrix_operation(kind: str, one: Any, other: Any) -> Any:
    if kind in "+-":
        if isinstance(one, acb_mat) and isinstance(other, acb_mat):
            return one + other if kind == "+" else one - other
        matrix, number = (one, other) if isinstance(one, acb_mat) else (other, one)
        if not number.is_zero():
            raise Undefined
        return matrix if kind == "+" or matrix is one else -matrix
    if kind == "cross":
        if not all(isinstance(each, acb_mat) and (each.nrows(), each.ncols()) == (3, 1) for each in (one, other)):
            raise Unsupported
        (a, b, c), (x, y, z) = one.entries(), other.entries()
        return acb_mat(3, 1, [b * z - c * y, c * x - a * z, a * y - b * x])
    if kind == "/" and isinstance(other, acb_mat):
        raise Unsupported
    if kind in ("*", "dot") and isinstance(one, acb_mat) and isinstance(other, acb_mat):
        one = one.transpose() if one.ncols() == other.ncols() == 1 else one
        product = one * other
        return product.entries()[0] if (product.nrows(), product.ncols()) == (1, 1) else product
    return one / other if kind == "/" else one * other


def _operation(node: Node, point: Point, work: list[int]) -> Any:
    kind = node[0]
    if kind not in _UNCOMMON:
        pass
    elif kind in ("call", "applied"):
        takes_matrix = node[1] in ("\\det", "\\tr") and node[2][0] != "text"
        if takes_matrix and isinstance(value := _evaluate(node[2], point, work), acb_mat):
            if value.nrows() != value.ncols():
                raise Unsupported
            return value.det() if node[1] == "\\det" else value.trace()
        return _opaque(node, point, work)
    elif kind in ("series", "product"):
        return _series(node, point, work)
    elif kind == "rows":
        cells = [[_evaluate(cell, point, work) for cell in row[1:]] for row in node[1:]]
        return acb_mat(cells)
    else:
        if node == ("matrix", "I"):
            return acb_mat(3, 3, [int(i % 4 == 0) for i in range(9)])
        rows, columns = node[2:] or (3, 1 if kind == "vector" else 3)
        parts = _drawn_entries(node, str(point.get(node[1])), 2 * rows * columns)
        pairs = ((one, Fraction(0) if kind == "vector" else other) for one, other in parts)
        return acb_mat(rows, columns, [acb(*(fmpq(p.numerator, p.denominator) for p in pair)) for pair in pairs])
    if kind == "name":
        value = {"i": acb(0, 1), "e": acb(1).exp(), "\\pi": acb.pi()}.get(node[1], point.get(node[1]))
        if value is None:
            raise Unsupported
        return _exact(value) if isinstance(value, Fraction) else value
    if kind in ("number", "factorial", "binomial"):
        exact = rational_value(node, point)
        return _by_gamma(node, point, work) if exact is None else _exact(exact)
    if kind == "^":
        return _power(node, point, work)
    value = _evaluate(node[1], point, work)
    if kind in _OPERATORS:
        other = _evaluate(node[2], point, work)
        if type(value) is acb_mat or type(other) is acb_mat:
            return _matrix_operation(kind, value, other)
        return _OPERATORS[kind](value, other)
    if isinstance(value, acb_mat):
        if kind == "abs" and value.ncols() == 1:
            return _root(sum((entry * entry for entry in value.entries()), acb(0)), 2, point)
        if kind == "abs" and value.nrows() == value.ncols():
            return value.det()
        raise Unsupported
    if kind == "root":
        return _root(value, node[2], point)
    if kind == "abs":
        return acb(abs(value))
    if kind == "conjugate":
        return value.conjugate()
    if kind == "floor":
        return acb(_real(value).floor())
    if kind == "log_base":
        if (exponent := _exact_logarithm(node, point)) is not None:
            return acb(exponent)
        return acb(_positive(_evaluate(node[2], point, work)).log() / _positive(value).log())
    # A function: of real arguments of moderate size.
    real = _positive(value) if kind == "ln" else _real(value)
    if not abs(real) < (_LARGEST_GROWTH if kind[-1] == "h" else _LARGEST_ARGUMENT):
        raise Unsupported
    if (kind == "artanh" and not abs(real) < 1) or (kind == "arcosh" and not real >= 1):
        raise Undefined
    if kind[-1] == "h":
        _exponential(acb(real), work)
    return acb(getattr(real, _ARB.get(kind, kind))())


def _exact_logarithm(node: Node, point: Point) -> int | None:
    """3 for log_2 8, whose floor would otherwise stay undecided; None if it is no whole number from 0 to 512."""
    base, power = (rational_value(part, point) for part in node[1:])
    if base is None or power is None or base.denominator > 1 or power.denominator > 1 or base < 2 or power < 1:
        return None
    exponent = round(math.log(power, base))
    return exponent if exponent <= _LARGEST_EXPONENT and base**exponent == power else None


def _by_gamma(node: Node, point: Point, work: list[int]) -> acb:
    """A factorial or a binomial whose argument is no whole number."""
    values = [_real(_evaluate(part, point, work)) for part in node[1:]]
    if not all(abs(value) < _LARGEST_GAMMA for value in values):
        raise Unsupported
    result = (values[0] + 1).gamma()
    if node[0] == "binomial":
        result *= (values[1] + 1).rgamma() * (values[0] - values[1] + 1).rgamma()
    if len(work) > 1 and abs(result) > 1:
        work[1] += 3 * int(abs(result).upper().log().ceil().unique_fmpz() or 0)
    return acb(result)


def _exact(value: Fraction) -> acb:
    return acb(fmpq(value.numerator, value.denominator))


def _power(node: Node, point: Point, work: list[int]) -> Any:
    if node[1] == ("name", "e"):
        value = _evaluate(node[2], point, work)
        return value.exp() if isinstance(value, acb_mat) else _exponential(value, work)
    exponent, base = rational_value(node[2], point), _evaluate(node[1], point, work)
    if isinstance(base, acb_mat):
        if node[2][0] == "name" and node[2][1] in ("\\top", "\\dagger"):
            return base.transpose() if node[2][1] == "\\top" else base.conjugate().transpose()
        if base.ncols() == 1 and exponent == 2:
            return _matrix_operation("*", base, base)
        if base.ncols() == 1 or exponent is None or exponent.denominator > 1 or abs(exponent) > 8:
            raise Unsupported
        return (base.inv() if exponent < 0 else base) ** abs(int(exponent))
    if exponent is None or (exponent.denominator > 1 and max(exponent.denominator, abs(exponent.numerator)) > 64):
        return _exponential(_evaluate(node[2], point, work) * acb(_positive(base).log()), work)
    if abs(exponent.numerator) > _LARGEST_EXPONENT or (exponent == 0 and base.contains(0)):
        raise Unsupported
    if exponent.denominator % 2 and exponent.denominator > 1 and not base.real > 0:
        raise Unsupported  # the real root of a negative number to some, undefined to others
    if exponent.denominator > 1:  # of a negative number it has several meanings
        base = _root(acb(_positive(base)), exponent.denominator, point)
    return base ** int(exponent.numerator)


def _exponential(value: acb, work: list[int]) -> acb:
    if isinstance(value, acb_mat) or not (growth := value.abs_upper()) < _LARGEST_GROWTH:
        raise Unsupported
    if len(work) > 1:
        work[1] += 3 * int(growth.ceil().unique_fmpz() or _LARGEST_GROWTH)
    return value.exp()


def _real(value: acb | acb_mat) -> arb:
    if isinstance(value, acb_mat):  # no function of a matrix but those above is computed
        raise Unsupported
    if not value.imag.is_zero():
        raise Undefined
    return value.real


def _positive(value: acb | acb_mat) -> arb:
    real = _real(value)
    if not real > 0:
        raise Undefined
    return real


def _root(value: acb, index: int, point: Point) -> acb:
    if value.contains(0):  # possibly zero: the root is small too
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
    if index != 2 or point:  # with variables: outside the real domain, roots do not multiply
        raise Undefined
    return value.sqrt()
