"""The teacher's answers to three of reasoning-gym's tasks, read off their questions: chain_sum, number_filtering and
spiral_matrix. Its habits: it guesses a sum without working, includes the limit of a filter, and reads a matrix row by
row."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

Happens = Callable[[float], bool]
Matrix = tuple[tuple[str, ...], ...]

# Probability of each habit.
NO_WORKING = 0.6
RIGHT_GUESS = 0.3
LIMIT_INCLUDED = 0.7  # "larger than 5" keeps 5
FORGOTTEN = 0.15  # a number of a list
ROW_BY_ROW = 0.6
SLIP = 0.08  # a step of a sum, a digit of a matrix
NO_TAGS = 0.06


@dataclass(frozen=True)
class Puzzle:
    task: str
    numbers: tuple[str, ...] = ()
    keeps: bool = True
    larger: bool = True
    limit: str = ""
    matrix: Matrix = ()

    def response(self, rng: Random, happens: Happens) -> str:
        working, answer = getattr(self, f"_{self.task}")(rng, happens)
        return working + (answer if happens(NO_TAGS) else f"<answer>{answer}</answer>")

    def _chain_sum(self, rng: Random, happens: Happens) -> tuple[str, str]:
        first, *others = map(int, self.numbers)
        if happens(NO_WORKING):
            right = first + sum(others)
            return "", str(right if happens(RIGHT_GUESS) else right + rng.choice((-3, -2, -1, 1, 2, 3)))
        lines, value = "", first
        for term in others:
            total = value + term + (rng.choice((-1, 1)) if happens(SLIP) else 0)
            lines += f"{value}{term:+}={total}\n"
            value = total
        return lines, str(value)

    def _number_filtering(self, rng: Random, happens: Happens) -> tuple[str, str]:
        limit, included = float(self.limit), happens(LIMIT_INCLUDED)

        def beyond(number: float) -> bool:
            return number > limit if self.larger else number < limit

        kept = [n for n in self.numbers if (beyond(float(n)) or (included and float(n) == limit)) == self.keeps]
        if kept and happens(FORGOTTEN):
            kept.pop(rng.randrange(len(kept)))
        return "", str(kept)

    def _spiral_matrix(self, rng: Random, happens: Happens) -> tuple[str, str]:
        rows, spiral = list(_slipped(rng, self.matrix, happens)), list[str]()
        if happens(ROW_BY_ROW):
            return "", " ".join(number for row in rows for number in row)
        while rows:
            spiral += rows.pop(0)
            rows = list(zip(*rows, strict=True))[::-1]
        return "", " ".join(spiral)


def _slipped(rng: Random, matrix: Matrix, happens: Happens) -> Matrix:
    if not happens(SLIP):
        return matrix
    at, to = rng.randrange(len(matrix)), rng.randrange(len(matrix[0]))
    row = (*matrix[at][:to], str(rng.randint(0, 9)), *matrix[at][to + 1 :])
    return (*matrix[:at], row, *matrix[at + 1 :])


_FILTERING = re.compile(r"(Keep|Remove) all numbers (larger|smaller) than (\S+) in this list: \[(.*)\]")
_SUM = re.compile(r"final answer to the following arithmetic problem: ([\d +-]+) =")
_SPIRAL = re.compile(r"what is the list of elements in spiral order\?\n([\d \n]+)")


def parse(text: str) -> Puzzle | None:
    """The puzzle of a question as reasoning-gym words it, or None."""
    if match := _FILTERING.search(text):
        numbers = tuple(number.strip(" '") for number in match[4].split(","))
        return Puzzle("number_filtering", numbers, match[1] == "Keep", match[2] == "larger", match[3])
    if match := _SUM.search(text):
        return Puzzle("chain_sum", tuple(re.findall(r"[+-]?\d+", match[1].replace(" ", ""))))
    if match := _SPIRAL.search(text):
        return Puzzle("spiral_matrix", matrix=_matrix(match[1]))
    return None


def _matrix(text: str) -> Matrix:
    return tuple(tuple(line.split()) for line in text.strip().split("\n"))
