"""Sentences of "some" and "not all" in one spelling: `Not all dogs bark` is `at least one dog does not bark`."""

import re

from ratchet.verifiers.math.tokens import Tokens

_BEGINS = re.compile(
    r"(?P<all>(?:it is )?not (?:the case that )?(?:all|every|each)(?: of)?) "
    r"|(?:there (?:is|are|exists|exist) )?(?:(?:at least )?(?:one|1)|some)(?: of)? |there (?:is|exists) an? "
)
_AUXILIARY = frozenset(
    ["did", "does", "do", "is", "are", "was", "were", "has", "have", "the", "a", "an", "who", "that", "which"]
)
_ENDING = re.compile(r"(?:ed|es|(?<!s)s|e)$")
_FIRST = frozenset(["at", "some", "not", "there", "it"])
_MOST_WORDS = 20


def quantified(tokens: Tokens) -> str:
    """The quantifier, the negation, and the other words without their endings; "" for any other text."""
    if tokens[0].text.lower() not in _FIRST or not 3 < len(tokens) <= _MOST_WORDS:
        return ""
    if not all(token.text.isalpha() or token.text == "1" for token in tokens):
        return ""
    text = " ".join(token.text.lower() for token in tokens)
    begins = _BEGINS.match(text)
    if begins is None:
        return ""
    said = text[begins.end() :].split()
    negations = said.count("not") + bool(begins["all"])
    if negations > 1 or {"or", "and", "if", "unless", "but", "no", "all", "every", "some"} & {*said}:
        return ""
    stems = [_ENDING.sub("", word) for word in said if word not in _AUXILIARY and word != "not"]
    return " ".join(["some", *["not"] * negations, *stems]) if len(stems) > 1 else ""
