"""Do two expressions have the same value? Evaluated at points, to many digits, with a proof where there is one.

A difference seen at one point refutes equality. A difference of zero is proven where both sides are algebraic there
(integers, + - * /, powers, roots): then it is either exactly zero or larger than a bound that its operations give
(Burnikel, Funke, Mehlhorn, Schirra and Schmitt 2001), and enough digits tell which. With variables, two points with
random 32-bit coordinates stand for all; π and e, when both are algebraic in them, are variables too.

No process, no rounding to doubles, no signal: only bounded arithmetic on what a small grammar accepts. Everything else
is left to computer algebra.
"""

from __future__ import annotations

import functools
import hashlib
import math
import random
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from mpmath import libmp

_TOKEN = re.compile(
    r"\s*(\\[A-Za-z]+(?:_\{?\w+\}?)?|\d+(?:\.\d+)?|\.\d+|[A-Za-z](?:_(?:\w|\{\w+\}))?'*|[-+*/^!(){}\[\]|,_])\s*"
)
_SCIENTIFIC = re.compile(r"\de[-+\d]")
_NAMED = {"\\theta", "\\alpha", "\\beta", "\\gamma", "\\delta", "\\lambda", "\\mu", "\\phi", "\\omega", "\\rho"}
_FUNCTIONS = {"\\sin", "\\cos", "\\tan", "\\cot", "\\sec", "\\csc", "\\ln", "\\exp", "\\arctan"}
_PROBE_BITS = 192
_TOLERANCE = libmp.from_man_exp(1, -90)
_MOST_BITS = 8192
_MOST_NODES = 160
_MOST_DEPTH = 30
_LARGEST_EXPONENT = 512
_ROUND = "n"

Node = tuple[Any, ...]
Point = dict[str, Fraction]


class _Unsupported(Exception):
    """Outside the grammar, undefined at this point, or too large to be worth it."""


def same_value(one: str, other: str) -> bool | None:
    """Are two normalized expressions equal wherever both are real (or as complex numbers)? None: cannot tell."""
    left, right = _expression(one), _expression(other)
    if left is None or right is None:
        return None
    difference = ("-", left.node, right.node)
    names = sorted(left.names | right.names)
    exponential = left.exponential or right.exponential
    agreed = 0
    for point, constants in _points(names, exponential, one + "\0" + other):
        try:
            if _clearly_apart(left.node, right.node, point):
                return False
            if not (left.algebraic and right.algebraic) or exponential:
                return None
            # As functions of π and e: equal ones are equal; unequal ones are left to algebra.
            if not _proven_zero(difference, point | constants):
                return None if left.transcendental or right.transcendental else False
            agreed += 1
        except (_Unsupported, ZeroDivisionError, ValueError, OverflowError):
            continue
        if agreed == 2 or not names:
            return True
    return None


def constant_value(text: str, digits: int = 40) -> Fraction | None:
    """The value of a real expression without variables, to about `digits` digits after the point; None when not one."""
    parsed = _expression(text)
    if parsed is None or parsed.names:
        return None
    try:
        real, imaginary = _evaluate(parsed.node, {}, _PROBE_BITS)
    except (_Unsupported, ZeroDivisionError, ValueError, OverflowError):
        return None
    if imaginary != libmp.fzero or not _finite((real, imaginary)):
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


def _clearly_apart(left: Node, right: Node, point: Point) -> bool:
    one, other = _evaluate(left, point, _PROBE_BITS), _evaluate(right, point, _PROBE_BITS)
    gap = libmp.mpc_abs(libmp.mpc_sub(one, other, _PROBE_BITS, _ROUND), 53)
    sizes = [libmp.mpc_abs(one, 53), libmp.mpc_abs(other, 53)]
    largest = sizes[0] if libmp.mpf_gt(sizes[0], sizes[1]) else sizes[1]
    if not (_finite(one) and _finite(other)):
        raise _Unsupported
    if libmp.mpf_gt(gap, libmp.mpf_mul(_TOLERANCE, largest)):
        return libmp.mpf_gt(largest, libmp.from_man_exp(1, -100))
    return False


def _proven_zero(difference: Node, point: Point) -> bool:
    """Exactly zero? Either |E| = 0 or log2 |E| >= -((D - 1) log2 u(E) + log2 l(E))."""
    degree = [1]
    upper, lower = _bounds(difference, point, degree)
    bits = math.ceil((degree[0] - 1) * upper + lower) + 32
    if bits > _MOST_BITS:
        raise _Unsupported
    size = libmp.mpc_abs(_evaluate(difference, point, bits + math.ceil(upper) + 96), 53)
    return libmp.mpf_lt(size, libmp.from_man_exp(1, -bits))


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
    raise _Unsupported


