"""Words around an answer that are not part of it: "The answer is", "Therefore,"."""

from ratchet.verifiers.math import words
from ratchet.verifiers.math.parts import closing, trimmed
from ratchet.verifiers.math.tokens import Tokens
from ratchet.verifiers.math.vocabulary import VOCABULARY

_ONLY = ("only", "just")
_FRAMING = VOCABULARY["framing"]
_ANNOUNCING, _ENDS, _BETWEEN, _CONVERGING = (
    frozenset(_FRAMING[section].split()) for section in ("announcing", "ends", "between", "converging")
)
_SUBJECTS = frozenset(VOCABULARY["claims"]["subjects"].split())


def unframed(tokens: Tokens) -> Tokens:
    """The answer without its announcement, a sign of conclusion, and "only"; `E (= F)` as `E = F`."""
    while len(tokens) > 1 and tokens[0].isa("=", "\\therefore", "\\implies"):
        tokens = tokens[1:]
    return _with_note(_without_only(_without_announcement(_limit(tokens))))


def _limit(tokens: Tokens) -> Tokens:
    """The limit in `the sequence converges to ...`; any other tokens unchanged."""
    at = next((i for i, token in enumerate(tokens[:8]) if words.word(token) in _CONVERGING), len(tokens))
    is_said = all(words.word(token) in _SUBJECTS for token in tokens[:at]) and tokens[at + 1 : at + 2]
    is_limit = is_said and words.word(tokens[at + 1]) == "to" and not tokens[-1].isa("\\infty")
    return tokens[at + 2 :] or tokens if is_limit else tokens


def _without_only(tokens: Tokens) -> Tokens:
    while len(tokens) > 1 and (
        words.word(tokens[0]) in _ONLY
        or (words.word(tokens[0]) == "either" and any(words.word(token) == "or" for token in tokens))
    ):
        tokens = tokens[1:]
    return tokens[:-1] if len(tokens) > 1 and words.word(tokens[-1]) in _ONLY else tokens


def _with_note(tokens: Tokens) -> Tokens:
    opened = [i for i in range(1, len(tokens) - 2) if tokens[i].isa("(") and tokens[i + 1].isa("=", "\\approx")]
    if len(opened) != 1 or closing(tokens[opened[0] :]) != len(tokens) - 1 - opened[0]:
        return tokens
    return tokens[: opened[0]] + tokens[opened[0] + 1 : -1]


def _without_announcement(tokens: Tokens) -> Tokens:
    """The answer without words at its beginning that announce an answer, up to a colon or a verb."""
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
