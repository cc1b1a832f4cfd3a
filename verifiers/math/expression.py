"""The grammar of the exact and the numeric tier: a normalized answer as a tree of sums, products, powers, roots and
functions.

A node is a tuple: ("number", Fraction), ("name", text), ("+" "-" "*" "/" "^", node, node), ("root", node, index),
("factorial", node), ("binomial", node, node), ("abs", node), or (function, node). What is not covered, or would be read
in more than one way (1/2x, f(3)), is no expression.
"""

from __future__ import annotations

import functools
import math
import re
from fractions import Fraction
from typing import Any, NamedTuple

from ratchet.verifiers.math.rational import read_number

_TOKEN = re.compile(r"\\[A-Za-z]+(?:_\{?\w+\}?)?|[A-Za-z](?:_(?:\w|\{\w+\}))?'*|[-+*/^!(){}\[\]|,_]")
_SIMPLE = re.compile(r"-?(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d*)?|-?\.\d+")
_LARGEST_BITS = 16_384
_LARGEST_FACTORIAL = 500
_NAMED = {"\\theta", "\\alpha", "\\beta", "\\gamma", "\\delta", "\\lambda", "\\mu", "\\phi", "\\omega", "\\rho"}
_FUNCTIONS = {"\\sin", "\\cos", "\\tan", "\\cot", "\\sec", "\\csc", "\\ln", "\\exp", "\\arctan"}
_MOST_NODES = 160
_MOST_DEPTH = 30
Node = tuple[Any, ...]
Point = dict[str, Fraction]


class Unsupported(Exception):
    """Outside the grammar, undefined at this point, or too large to be worth it."""


class Expression(NamedTuple):
    node: Node
    names: frozenset[str]
    algebraic: bool
    transcendental: bool  # speaks of π or e
    exponential: bool  # a variable in an exponent or under a factorial: only small integers may be put in


@functools.lru_cache(maxsize=8192)
def parse_expression(text: str) -> Expression | None:
    """Parse, or None for what the grammar does not cover or would read in more than one way."""
    try:
        parser = _Parser(text)
        node = parser.sum(0)
        if parser.token() != "":
            return None
    except (Unsupported, ValueError):
        return None
    return Expression(
        node, frozenset(parser.names), parser.algebraic, bool({"\\pi", "e"} & set(parser.tokens)), parser.exponential
    )


