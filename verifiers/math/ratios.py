"""Ratios: `3:4:5`, `3 to 4`, `a:b:c = 3:4:5`."""

from fractions import Fraction

from ratchet.verifiers.math import words
from ratchet.verifiers.math.answer import Answer, Parse
from ratchet.verifiers.math.expression import parse_expression
from ratchet.verifiers.math.parts import split, split_at, top_level
from ratchet.verifiers.math.regions import line
from ratchet.verifiers.math.tokens import Tokens

_MOST_TERMS = 5


def ratio(tokens: Tokens, depth: int, parse: Parse) -> Answer | None:
    """Parse a ratio with colons or `to`."""
    named, values = _halves(tokens)
    parts = split(values, ":")
    if len(parts) == 1:
        parts = split_at(values, [i for i in top_level(values) if words.word(values[i]) == "to"])
    if not 1 < len(parts) <= _MOST_TERMS or not all(parts):
        return None
    if named:
        left = [parse_expression(each) for each in split(named, ":")]
        if len(left) != len(parts) or any(each is None or each[0] not in ("name", "vector") for each in left):
            return None
    terms = tuple(parse(part, depth) for part in parts)
    units = {term.unit for term in terms}
    if len(terms) == 2 and None not in units and any(words.word(token) == "to" for token in values):
        return line(*terms, "[]") if terms[1].kind == "scalar" else None  # 3 cm to 5 cm
    is_ratio = all(term.kind == "scalar" and term.node and not term.percent for term in terms)
    return Answer("ratio", tokens, parts=terms) if is_ratio else None


def share(tokens: Tokens, depth: int) -> Answer | None:
    """Parse a share: `3 out of 8`, `3 in 8`."""
    if len(tokens) not in (3, 4) or tokens[0].kind != "number":
        return None
    said = [words.word(token) for token in tokens[1:-1]]
    numbers = tokens[:1] + tokens[-1:]
    if said not in (["out", "of"], ["in"]) or not all(token.text.isdigit() for token in numbers):
        return None
    part, whole = (token.value or Fraction(0) for token in numbers)
    if not 0 < part <= whole:
        return None
    return Answer("scalar", tokens, ("/", ("number", part), ("number", whole)), part / whole)


def named_ratio(tokens: Tokens, depth: int, parse: Parse) -> Answer | None:
    """Parse a ratio with names: `a:b:c = 3:4:5`."""
    return ratio(tokens, depth, parse) if _halves(tokens)[0] and any(token.isa(":") for token in tokens) else None


def _halves(tokens: Tokens) -> tuple[Tokens, Tokens]:
    """The tokens before and behind the only equals sign; all of them are behind if there is none, or several."""
    at = [i for i in top_level(tokens) if tokens[i].isa("=")]
    return (tokens[: at[0]], tokens[at[0] + 1 :]) if len(at) == 1 else ((), tokens)
