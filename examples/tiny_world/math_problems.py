"""Chains of small sums: the tiny world's mathematics.

"Start at 5. Step 1: add 4. Step 2: lose 2. What is left?" has a level, the number of its steps (1 to 5), and
every value on the way stays in 0..9, so that a model of 160 thousand parameters can learn it in a minute.

Each operation, the opening, the step label and the question have several wordings. Two problems that were drawn
independently therefore rarely share a run of nine words, as in real data sets, and n-gram decontamination can be
precise here. The wordings are short to keep training cheap.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from random import Random

from ratchet.examples.tiny_world.rewording import spelling

LEVELS = (1, 2, 3, 4, 5)
LARGEST_VALUE = 9
LARGEST_OPERAND = 5

OPENINGS = ("Start at {}.", "Begin with {}.", "Take {}.", "You have {}.", "Put down {}.")
LABELS = ("Step", "Move", "Turn", "Round")
WORDINGS = {
    "+": ("add {}", "plus {}", "up {}", "gain {}"),
    "-": ("minus {}", "down {}", "lose {}", "less {}"),
    "*": ("double", "times {}", "twice"),
}
QUESTIONS = (
    "What is the result?",
    "What is left?",
    "What do you get?",
    "Which number is it?",
    "Where are you now?",
    "What is the total?",
)


@dataclass(frozen=True)
class Step:
    """One operation on the running value: `+` and `-` with 1..5, `*` with 2."""

    operation: str
    operand: int

    def apply(self, value: int) -> int:
        if self.operation == "+":
            return value + self.operand
        if self.operation == "-":
            return value - self.operand
        return value * self.operand


@dataclass(frozen=True)
class Chain:
    """The content of a problem without its wording. Two texts with equal chains are the same problem."""

    start: int
    steps: tuple[Step, ...]

    @property
    def level(self) -> int:
        return len(self.steps)

    def values(self) -> list[int]:
        """The start and the value after each step; the last one is the answer."""
        values = [self.start]
        for step in self.steps:
            values.append(step.apply(values[-1]))
        return values

    @property
    def answer(self) -> str:
        return str(self.values()[-1])

    def is_held_out(self) -> bool:
        """True if this chain belongs to the held-out quarter of all chains: a hash of the chain decides, whatever
        the wording and the seed."""
        text = f"{self.start} " + " ".join(f"{step.operation}{step.operand}" for step in self.steps)
        return hashlib.sha256(text.encode()).digest()[0] < 64


@dataclass(frozen=True)
class MathProblem:
    prompt: str
    chain: Chain

    @property
    def answer(self) -> str:
        return self.chain.answer

    @property
    def level(self) -> int:
        return self.chain.level


def draw_chain(rng: Random, level: int, held_out: bool = False) -> Chain:
    """A random chain of `level` steps on the wanted side of the split."""
    while True:
        value = start = rng.randint(0, LARGEST_VALUE)
        steps = []
        for _ in range(level):
            step = rng.choice(_possible_steps(value))
            steps.append(step)
            value = step.apply(value)
        chain = Chain(start, tuple(steps))
        if chain.is_held_out() == held_out:
            return chain


@cache
def _possible_steps(value: int) -> tuple[Step, ...]:
    operands = range(1, LARGEST_OPERAND + 1)
    steps = [Step("+", k) for k in operands if value + k <= LARGEST_VALUE]
    steps += [Step("-", k) for k in operands if value >= k]
    if 0 < 2 * value <= LARGEST_VALUE:
        steps += [Step("*", 2)] * 2  # has one operand only; counted twice so that doubling is not rare
    return tuple(steps)


def render(rng: Random, chain: Chain) -> str:
    """The chain in words, one of many texts with the same meaning."""
    label = rng.choice(LABELS)
    parts = [rng.choice(OPENINGS).format(chain.start)]
    for number, step in enumerate(chain.steps, 1):
        parts.append(f"{label} {number}: {rng.choice(WORDINGS[step.operation]).format(step.operand)}.")
    parts.append(rng.choice(QUESTIONS))
    return " ".join(parts)


def draw_problem(rng: Random, level: int, held_out: bool = False) -> MathProblem:
    chain = draw_chain(rng, level, held_out)
    return MathProblem(render(rng, chain), chain)


def _pattern(wordings: tuple[str, ...]) -> str:
    return "|".join(wording.rstrip(".").replace(" ", r"\s+").replace("{}", r"(?:\d+)") for wording in wordings)


_OPENING = re.compile(rf"\b(?:{_pattern(OPENINGS)})", re.IGNORECASE)
_STEP = re.compile(
    rf"\b(?:{'|'.join(LABELS)})\s+\d+\s*:\s*(?:"
    + "|".join(f"(?P<{name}>{_pattern(WORDINGS[sign])})" for sign, name in (("+", "add"), ("-", "sub"), ("*", "mul")))
    + r")\b",
    re.IGNORECASE,
)
_SIGNS = {"add": "+", "sub": "-", "mul": "*"}
_correct = spelling(" ".join((*OPENINGS, *LABELS, *QUESTIONS, *sum(WORDINGS.values(), ()))))
_MARKUP = re.compile(r"\\[()\[\]]|\\(?:text|mathrm|mathbf)\b|[${}*]")


def parse(text: str) -> Chain | None:
    """The chain a text asks about, or None when it is not a problem of this world.

    Mathematical markup (`$5$`, `\\(5\\)`), white space, typing errors and text around the problem do not matter.
    """
    text = _correct(" ".join(_MARKUP.sub(" ", text).split()))
    opening = _OPENING.search(text)
    if opening is None:
        return None
    steps = []
    for match in _STEP.finditer(text, opening.end()):
        sign = _SIGNS[str(match.lastgroup)]
        number = match.group().rsplit(None, 1)[-1]
        steps.append(Step(sign, 2 if sign == "*" else int(number)))
    return Chain(int(opening.group().rsplit(None, 1)[-1]), tuple(steps)) if steps else None


def benchmark_problems(count: int) -> list[MathProblem]:
    """The held-out benchmark: `count` problems, levels in turn, the same for every seed. Their chains differ, but
    only some eighteen chains of one step are held out: a large benchmark repeats those in other words."""
    rng = Random("tiny world, math benchmark")
    problems: dict[str, MathProblem] = {}
    chains: set[Chain] = set()
    while len(problems) < count:
        level = LEVELS[len(problems) % len(LEVELS)]
        problem = draw_problem(rng, level, held_out=True)
        for _ in range(199):
            if problem.chain not in chains:
                break
            problem = draw_problem(rng, level, held_out=True)
        chains.add(problem.chain)
        problems.setdefault(problem.prompt, problem)
    return list(problems.values())
