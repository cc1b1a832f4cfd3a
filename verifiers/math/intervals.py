r"""Intervals: what inequalities in one variable leave of the line, and what unions of intervals come to."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from ratchet.verifiers.math.answer import Answer

_RELATION = re.compile(r"\\le(?![a-z])|\\ge(?![a-z])|<|>")
_MIRRORED = {">": "<", "\\ge": "\\le", "<": ">", "\\le": "\\ge"}
_ABSOLUTE = re.compile(r"\|([A-Za-z])([+-][^|]+)?\|")
_VARIABLE = re.compile(r"[A-Za-z](?:_\w)?(?:\([a-z]\))?|\\(?:theta|alpha|beta|lambda)")
_TURNED = re.compile(r"([\[\](])([^\[\](){},]+,[^\[\](){},]+)([\[\])])")


class Interval(NamedTuple):
    low: str
    high: str
    brackets: str
    variable: str


def is_relation(text: str) -> bool:
    return _RELATION.search(text) is not None


def is_variable(text: str) -> bool:
    return _VARIABLE.fullmatch(text) is not None


def intervals_of(text: str) -> list[Interval]:
    """What an inequality or a chain of two leaves of the line: one interval, or two for |x| > 3. None for others."""
    operators = _RELATION.findall(text)
    sides = [side.strip() for side in _RELATION.split(text)]
    if len(operators) > 2 or not all(sides):
        return []
    if len(sides) == 2 and (inside := _ABSOLUTE.fullmatch(sides[0])):
        low, high = (tidy(f"{sign}({sides[1]}){_negated(inside[2] or '')}") for sign in "-+")
        if operators[0] in ("<", "\\le"):
            return [_interval([low, inside[1], high], [operators[0]] * 2)]
        turned = _MIRRORED[operators[0]]
        below, above = ["-\\infty", inside[1], low], [high, inside[1], "\\infty"]
        return [_interval(below, ["<", turned]), _interval(above, [turned, "<"])]
    if {operator in ("<", "\\le") for operator in operators} == {False}:
        operators = [_MIRRORED[operator] for operator in reversed(operators)]
        sides.reverse()
    if any(operator in (">", "\\ge") for operator in operators):
        return []
    if len(sides) == 2 and is_variable(sides[0]) and not is_variable(sides[1]):
        sides, operators = ["-\\infty", *sides], ["<", *operators]
    elif len(sides) == 2:
        sides, operators = [*sides, "\\infty"], [*operators, "<"]
    return [_interval(sides, operators)] if is_variable(sides[1]) else []


def _interval(sides: list[str], operators: list[str]) -> Interval:
    brackets = ("[" if operators[0] == "\\le" else "(") + ("]" if operators[1] == "\\le" else ")")
    return Interval(sides[0], sides[2], brackets, sides[1])


def _negated(term: str) -> str:
    return f"{'-' if term[0] == '+' else '+'}({term[1:]})" if term else ""


def with_usual_brackets(text: str) -> str:
    """`]0,1[`, as most of the world writes it, as (0,1)."""
    if not text.startswith("]") and not text.endswith("["):
        return text
    parts = text.split("\\cup")
    matches = [match for part in parts if (match := _TURNED.fullmatch(part.strip()))]
    if len(matches) < len(parts):
        return text
    return "\\cup".join(
        ("[" if match[1] == "[" else "(") + match[2] + ("]" if match[3] == "]" else ")") for match in matches
    )


def tidy(text: str) -> str:
    """Without a plus that stands in front."""
    text = text.replace("=+", "=").replace("(+", "(").replace("{+", "{").replace(" ", "")
    return text[1:] if text.startswith("+") else text


def merged(parts: tuple[Answer, ...]) -> tuple[Answer, ...]:
    """A union of intervals and points with rational ends, with those that touch made one: [1,2] ∪ [2,3] is [1,3]."""
    pieces = []  # (low, is open), (high, is closed), the ends as answers
    for part in parts:
        ends = (part, part) if part.kind == "scalar" else part.parts
        brackets = "[]" if part.kind == "scalar" else part.brackets
        if len(ends) != 2 or len(brackets) != 2 or (low := _end(ends[0])) is None or (high := _end(ends[1])) is None:
            return parts
        if (low, brackets[0] == "(") > (high, brackets[1] == "]"):
            return parts
        pieces.append([(low, brackets[0] == "("), (high, brackets[1] == "]"), ends[0], ends[1]])
    pieces.sort(key=lambda piece: piece[0])
    merged = pieces[:1]
    for piece in pieces[1:]:
        (low, is_open), (high, is_closed) = piece[0], merged[-1][1]
        if low < high or (low == high and (is_closed or not is_open)):
            if piece[1] > merged[-1][1]:
                merged[-1][1], merged[-1][3] = piece[1], piece[3]
        else:
            merged.append(piece)
    return tuple(
        low_end
        if low[0] == high[0]
        else Answer(
            "tuple", "", parts=(low_end, high_end), brackets=("(" if low[1] else "[") + ("]" if high[1] else ")")
        )
        for low, high, low_end, high_end in merged
    )


def both(parts: tuple[Answer, ...]) -> tuple[Answer, ...]:
    """`x > 1, x < 3` is what lies between: as alternatives, nothing would be left out. `x < 1, x > 3` are those."""
    if len(parts) == 2 and all(part.kind == "tuple" and part.variable for part in parts):
        low, high = sorted(parts, key=lambda part: part.parts[0].text == "-\\infty")
        begin, end = low.parts[0].value, high.parts[1].value
        is_open = (low.parts[1].text, high.parts[0].text) == ("\\infty", "-\\infty")
        if is_open and low.variable == high.variable and begin is not None and end is not None and begin < end:
            ends = (low.parts[0], high.parts[1])
            return (replace(low, parts=ends, brackets=low.brackets[0] + high.brackets[1]),)
    return parts


def _end(answer: Answer) -> Fraction | float | None:
    return {"\\infty": math.inf, "-\\infty": -math.inf}.get(answer.text, answer.value)
