r"""Chemical equations: `2H2 + O2 -> 2H2O` is `\ce{O2 + 2H2 -> 2H2O}`."""

from ratchet.verifiers.math.parts import split
from ratchet.verifiers.math.tokens import Tokens

Reaction = tuple[list[str], list[str]]
_NOTHING = ("\\ce", "{", "}", "_")


def reaction(tokens: Tokens) -> Reaction | None:
    """The two sides of a reaction with their terms in one order; None for anything else."""
    at = [i for i, token in enumerate(tokens) if token.isa("\\implies", ">")]
    if len(at) != 1:
        return None
    left, right = tokens[: at[0]], tokens[at[0] + 1 :]
    left = left[:-1] if left and left[-1].isa("-") else left  # of ->
    sides = [_terms(side) for side in (left, right)]
    return (sides[0], sides[1]) if all(sides) else None


def _terms(side: Tokens) -> list[str]:
    plain = tuple(token for token in side if not token.isa(*_NOTHING))
    terms = ["".join(token.text for token in term) for term in split(plain, "+")]
    return sorted(terms) if all(term.isalnum() and not term.isdigit() for term in terms) else []
