"""Lists whose values have names in words, or a place of their own: `length 12 cm, width 5 cm`, `13 R 2`, `12 by 5`."""

from ratchet.verifiers.math import words
from ratchet.verifiers.math.answer import Answer, Parse
from ratchet.verifiers.math.parts import listed, top_level
from ratchet.verifiers.math.tokens import Token, Tokens
from ratchet.verifiers.math.vocabulary import VOCABULARY

_MOST_WORDS = 2
_NO_LABELS = frozenset(VOCABULARY["no_labels"].split())
_VERBS = ("is", "of", "has", "have", "had", "gets", "receives", "weighs", "costs")
"""Words that may be between a label and its value."""
_REMAINDERS = ("r", "rem", "remainder")


def labeled(tokens: Tokens, depth: int, parse: Parse) -> Answer | None:
    """The list as equations with the words on their left, or as values in order; None for anything else."""
    spoken = [words.word(token) for token in tokens]
    if "by" in spoken or any(token.isa("\\times") for token in tokens):
        return _dimensions(tokens, spoken, depth, parse)
    if len(tokens) == 3 and tokens[1].text.lower() in _REMAINDERS:
        names = (Token("word", "quotient"), Token("word", "remainder"))
        values = tokens[::2]
        whole = all(token.text.isdigit() for token in values)
        return _named([((name,), (value,)) for name, value in zip(names, values, strict=True)], depth, parse, whole)
    if not any(len(each) > 2 for each in spoken):
        return None
    members = listed(tokens, in_braces=False)
    pairs = [_label(member, "or" not in spoken) for member in members] if 1 < len(members) < 8 else []
    labels = {label[-1].text.lower() for label, _ in pairs if label}
    return _named(pairs, depth, parse, 1 < len(labels) == len(pairs) and max(map(len, labels)) > 2)


def _label(member: Tokens, letters: bool) -> tuple[Tokens, Tokens]:
    """The words before a value, or its letter, and the value; empty words if it begins with none."""
    if letters and len(member) > 2 and member[0].kind == "name" and member[1].isa("="):
        return member[:1], member[2:]
    at = 0
    while at < len(member) and words.word(member[at]) == "the":
        at += 1
    begin = at
    while at < len(member) and at - begin < _MOST_WORDS and _is_label(member[at]):
        at += 1
    label = member[begin:at]
    while at < len(member) and (member[at].isa("=", ":") or words.word(member[at]) in _VERBS):
        at += 1
    value = member[at:]
    is_value = value and (
        value[0].kind == "number" or value[0].isa("-", "\\frac", "\\sqrt", "\\$", "(", "\\pm", "\\pi")
    )
    return (label, value) if is_value else ((), member)


def _is_label(token: Token) -> bool:
    return len(word := words.word(token)) > 2 and word not in _NO_LABELS and word not in _VERBS


def _is_letters(token: Token) -> bool:
    """True if these are letters apart: of what a word names, they are the unit."""
    return token.gap and token.kind in ("name", "run")


def _named(pairs: list[tuple[Tokens, Tokens]], depth: int, parse: Parse, is_list: bool) -> Answer | None:
    if not is_list:
        return None
    equations = []
    for label, value in pairs:
        text = words.folded(label[-1].text.lower())
        name = Answer("text", (label[-1]._replace(kind="word", text=text, gap=False, upright=True),))
        value = tuple(token._replace(upright=True) if _is_letters(token) else token for token in value)  # 6 m
        equations.append(Answer("equation", (*label, *value), parts=(name, parse(value, depth))))
    tokens = tuple(token for equation in equations for token in equation.tokens)
    return Answer("collection", tokens, parts=tuple(equations))


def _dimensions(tokens: Tokens, spoken: list[str], depth: int, parse: Parse) -> Answer | None:
    """`12 cm by 5 cm`: quantities in order; with a cross for `by` only if each has a unit."""
    at = [i for i in top_level(tokens) if spoken[i] == "by" or tokens[i].isa("\\times")]
    pieces = [tokens[begin + 1 : end] for begin, end in zip([-1, *at], [*at, len(tokens)], strict=True)]
    if not 1 < len(pieces) < 4 or not all(piece and piece[0].kind == "number" for piece in pieces):
        return None
    values = tuple(parse(piece, depth) for piece in pieces)
    needs_unit = "by" not in spoken
    if any(value.kind != "scalar" or value.node is None or (needs_unit and not value.unit) for value in values):
        return None
    return Answer("collection", tokens, parts=values, ordered=True)
