"""Refuse to evaluate what would take forever: a model that boxes 9^{9^{9^9}} must not cost us seconds."""

from __future__ import annotations

import re

MAX_CHARACTERS = 600
MAX_NESTING = 30
MAX_EXPONENT_DIGITS = 4
MAX_FACTORIAL = 1000

# An answer that still holds one of these is the question, not its answer, unless the reference holds it too.
_UNEVALUATED = re.compile(r"\\(?:int|iint|oint|sum|prod|lim|limsup|liminf|det|gcd|lcm|max|min|sup|inf)(?![A-Za-z])")
_TOWER = re.compile(r"\^\{[^{}]*\^|\^\d\^")
_EXPONENT = re.compile(r"\^\{?-?(\d+)")
_FACTORIAL = re.compile(r"(\d*)(\)|\})?!")
_BINOMIAL = re.compile(r"\\binom\{?(\d+)")


def too_expensive(reference: str, answer: str) -> str:
    """Why this pair must not reach computer algebra; "" when it may. Both are normalized."""
    for text in (reference, answer):
        if len(text) > MAX_CHARACTERS:
            return "too long"
        if _nesting(text) > MAX_NESTING:
            return "nested too deeply"
        if _TOWER.search(text):
            return "a tower of powers"
        if any(len(digits) > MAX_EXPONENT_DIGITS for digits in _EXPONENT.findall(text)):
            return "an exponent too large"
        for digits, bracket in _FACTORIAL.findall(text):
            if bracket or len(digits) > 4 or int(digits or 0) > MAX_FACTORIAL:
                return "a factorial too large"
        if any(len(digits) > 4 for digits in _BINOMIAL.findall(text)):
            return "a binomial too large"
    unevaluated = set(_UNEVALUATED.findall(answer)) - set(_UNEVALUATED.findall(reference))
    return f"unevaluated {min(unevaluated)}" if unevaluated else ""


def _nesting(text: str) -> int:
    depth = deepest = 0
    for character in text:
        if character in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")]}":
            depth -= 1
    return deepest
