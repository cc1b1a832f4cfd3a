r"""Formulas of propositional logic, as truth tables: p → q is ¬p ∨ q."""

import itertools
from collections.abc import Callable

from ratchet.verifiers.math.tokens import Token, Tokens

Formula = Callable[[dict[str, bool]], bool]
_LEVELS = ("\\iff", "\\implies", "\\vee", "\\oplus", "\\wedge")
"""Loosest first."""
CONNECTIVES = (*_LEVELS, "\\neg")
_MOST_LETTERS = 6
_MEANING: dict[str, Callable[[bool, bool], bool]] = {
    "\\iff": lambda one, other: one == other,
    "\\implies": lambda one, other: not one or other,
    "\\vee": lambda one, other: one or other,
    "\\oplus": lambda one, other: one != other,
    "\\wedge": lambda one, other: one and other,
}


def truth_table(tokens: Tokens) -> str:
    """The letters and, row by row, the value; "" for anything but connectives, letters and brackets."""
    letters = sorted({token.text for token in tokens if token.kind == "name" and len(token.text) == 1})
    if not any(token.isa(*CONNECTIVES) for token in tokens) or len(letters) > _MOST_LETTERS or len(tokens) > 100:
        return ""
    rest = list(tokens)
    formula = _level(rest, 0)
    if formula is None or rest:
        return ""
    rows = itertools.product((False, True), repeat=len(letters))
    return "".join(letters) + ":" + "".join("01"[formula(dict(zip(letters, row, strict=True)))] for row in rows)


def _level(rest: list[Token], level: int) -> Formula | None:
    if level == len(_LEVELS):
        return _atom(rest)
    sign, one = _LEVELS[level], _level(rest, level + 1)
    if one is None or not rest or not rest[0].isa(sign):
        return one
    rest.pop(0)
    other = _level(rest, level)  # p → q → r is p → (q → r); the others are associative
    return None if other is None else lambda values: _MEANING[sign](one(values), other(values))


def _atom(rest: list[Token]) -> Formula | None:
    token = rest.pop(0) if rest else None
    if token is None:
        return None
    if token.isa("\\neg"):
        inner = _atom(rest)
        return None if inner is None else lambda values: not inner(values)
    if token.isa("(", "[", "{"):
        inner = _level(rest, 0)
        return inner if rest and rest.pop(0).isa(")", "]", "}") else None
    name = token.text
    return (lambda values: values[name]) if token.kind == "name" and len(name) == 1 else None
