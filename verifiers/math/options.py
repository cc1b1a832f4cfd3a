"""The letter of a choice, alone or with its text."""

from collections.abc import Callable

from ratchet.verifiers.math import words
from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.tokens import Tokens
from ratchet.verifiers.math.vocabulary import VOCABULARY

_OPTIONS = frozenset("ABCDEFGHIJ")
_NAMED = ("option", "choice", "answer")
_CORRECT = {"the", "correct", "right", "true", "best", "answer", "option", "choice", "one"}
_NO_OPTION = tuple(VOCABULARY["no_option"].split())


def option(tokens: Tokens, depth: int, parse: Callable[[Tokens, int], Answer]) -> Answer | None:
    """Parse a choice: `(B)`, `Option B`, and with its text `(B) 12`, `B. red`, `option B, 12`. Not `(A) or (B)`."""
    given = tokens
    spoken = [words.word(token) for token in tokens]
    if "is" in spoken[1:] and {*spoken[spoken.index("is") + 1 :]} <= _CORRECT and spoken[0] in ("", *_NAMED):
        tokens = tokens[: spoken.index("is")]
    if len(tokens) > 1 and spoken[0] in _NAMED:
        tokens = tuple(token._replace(upright=True) for token in tokens[1 + tokens[1].isa(":") :]) or tokens
    if len(tokens) == 2 and tokens[1].isa(")"):
        tokens = (tokens[0]._replace(upright=True),)
    is_bracketed = tuple(token.text for token in tokens[:3:2]) == ("(", ")")
    letter = [*tokens[: 1 + is_bracketed]][-1]
    rest = tokens[1 + 2 * is_bracketed :]
    if letter.kind != "name" or letter.text not in _OPTIONS:
        return None
    if not rest:
        return Answer("option", tokens, words=letter.text) if is_bracketed or letter.upright else None
    if not is_bracketed:
        if given is not tokens and rest[0].isa(",") and rest[-1].kind == "number" and len(rest) == 2:
            rest = (rest[0]._replace(text=")"), rest[1])
        if not rest[0].isa(".", ")", ":") or len(rest) < 2 or not (rest[1].gap or rest[0].isa(")")):
            return None
        rest = rest[1:]
    elif not (rest[0].gap or letter.upright):
        return None
    triples = zip(rest, rest[1:], rest[2:], strict=False)
    others = any(one.isa("(") and two.text in _OPTIONS and three.isa(")") for one, two, three in triples)
    if others or rest[0].isa(*_NO_OPTION) or words.word(rest[0]) in ("or", "and", "not"):
        return None
    return Answer("option", tokens, parts=(parse(rest, depth),), words=letter.text)
