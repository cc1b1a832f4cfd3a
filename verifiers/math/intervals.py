"""Intervals: solutions of inequalities in one variable, and unions."""

from dataclasses import replace
from fractions import Fraction

from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.nodes import ZERO, Node, kinds_of, linear, minus, names_of, rational_value
from ratchet.verifiers.math.tokens import Tokens

RELATIONS = {">": "<", "\\ge": "\\le", "<": ">", "\\le": "\\ge"}
"""Each with its reverse."""
INFINITY: Node = ("name", "\\infty")
MINUS_INFINITY: Node = ("-", ZERO, INFINITY)


def expression(node: Node) -> Answer:
    """The answer for a node that was computed here: a rational one is a number."""
    value = rational_value(node)
    return Answer("scalar", node=node if value is None else ("number", value), value=value)


def line(low: Answer | None = None, high: Answer | None = None, brackets: str = "()", variable: str = "") -> Answer:
    """An interval, infinite if an end is missing."""
    ends = (low or expression(MINUS_INFINITY), high or expression(INFINITY))
    return Answer("tuple", parts=ends, brackets=brackets, variable=variable)


def variable_of(answer: Answer | None) -> str:
    """The answer's name if it is one, such as x, \\theta, a_1 or f(x); else ""."""
    node = answer.node if answer else None
    if answer and node and node[0] in ("call", "applied"):
        return answer.text
    return node[1] if node and node[0] in ("name", "vector") and node[1] not in ("e", "i", "\\pi", "\\infty") else ""


def solved(operators: list[str], sides: list[Answer]) -> tuple[Answer, ...]:
    """The solution of an inequality or a chain of two: one interval, or two for |x| > 3. () if unknown."""
    if len(sides) == 2 and (linear := _linear(operators[0], *sides)):
        operators, sides = linear
    if len(operators) > 2 or any(side.kind != "scalar" or side.node is None or side.percent for side in sides):
        return ()
    if len(sides) == 2 and sides[0].node and sides[0].node[0] == "abs":
        return _distance(operators[0], sides[0].node[1], sides[1])
    negated = [side.node[2] if side.node and side.node[0] == "-" and side.node[1] == ZERO else None for side in sides]
    if len(sides) == 2 and any(node and node[0] == "name" for node in negated):
        sides = [expression(node or minus(side.node or ZERO)) for node, side in zip(negated, sides, strict=True)]
        operators = [RELATIONS[operators[0]]]
    if operators[0] in (">", "\\ge"):
        operators, sides = [RELATIONS[operator] for operator in reversed(operators)], sides[::-1]
    if operators[-1] in (">", "\\ge"):
        return ()
    ends: list[Answer | None] = [*sides]
    if len(sides) == 2:
        first = bool(variable_of(sides[0]) and not variable_of(sides[1]))
        ends, operators = ([None, *sides], ["<", *operators]) if first else ([*sides, None], [*operators, "<"])
    name = variable_of(ends[1])
    return (line(ends[0], ends[2], _brackets(*operators), name),) if name else ()


def _linear(operator: str, left: Answer, right: Answer) -> tuple[list[str], list[Answer]] | None:
    """2a + 1 ≥ 0 as a ≥ -1/2: one name, with rational numbers."""
    if left.node is None or right.node is None or (variable_of(left) and not names_of(right.node)):
        return None
    difference = ("-", left.node, right.node)
    names = names_of(difference)
    if len(names) != 1 or kinds_of(difference) - {"+", "-", "*", "/", "number", "name"}:
        return None
    [name] = names
    if (crossing := linear(difference, name)) is None:
        return None
    bound, slope = crossing
    return [operator if slope > 0 else RELATIONS[operator]], [expression(("name", name)), expression(("number", bound))]


def _distance(operator: str, inside: Node, bound: Answer) -> tuple[Answer, ...]:
    r"""|x - c| < r is an interval, |x - c| > r two."""
    center = ZERO
    if inside[0] in ("+", "-") and inside[1][0] == "name":
        center, inside = inside[2] if inside[0] == "-" else ("-", ZERO, inside[2]), inside[1]
    if inside[0] != "name":
        return ()
    low, high = (expression((sign, center, bound.node)) for sign in "-+")
    if operator in ("<", "\\le"):
        return (line(low, high, _brackets(operator, operator), inside[1]),)
    one, other = ("(]", "[)") if operator == "\\ge" else ("()", "()")
    return line(None, low, one, inside[1]), line(high, None, other, inside[1])


def _brackets(low: str, high: str) -> str:
    return ("[" if low == "\\le" else "(") + ("]" if high == "\\le" else ")")


def usual_brackets(tokens: Tokens) -> Tokens:
    """`]0,1[` as (0,1)."""
    if len(tokens) > 4 and tokens[0].isa("]"):
        tokens = (tokens[0]._replace(text="("), *tokens[1:])
    return (*tokens[:-1], tokens[-1]._replace(text=")")) if len(tokens) > 4 and tokens[-1].isa("[") else tokens


def without(whole: Answer, points: list[Answer]) -> Answer | None:
    r"""`x \ne 1, 2`, `[0,9]\setminus\{5\}`: the intervals between the points."""
    if (
        whole.kind != "tuple"
        or len(whole.parts) != 2
        or any(p.kind != "scalar" or p.node is None or p.percent for p in points)
    ):
        return None
    if len(points) > 1:
        if any(point.value is None for point in points):
            return None
        points = sorted(points, key=lambda point: point.value or Fraction(0))
    ends = [whole.parts[0], *points, whole.parts[1]]
    brackets = [whole.brackets[0] + ")", *["()"] * (len(points) - 1), "(" + whole.brackets[1]]
    gaps = [line(low, high, each) for low, high, each in zip(ends, ends[1:], brackets, strict=False)]
    return Answer("collection", parts=tuple(replace(gap, variable=whole.variable) for gap in gaps))
