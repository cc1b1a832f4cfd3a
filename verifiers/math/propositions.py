r"""Formulas of logic and operations on sets, as truth tables: p → q is ¬p ∨ q."""

import itertools
from collections.abc import Callable

from ratchet.verifiers.math.parts import closing
from ratchet.verifiers.math.tokens import Token, Tokens, single_letters, spelled

Formula = Callable[[dict[str, bool]], bool]
_LEVELS = ("\\iff", "\\implies", "\\vee", "\\oplus", "\\wedge")
"""Loosest first."""
CONNECTIVES = (*_LEVELS, "\\neg")
_QUANTIFIERS = ("\\forall", "\\exists")
_SETS = {"\\cap": "\\wedge", "\\cup": "\\vee", "\\triangle": "\\oplus"}
_MOST_LETTERS = 6
_MEANING: dict[str, Callable[[bool, bool], bool]] = {
    "\\iff": lambda one, other: one == other,
    "\\implies": lambda one, other: not one or other,
    "\\vee": lambda one, other: one or other,
    "\\oplus": lambda one, other: one != other,
    "\\wedge": lambda one, other: one and other,
}


def truth_table(tokens: Tokens) -> str:
    """The atoms and the value in each row; "" for anything but connectives, letters, predicates, quantifiers and
    brackets. \\exists x is \\neg\\forall x\\neg, with any name for x."""
    if not any(token.isa(*CONNECTIVES, *_QUANTIFIERS) for token in tokens) or len(tokens) > 100:
        return ""
    return _table([*single_letters(tokens)])


def set_table(tokens: Tokens) -> str:
    """The truth table of an element's membership, for operations on sets: A \\cap B^c."""
    if not any(token.isa("\\cap", "\\cup", "\\setminus", "\\triangle") for token in tokens) or len(tokens) > 100:
        return ""
    split, rest = single_letters(tokens), list[Token]()
    for i, token in enumerate(split):
        before = split[i - 1] if i else token
        if token.isa(*CONNECTIVES, *_QUANTIFIERS) or (
            (token.kind == "name" and not token.text.isupper()) and token.text != "c"
        ):
            return ""
        if token.isa("'") or (token.text == "c" and before.isa("^")):
            rest.append(Token("op", "'"))
        elif token.isa("\\setminus"):
            rest += [Token("command", "\\wedge"), Token("command", "\\neg")]
        elif not token.isa("^"):
            rest.append(token._replace(text=_SETS.get(token.text, token.text)))
    return (table := _table(rest)) and f"set {table}"


def _table(rest: list[Token]) -> str:
    atoms: list[str] = []
    formula = _level(rest, 0, atoms)
    letters = sorted({*atoms})
    if formula is None or rest or len(letters) > _MOST_LETTERS:
        return ""
    rows = itertools.product((False, True), repeat=len(letters))
    return ",".join(letters) + ":" + "".join("01"[formula(dict(zip(letters, row, strict=True)))] for row in rows)


def _level(rest: list[Token], level: int, atoms: list[str]) -> Formula | None:
    if level == len(_LEVELS):
        return _atom(rest, atoms)
    sign, one = _LEVELS[level], _level(rest, level + 1, atoms)
    if one is None or not rest or not rest[0].isa(sign):
        return one
    rest.pop(0)
    other = _level(rest, level, atoms)  # p → q → r is p → (q → r); the others are associative
    return None if other is None else lambda values: _MEANING[sign](one(values), other(values))


def _atom(rest: list[Token], atoms: list[str]) -> Formula | None:
    token = rest.pop(0) if rest else None
    if token is None:
        return None
    if token.isa("\\neg"):
        inner = _atom(rest, atoms)
        return None if inner is None else lambda values: not inner(values)
    if token.isa(*_QUANTIFIERS):
        return _quantified(token, rest, atoms)
    if token.isa("(", "[", "{"):
        inner = _level(rest, 0, atoms)
        if not rest or not rest.pop(0).isa(")", "]", "}"):
            return None
    else:
        name = token.text
        if token.kind != "name" or token.vector or len(name.lstrip("#")) > 1:
            return None
        if rest and rest[0].isa("(") and (end := closing(tuple(rest))) > 0:  # P(x, y)
            name += spelled(tuple(rest[: end + 1])).replace(" ", "")
            del rest[: end + 1]
        atoms.append(name)
        inner = lambda values: values[name]  # noqa: E731
    if rest and rest[0].isa("'"):
        rest.pop(0)
        return None if inner is None else lambda values: not inner(values)
    return inner


def _quantified(quantifier: Token, rest: list[Token], atoms: list[str]) -> Formula | None:
    """A quantified statement as one atom, named for what it says. What a quantifier without brackets covers is read
    only where nothing follows."""
    if not rest or rest[0].kind != "name":
        return None
    bound, covers = rest.pop(0).text, rest[:1] and rest[0].isa("(", "[")
    mark = "#" * (1 + max((len(token.text) for token in rest if token.text.startswith("#")), default=0))
    rest[:] = [token._replace(text=mark) if token.kind == "name" and token.text == bound else token for token in rest]
    inner: list[str] = []
    is_bare = not covers and any(token.isa(*_LEVELS) for token in rest)
    formula = _atom(rest, inner)
    names = sorted({*inner})
    if formula is None or is_bare or len(names) > _MOST_LETTERS:
        return None
    exists = quantifier.isa("\\exists")
    rows = itertools.product((False, True), repeat=len(names))
    table = "".join("01"[formula(dict(zip(names, row, strict=True))) != exists] for row in rows)
    name = f"all {mark} {','.join(names)} {table}"
    atoms.append(name)
    return lambda values: values[name] != exists
