"""Changes in words, as signed quantities: `a decrease of 4%` and `a 4% loss` are -4%, `rose by 3` is 3."""

from collections.abc import Callable
from dataclasses import replace

from ratchet.verifiers.math import words
from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.nodes import minus
from ratchet.verifiers.math.tokens import Tokens
from ratchet.verifiers.math.vocabulary import VOCABULARY

_DOWN, _UP = (frozenset(VOCABULARY["changes"][each].split()) for each in ("down", "up"))
_AROUND = frozenset(["a", "an", "the", "by", "of", "in", "it", "overall", "net", "total", "is", "was"])


def direction(text: str) -> int:
    """-1 for the word of a fall, 1 for that of a rise, 0 for any other."""
    return -1 if text in _DOWN else int(text in _UP)


def change(tokens: Tokens, parse: Callable[[Tokens], Answer]) -> Answer | None:
    """`words` of the answer are "fall" or "rise"; None if no single word says so."""
    signs = [sign for token in tokens if (sign := direction(words.word(token)))]
    if len(signs) != 1 or not any(token.kind == "number" for token in tokens):
        return None
    value = tuple(token for token in tokens if not direction(words.word(token)))
    while value and value[0].text.lower() in _AROUND:
        value = value[1:]
    while value and value[-1].text.lower() in _AROUND:
        value = value[:-1]
    inner = parse(value) if value else Answer("text")
    if inner.kind != "scalar" or inner.value is None or inner.node is None or inner.value < 0:
        return None
    said = replace(inner, tokens=tokens, words="fall" if signs[0] < 0 else "rise")
    return replace(said, node=minus(inner.node), value=-inner.value) if signs[0] < 0 else said
