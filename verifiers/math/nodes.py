"""Expressions as trees, and their exact values if rational.

A node is a tuple: ("number", Fraction), ("name", text), ("+" "-" "*" "/" "^", node, node), ("root", node, index),
("binomial", node, node), ("log_base", base, node), or (function, node), including factorial, abs, floor and conjugate.
An operation without laws here is opaque: ("call", text, node...) is equal only for equal arguments, as is ("applied",
name, node), a letter before a bracket, which may turn out to be a factor (`readings.py`). ("series", text, node,
index...) is linear in its terms, ("product", ...) multiplicative. ("vector", text) and ("matrix", text) do not commute;
("cross", node, node). A logarithm without a base has base 10.
"""

import math
from fractions import Fraction
from typing import Any

Node = tuple[Any, ...]
Point = dict[str, Any]
_LARGEST_BITS = 16_384
_LARGEST_FACTORIAL = 500
ZERO: Node = ("number", Fraction(0))
_NAMES = ("name", "vector", "matrix")
_OF_INTEGERS = {"\\gcd": math.gcd, "\\lcm": math.lcm}


class Unsupported(Exception):
    """An expression outside the grammar, or too large."""


class Undefined(Unsupported):
    """An expression without a value at this point."""


def is_sum(node: Node) -> bool:
    return node[0] in ("+", "-") and node[1] != ZERO


def is_prime(value: Fraction) -> bool:
    """True if it is a prime number below a million."""
    return value.denominator == 1 and 1 < value < 10**6 and all(value % each for each in range(2, int(value**0.5) + 1))


def factors_of(node: Node, sign: str = "*") -> list[Node]:
    """The factors of a product, or with `+` the terms of a sum, in order."""
    return factors_of(node[1], sign) + factors_of(node[2], sign) if node[0] == sign else [node]


def minus(node: Node) -> Node:
    """The negative of a node."""
    return ("number", -node[1]) if node[0] == "number" else ("-", ZERO, node)


def in_radians(degrees: Node) -> Node:
    """A node for an angle in degrees."""
    return ("/", ("*", degrees, ("name", "\\pi")), ("number", Fraction(180)))


def names_of(node: Node) -> frozenset[str]:
    """The variables in a tree: its names except constants."""
    names = kinds_of(node, names=True) - {"\\pi", "e", "i", "\\infty"}
    return frozenset(name for name in names if not name.startswith("\\#"))


def kinds_of(node: Node, names: bool = False) -> set[str]:
    """The operations in a tree, or with `names` those of functions with a bracket."""
    kinds, waiting = set(), [node]
    while waiting:
        node = waiting.pop()
        if not names:
            kinds.add(node[0])
        elif node[0] in _NAMES:
            kinds.add(node[1])
        elif node[0] in ("call", "applied"):
            kinds.add(f"{node[1]}(")
        waiting += [part for part in node[1:] if isinstance(part, tuple)]
    return kinds


def nodes_of(node: Node) -> list[Node]:
    """All nodes of a tree, its root first."""
    return [node] + [each for part in node[1:] if isinstance(part, tuple) for each in nodes_of(part)]


def replaced(node: Node, changes: dict[Node, Node]) -> Node:
    """The tree with some nodes replaced."""
    if node in changes:
        return changes[node]
    return tuple(replaced(part, changes) if isinstance(part, tuple) else part for part in node)


def natural(node: Node) -> Node:
    """The tree with natural logarithms for those of base 10."""
    node = tuple(natural(part) if isinstance(part, tuple) else part for part in node)
    return ("ln", node[2]) if node[:2] == ("log_base", ("number", Fraction(10))) else node


def rational_value(node: Node, point: Point | None = None) -> Fraction | None:
    """The exact value of a node without roots and functions; None if it is not rational, or too large."""
    kind = node[0]
    if kind == "number":
        return node[1]
    if kind == "name":
        value = point.get(node[1]) if point else None
        return value if isinstance(value, Fraction) else None
    if kind == "call" and node[1] in _OF_INTEGERS:
        return _of_integers(node[1], [rational_value(part, point) for part in node[2:]])
    if kind not in ("+", "-", "*", "/", "^", "binomial", "factorial"):
        return None
    one = rational_value(node[1], point)
    two = one if one is None or kind == "factorial" else rational_value(node[2], point)
    if one is None or two is None or max(_bits(one), _bits(two)) > _LARGEST_BITS:
        return None
    if kind in ("factorial", "binomial"):
        if one.denominator * two.denominator > 1 or not 0 <= two <= one <= _LARGEST_FACTORIAL:
            return None
        return Fraction(math.factorial(int(one)) if kind == "factorial" else math.comb(int(one), int(two)))
    if kind == "^":
        if two.denominator != 1 or abs(two) * _bits(one) > _LARGEST_BITS or (two <= 0 and not one):
            return None
        return one ** int(two)
    if kind == "/":
        return one / two if two else None
    return one + two if kind == "+" else one - two if kind == "-" else one * two


def _of_integers(name: str, values: list[Fraction | None]) -> Fraction | None:
    integers = [int(value) for value in values if value is not None and value.denominator == 1]
    if len(integers) < max(len(values), 1) or (name == "\\lcm" and sum(map(int.bit_length, integers)) > _LARGEST_BITS):
        return None
    return Fraction(_OF_INTEGERS[name](*integers))


def linear(node: Node, name: str, others: Point | None = None) -> tuple[Fraction, Fraction] | None:
    """The zero and the slope of a node that is linear in the name; None if it is not, or if they are not rational."""
    zero, one, two = (rational_value(node, (others or {}) | {name: Fraction(at)}) for at in range(3))
    if zero is None or one is None or two is None or two - one != one - zero or one == zero:
        return None
    return zero / (zero - one), one - zero


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())
