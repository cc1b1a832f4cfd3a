"""A bare number or expression."""

from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.expression import parse_expression
from ratchet.verifiers.math.nodes import rational_value
from ratchet.verifiers.math.tokens import Tokens


def plain(tokens: Tokens) -> Answer:
    """A bare number or expression."""
    if len(tokens) == 1 and tokens[0].kind == "number":
        return number(tokens)
    node = parse_expression(tokens)
    return Answer("scalar", tokens, node, rational_value(node) if node else None)


def number(tokens: Tokens) -> Answer:
    """0.333 and 1.414 are rounded; 0.125 and 42.1875, which are short fractions, and numbers with fewer than three
    decimals (prices, 2.5) are not."""
    text, value = tokens[0].text, tokens[0].value
    places = len(text.partition(".")[2]) if value and value.denominator > 100 and text.replace(".", "").isdigit() else 0
    return Answer("scalar", tokens, ("number", value), value, places=places if places >= 3 else None)
