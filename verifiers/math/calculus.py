"""Parse parts of an expression with a grammar of their own: matrices, derivatives, sums and products over an index."""

import re
from fractions import Fraction
from typing import TYPE_CHECKING

from ratchet.verifiers.math.nodes import Node, Unsupported, replaced

if TYPE_CHECKING:
    from ratchet.verifiers.math.expression import Parser

_START = re.compile(r"(\\#\d+) (?:=|\\ge) (\d)")


def rows(parser: "Parser", depth: int) -> Node:
    """A matrix among other terms, or a determinant."""
    kind = parser.skipped().replace(" ", "")
    if not kind.endswith(("matrix", "array")) or kind.startswith("V"):  # a norm
        raise Unsupported
    if kind == "array" and parser.token.isa("{"):
        parser.skipped()
    found: list[list[Node]] = [[]]
    while not parser.eat("\\end"):
        if not parser.eat("&", "\\\\"):
            found[-1].append(parser.sum(depth + 1))
        elif parser.tokens[parser.position - 1].text != "&" and not parser.token.isa("\\end"):
            found.append([])
    parser.skipped()
    if len({len(row) for row in found}) != 1 or len(found) * len(found[0]) > 64:
        raise Unsupported
    node = ("rows", *(("row", *row) for row in found))
    return ("call", "\\det", node) if kind.startswith("v") else node


def derivative(parser: "Parser", depth: int) -> Node | None:
    r"""Parse \frac{dy}{dx} and \frac{d}{dx} y as opaque."""
    begin, above, below = parser.position, "", ""
    if parser.token.isa("{") and parser.tokens[begin + 1].text in ("d", "D", "\\partial", "\\delta"):
        above = parser.skipped()
        below = parser.skipped() if parser.token.isa("{") else ""
    sign, _, rest = below.partition(" ")
    if not rest or above.split()[0] != sign or not (rest[0].isalpha() or rest[0] == "\\"):
        parser.position = begin
        return None
    orders = above.replace("{", "").replace("}", "").split()
    bare = len(orders) == 1 or (len(orders) == 3 and orders[1] == "^")
    operand = [parser.power(depth)] if bare else []
    return ("call", f"{' '.join(orders)} / {below}", *operand)


def series(parser: "Parser", name: str, depth: int) -> Node:
    """Parse a sum or product over an index. The bound index gets a name by its depth, also in x_i."""
    begin, index = parser.position, ["i"]
    if parser.eat("_"):
        begin = parser.position
        names = [t.text for t in parser.tokens[begin : begin + 6] if t.kind == "name" and len(t.text) == 1]
        parser.skipped()
        is_plain = parser.tokens[begin].kind == "name" or parser.tokens[begin + 2].isa("=")
        inside = parser.tokens[begin : parser.position]  # of d | n only d is bound
        end = next((i for i, token in enumerate(inside) if token.isa("|", "\\in")), len(inside))
        every = sorted({token.text for token in inside[:end] if token.kind == "name"})
        index = names[:1] if is_plain else every
    bound = {text: f"\\#{parser.bound_indices}{i}" for i, text in enumerate(index)}
    parser.bound_indices += 1
    _rename(parser, begin, bound)
    parser.position = begin
    bounds = parser.skipped() if parser.tokens[begin - 1].isa("_") else ""
    if index == ["p"] and bounds == "\\#" + bounds[2:3] + "0":
        bounds = "p"  # the primes
    above = parser.skipped().removeprefix("+ ") if parser.eat("^") else ""
    body = parser.product(depth + 1)
    start = _START.fullmatch(bounds)
    if start and len(bound) == 1 and above in ("\\infty", ""):  # from zero on
        body = replaced(body, {("name", start[1]): ("+", ("name", start[1]), ("number", Fraction(start[2])))})
        bounds, above = f"{start[1]} = 0", "\\infty"
    bounds += f"^{above}" * bool(above)
    parser.bound_indices -= 1
    _rename(parser, parser.position, {to: text for text, to in bound.items()})
    return ("series" if name == "sum" else "product", bounds, body, *bound.values())


def _rename(parser: "Parser", begin: int, names: dict[str, str]) -> None:
    for i, token in enumerate(parser.tokens[begin:], begin):
        if token.kind == "name" and token.text in names:
            parser.tokens[i] = token._replace(text=names[token.text])
