"""The grammar of the numeric tier: a normalized answer as a tree of sums, products, powers, roots and functions.

A node is a tuple: ("number", Fraction), ("name", text), ("+" "-" "*" "/" "^", node, node), ("root", node, index),
("factorial", node), ("binomial", node, node), ("abs", node), or (function, node). What is not covered, or would be read
in more than one way (1/2x, f(3)), is no expression.
"""

from __future__ import annotations

import functools
import re
from fractions import Fraction
from typing import Any, NamedTuple

_TOKEN = re.compile(
    r"\s*(\\[A-Za-z]+(?:_\{?\w+\}?)?|\d+(?:\.\d+)?|\.\d+|[A-Za-z](?:_(?:\w|\{\w+\}))?'*|[-+*/^!(){}\[\]|,_])\s*"
)
_SCIENTIFIC = re.compile(r"\de[-+\d]")
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
        self.tokens: list[str] = []
        self.position = 0
        self.names: set[str] = set()
        self.algebraic, self.exponential = True, False
        self._in_function = 0
        end = 0
        while end < len(text):
            match = _TOKEN.match(text, end)
            if not match:
                raise Unsupported
            self.tokens.append(match[1])
            end = match.end()
        if _SCIENTIFIC.search(text) or len(self.tokens) > _MOST_NODES:
            raise Unsupported

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
            if self._eat("*", "\\cdot", "\\times"):
                sign = self._eat("-", "+")
                factor = self._power(depth)
                node = ("*", node, ("-", ("number", Fraction(0)), factor) if sign == "-" else factor)
            elif self._eat("/"):
                node, divided = ("/", node, self._power(depth)), True
            elif self._starts_factor():
                if divided:
                    raise Unsupported  # 1/2x: which of the two?
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
                raise Unsupported
            return ("+", node, factor)  # a mixed number
        if self.tokens[begin][0].isdigit() or self.tokens[begin][0] == ".":
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
        if not token:
            raise Unsupported
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
    """The exact value of an exponent; None when it is not rational."""
    kind = node[0]
    if kind == "number":
        return node[1]
    if kind == "name":
        value = point.get(node[1])
        return value if node[1] not in ("i", "e", "\\pi") else None
    if kind in "+-*/" and len(node) == 3:
        one, two = rational_value(node[1], point), rational_value(node[2], point)
        if one is None or two is None or max(one.denominator, two.denominator) > 2**64:
            return None
        if kind == "/":
            return one / two if two else None
        return one + two if kind == "+" else one - two if kind == "-" else one * two
    return None
