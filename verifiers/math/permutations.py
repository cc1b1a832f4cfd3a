r"""Permutations as disjoint cycles: `(1\;5\;3)(2\;4)` is `(4\ 2)(3\ 1\ 5)`."""

from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.parts import closing
from ratchet.verifiers.math.tokens import Token, Tokens

_MOST = 100


def cycles(tokens: Tokens, depth: int, loose: bool = False) -> Answer | None:
    """The cycles in one spelling as `words`, each from its smallest member on; None for anything else. `loose`: also
    `(1,5,3)` and `(153)`, for a question that asks for cycles."""
    groups: list[list[int]] = []
    rest = tokens
    while rest and rest[0].isa("("):
        end = closing(rest)
        inside = rest[1:end]
        if loose:
            digits = [token.text for token in inside if not token.isa(",")]
            digits = [*digits[0]] if len(digits) == 1 and digits[0].isdigit() else digits
            inside = tuple(Token("number", digit, gap=True) for digit in digits)
        if end < 2 or not all(
            token.text.isascii() and token.text.isdigit() and (token.gap or not i) for i, token in enumerate(inside)
        ):
            return None
        groups.append([int(token.text) for token in inside])
        rest = rest[end + 1 :]
    members = [each for group in groups for each in group]
    is_disjoint = 0 < len(members) == len({*members}) and max(members) < _MOST
    if rest or not is_disjoint or all(len(group) < 2 for group in groups):
        return None
    turned = sorted(group[group.index(min(group)) :] + group[: group.index(min(group))] for group in groups)
    return Answer("text", tokens, words="cycles " + " ".join(f"({' '.join(map(str, group))})" for group in turned))