def _root_bounds(upper: float, lower: float, index: int, degree: list[int]) -> tuple[float, float]:
    degree[0] *= index
    if degree[0] > 1024:
        raise _Unsupported
    if upper >= lower:
        return (upper + (index - 1) * lower) / index, lower
    return upper, ((index - 1) * upper + lower) / index


def _fixed_exponent(node: Node, point: Point) -> Fraction:
    value = _rational(node, point)
    if value is None or abs(value.numerator) > _LARGEST_EXPONENT or value.denominator > 64:
        raise _Unsupported
    return value


def _rational(node: Node, point: Point) -> Fraction | None:
    """The exact value of an exponent; None when it is not rational."""
    kind = node[0]
    if kind == "number":
        return node[1]
    if kind == "name":
        value = point.get(node[1])
        return value if node[1] not in ("i", "e", "\\pi") else None
    if kind in "+-*/" and len(node) == 3:
        one, two = _rational(node[1], point), _rational(node[2], point)
        if one is None or two is None or max(one.denominator, two.denominator) > 2**64:
            return None
        if kind == "/":
            return one / two if two else None
        return one + two if kind == "+" else one - two if kind == "-" else one * two
    return None


def _evaluate(node: Node, point: Point, bits: int) -> Any:
    """A complex number to `bits` bits, as mpmath's pair of parts."""
    kind = node[0]
    if kind == "number":
        return libmp.from_rational(node[1].numerator, node[1].denominator, bits, _ROUND), libmp.fzero
    if kind == "name":
        return _leaf(node[1], point, bits)
    if kind in ("+", "-", "*", "/"):
        one, two = _evaluate(node[1], point, bits), _evaluate(node[2], point, bits)
        if kind == "+":
            return libmp.mpc_add(one, two, bits, _ROUND)
        if kind == "-":
            return libmp.mpc_sub(one, two, bits, _ROUND)
        if kind == "*":
            return libmp.mpc_mul(one, two, bits, _ROUND)
        if libmp.mpf_lt(libmp.mpc_abs(two, 53), libmp.from_man_exp(1, -bits // 2)):
            raise _Unsupported  # perhaps a division by zero
        return libmp.mpc_div(one, two, bits, _ROUND)
    if kind == "^":
        return _power(node, point, bits)
    if kind == "root":
        return _root(_evaluate(node[1], point, bits), node[2], point, bits)
    if kind == "factorial":
        value = _rational(node[1], point)
        if value is None or value.denominator != 1 or not 0 <= value <= 300:
            raise _Unsupported
        return libmp.from_int(math.factorial(int(value)), bits, _ROUND), libmp.fzero
    if kind == "binomial":
        top, bottom = _rational(node[1], point), _rational(node[2], point)
        if top is None or bottom is None or top.denominator * bottom.denominator != 1 or not 0 <= bottom <= top <= 900:
            raise _Unsupported
        return libmp.from_int(math.comb(int(top), int(bottom)), bits, _ROUND), libmp.fzero
    if kind == "abs":
        return libmp.mpc_abs(_evaluate(node[1], point, bits), bits), libmp.fzero
    return _function(kind, _evaluate(node[1], point, bits), bits)


def _leaf(name: str, point: Point, bits: int) -> Any:
    if name == "i":
        return libmp.fzero, libmp.fone
    if name in point:
        return libmp.from_rational(point[name].numerator, point[name].denominator, bits, _ROUND), libmp.fzero
    return (libmp.mpf_pi(bits) if name == "\\pi" else libmp.mpf_e(bits)), libmp.fzero


def _power(node: Node, point: Point, bits: int) -> Any:
    base = _evaluate(node[1], point, bits)
    exponent = _rational(node[2], point)
    if exponent is not None and exponent.denominator == 1:
        if abs(exponent) > _LARGEST_EXPONENT:
            raise _Unsupported
        if exponent < 0 and libmp.mpf_lt(libmp.mpc_abs(base, 53), libmp.from_man_exp(1, -bits // 2)):
            raise _Unsupported
        return libmp.mpc_pow_int(base, int(exponent), bits, _ROUND)
    if exponent is not None and exponent.denominator <= 64 and abs(exponent.numerator) <= _LARGEST_EXPONENT:
        if base[0][0] or base[1] != libmp.fzero or base[0] == libmp.fzero:
            raise _Unsupported  # a fractional power of what is not positive has several meanings
        root = _root(base, exponent.denominator, point, bits)
        return libmp.mpc_pow_int(root, exponent.numerator, bits, _ROUND)
    value = _evaluate(node[2], point, bits)
    if base == (libmp.fzero, libmp.fzero) or base[1] != libmp.fzero or base[0][0]:
        raise _Unsupported
    return _function("\\exp", libmp.mpc_mul(value, libmp.mpc_log(base, bits, _ROUND), bits, _ROUND), bits)


def _root(value: Any, index: int, point: Point, bits: int) -> Any:
    real, imaginary = value
    if imaginary != libmp.fzero:
        if index != 2:
            raise _Unsupported
        return libmp.mpc_sqrt(value, bits, _ROUND)
    if not real[0]:
        return (libmp.mpf_sqrt(real, bits, _ROUND) if index == 2 else libmp.mpf_nthroot(real, index, bits)), libmp.fzero
    if index % 2:
        return libmp.mpf_neg(libmp.mpf_nthroot(libmp.mpf_neg(real), index, bits)), libmp.fzero
    if index != 2 or point.keys() - {"\\pi", "e"}:  # with variables: outside the real domain, roots do not multiply
        raise _Unsupported
    return libmp.fzero, libmp.mpf_sqrt(libmp.mpf_neg(real), bits, _ROUND)


def _function(kind: str, value: Any, bits: int) -> Any:
    """Real arguments of moderate size, but for exp."""
    if libmp.mpf_gt(libmp.mpc_abs(value, 53), libmp.from_int(2**40)):
        raise _Unsupported
    if kind == "\\exp":
        return libmp.mpc_exp(value, bits, _ROUND)
    if value[1] != libmp.fzero:
        raise _Unsupported
    real = value[0]
    if kind == "\\arctan":
        return libmp.mpf_atan(real, bits, _ROUND), libmp.fzero
    if kind == "\\ln":
        if real == libmp.fzero or real[0]:
            raise _Unsupported
        return libmp.mpf_log(real, bits, _ROUND), libmp.fzero
    cosine, sine = libmp.mpf_cos_sin(real, bits, _ROUND)
    top, bottom = {
        "\\sin": (sine, libmp.fone), "\\cos": (cosine, libmp.fone), "\\tan": (sine, cosine),
        "\\cot": (cosine, sine), "\\sec": (libmp.fone, cosine), "\\csc": (libmp.fone, sine),
    }[kind]  # fmt: skip
    if libmp.mpf_lt(libmp.mpf_abs(bottom), libmp.from_man_exp(1, -bits // 2)):
        raise _Unsupported
    return libmp.mpf_div(top, bottom, bits, _ROUND), libmp.fzero


def _finite(value: Any) -> bool:
    return all(part not in (libmp.finf, libmp.fninf, libmp.fnan) for part in value)


# --------------------------------------------------------------------------------------------- parsing


class _Expression(NamedTuple):
    node: Node
    names: frozenset[str]
    algebraic: bool
    transcendental: bool  # speaks of π or e
    exponential: bool  # a variable in an exponent or under a factorial: only small integers may be put in


@functools.lru_cache(maxsize=8192)
def _expression(text: str) -> _Expression | None:
    """Parse, or None for what the grammar does not cover or would read in more than one way."""
    try:
        parser = _Parser(text)
        node = parser.sum(0)
        if parser.token() != "":
            return None
    except (_Unsupported, ValueError):
        return None
    return _Expression(
        node, frozenset(parser.names), parser.algebraic, bool({"\\pi", "e"} & set(parser.tokens)), parser.exponential
    )


class _Parser:
    """Sum, product, power, atom: LaTeX as it stands in answers. Juxtaposition multiplies."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        self.position = 0
        self.names: set[str] = set()
        self.algebraic, self.exponential = True, False
        self._in_function = 0
        end = 0
        while end < len(text):
            match = _TOKEN.match(text, end)
            if not match:
                raise _Unsupported
            self.tokens.append(match[1])
            end = match.end()
        if _SCIENTIFIC.search(text) or len(self.tokens) > _MOST_NODES:
            raise _Unsupported

    def token(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def _eat(self, *options: str) -> str:
        token = self.token()
        if token and token in options:
            self.position += 1
            return token
        return ""

    def _expect(self, token: str) -> None:
        if not self._eat(token):
            raise _Unsupported

    def sum(self, depth: int) -> Node:
        if depth > _MOST_DEPTH:
            raise _Unsupported
        node = self._product(depth)
        while sign := self._eat("+", "-"):
            node = (sign, node, self._product(depth))
        return node

    def _product(self, depth: int) -> Node:
        negative = False
        while sign := self._eat("+", "-"):
            negative ^= sign == "-"
        node = self._power(depth)
        divided = False
        while True:
            if self._eat("*", "\\cdot", "\\times"):
                sign = self._eat("-", "+")
                factor = self._power(depth)
                node = ("*", node, ("-", ("number", Fraction(0)), factor) if sign == "-" else factor)
            elif self._eat("/"):
                node, divided = ("/", node, self._power(depth)), True
            elif self._starts_factor():
                if divided:
                    raise _Unsupported  # 1/2x: which of the two?
                node = self._juxtaposed(node, depth)
            else:
                break
        return ("-", ("number", Fraction(0)), node) if negative else node

    def _starts_factor(self) -> bool:
        token = self.token()
        return bool(token) and token not in ")]}+-*/^!|,_"

    def _juxtaposed(self, node: Node, depth: int) -> Node:
        begin = self.position
        factor = self._power(depth)
        plain = self.tokens[begin] == "\\frac" and node[0] == "number" and factor[0] == "/"
        if plain and factor[1][0] == factor[2][0] == "number":
            if not (node[1].denominator == 1 and 0 <= factor[1][1] < factor[2][1]):
                raise _Unsupported
            return ("+", node, factor)  # a mixed number
        if self.tokens[begin][0].isdigit() or self.tokens[begin][0] == ".":
            raise _Unsupported  # two numbers side by side
        return ("*", node, factor)

    def _power(self, depth: int) -> Node:
        node = self._atom(depth)
        while self._eat("!"):
            if node[0] == "factorial" or self.token() == "!":
                raise _Unsupported
            self.exponential |= bool(_names(node))
            self.algebraic = False
            node = ("factorial", node)
        if self._eat("^"):
            if self._in_function and self._eat("\\circ"):
                self.algebraic = False
                return ("/", ("*", node, ("name", "\\pi")), ("number", Fraction(180)))
            negative = bool(self._eat("-"))
            exponent = self._group(depth) if self.token() == "{" else self._atom(depth)
            if self.token() in ("^", "!"):
                raise _Unsupported
            if negative:
                exponent = ("-", ("number", Fraction(0)), exponent)
            if _names(exponent):
                self.exponential = True
            elif _rational(exponent, {}) is None:
                self.algebraic = False
            node = ("^", node, exponent)
        return node

    def _group(self, depth: int, opening: str = "{", closing: str = "}") -> Node:
        self._expect(opening)
        node = self.sum(depth + 1)
        self._expect(closing)
        return node

    def _atom(self, depth: int) -> Node:
        token = self.token()
        self.position += 1
        if not token:
            raise _Unsupported
        if token[0].isdigit() or token[0] == ".":
            return ("number", Fraction(token))
        if token in ("(", "[", "{"):
            self.position -= 1
            return self._group(depth, token, {"(": ")", "[": "]", "{": "}"}[token])
        if token == "|":
            self.algebraic = False
            node = self.sum(depth + 1)
            self._expect("|")
            return ("abs", node)
        if token == "\\frac":
            return ("/", self._group(depth), self._group(depth))
        if token == "\\binom":
            top, bottom = self._group(depth), self._group(depth)
            self.exponential |= bool(_names(top) | _names(bottom))
            self.algebraic = False
            return ("binomial", top, bottom)
        if token == "\\sqrt":
            index = 2
            if self._eat("["):
                order = self.sum(depth + 1)
                self._expect("]")
                if order[0] != "number" or order[1].denominator != 1 or not 2 <= order[1] <= 16:
                    raise _Unsupported
                index = int(order[1])
            return ("root", self._group(depth), index)
        if token in ("\\pi", "i", "e"):
            return ("name", token)
        if token in _FUNCTIONS:
            return self._application(token, depth)
        if token in _NAMED or token[0].isalpha():
            # f(3) and P(x) are calls, n(n+1) is a product.
            if self.token() == "(" and token[0] in "fghPQFGN":
                raise _Unsupported
            self.names.add(token)
            return ("name", token)
        raise _Unsupported

    def _application(self, name: str, depth: int) -> Node:
        """sin(x), sin^2 x, log_2 8; without brackets the argument is a product up to the next function or sign."""
        self.algebraic = False
        exponent = None
        if self._eat("^"):
            exponent = self._group(depth) if self.token() == "{" else self._atom(depth)
            if exponent[0] != "number" or exponent[1].denominator != 1:
                raise _Unsupported
        self._in_function += 1
        if self.token() == "(":
            argument = self._group(depth, "(", ")")
        else:
            argument = self._power(depth)
            while self._starts_factor() and self.token() not in _FUNCTIONS | {"(", "["}:
                argument = self._juxtaposed(argument, depth)
        self._in_function -= 1
        if self.token() in ("(", "[", "/", "^"):
            raise _Unsupported
        return ("^", (name, argument), exponent) if exponent is not None else (name, argument)


def _names(node: Node) -> set[str]:
    if node[0] == "name":
        return {node[1]} - {"\\pi", "e", "i"}
    return set().union(*(_names(part) for part in node[1:] if isinstance(part, tuple)))
