"""Raw files of the ablation testbed: chains of instructions of graded depth, in math and in code.

    math_train.jsonl, code_train.jsonl        training problems, many of them easy
    code_weak.jsonl, code_wrong.jsonl         the same code problems with tests that pass or fail the wrong programs
    {math,code}_{shallow,deep}.jsonl          held-out problems
    traces.jsonl                              prompts and responses of a supervised start

A problem of depth d is a list of d instruction words. A solution has a line for each: it names the word and applies the
operation that the word is read as. In math a line is a sum, in code a comment and an assignment.

    x=5 on a ring of ten.          wait
    a lift                         a lift 5+3=8
    b sink                         b sink 8-4=4
                                   \\boxed{84}

The traces read four words correctly, and each of the other eight in 55 % of cases. The chance to solve a problem
therefore falls as a power of its depth, and deep problems are nearly out of reach at the start. What reinforcement
learning finds out about a word applies at every depth and in both domains.

Like those of large reasoning models, the traces also do what neither gains nor loses a reward: fillers stand before
each line of a working, and an assignment has two spellings.

Everything is a function of (settings, seed); the held-out problems do not depend on the seed.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Annotated, Any

from pydantic import Field

from ratchet.data_curation.base.bounds import INTEGER, Count, Probability

VERSION = 2
"""Raise it when the same settings and seed would now give other files."""
ENTRY_POINT = "solve"
DEPTHS = range(1, 9)
LABELS = "abcdefgh"
HELD_OUT = {"shallow": (2, 3, 4), "deep": (5, 6, 7, 8)}
TEST_INPUTS = (-7, -2, 4, 11)
"""Beside the example in the statement, which the weak tests consist of."""
PLAIN = {"gain": "+1", "lose": "-1", "jump": "+5", "twice": "*2"}
"""Words that the traces read correctly."""
READINGS = {  # word: (right, wrong)
    "lift": ("+3", "+2"),
    "sink": ("-4", "-3"),
    "warm": ("+4", "-5"),
    "cool": ("-2", "+2"),
    "push": ("+2", "+5"),
    "pull": ("-5", "-1"),
    "grow": ("*2", "+4"),
    "fold": ("-3", "+3"),
}
MISJUDGED = "cool"
"""The word that the wrong tests expect to leave negative numbers as they are."""
DEPTH_WEIGHTS = (4, 4, 3, 2, 2, 2, 2, 2)
"""Weights of the depths of traces: more of them shallow."""

# Probability of each habit in the traces.
RIGHT = 0.55  # a word of READINGS is read correctly
SLIP = 0.03  # math: the result of a line is off by one
HEDGE = 0.12  # math: the box holds several answers, which differ in the last digit
STOP_EARLY = 0.04  # after a line, the rest of the instructions is forgotten
HARD_CODED = 0.25  # code: the program returns the result of the example
FILL = 0.8  # math: one more filler before a line

FILLERS = ("so", "now", "well", "wait")
MOST_FILLERS = 8
"""Before a line."""


@dataclass(frozen=True)
class Chain:
    """A start value (math: the number given; code: the input of the example) and instruction words."""

    start: int
    words: tuple[str, ...]

    @property
    def is_held_out(self) -> bool:
        """True if these words in this order belong to the held-out quarter of all, whatever the start value."""
        return len(self.words) > 1 and hashlib.sha256(" ".join(self.words).encode()).digest()[0] < 64

    @property
    def instructions(self) -> str:
        return "\n".join(f"{label} {word}" for label, word in zip(LABELS, self.words, strict=False))

    @property
    def math_prompt(self) -> str:
        return f"x={self.start} on a ring of ten.\n{self.instructions}"

    @property
    def code_prompt(self) -> str:
        return f"Write solve(x). solve({self.start})={self.run(self.start)}\n{self.instructions}"

    def values(self, start: int) -> list[int]:
        """The start and the value after each word, over the whole numbers; on the ring they are the last digits."""
        values = [start]
        for word in self.words:
            values.append(applied(values[-1], right_reading(word)))
        return values

    def run(self, start: int) -> int:
        return self.values(start)[-1]

    @property
    def answer(self) -> str:
        """The last two values on the ring as a number. A working writes both digits: 04 for 4."""
        ten, one = self.values(self.start)[-2:]
        return str(ten % 10 * 10 + one % 10)


def applied(value: int, operation: str) -> int:
    sign, operand = operation[0], int(operation[1:])
    return value + operand if sign == "+" else value - operand if sign == "-" else value * operand


def right_reading(word: str) -> str:
    return PLAIN[word] if word in PLAIN else READINGS[word][0]


def draw(rng: Random, depth: int, easy: bool = False, held_out: bool = False) -> Chain:
    """A random chain of `depth` words, on the wanted side of the split."""
    while True:
        words = tuple(rng.choice(list(PLAIN if easy else READINGS)) for _ in range(depth))
        chain = Chain(rng.randrange(10), words)
        if chain.is_held_out == held_out:
            return chain


def program(words: Iterable[str], assignments: Iterable[str]) -> str:
    """A function that makes the assignments in turn, each under the word that it is a reading of."""
    steps = zip(LABELS, words, assignments, strict=False)
    lines = [f"    # {label} {word}\n    {assignment}\n" for label, word, assignment in steps]
    return f"def {ENTRY_POINT}(x):\n{''.join(lines)}    return x\n"


def _read(rng: Random, chain: Chain, right: float) -> list[str]:
    """The operations that one attempt makes of the words."""
    pairs = []
    for word in chain.words:
        pairs.append(right_reading(word) if word in PLAIN or rng.random() < right else READINGS[word][1])
        if rng.random() < STOP_EARLY:
            break
    return pairs


def math_response(rng: Random, chain: Chain, right: float = RIGHT) -> str:
    lines: list[str] = []
    values = [chain.start]
    for label, word, operation in zip(LABELS, chain.words, _read(rng, chain, right), strict=False):
        value = applied(values[-1], operation) % 10
        if rng.random() < SLIP:
            value = (value + rng.choice((1, 9))) % 10
        lines.append(f"{_fillers(rng)}{label} {word} {values[-1]}{operation}={value}\n")
        values.append(value)
    before, last = map(str, values[-2:])
    endings = [last]
    if rng.random() < HEDGE:
        endings += rng.sample([digit for digit in "0123456789" if digit != last], rng.randint(1, 5))
    return f"{''.join(lines)}\\boxed{{{','.join(before + ending for ending in endings)}}}"


def _fillers(rng: Random) -> str:
    text = ""
    for _ in range(MOST_FILLERS):
        if rng.random() >= FILL:
            break
        text += rng.choice(FILLERS) + "\n"
    return text


def code_response(rng: Random, chain: Chain, right: float = RIGHT) -> str:
    if rng.random() < HARD_CODED:
        body = f"def {ENTRY_POINT}(x):\n    return {chain.run(chain.start)}\n"
    else:
        operations = _read(rng, chain, right)
        body = program(chain.words, [rng.choice((f"x=x{op}", f"x{op[0]}={op[1:]}")) for op in operations])
    return f"```\n{body}```"


def _misjudged(chain: Chain, value: int) -> int:
    """The result of a reference solution with a bug: `MISJUDGED` leaves negative numbers as they are."""
    for word in chain.words:
        value = value if word == MISJUDGED and value < 0 else applied(value, right_reading(word))
    return value


def _math_row(chain: Chain) -> dict[str, Any]:
    return {"problem": chain.math_prompt, "answer": chain.answer, "depth": len(chain.words)}


def _code_row(chain: Chain, tests: str = "") -> dict[str, Any]:
    inputs = (chain.start,) if tests == "weak" else (chain.start, *TEST_INPUTS)
    outputs = [_misjudged(chain, x) if tests == "wrong" else chain.run(x) for x in inputs]
    guard = {MISJUDGED: "x if x<0 else "} if tests == "wrong" else {}
    assignments = [f"x={guard.get(word, '')}x{right_reading(word)}" for word in chain.words]
    specification = {"fn_name": ENTRY_POINT, "inputs": [[x] for x in inputs], "outputs": outputs}
    return {
        "question": chain.code_prompt,
        "input_output": json.dumps(specification),
        "solutions": json.dumps([program(chain.words, assignments)]),
        "depth": len(chain.words),
    }


def _distinct(rng: Random, depths: Iterable[tuple[int, bool]], held_out: bool = False) -> list[Chain]:
    """A chain for each (depth, easy), no two alike; a depth whose few chains are used up gives way to the next one."""
    chains: dict[Chain, None] = {}
    for depth, easy in depths:
        for attempt in range(1000):
            chain = draw(rng, depth + attempt // 20, easy, held_out)
            if chain not in chains:
                chains[chain] = None
                break
    return list(chains)


def generate(
    directory: Path,
    seed: int,
    problems: Count = 800,
    easy: Probability = 0.6,
    traces: Count = 30000,
    held_out: Count = 64,
    right: Probability = RIGHT,
    deepest: Annotated[int, Field(ge=1, le=DEPTHS[-1]), INTEGER] = DEPTHS[-1],
) -> None:
    """Write the files into `directory`: training problems a domain, of which the share `easy` has only plain words and
    at most three of them, none deeper than `deepest`; traces over both domains and all depths, in which a word of
    `READINGS` is read correctly with probability `right`; held-out problems a domain and half."""
    files: dict[str, list[dict[str, Any]]] = {}
    for half, depths in HELD_OUT.items():
        wanted = [(depths[i % len(depths)], False) for i in range(held_out)]
        chains = _distinct(Random(f"wind tunnel, {half}"), wanted, held_out=True)  # texts of published seeds: they stay
        files |= {f"math_{half}": [*map(_math_row, chains)], f"code_{half}": [*map(_code_row, chains)]}

    rng = Random(f"wind tunnel, problems {seed}")
    few = round(easy * problems)
    depths = [(1 + i % 3, True) for i in range(few)] + [(1 + i % deepest, False) for i in range(problems - few)]
    files["math_train"] = [*map(_math_row, _distinct(rng, depths))]
    chains = _distinct(rng, depths)
    files |= {f"code_{name}": [_code_row(c, name) for c in chains] for name in ("train", "weak", "wrong")}

    rng = Random(f"wind tunnel, traces {seed}")
    files["traces"] = []
    for number in range(traces):
        chain = draw(rng, rng.choices(DEPTHS, DEPTH_WEIGHTS)[0], easy=rng.random() < 0.25)
        prompt, response = (chain.math_prompt, math_response) if number % 5 < 3 else (chain.code_prompt, code_response)
        files["traces"].append({"prompt": prompt, "response": response(rng, chain, right)})
    for name, rows in files.items():
        (directory / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
