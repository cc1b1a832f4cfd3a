"""Claims in words: yes, no, "does not exist", "cannot be determined", "converges", with the reason that may follow.

`Yes, they are orthogonal` is yes, `It converges by the p-test` is converges. What takes a claim back, adds another, or
contradicts it (`yes, or no`, `does not exist, so 5`, `Yes, it is not`) makes it none.
"""

from ratchet.verifiers.math import words
from ratchet.verifiers.math.tokens import Tokens
from ratchet.verifiers.math.vocabulary import VOCABULARY

_TABLE = VOCABULARY["claims"]
_CLAIMS = {phrase: claim for claim, phrases in _TABLE["said"].items() for phrase in phrases.split(", ")}
_SUBJECTS, _REASONS, _TAKEN_BACK = (frozenset(_TABLE[each].split()) for each in ("subjects", "reasons", "taken_back"))
_AGAINST = {claim: frozenset(words.split()) for claim, words in _TABLE["against"].items()}
_MOST_WORDS = 60


def claim(tokens: Tokens) -> str:
    """The claim in one spelling; "" for anything else."""
    if tokens[0].kind not in ("word", "run"):
        return ""
    end = next((i for i, token in enumerate(tokens[:_MOST_WORDS]) if not _spoken(token.text)), len(tokens))
    spoken = [token.text.lower() for token in tokens[:end]]
    reason = next((i for i, word in enumerate(spoken) if i and word in _REASONS), end)
    found = _CLAIMS.get(" ".join(word for word in spoken[:reason] if word not in _SUBJECTS), "")
    rest = tokens[reason:]
    if not found or not rest or (len(rest) == 1 and rest[0].isa(".", "!")):
        return found
    follows = rest[0].isa(":", "(", ";", "-", ".") or words.word(rest[0]) in _REASONS
    follows |= rest[0].isa(",") and (found in ("yes", "no") or words.word([*rest, rest[0]][1]) in _REASONS)
    return found if follows and not _is_taken_back(found, rest) else ""


def _spoken(text: str) -> bool:
    return text.isalpha() or text == "'"


def _is_taken_back(found: str, rest: Tokens) -> bool:
    said = {token.text.lower() for token in rest}
    if said & (_TAKEN_BACK | _AGAINST[found]) or "but" in [token.text.lower() for token in rest[:2]]:
        return True
    # A bare value is no reason.
    return not any((word.isalpha() and len(word) > 1) or word in ("=", "\\ne", "<", ">", "\\equiv") for word in said)
