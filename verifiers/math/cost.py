"""Refuse to evaluate what would take forever: a model that boxes 9^{9^{9^9}} must not cost us seconds."""

from __future__ import annotations

import re

MAX_CHARACTERS = 600
MAX_NESTING = 30
MAX_EXPONENT_DIGITS = 4
MAX_FACTORIAL = 1000
MAX_FUNCTIONS = 10

# An answer that still holds one of these is the question, not its answer, unless the reference holds it too.
_UNEVALUATED = re.compile(r"\\(?:int|iint|oint|sum|prod|lim|limsup|liminf|det|gcd|lcm|max|min|sup|inf)(?![A-Za-z])")
_TOWER = re.compile(r"\^(\{(?:[^{}]|\{[^{}]*\})*\}|\w\^)")
_VARIABLE = re.compile(r"(?<![A-Za-z\\])[a-df-zA-Z]|\\(?:theta|alpha|beta|lambda)")
_EXPONENT = re.compile(r"\^\{?-?(\d+)")
_FACTORIAL = re.compile(r"(?:(\d+)|\(([^()]*)\)|(?<![\d)}!])|[)}!])!")
_FUNCTION = re.compile(r"\\(?:arc)?(?:sin|cos|tan|cot|sec|csc|ln|log|exp)(?![a-z])")
_BINOMIAL = re.compile(r"\\binom\{?(\d+)")


def unevaluated(reference: str, answer: str) -> str:
    """What of the question the answer still holds and the reference does not; "" when nothing. Both are normalized."""
    if "\\" in answer:
        left = set(_UNEVALUATED.findall(answer)) - set(_UNEVALUATED.findall(reference))
        if left:
            return f"unevaluated {min(left)}"
    return "a tower of powers" if _has_tower(answer) and not _has_tower(reference) else ""


def too_expensive(reference: str, answer: str) -> str:
    """Why this pair must not reach computer algebra; "" when it may. Both are normalized."""
    for text in (reference, answer):
        if len(text) > MAX_CHARACTERS:
            return "too long"
        if _nesting(text) > MAX_NESTING:
            return "nested too deeply"
        if len(_FUNCTION.findall(text)) > MAX_FUNCTIONS:
            return "too many functions"
        if _has_tower(text):
            return "a tower of powers"
        if any(len(digits) > MAX_EXPONENT_DIGITS for digits in _EXPONENT.findall(text)):
            return "an exponent too large"
        if any(_large_factorial(match[1], match[2], match[0]) for match in _FACTORIAL.finditer(text)):
            return "a factorial too large"
        if any(len(digits) > 4 for digits in _BINOMIAL.findall(text)):
            return "a binomial too large"
    return ""


def _has_tower(text: str) -> bool:
    """A power in an exponent, all of numbers: 2^{2^5}, but not e^{x^2}."""
    if text.count("^") < 2:
        return False
    return any("^" in exponent and not _VARIABLE.search(exponent) for exponent in _TOWER.findall(text))


def _large_factorial(digits: str | None, inside: str | None, whole: str) -> bool:
    if digits is not None:
        return len(digits) > 4 or int(digits) > MAX_FACTORIAL
    if inside is not None:  # (2n)!, (d-k)!
        return "^" in inside or "!" in inside or any(len(number) > 3 for number in re.findall(r"\d+", inside))
    return len(whole) > 1  # a bracket, a brace or another factorial in front


def _nesting(text: str) -> int:
    depth = deepest = 0
    for character in text:
        if character in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")]}":
            depth -= 1
    return deepest
