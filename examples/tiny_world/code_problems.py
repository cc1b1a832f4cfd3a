"""Small functions over a list of integers: the tiny world's programming.

"Write solve(xs): keep numbers above 5, square each, then return the maximum or 0." has one to three list
operations, its level, and a reduction to one number. Each piece carries its wordings, its line of Python, and
the habitual mistakes people make in it (`>=` for `>`, a forgotten default). The tests of a problem are chosen to
notice them.

Meaning is computed by plain functions, never by running the Python text.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from random import Random
from typing import Any

from ratchet.examples.tiny_world.rewording import spelling

Meaning = Callable[[int], Callable[[list[int]], Any]]  # a constant to a function of the list

ENTRY_POINT = "solve"
LEVELS = (1, 2, 3)
TESTS = 8

OPENINGS = ("Write solve(xs):", "Define solve(xs):", "Make solve(xs):", "Code solve(xs):")
CLOSINGS = (", then return {}.", ", and return {}.", ", then give {}.", ". Return {}.")


@dataclass(frozen=True)
class Piece:
    """One operation or reduction.

    `k` in the texts stands for the constant, one of `constants`. `meaning(k)` is the function of the list that
    `code` computes. `mistakes` are (code, meaning) pairs of habitual wrong versions; a meaning of None stands for
    one that fails on the empty list and is right elsewhere.
    """

    name: str
    wordings: tuple[str, ...]
    code: str
    meaning: Meaning
    constants: tuple[int, ...] = (0,)
    mistakes: tuple[tuple[str, Meaning | None], ...] = ()


OPERATIONS = (
    Piece(
        "above",
        ("keep numbers above {k}", "keep those over {k}", "keep numbers more than {k}"),
        "[x for x in xs if x > {k}]",
        lambda k: lambda xs: [x for x in xs if x > k],
        (1, 2, 3, 4, 5, 6),
        (("[x for x in xs if x >= {k}]", lambda k: lambda xs: [x for x in xs if x >= k]),),
    ),
    Piece(
        "below",
        ("keep numbers below {k}", "keep those under {k}", "keep numbers less than {k}"),
        "[x for x in xs if x < {k}]",
        lambda k: lambda xs: [x for x in xs if x < k],
        (2, 3, 4, 5, 6, 7),
        (("[x for x in xs if x <= {k}]", lambda k: lambda xs: [x for x in xs if x <= k]),),
    ),
    Piece(
        "even",
        ("keep even numbers", "drop odd numbers", "keep only the even"),
        "[x for x in xs if x % 2 == 0]",
        lambda k: lambda xs: [x for x in xs if x % 2 == 0],
    ),
    Piece(
        "odd",
        ("keep odd numbers", "drop even numbers", "keep only the odd"),
        "[x for x in xs if x % 2 == 1]",
        lambda k: lambda xs: [x for x in xs if x % 2 == 1],
    ),
    Piece(
        "square",
        ("square each", "square all numbers", "square them"),
        "[x * x for x in xs]",
        lambda k: lambda xs: [x * x for x in xs],
    ),
    Piece(
        "add",
        ("add {k} to each", "add {k} to all numbers", "raise each by {k}"),
        "[x + {k} for x in xs]",
        lambda k: lambda xs: [x + k for x in xs],
        (1, 2, 3, 4, 5),
    ),
    Piece(
        "multiply",
        ("times {k} each", "multiply each by {k}", "multiply all numbers by {k}"),
        "[x * {k} for x in xs]",
        lambda k: lambda xs: [x * k for x in xs],
        (2, 3, 4, 5),
    ),
    Piece(
        "distinct",
        ("sort without repeats", "sort and drop repeats", "sort, each number once"),
        "sorted(set(xs))",
        lambda k: lambda xs: sorted(set(xs)),
        mistakes=(("sorted(xs)", lambda k: sorted),),
    ),
    Piece(
        "skip",
        ("skip the first {k}", "drop the first {k}", "leave out the first {k}"),
        "xs[{k}:]",
        lambda k: lambda xs: xs[k:],
        (1, 2, 3),
        (("xs[{k} - 1:]", lambda k: lambda xs: xs[k - 1 :]),),
    ),
)

REDUCTIONS = (
    Piece(
        "maximum",
        ("the maximum or {k}", "the largest or {k}", "the top number or {k}"),
        "max(xs, default={k})",
        lambda k: lambda xs: max(xs, default=k),
        (0, 1),
        (("max(xs)", None),),
    ),
    Piece(
        "minimum",
        ("the minimum or {k}", "the smallest or {k}", "the least number or {k}"),
        "min(xs, default={k})",
        lambda k: lambda xs: min(xs, default=k),
        (0, 1),
        (("min(xs)", None),),
    ),
    Piece(
        "last",
        ("the last or {k}", "the last number or {k}", "the final one or {k}"),
        "xs[-1] if xs else {k}",
        lambda k: lambda xs: xs[-1] if xs else k,
        (0, 1),
        (("xs[-1]", None),),
    ),
    Piece("sum", ("the sum", "the total", "their sum"), "sum(xs)", lambda k: sum),
    Piece("count", ("the count", "how many are left", "how many there are"), "len(xs)", lambda k: len),
)
PIECES = {piece.name: piece for piece in OPERATIONS + REDUCTIONS}


@dataclass(frozen=True)
class Task:
    """The content of a problem without its wording: (piece name, constant) pairs, the reduction last."""

    parts: tuple[tuple[str, int], ...]

    @property
    def level(self) -> int:
        return len(self.parts) - 1

    def run(self, xs: list[int], replaced: int | None = None, mistake: int | None = None) -> Any:
        """The value for one list. With `replaced`, that part is left out (no `mistake`) or made with that habitual
        mistake; a mistake that fails on the empty list gives None there."""
        for position, (name, constant) in enumerate(self.parts):
            meaning: Meaning | None = PIECES[name].meaning
            if position == replaced:
                if mistake is None:
                    continue
                meaning = PIECES[name].mistakes[mistake][1]
                if meaning is None:
                    if not xs:
                        return None
                    meaning = PIECES[name].meaning
            xs = meaning(constant)(xs)
        return xs

    def lines(self) -> list[str]:
        """The body of a right solution, one expression for each part."""
        return [PIECES[name].code.format(k=constant) for name, constant in self.parts]

    def mistakes(self) -> list[tuple[int, int]]:
        """(part, mistake) indices of every possible habitual mistake."""
        return [(i, j) for i, (name, _) in enumerate(self.parts) for j in range(len(PIECES[name].mistakes))]

    def is_held_out(self) -> bool:
        """True if this task belongs to the held-out quarter of all tasks, whatever the wording and the seed."""
        return hashlib.sha256(repr(self.parts).encode()).digest()[0] < 64


@dataclass(frozen=True)
class CodeProblem:
    prompt: str
    task: Task
    tests: tuple[tuple[tuple[int, ...], int], ...]  # (the list given, the value wanted)

    @property
    def level(self) -> int:
        return self.task.level

    @property
    def golden_solution(self) -> str:
        return program(self.task.lines())


def program(lines: list[str]) -> str:
    """A function around the expressions: each but the last becomes the new `xs`."""
    body = "".join(f"    xs = {line}\n" for line in lines[:-1])
    return f"def {ENTRY_POINT}(xs):\n{body}    return {lines[-1]}\n"


def draw_task(rng: Random, level: int, held_out: bool = False) -> Task:
    """A random task of `level` operations on the wanted side of the split, in which every operation and at
    least one habitual mistake changes a result."""
    while True:
        pieces = [*rng.sample(OPERATIONS, level), rng.choice(REDUCTIONS)]
        task = Task(tuple((piece.name, rng.choice(piece.constants)) for piece in pieces))
        if task.is_held_out() == held_out and _is_meaningful(task):
            return task


@cache
def _sample_lists() -> tuple[tuple[int, ...], ...]:
    """Lists that reveal mistakes: short ones, repeats, every threshold, even and odd sums."""
    rng = Random("tiny world, sample lists")
    singles = [(x,) for x in range(-1, 9)]
    return tuple(singles + [tuple(rng.randint(-3, 9) for _ in range(rng.randint(2, 7))) for _ in range(50)])


@lru_cache(maxsize=100_000)
def _is_meaningful(task: Task) -> bool:
    lists = ((), *_sample_lists())
    wanted = [task.run(list(xs)) for xs in lists]

    def differs(part: int, mistake: int | None) -> bool:
        return any(task.run(list(xs), part, mistake) != value for xs, value in zip(lists, wanted, strict=True))

    return (
        len(set(wanted)) > 3
        and all(differs(part, None) for part in range(task.level))
        and any(differs(part, mistake) for part, mistake in task.mistakes())
    )


def faulty_versions(task: Task) -> list[Callable[[list[int]], Any]]:
    """Functions close to the task: a part left out, mistaken, replaced, or with another constant. Some of them may mean
    the same as the task."""
    runs: list[Callable[[list[int]], Any]] = [partial(task.run, replaced=part) for part in range(task.level)]
    runs += [partial(task.run, replaced=part, mistake=mistake) for part, mistake in task.mistakes()]
    for part, (name, constant) in enumerate(task.parts):
        others = [(name, constant + step) for step in (-1, 1)] if len(PIECES[name].constants) > 1 else []
        if part == task.level:
            others += [(other.name, constant) for other in REDUCTIONS if other.name != name]
        else:
            others += [(other.name, k) for other in OPERATIONS if other.name != name for k in other.constants[-2:]]
        runs += [Task((*task.parts[:part], other, *task.parts[part + 1 :])).run for other in others]
    return runs


def draw_tests(rng: Random, task: Task) -> tuple[tuple[tuple[int, ...], int], ...]:
    """Tests that fail each faulty version which some list reveals: the empty list, a list for each fault not yet
    noticed, and random ones up to `TESTS`."""
    lists = rng.sample(_sample_lists(), len(_sample_lists()))
    wanted = {xs: task.run(list(xs)) for xs in ((), *lists)}
    chosen: list[tuple[int, ...]] = [()]
    for run in faulty_versions(task):
        noticed = next((xs for xs in (*chosen, *lists) if run(list(xs)) != wanted[xs]), None)
        if noticed is not None and noticed not in chosen:
            chosen.append(noticed)
    for xs in lists:
        if len(chosen) >= TESTS:
            break
        if len(xs) > 3 and xs not in chosen:
            chosen.append(xs)
    return tuple((xs, wanted[xs]) for xs in chosen)


def render(rng: Random, task: Task) -> str:
    """The task in words, one of many texts with the same meaning."""
    words = [rng.choice(PIECES[name].wordings).format(k=constant) for name, constant in task.parts]
    return f"{rng.choice(OPENINGS)} {', '.join(words[:-1])}{rng.choice(CLOSINGS).format(words[-1])}"


def draw_problem(rng: Random, level: int, held_out: bool = False) -> CodeProblem:
    task = draw_task(rng, level, held_out)
    return CodeProblem(render(rng, task), task, draw_tests(rng, task))


# Longest first, so that no wording hides a longer one that starts with it.
_WORDINGS = sorted(
    ((wording, piece) for piece in OPERATIONS + REDUCTIONS for wording in piece.wordings),
    key=lambda pair: -len(pair[0]),
)
_PART = re.compile("|".join(f"({wording.replace('{k}', '[0-9]+')})" for wording, _ in _WORDINGS), re.IGNORECASE)
_NUMBER = re.compile("[0-9]+")
_correct = spelling(" ".join((*OPENINGS, *CLOSINGS, *(wording for wording, _ in _WORDINGS))))
_OPENING = re.compile(rf"\b{ENTRY_POINT}\(xs\)", re.IGNORECASE)
_MARKUP = re.compile(r"\\[()]|[`$*]")


def parse(text: str) -> Task | None:
    """The task a text asks for, or None when it is not a problem of this world. Markup, white space, typing
    errors and text around the problem do not matter."""
    text = _correct(" ".join(_MARKUP.sub("", text).split()))
    opening = _OPENING.search(text)
    if opening is None:
        return None
    parts: list[tuple[str, int]] = []
    for match in _PART.finditer(text, opening.end()):
        piece = _WORDINGS[(match.lastindex or 0) - 1][1]
        number = _NUMBER.search(match.group())
        parts.append((piece.name, int(number.group()) if number else 0))
        if piece in REDUCTIONS:
            return Task(tuple(parts))
    return None


def benchmark_problems(count: int) -> list[CodeProblem]:
    """The held-out benchmark: `count` different tasks, levels in turn, the same for every seed."""
    rng = Random("tiny world, code benchmark")
    problems: dict[Task, CodeProblem] = {}
    while len(problems) < count:
        problem = draw_problem(rng, LEVELS[len(problems) % len(LEVELS)], held_out=True)
        problems.setdefault(problem.task, problem)
    return list(problems.values())
