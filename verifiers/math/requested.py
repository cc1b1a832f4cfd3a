r"""Answers that name what the question asks for as it does: `x = 5, y = 2, xy = 10` where xy is asked for,
`20 < x^2 + 5x < 30` for its values, and derivations such as `x = 5, so 2x = 10`.
"""

from collections.abc import Iterator

from ratchet.verifiers.math import regions, words
from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.expression import parse_expression
from ratchet.verifiers.math.nodes import Node, names_of, replaced
from ratchet.verifiers.math.numeric import MOST_WORK, same_value
from ratchet.verifiers.math.parts import split_at, top_level, trimmed
from ratchet.verifiers.math.question import Question
from ratchet.verifiers.math.structure import parse_tokens
from ratchet.verifiers.math.tokens import Token, Tokens
from ratchet.verifiers.math.vocabulary import VOCABULARY

_CONCLUDING = frozenset(VOCABULARY["requested"]["concluding"].split())
_SIGNS = ("\\implies", "\\Rightarrow", "\\therefore", "\\rightarrow", "\\to")
_RELATIONS = ("<", ">", "\\le", "\\ge")
_PLACEHOLDER = Token("name", "x")


def requested_values(question: Question, answer: Answer) -> Iterator[Answer]:
    """The values that the answer gives to the expression that the question asks for."""
    asked = parse_expression(question.symbol) if question.symbol else None
    if (value := _concluded(asked, answer.tokens)) is not None:
        yield value
    if asked is None:
        return
    if (value := _last_equation(asked, answer)) is not None:
        yield value
    if answer.kind in ("chain", "equation") and (region := _region(asked, answer.tokens)) is not None:
        yield region


def _last_equation(asked: Node, answer: Answer) -> Answer | None:
    """The right side of a list's last equation if its left side is asked for, and what stands before agrees."""
    if answer.kind != "collection" or answer.brackets or len(answer.parts) < 2:
        return None
    if any(part.kind != "equation" or part.words or len(part.parts) != 2 for part in answer.parts):
        return None
    *before, (left, right) = ((part.parts[0], part.parts[-1]) for part in answer.parts)
    if not left.node or not right.node or not _is_same(left.node, asked):
        return None
    if any(each.node and _is_same(each.node, asked) for each, _ in before):
        return None
    given = {name.node: value.node for name, value in before if name.node and value.node and name.node[0] == "name"}
    computed = replaced(asked, given)
    agrees = names_of(computed) or same_value(computed, right.node, [MOST_WORK])
    return right if agrees else None


def _region(asked: Node, tokens: Tokens) -> Answer | None:
    """An inequality in the expression that is asked for, as one in a variable."""
    at = [i for i in top_level(tokens) if i and tokens[i].isa(*_RELATIONS)]
    sides = split_at(tokens, at) if 1 <= len(at) <= 2 else []
    named = [(i, node) for i, side in enumerate(sides) if (node := parse_expression(side)) and names_of(node)]
    if len(named) != 1 or len(sides[named[0][0]]) < 2 or not _is_same(named[0][1], asked):
        return None
    sides[named[0][0]] = (_PLACEHOLDER,)
    joined = [*sides[0]]
    for sign, side in zip(at, sides[1:], strict=True):
        joined += [tokens[sign], *side]
    parsed = parse_tokens(tuple(joined))
    return parsed if regions.region_of(parsed) else None


def _concluded(asked: Node | None, tokens: Tokens) -> Answer | None:
    """What a derivation in the box ends with: `11` of `a = 4, b = 7, so a + b = 11`. The value of anything but what is
    asked for is no conclusion."""
    begin, end = _conclusion(tokens)
    head, tail = trimmed(tokens[:begin]), tokens[end:]
    if not head or not tail or any(len(words.word(token)) > 1 for token in head):
        return None
    stated = parse_tokens(head)
    derived = stated.parts if stated.kind == "collection" else (stated,)
    if any(part.kind != "equation" or part.words for part in derived):
        return None
    value = parse_tokens(tail)
    if value.kind != "equation" or value.words:
        return value
    left = value.parts[0].node
    if left is None or (asked and not _is_same(left, asked)):
        return None
    return value if left[0] == "name" else value.parts[-1]


def _conclusion(tokens: Tokens) -> tuple[int, int]:
    """Begin and end of the last words or sign that draw a conclusion; two zeros if there are none."""
    for at in reversed(top_level(tokens)):
        texts = [token.text for token in tokens[at : at + 4]]
        if texts == ["i", ".", "e", "."]:
            return at, at + 4
        if tokens[at].isa(*_SIGNS) or words.word(tokens[at]) in _CONCLUDING:
            begin, end = at, at + 1
            while begin and words.word(tokens[begin - 1]) in ("which", "and", "this"):
                begin -= 1
            while end < len(tokens) and (tokens[end].isa(",") or words.word(tokens[end]) in ("that", "us")):
                end += 1
            return begin, end
    return 0, 0


def _is_same(one: Node, other: Node) -> bool:
    if one == other:
        return True
    return names_of(one) == names_of(other) and same_value(one, other, [MOST_WORK]) is True
