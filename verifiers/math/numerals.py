r"""Bare numbers and expressions, and numerals in other bases: `1011_2`, `(1011)_{two}`, `2A (base 16)`."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from ratchet.verifiers.math import words
from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.expression import parse_expression
from ratchet.verifiers.math.nodes import rational_value
from ratchet.verifiers.math.tokens import Tokens


def plain(tokens: Tokens) -> Answer:
    """Parse a bare number or expression."""
    if len(tokens) == 1 and tokens[0].kind == "number":
        return number(tokens)
    node = parse_expression(tokens)
    return Answer("scalar", tokens, node, rational_value(node) if node else None)


def number(tokens: Tokens) -> Answer:
    """Parse a number, with its decimals if it is rounded: 0.333 and 1.414 are; 0.125 and 42.1875, which are short
    fractions, numbers with fewer than three decimals (prices, 2.5), and those with fewer than three digits that count
    (0.008) are not."""
    text, value = tokens[0].text, tokens[0].value
    digits = text.replace(".", "")
    is_long = bool(value) and value.denominator > 100 and digits.isdigit() and len(digits.lstrip("0")) >= 3
    places = len(text.partition(".")[2]) if is_long else 0
    return Answer("scalar", tokens, ("number", value), value, places=places if places >= 3 else None)


def based(tokens: Tokens, depth: int, parse: Callable[[Tokens, int], Answer]) -> Answer | None:
    """Parse a numeral in another base: `1011_2`, `(1011)_{two}`, `1011 (base 2)`, `-2A_{16}`."""
    sign = tokens[:1] if tokens[0].isa("-") else ()
    rest = tokens[len(sign) :]
    at = next((i for i, token in enumerate(rest) if i and (token.isa("_") or words.word(token) == "base")), 0)
    if at > 1 and words.word(rest[at - 1]) == "in":
        rest, at = (*rest[: at - 1], *rest[at:]), at - 1
    base = [token for token in rest[at + 1 :] if not token.isa("(", ")", "{", "}") and words.word(token) != "base"]
    digits = [token for token in rest[:at] if not token.isa("(", ")")]
    text = "".join(token.text for token in digits).upper()
    plain = all(t.kind in ("number", "name", "run", "word") and not (i and t.gap) for i, t in enumerate(digits))
    if len(base) != 1 or base[0].value is None or not plain or not (text.isascii() and text.isalnum()):
        return None
    if text.isalpha() and not (base[0].value == 16 and all(token.upright for token in digits)):
        return None  # a_2, AB_{16}: names
    if not _is_numeral(text, base[0].value):
        return None
    if base[0].value == 10:
        return replace(parse(sign + rest[: at - rest[at - 1].isa("(")], depth), tokens=tokens)
    return Answer("based", tokens, words=f"{'-' if sign else ''}{text}_{base[0].value}")


def _is_numeral(digits: str, base: Fraction) -> bool:
    """3R_1 is a product: there is no base 1, and no digit R but in base 28 and above."""
    return base.denominator == 1 and 2 <= base <= 36 and all(int(digit, 36) < base for digit in digits)
