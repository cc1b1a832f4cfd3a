"""Words around an answer that are no part of it: "The answer is", "Therefore,"."""

from ratchet.verifiers.math import words
from ratchet.verifiers.math.parts import trimmed
from ratchet.verifiers.math.tokens import Tokens
from ratchet.verifiers.math.vocabulary import VOCABULARY

_FRAMING = VOCABULARY["framing"]
_ANNOUNCING, _ENDS, _BETWEEN = (frozenset(_FRAMING[section].split()) for section in ("announcing", "ends", "between"))


def unframed(tokens: Tokens) -> Tokens:
    """Without words at the beginning that announce an answer, up to a colon or a verb."""
    end = begin = 0
    announced = False
    while begin < len(tokens) and begin < 10:
        token, text = tokens[begin], words.word(tokens[begin])
        if not (text in _ANNOUNCING | _ENDS | _BETWEEN or (token.isa(":", ",", ".") and begin)):
            break
        announced |= text in _ANNOUNCING
        begin += 1
        if token.isa(":", ",", ".") or text in _ENDS:
            end = begin
    return trimmed(tokens[end:]) if announced and end and end < len(tokens) else tokens