class _Parser:
    """Sum, product, power, atom: LaTeX as it stands in answers. Juxtaposition multiplies."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str | Fraction] = []
        self.position = 0
        self.names: set[str] = set()
        self.algebraic, self.exponential = True, False
        self._in_function = 0
        end = 0
        while end < len(text):
            if text[end].isspace():
                end += 1
            elif text[end].isdigit() or text[end] == ".":
                if (number := read_number(text, end)) is None:
                    raise Unsupported
                self.tokens.append(number[0])
                end = number[1]
            elif match := _TOKEN.match(text, end):
                self.tokens.append(match[0])
                end = match.end()
            else:
                raise Unsupported
            if len(self.tokens) > _MOST_NODES:
                raise Unsupported

    def token(self) -> str | Fraction:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def _eat(self, *options: str) -> str:
        token = self.token()
        if isinstance(token, str) and token in options:
            self.position += 1
            return token
        return ""

    def _expect(self, token: str) -> None:
        if not self._eat(token):
            raise Unsupported

    def sum(self, depth: int) -> Node:
        if depth > _MOST_DEPTH:
            raise Unsupported
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
            if sign := self._eat("*", "\\cdot", "\\times", "/"):
                negative ^= self._eat("-", "+") == "-"
                node = ("/" if sign == "/" else "*", node, self._power(depth))
                divided |= sign == "/"
            elif self._starts_factor():
                if divided:
                    raise Unsupported  # 1/2x: which of the two?
                node = self._juxtaposed(node, depth)
            else:
                break
        return ("-", ("number", Fraction(0)), node) if negative else node

    def _starts_factor(self) -> bool:
        token = self.token()
        return isinstance(token, Fraction) or (token != "" and token not in ")]}+-*/^!|,_")

    def _juxtaposed(self, node: Node, depth: int) -> Node:
        begin = self.position
        factor = self._power(depth)
        plain = self.tokens[begin] == "\\frac" and node[0] == "number" and factor[0] == "/"
        if plain and factor[1][0] == factor[2][0] == "number":
            if not (node[1].denominator == 1 and 0 <= factor[1][1] < factor[2][1]):
                raise Unsupported
            return ("+", node, factor)  # a mixed number
        if isinstance(self.tokens[begin], Fraction):
            raise Unsupported  # two numbers side by side
        return ("*", node, factor)

    def _power(self, depth: int) -> Node:
        node = self._atom(depth)
        while self._eat("!"):
            if node[0] == "factorial" or self.token() == "!":
                raise Unsupported
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
                raise Unsupported
            if negative:
                exponent = ("-", ("number", Fraction(0)), exponent)
            if _names(exponent):
                self.exponential = True
            elif rational_value(exponent, {}) is None:
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
        if isinstance(token, Fraction):
            return ("number", token)
        if not token:
            raise Unsupported
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
                    raise Unsupported
                index = int(order[1])
            return ("root", self._group(depth), index)
        if token in ("\\pi", "i", "e"):
            return ("name", token)
        if token in _FUNCTIONS:
            return self._application(token, depth)
        if token in _NAMED or token[0].isalpha():
            # f(3) and P(x) are calls, n(n+1) is a product.
            if self.token() == "(" and token[0] in "fghPQFGN":
                raise Unsupported
            self.names.add(token)
            return ("name", token)
        raise Unsupported

    def _application(self, name: str, depth: int) -> Node:
        """sin(x), sin^2 x, log_2 8; without brackets the argument is a product up to the next function or sign."""
        self.algebraic = False
        exponent = None
        if self._eat("^"):
            exponent = self._group(depth) if self.token() == "{" else self._atom(depth)
            if exponent[0] != "number" or exponent[1].denominator != 1:
                raise Unsupported
        self._in_function += 1
        if self.token() == "(":
            argument = self._group(depth, "(", ")")
        else:
            argument = self._power(depth)
            while self._starts_factor() and self.token() not in _FUNCTIONS | {"(", "["}:
                argument = self._juxtaposed(argument, depth)
        self._in_function -= 1
        if self.token() in ("(", "[", "/", "^"):
            raise Unsupported
        return ("^", (name, argument), exponent) if exponent is not None else (name, argument)


def _names(node: Node) -> set[str]:
    if node[0] == "name":
        return {node[1]} - {"\\pi", "e", "i"}
    return set().union(*(_names(part) for part in node[1:] if isinstance(part, tuple)))


def rational_value(node: Node, point: Point) -> Fraction | None:
    """The exact value of a node without roots and functions; None when it is not rational, or too large."""
    kind = node[0]
    if kind == "number":
        return node[1]
    if kind == "name":
        return point.get(node[1]) if node[1] not in ("i", "e", "\\pi") else None
    if kind == "factorial":
        value = rational_value(node[1], point)
        if value is None or value.denominator != 1 or not 0 <= value <= _LARGEST_FACTORIAL:
            return None
        return Fraction(math.factorial(int(value)))
    if kind not in ("+", "-", "*", "/", "^", "binomial"):
        return None
    one, two = rational_value(node[1], point), rational_value(node[2], point)
    if one is None or two is None or max(map(_bits, (one, two))) > _LARGEST_BITS:
        return None
    if kind == "^":
        if two.denominator != 1 or abs(two) * _bits(one) > _LARGEST_BITS or (two < 0 and not one):
            return None
        return one ** int(two)
    if kind == "binomial":
        is_small = one.denominator * two.denominator == 1 and 0 <= two <= one <= _LARGEST_FACTORIAL
        return Fraction(math.comb(int(one), int(two))) if is_small else None
    if kind == "/":
        return one / two if two else None
    return one + two if kind == "+" else one - two if kind == "-" else one * two


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def parse_rational(text: str) -> Fraction | None:
    """The exact value of a normalized answer, or None when it is not (written as) a rational number."""
    if _SIMPLE.fullmatch(text):
        return Fraction(text.replace(",", "")) if len(text) <= 2000 else None
    if not any(character.isdigit() for character in text):
        return None
    parsed = parse_expression(text)
    return None if parsed is None or parsed.names else rational_value(parsed.node, {})
