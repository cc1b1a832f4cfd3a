r"""Sets of integers: `n \equiv 2, 4 \pmod 7`, `n = 7k + 2`, "all odd integers", "n is divisible by 4", `\mathbb{Z}`,
powers of two, `\{1, 2, 4, 8, \ldots\}`.

A residue class is a congruence, all integers are one modulo 1, and a list of classes is a list of congruences.
"""

import itertools
import math
import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from ratchet.verifiers.math import words
from ratchet.verifiers.math.answer import Answer, Parse
from ratchet.verifiers.math.numerals import plain
from ratchet.verifiers.math.parts import listed, split, trimmed
from ratchet.verifiers.math.tokens import Token, Tokens, spelled
from ratchet.verifiers.math.vocabulary import VOCABULARY

_WORDS = VOCABULARY["integers"]
_NEUTRAL, _INTEGERS = (frozenset(_WORDS[each].split()) for each in ("neutral", "integers"))
_PARITIES = {"even": 0, "odd": 1}
_MOST_RESIDUES = 64
_MOST_INTEGERS = 63
_ENUMERATED = re.compile(r"(?:([A-Za-z]) (?:=|\\in) )?(?:\\\{ )?(\d+(?: , \d+)+)( , \.\.\.)?(?: \\\})?")


def number(value: int) -> Answer:
    return plain((Token("op", "-"),) * (value < 0) + (Token("number", str(abs(value)), value=Fraction(abs(value))),))


def _class(tokens: Tokens, residue: int, modulus: int, variable: str = "") -> Answer:
    return Answer("congruence", tokens, parts=(number(residue), number(modulus)), variable=variable)


def congruence(tokens: Tokens, depth: int, parse: Parse) -> Answer | None:
    r"""Parse `n \equiv 2 \pmod 7` and `12 mod 7`; several residues make a list."""
    at = next((i for i, token in enumerate(tokens) if token.isa("\\mod") or words.word(token) in ("mod", "modulo")), 0)
    before, modulus = tokens[:at], tokens[at + 1 :]
    if before and before[-1].isa("("):
        before, modulus = before[:-1], modulus[:-1] if modulus and modulus[-1].isa(")") else ()
    *name, residue = split(trimmed(before), "\\equiv")
    if not name and any(token.isa("\\in") for token in before):
        *name, residue = split(trimmed(before), "\\in")
        residue = residue[1:-1] if residue[:1] and residue[0].isa("\\{") and residue[-1].isa("\\}") else ()
    name, steps = name[:1], name[1:]  # x \\equiv 10 \\equiv 3
    if not residue or not modulus or any(t.isa("=", "<", ">", "\\equiv") for t in residue + modulus):
        return None
    if len(listed(modulus, in_braces=True)) > 1:
        return None
    members = listed(residue, in_braces=True)
    if len(members) > 1 and (not name or not all(members)):
        return None
    signed = any(token.isa("\\pm") for token in residue)
    values = [parse(member, depth) for member in members]
    values = [each for value in values for each in (value.parts if signed and value.kind == "collection" else (value,))]
    wanted, variable = parse(modulus, depth), "".join(map(spelled, name))
    if any(part.percent or (part.kind != "scalar" and len(values) > 1) for part in (*values, wanted)):
        return None
    for step in steps:
        passed, last = parse(step, depth).value, values[0].value
        if passed is None or last is None or not wanted.value or (passed - last) % wanted.value or len(values) > 1:
            return None
    parts = [Answer("congruence", tokens, parts=(value, wanted), variable=variable) for value in values]
    return parts[0] if len(parts) == 1 else Answer("collection", tokens, parts=tuple(parts), words="or")


