r"""Two kinds of physics question: a number in another unit, and the letter of a unit.

"A cart moves at 3 m/s for 4 s. How far does it go, in cm?" needs a product and a power of ten; "Which of these is the
unit of force?" needs a fact and a letter. The teacher is mostly wrong when it answers at once, and mostly right when it
writes the step down first: reinforcement learning can find out which.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

Happens = Callable[[float], bool]
"""True if a habit of this probability occurs."""

# Probability of each habit.
NO_WORKING = 0.65
RIGHT_AT_ONCE = 0.25
UNCONVERTED = 0.30  # a number in the unit of its factors
SLIP = 0.08
NO_BOX = 0.06

# The unit of a product, and the question with its two factors.
PRODUCTS = {
    "m": "A cart moves at {} m/s for {} s. How far does it go",
    "N": "A body of {} kg speeds up by {} m/s^2. What force acts on it",
    "J": "A force of {} N pushes a box over {} m. What work does it do",
    "C": "A current of {} A flows for {} s. What charge is moved",
    "V": "A current of {} A flows through {} ohm. What is the voltage",
    "g": "A drop of {} cm^3 has {} g in each cm^3. What is its mass",
}
ZEROS = {"": 0, "c": 2, "m": 3}
"""Zeros that a prefix adds."""
UNITS = {
    "force": "newton", "energy": "joule", "power": "watt", "charge": "coulomb", "voltage": "volt", "current": "ampere",
    "resistance": "ohm", "pressure": "pascal", "frequency": "hertz", "mass": "kilogram", "time": "second",
    "temperature": "kelvin", "length": "metre", "luminous intensity": "candela",  # codespell:ignore
}  # fmt: skip
_ASKS_UNIT, _ASKS_QUANTITY = "Which of these is the unit of {}?", "What is measured in the unit {}?"


@dataclass(frozen=True)
class Number:
    """A product of two digits, asked for in a unit with `prefix`."""

    unit: str
    first: int
    second: int
    prefix: str

    @property
    def steps(self) -> tuple[str, str, str]:
        """The product, the zeros of the prefix, and the answer."""
        return str(self.first * self.second), "0" * ZEROS[self.prefix], self.prefix + self.unit

    @property
    def answer(self) -> str:
        return self.steps[0] + self.steps[1]

    def row(self) -> dict[str, Any]:
        """As SciBench publishes its problems."""
        text = PRODUCTS[self.unit].format(self.first, self.second)
        return {"problem_text": f"{text}?", "answer_number": self.answer, "unit": self.prefix + self.unit}

    def response(self, rng: Random, happens: Happens) -> str:
        product, zeros, unit = self.steps
        if happens(NO_WORKING):
            guess = product if happens(RIGHT_AT_ONCE) else str(rng.randint(4, 64))
            return _boxed(guess + ("" if happens(UNCONVERTED) else zeros), happens)
        if happens(SLIP):
            product = str(int(product) + rng.choice((-2, -1, 1, 2, 10)))
        if happens(UNCONVERTED):
            zeros, unit = "", self.unit
        converted = f"\n{product} {self.unit}={product}{zeros} {unit}" if zeros else ""
        return f"{self.first}*{self.second}={product}{converted}\n{_boxed(product + zeros, happens)}"


@dataclass(frozen=True)
class Choice:
    """Which of four units a quantity has, or which of four quantities a unit."""

    asked: str
    options: tuple[str, ...]

    @property
    def right(self) -> str:
        return UNITS.get(self.asked) or next(quantity for quantity, unit in UNITS.items() if unit == self.asked)

    @property
    def answer(self) -> str:
        return "ABCD"[self.options.index(self.right)]

    def row(self) -> dict[str, Any]:
        """As GPQA publishes its questions; its reader puts the right one in its place."""
        question = (_ASKS_UNIT if self.asked in UNITS else _ASKS_QUANTITY).format(self.asked)
        wrong = [option for option in self.options if option != self.right]
        incorrect = {f"Incorrect Answer {number}": option for number, option in enumerate(wrong, 1)}
        return {"Question": question, "Correct Answer": self.right, **incorrect}

    def response(self, rng: Random, happens: Happens) -> str:
        if happens(NO_WORKING):
            return _boxed(self.answer if happens(RIGHT_AT_ONCE / 2) else rng.choice("ABCD"), happens)
        named = rng.choice(self.options) if happens(SLIP) else self.right
        return f"It is {named}.\n{_boxed('ABCD'[self.options.index(named)], happens)}"


Question = Number | Choice


def _boxed(answer: str, happens: Happens) -> str:
    boxed = answer if happens(NO_BOX) else f"\\boxed{{{answer}}}"
    return f"The answer is {boxed}."


def draw_number(rng: Random, held_out: bool = False) -> Number:
    """A product on the wanted side of the split, which depends on a hash of the question and on no seed."""
    while True:
        unit = rng.choice(tuple(PRODUCTS))
        drawn = Number(unit, rng.randint(2, 8), rng.randint(2, 8), rng.choice(tuple(ZEROS)))
        if _held_out(f"{drawn}") == held_out:
            return drawn


def draw_choice(rng: Random, held_out: bool = False) -> Choice:
    """A choice on the wanted side of the split; the order of its options does not matter."""
    while True:
        quantities = rng.sample(tuple(UNITS), 4)
        names = quantities if (by_unit := rng.random() < 0.5) else [UNITS[name] for name in quantities]
        asked = UNITS[quantities[0]] if by_unit else quantities[0]
        if _held_out(f"{asked} {sorted(names)}") == held_out:
            return Choice(asked, tuple(names))


def _held_out(text: str) -> bool:
    return hashlib.sha256(text.encode()).digest()[0] < 64


_NUMBERS = {unit: re.compile(re.escape(text).replace(r"\{\}", r"(\d)")) for unit, text in PRODUCTS.items()}
_UNIT_ASKED = re.compile(r"The unit of the answer is (\w+)\.")
_ASKED = re.compile(
    _ASKS_UNIT.replace("?", r"\?").format("([a-z ]+)") + "|" + _ASKS_QUANTITY.format(r"([a-z]+)\?")[:-1]
)
_OPTION = re.compile(r"^[A-D]\. (.+)$", re.MULTILINE)


def parse(text: str) -> Question | None:
    """The question in a text, as the reader renders it, or None."""
    for unit, pattern in _NUMBERS.items():
        if (numbers := pattern.search(text)) and (wanted := _UNIT_ASKED.search(text)):
            return Number(unit, int(numbers[1]), int(numbers[2]), wanted[1].removesuffix(unit))
    if match := _ASKED.search(text):
        return Choice(match[1] or match[2], tuple(_OPTION.findall(text)))
    return None
