"""Exact numbers: what an answer is worth when it is a rational number, whatever its notation.

Integers with thousands separators, decimals, repeating decimals, scientific notation, fractions, mixed numbers, powers,
small factorials, and arithmetic over them. Python's fractions only: nothing is rounded, nothing can run long.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

_SIMPLE = re.compile(r"-?(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d*)?|-?\.\d+")
_NUMBER = re.compile(r"(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d*)?")
_REPEATING = re.compile(r"\\overline\{(\d+)\}|\\bar\{?(\d+)\}?|\\dot\{?(\d)\}?|\((\d+)\)")
_SCIENTIFIC = re.compile(r"[eE]([+-]?\d{1,4})(?![\d.])")
_LARGEST_POWER_BITS = 16_384
_LARGEST_FACTORIAL = 500
_DEPTH = 20


class _NotRational(Exception):
    pass


def parse_rational(text: str) -> Fraction | None:
    """The exact value of a normalized answer, or None when it is not (written as) a rational number."""
    if _SIMPLE.fullmatch(text):
        return Fraction(text.replace(",", "")) if len(text) <= 2000 else None
    if not any(character.isdigit() for character in text):
        return None
    try:
        parser = _Parser(text)
        value = parser.sum(0)
        return value if parser.position == len(text) else None
    except (_NotRational, ZeroDivisionError):
        return None


class _Parser:
    """Recursive descent over: sum, product, power, number | \\frac{}{} | ( ) | { }."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def _eat(self, *options: str) -> str | None:
        for option in options:
            if self.text.startswith(option, self.position):
                self.position += len(option)
                while self.text.startswith(" ", self.position):
                    self.position += 1
                return option
        return None

    def sum(self, depth: int) -> Fraction:
        if depth > _DEPTH:
            raise _NotRational
        total = self._product(depth)
        while sign := self._eat("+", "-"):
            term = self._product(depth)
            total = total + term if sign == "+" else total - term
        return total

    def _product(self, depth: int) -> Fraction:
        sign = 1
        while eaten := self._eat("-", "+"):
            sign = -sign if eaten == "-" else sign
        value = self._power(depth)
        while operator := self._eat("\\cdot", "\\times", "*", "/"):
            factor_sign = -1 if self._eat("-") else 1
            factor = self._power(depth) * factor_sign
            value = value / factor if operator == "/" else value * factor
        return sign * value

    def _power(self, depth: int) -> Fraction:
        base = self._atom(depth)
        if self._eat("!"):
            if base.denominator != 1 or not 0 <= base <= _LARGEST_FACTORIAL or self._eat("!"):
                raise _NotRational
            base = Fraction(math.factorial(int(base)))
        if self._eat("^"):
            negative = self._eat("-") is not None
            exponent = self._braced(depth) if self.text.startswith("{", self.position) else self._digit()
            exponent = -exponent if negative else exponent
            bits = max(base.numerator.bit_length(), base.denominator.bit_length())
            if exponent.denominator != 1 or abs(exponent) * bits > _LARGEST_POWER_BITS:
                raise _NotRational
            base = base ** int(exponent)
        return base

    def _digit(self) -> Fraction:
        """`2^10` means 2^1 followed by 0 in LaTeX; nobody who writes it means that."""
        match = re.compile(r"\d+").match(self.text, self.position)
        if not match:
            raise _NotRational
        self.position = match.end()
        return Fraction(int(match[0][:20]))

    def _braced(self, depth: int) -> Fraction:
        if not self._eat("{"):
            raise _NotRational
        value = self.sum(depth + 1)
        if not self._eat("}"):
            raise _NotRational
        return value

    def _atom(self, depth: int) -> Fraction:
        if self._eat("\\frac"):
            return self._braced(depth) / self._braced(depth)
        if self._eat("\\binom"):
            top, bottom = self._braced(depth), self._braced(depth)
            if top.denominator * bottom.denominator != 1 or not 0 <= bottom <= top <= _LARGEST_FACTORIAL:
                raise _NotRational
            return Fraction(math.comb(int(top), int(bottom)))
        if self.text.startswith("{", self.position):
            return self._braced(depth)
        if self._eat("("):
            value = self.sum(depth + 1)
            if not self._eat(")"):
                raise _NotRational
            return value
        return self._number(depth)

    def _number(self, depth: int) -> Fraction:
        ellipsis = _NUMBER.match(self.text, self.position)
        end = ellipsis.end() if ellipsis else self.position
        digits = self.text[self.position : end].replace(",", "")
        if not any(character.isdigit() for character in digits):
            raise _NotRational
        whole = "." not in digits
        if not whole and self.text.startswith("..", end) and digits.endswith("."):
            raise _NotRational
        if not whole and self.text.startswith("...", end):
            return self._continued(digits, end)
        value = Fraction(digits)
        self.position = end
        if not whole and (repeating := _REPEATING.match(self.text, end)):
            cycle = next(group for group in repeating.groups() if group)
            places = len(digits) - digits.index(".") - 1
            value += Fraction(int(cycle), (10 ** len(cycle) - 1) * 10**places)
            self.position = repeating.end()
        elif exponent := _SCIENTIFIC.match(self.text, end):
            value *= Fraction(10) ** int(exponent[1])
            self.position = exponent.end()
        elif whole and self._eat("\\frac"):  # a mixed number
            fraction = self._braced(depth) / self._braced(depth)
            if not 0 <= fraction < 1:
                raise _NotRational
            value += fraction
        return value

    def _continued(self, digits: str, end: int) -> Fraction:
        """0.333... and 0.142857142857...: only when the digits shown repeat at least three times (twice if long)."""
        head, _, decimals = digits.partition(".")
        for length in range(1, len(decimals) // 2 + 1):
            times = 3 if length < 4 else 2
            cycle = decimals[-length:]
            if len(decimals) >= times * length and decimals.endswith(cycle * times):
                self.position = end + 3
                start = decimals[: len(decimals) - times * length]
                value = Fraction(int(head or 0)) + (Fraction(int(start), 10 ** len(start)) if start else 0)
                return value + Fraction(int(cycle), (10**length - 1) * 10 ** len(start))
        raise _NotRational