def described(tokens: Tokens, depth: int, parse: Parse) -> Answer | None:
    r"""Parse integers in words, `4 \mid n` and `\mathbb{Z}`."""
    if len(tokens) == 1:
        return _class(tokens, 0, 1) if tokens[0].text == "\\Z" else None
    spoken = [words.word(token) for token in tokens]
    if len(tokens) == 3 and (tokens[1].isa("|") or spoken[1] == "divides") and tokens[2].kind == "name":
        return _multiples(tokens, tokens[:1], tokens[2].text)
    if not any(spoken):
        return None
    for at, (one, two) in enumerate(itertools.pairwise(spoken)):
        if (one, two) in (("divisible", "by"), ("multiple", "of"), ("multiples", "of")):
            said = _said(tokens[:at])
            return _multiples(tokens, tokens[at + 2 :], said[1]) if said and not said[0] else None
        if one in ("power", "powers") and two == "of":
            said, base = _said(tokens[:at]), _without_one(tokens[at + 2 :])
            if not said or said[0] or len(base) != 1 or base[0].kind != "number":
                return None
            power = (base[0], Token("op", "^"), Token("name", "k"))
            return replace(parse(power, depth), tokens=power, domain="N0", variable=said[1])
    if "form" in spoken[1:4] and (at := spoken.index("form")) and spoken[at - 1] in ("the", "of"):
        said = _said(tuple(token for token in tokens[:at] if words.word(token) not in ("the", "of", "in")))
        inner = parse(tokens[at + 1 :], depth) if said and not said[0] and tokens[at + 1 :] else None
        return replace(inner, domain=inner.domain or "Z") if inner and inner.node else None
    said = _said(tokens)
    if said is None or len(said[0]) > 1:
        return None
    core, name, is_integer = said
    if core in (["prime"], ["primes"]):
        return Answer("text", tokens, words="primes") if name or is_integer or core == ["primes"] else None
    if core and core[0] in _PARITIES and (name or is_integer):
        return _class(tokens, _PARITIES[core[0]], 2, name)
    return _class(tokens, 0, 1, name) if is_integer and not core else None


def _said(tokens: Tokens) -> tuple[list[str], str, bool] | None:
    """The words that say something, the one letter that they say it of, and whether they speak of integers."""
    core, names, is_integer = list[str](), list[str](), False
    for token in tokens:
        word = words.word(token)
        if word in _INTEGERS:
            is_integer = True
        elif word in _NEUTRAL or token.text == "a":
            continue
        elif word:
            core.append(word)
        elif token.kind == "name" and len(token.text) == 1:
            names.append(token.text)
        else:
            return None
    return (core, "".join(names), is_integer) if len(names) < 2 else None


def _without_one(tokens: Tokens) -> Tokens:
    """`2` of `2 (including 1)`."""
    return tokens[:1] if len(tokens) > 1 and tokens[1].isa("(") and words.word(tokens[2]) == "including" else tokens


def _multiples(tokens: Tokens, modulus: Tokens, name: str) -> Answer | None:
    value = plain(modulus).value if modulus else None
    if value is None or value.denominator != 1 or value < 2:
        return None
    return _class(tokens, 0, int(value), name)


def continued(members: list[Tokens]) -> Answer | None:
    r"""Parse lists that go on forever: `\ldots, -2, 3, 8, \ldots` and `1, 2, 4, 8, \ldots`."""
    if len(members) < 4 or not (len(members[-1]) == 1 and members[-1][0].isa("...")):
        return None
    is_open = len(members[0]) == 1 and members[0][0].isa("...")
    read = [plain(member).value for member in members[is_open:-1]]
    values = [int(each) for each in read if each is not None and each.denominator == 1]
    if len(values) < len(read) or len(values) < 3:
        return None
    steps = {two - one for one, two in itertools.pairwise(values)}
    step = abs(min(steps))
    if is_open:
        return _class((), values[0] % step, step) if len(steps) == 1 and step else None
    name = Token("name", "k")
    if len(steps) == 1 and min(steps) > 0:
        tokens = (*number(values[0]).tokens, Token("op", "+"), *number(step).tokens, name)
        return replace(plain(tokens), domain="N0")
    ratio = values[1] // values[0] if values[0] > 0 else 0
    if ratio > 1 and len(values) > 3 and all(two == ratio * one for one, two in itertools.pairwise(values)):
        tokens = (*number(values[0]).tokens, Token("op", "\\cdot"), *number(ratio).tokens, Token("op", "^"), name)
        return replace(plain(tokens[2:] if values[0] == 1 else tokens), domain="N0")
    return None


