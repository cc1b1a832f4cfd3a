"""Split tokens: at brackets, at the separators outside of them, and into the members of a list."""

import itertools

from ratchet.verifiers.math import words
from ratchet.verifiers.math.tokens import Tokens

_OPENING, _CLOSING = ("(", "[", "{", "\\{", "\\begin"), (")", "]", "}", "\\}", "\\end")


def trimmed(tokens: Tokens) -> Tokens:
    """Tokens without punctuation at the end."""
    while tokens and tokens[-1].isa(".", ",", ";", ":"):
        tokens = tokens[:-1]
    return tokens


def closing(tokens: Tokens) -> int:
    """The position where the first bracket closes; -1 if it does not. Intervals close with either ) or ]."""
    depth = 0
    for position, token in enumerate(tokens):
        depth += token.isa(*_OPENING) - token.isa(*_CLOSING)
        if depth == 0:
            return position
    return -1


def top_level(tokens: Tokens) -> list[int]:
    """The positions outside all brackets and environments."""
    depth, found = 0, list[int]()
    for position, token in enumerate(tokens):
        if token.isa(*_CLOSING):
            depth -= 1
            continue
        depth += token.isa(*_OPENING)
        if depth == 0:
            found.append(position)
    return found


def split_at(tokens: Tokens, at: list[int]) -> list[Tokens]:
    """The tokens between these positions."""
    return [tokens[begin + 1 : end] for begin, end in itertools.pairwise([-1, *at, len(tokens)])]


def split(tokens: Tokens, *separators: str) -> list[Tokens]:
    """Split tokens at these separators, outside of brackets."""
    if not any(token.text in separators for token in tokens):
        return [tokens]
    return split_at(tokens, [position for position in top_level(tokens) if tokens[position].isa(*separators)])


def split_groups(tokens: Tokens) -> list[Tokens]:
    """The contents of groups in braces that follow each other; empty if anything else is there."""
    groups = []
    while tokens and tokens[0].isa("{") and (end := closing(tokens)) > 1:
        groups.append(tokens[1:end])
        tokens = tokens[end + 1 :]
    return [] if tokens else groups


def listed(tokens: Tokens, *, in_braces: bool) -> list[Tokens]:
    """The members of a list: `p = 5, q = 2; p = 7, q = 2` has two. Outside of braces, commas in 1,234,567 do not
    separate."""
    top = top_level(tokens)
    wide = [i for i in top if tokens[i].isa(";", "\\vee") or words.word(tokens[i]) == "or"]
    narrow = [i for i in top if tokens[i].isa(",", "\\and", "\\wedge") or words.word(tokens[i]) in ("and", "then")]
    if wide + narrow and not any(
        tokens[i].isa("=", "\\ne", "\\in", "<", ">", "\\le", "\\ge") for i in top
    ):  # a \\wedge b
        wide, narrow = ([i for i in at if not tokens[i].isa("\\vee", "\\wedge")] for at in (wide, narrow))
    commas = (i for i in narrow if tokens[i].isa(",") and i + 1 < len(tokens))
    close = [i for i in commas if not (tokens[i].gap or tokens[i + 1].gap)]
    if close and not in_braces and all(_is_thousands(tokens, i, i - 2 in close) for i in close):
        narrow = [i for i in narrow if i not in close]
    if wide and all(_names_all(split(part, ",", "\\and")) for part in split_at(tokens, wide)):
        narrow = []
    at = sorted(wide + narrow)
    at = [i for i in at if not (tokens[i].isa(",") and i + 1 in at)]  # `1, 2, and 3`
    return [trimmed(part) for part in split_at(tokens, at)]


def grouped(tokens: Tokens) -> list[list[Tokens]]:
    """The groups of `13 and 15, or -15 and -13`, all of one size; empty for any other list."""
    top = top_level(tokens)
    at = [i for i in top if tokens[i].isa(";") or words.word(tokens[i]) == "or"]
    if not at or any(tokens[i].isa("=", "\\ne", "\\in", "<", ">", "\\le", "\\ge") for i in top):
        return []
    groups = [listed(trimmed(part), in_braces=False) for part in split_at(tokens, at)]
    sizes = {len(group) for group in groups}
    return groups if len(sizes) == 1 and min(sizes) > 1 and all(all(group) for group in groups) else []


def _names_all(parts: list[Tokens]) -> bool:
    """True for `x = 1` and `y = 2`."""
    named = {part[0].text for part in parts if len(part) > 2 and part[0].kind == "name" and part[1].isa("=")}
    return len(named) == len(parts) > 1


def _is_thousands(tokens: Tokens, comma: int, follows: bool) -> bool:
    before, after = tokens[comma - 1].text, tokens[comma + 1].text.partition(".")[0]
    fits = before.isdigit() and (len(before) == 3 if follows else len(before) <= 3 and before[0] != "0")
    return comma > 0 and fits and len(after) == 3 and after.isdigit()
