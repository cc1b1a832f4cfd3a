r"""Conditions on an answer's letters that follow it: `k \in \mathbb{Z}`, "for all positive integers n", `n \ge 1`.

Conditions that only one of two answers has are not compared here: those that make an answer smaller are refused with
the question (`asked.py`). Two that differ make different answers.
"""

import re

from ratchet.verifiers.math import words
from ratchet.verifiers.math.parts import closing, top_level, trimmed
from ratchet.verifiers.math.tokens import Tokens, single_letters, spelled
from ratchet.verifiers.math.vocabulary import VOCABULARY

_KINDS: dict[str, str] = VOCABULARY["domains"]
_WORDS = VOCABULARY["domain_words"]
_LEADING, _NEUTRAL, _STARTS = (frozenset(_WORDS[section].split()) for section in ("leading", "neutral", "starts"))
DECORATED = re.compile(r"(?:\^|_) (?:\{ )?(.+?)(?: \})?")
"""The mark in `^+` and `_{\\ge 0}` behind a set of numbers."""
_SIGNED = {"+": "N", "> 0": "N", "\\ge 1": "N", "\\ge 0": "N0", "*": "N", "\\cdot": "N", "\\ast": "N"}
_SETS = {f"{mark}{name}": name for name in "ZNRQC" for mark in ("\\", "")}
_RANGE = re.compile(r"(?:= )?([01]) , (?:\\pm )?[12] (?:, (?:\\pm )?[23] )?(?:, )?\.\.\.")
_INDEX = re.compile(r"(\\ge|>) (\d+)")
_MOST_LETTERS = 3
_EVERY = {"all", "any", "every", "each", "\\forall"}


def qualified(tokens: Tokens) -> tuple[Tokens, str]:
    """The answer without the conditions on its letters at its end, and these in short (`k: Z`); both empty if there are
    none."""
    for at in _candidates(tokens):
        core, tail = trimmed(tokens[:at]), tokens[at:]
        while tail and (tail[0].isa(",", ";", "\\and") or words.word(tail[0]) == "and"):
            tail = tail[1:]
        names, domain = (_said(tail) if core else None) or ((), "")
        if (
            domain
            and {token.text for token in names} <= _letters(core)
            and (domain[0] != ">" or any(_is_index(core, name.text) for name in names[:1]))
        ):
            inner, more = qualified(core)
            return inner or core, f"{more} {domain}".strip()
    return (), ""


def _candidates(tokens: Tokens) -> list[int]:
    """The positions where it may begin: at a comma, a bracket, a word, or a letter after a gap."""
    marked = any(
        token.isa("\\in", "\\forall", "...", ">", "\\ge") or words.word(token) in _STARTS | _EVERY
        for token in tokens[2:]
    )
    if not marked and not any(words.word(token) in _KINDS for token in tokens):
        return []
    top = [i for i in top_level(tokens) if i]
    found = [i for i in top if tokens[i].isa(",", ";", "\\forall") or words.word(tokens[i]) in _LEADING]
    if tokens[-1].isa(")") and (opened := [i for i in range(1, len(tokens)) if tokens[i].isa("(")]):
        found += [i for i in opened if closing(tokens[i:]) == len(tokens) - 1 - i][:1]
    if len(tokens) > 3 and any(token.isa("\\in") for token in tokens[-6:]):
        found += [
            i
            for i in top
            if tokens[i].gap and tokens[i].kind == "name" and tokens[i + 1 : i + 2] and tokens[i + 1].isa("\\in")
        ]
    return sorted({*found})


def _said(tail: Tokens) -> tuple[Tokens, str] | None:
    """The letters, and what they are."""
    if tail and tail[0].isa("(") and closing(tail) == len(tail) - 1:
        tail = tail[1:-1]
    led = list[str]()
    while tail and (said := words.word(tail[0]) or tail[0].text) in _LEADING:
        led, tail = [*led, said], tail[1:]
    if tail and words.word(tail[0]) in ("constant", "constants"):
        led, tail = [*led, "any"], tail[1:]
    if tail and len(tail) <= _MOST_LETTERS and all(token.kind == "name" for token in tail) and _EVERY & {*led}:
        return tail, "any"  # f(x) = x for all x
    spoken = [token for token in tail if words.word(token)]
    names = tuple(
        token
        for i, token in enumerate(tail)
        if token.kind == "name" and not (i and token.text in _SETS) and not (spoken and token.text == "a")
    )  # C \\in \\mathbb{R}
    if not names or len(names) > _MOST_LETTERS:
        return None
    if spoken and not any(token.kind in ("number", "command") for token in tail):
        kinds = [words.word(token) for token in spoken if words.word(token) not in _NEUTRAL]
        text = " ".join(kinds).replace("non negative", "nonnegative")
        return (
            (names, _KINDS[text]) if text in _KINDS and not any(t.isa("=", "+", "-", "/", "^") for t in tail) else None
        )
    if spoken:
        return None
    at = next((i for i, token in enumerate(tail) if token.isa("\\in")), 0)
    if at and all(token.kind == "name" or token.isa(",") for token in tail[:at]):
        kind = _set(tail[at + 1 :])
        return (tail[:at:2], kind) if kind else None
    rest = spelled(tail[1:])
    if _RANGE.fullmatch(rest):
        return tail[:1], "Z" if "\\pm" in rest else "N0" if "= 0" in rest else "N"
    if index := _INDEX.fullmatch(rest):
        return tail[:1], f">{int(index[2]) - (index[1] != '>')}"
    return None


def _set(tokens: Tokens) -> str:
    """Z for \\mathbb{Z}, N for its positive members; "" for a set that is not known."""
    if not 1 <= len(tokens) <= 8:
        return ""
    first, *rest = [*tokens]
    if first.isa("\\{"):
        is_endless = len(rest) > 2 and rest[-2].isa("...")
        return {"0": "N0", "1": "N"}.get(rest[0].text, "") if is_endless else ""
    name = _SETS.get(first.text, "")
    if name and rest:
        mark = DECORATED.fullmatch(spelled(tuple(rest)))
        sign = _SIGNED.get(mark[1], "") if mark else ""
        return sign if name in "ZN" else sign and f"{name}+"
    return name


def _letters(tokens: Tokens) -> set[str]:
    return {token.text for token in single_letters(tokens) if token.kind == "name"}


def _is_index(tokens: Tokens, name: str) -> bool:
    """True if this defines the members of a sequence by their index, a_n = ..., or powers such as n = 2^k."""
    exponents = (
        {two.text, three.text} for one, two, three in zip(tokens, tokens[1:], tokens[2:], strict=False) if one.isa("^")
    )
    if name in "kmjln" and (tokens[-1].text == name or any(name in each for each in exponents)):
        return True
    begins = [token for token in tokens[:4] if not token.isa("{")][:3]
    is_member = len(begins) == 3 and begins[0].kind == "name" and begins[1].isa("_", "(") and begins[2].text == name
    return is_member and any(token.isa("=") for token in tokens)