def integers_in(interval: Answer) -> Answer | None:
    r"""The list of integers in an interval: `-2 \le n \le 2`; None if there are too many."""
    low, high = (end.value for end in interval.parts) if len(interval.parts) == 2 else (None, None)
    if low is None or high is None or not 0 <= high - low <= _MOST_INTEGERS:
        return None
    begin = math.floor(low) + 1 if interval.brackets[0] == "(" else math.ceil(low)
    end = math.ceil(high) - 1 if interval.brackets[1] == ")" else math.floor(high)
    numbers = [Fraction(each) for each in range(begin, end + 1)]
    return Answer("collection", parts=tuple(Answer("scalar", node=("number", each), value=each) for each in numbers))


def bounds(answer: Answer) -> tuple[str, int | None, int | None] | None:
    r"""The name, least and greatest of consecutive integers: of `k > 1`, of `k \in \{2, 3, ...\}`, of a list of them;
    None for a missing bound, and for anything else."""
    if answer.domain not in ("", "Z", "N", "N0"):
        return None
    if answer.kind == "tuple" and answer.variable and len(answer.parts) == 2 and len(answer.brackets) == 2:
        low, high = (end.value for end in answer.parts)
        least = None if low is None else math.floor(low) + 1 if answer.brackets[0] == "(" else math.ceil(low)
        greatest = None if high is None else math.ceil(high) - 1 if answer.brackets[1] == ")" else math.floor(high)
        return answer.variable, least, greatest
    written = _ENUMERATED.fullmatch(spelled(answer.tokens))
    numbers = [int(each) for each in re.findall(r"\d+", written[2])] if written else []
    if not written or len(numbers) < 2 or numbers != [*range(numbers[0], numbers[0] + len(numbers))]:
        return None
    return written[1] or "", numbers[0], None if written[3] else numbers[-1]


Residues = tuple[int, frozenset[int], str]
"""A modulus, its residues, and the name of the integer."""


def same_residues(
    reference: Answer, answer: Answer, progressions: Callable[[Answer], list[tuple[Fraction, Fraction]]]
) -> bool:
    """True if both are the same residue classes, as congruences or as `7k + 2`."""
    if not any(part.kind == "congruence" for side in (reference, answer) for part in (side, *side.parts)):
        return False
    ours, theirs = residues(reference, progressions), residues(answer, progressions)
    if ours is None or theirs is None or len({ours[2], theirs[2]} - {""}) > 1:
        return False
    modulus = math.lcm(ours[0], theirs[0])
    if modulus > _MOST_RESIDUES * min(ours[0], theirs[0]):
        return False
    one, other = ({r + each[0] * i for r in each[1] for i in range(modulus // each[0])} for each in (ours, theirs))
    return one == other


def residues(answer: Answer, progressions: Callable[[Answer], list[tuple[Fraction, Fraction]]]) -> Residues | None:
    """The residue classes of an answer under one modulus; None for anything else."""
    members = answer.parts if answer.kind == "collection" else (answer,)
    found, names = list[tuple[int, int]](), set[str]()
    for member in members:
        if member.kind == "congruence":
            values = [part.value for part in member.parts]
            pairs = [(values[0], values[1])]
            names.add(member.variable)
        elif (member.domain or answer.domain) == "Z":
            pairs = [*progressions(member)]
            names.add(member.parts[0].text if member.kind == "equation" else "")
        else:
            return None
        for begin, step in pairs:
            if begin is None or not step or begin.denominator * step.denominator > 1:
                return None
            found.append((int(begin % abs(step)), int(abs(step))))
        if not pairs:
            return None
    modulus = math.lcm(*(step for _, step in found)) if found else 0
    if not 0 < modulus < 10**6 or len(names - {""}) > 1 or any(modulus // step > 10**4 for _, step in found):
        return None
    every = frozenset(begin + i * step for begin, step in found for i in range(modulus // step))
    return modulus, every, "".join(names)
