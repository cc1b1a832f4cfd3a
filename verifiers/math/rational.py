"""Numbers in the notations of people: integers with thousands separators, decimals, repeating decimals, scientific
notation. Python's fractions only: nothing is rounded."""

from __future__ import annotations

import re
from fractions import Fraction

_NUMBER = re.compile(r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)?(?:\.\d*)?")
_REPEATING = re.compile(r"\\overline\{(\d+)\}|\\bar\{?(\d+)\}?|\\dot\{?(\d)\}?|\((\d+)\)")
_SCIENTIFIC = re.compile(r"[eE]([+-]?\d{1,4})(?![\d.A-Za-z\\({^])")


def read_number(text: str, begin: int) -> tuple[Fraction, int] | None:
    """The number that begins at `begin`, and where it ends; None when there is none, or it is not to be understood."""
    found = _NUMBER.match(text, begin)
    end = found.end() if found else begin
    digits = text[begin:end].replace(",", "")
    if not any(character.isdigit() for character in digits):
        return None
    if "." not in digits:
        value = Fraction(digits)
    elif text.startswith("...", end):
        value = _continued(digits)
        return None if value is None else (value, end + 3)
    elif digits.endswith(".") and text.startswith("..", end):
        return None
    elif repeating := _REPEATING.match(text, end):
        cycle = next(group for group in repeating.groups() if group)
        return Fraction(digits) + _cycle(cycle, len(digits) - digits.index(".") - 1), repeating.end()
    else:
        value = Fraction(digits)
    if exponent := _SCIENTIFIC.match(text, end):
        return value * Fraction(10) ** int(exponent[1]), exponent.end()
    return value, end


def _continued(digits: str) -> Fraction | None:
    """0.333... and 0.142857142857...: only when the digits shown repeat at least three times (twice if long)."""
    decimals = digits.partition(".")[2]
    for length in range(1, len(decimals) // 2 + 1):
        times = 3 if length < 4 else 2
        if decimals.endswith(decimals[-length:] * times):
            start = len(decimals) - times * length
            return Fraction(digits[: len(digits) - times * length]) + _cycle(decimals[-length:], start)
    return None


def _cycle(digits: str, places: int) -> Fraction:
    """The worth of digits that repeat for ever after so many places."""
    return Fraction(int(digits), (10 ** len(digits) - 1) * 10**places)
