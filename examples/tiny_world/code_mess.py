"""Defects of raw programming problems, in statements and in tests; and look-alikes, which are sound.

A defective statement is one of this world's tasks with a sentence added, or a foreign statement (`mess.yaml`).
"""

import json
from collections.abc import Callable
from random import Random
from typing import Any

from ratchet.examples.tiny_world.code_problems import ENTRY_POINT, CodeProblem, Task, faulty_versions, program
from ratchet.examples.tiny_world.math_mess import MESS, fill

PLATFORM_TEMPLATES: list[tuple[str, str]] = MESS["code"]["platform_template"]
WHOLE = ("non_english", "too_brief")
"""Kinds that are statements of their own; the others are sentences added to one."""


def statement_of_kind(rng: Random, kind: str, number: int, prompt: str) -> str:
    """A statement with the defect `kind`; `number` counts within the kind, so that templates take turns."""
    sentences = MESS["code"][kind]
    sentence = fill(rng, sentences[number % len(sentences)])
    if kind in WHOLE:
        return sentence
    return f"{sentence} {prompt}" if kind == "interactive" and number % 2 else f"{prompt} {sentence}"


def input_output(tests: Any, wrapped: bool = False) -> str:
    """Tests as APPS and TACO publish those of a function: a JSON string of parallel lists. Some sources wrap each
    result in a list of one."""
    inputs = [[list(xs)] for xs, _ in tests]
    outputs = [[wanted] if wrapped else wanted for _, wanted in tests]
    return json.dumps({"fn_name": ENTRY_POINT, "inputs": inputs, "outputs": outputs})


def wrong_tests(rng: Random, problem: CodeProblem) -> list[tuple[tuple[int, ...], int]]:
    """The problem's tests, one to three of them with a wrong expected output."""
    tests = list(problem.tests)
    for index in rng.sample(range(len(tests)), rng.randint(1, 3)):
        xs, wanted = tests[index]
        tests[index] = (xs, wanted + rng.choice((-2, -1, 1, 2, 10)))
    return tests


def weak_tests(task: Task) -> list[tuple[tuple[int, ...], int]] | None:
    """Four right tests that at most a tenth of the task's faulty versions fail; None where there are no such tests."""
    faulty = faulty_versions(task)
    most = len(faulty) // 10
    shown = {xs: places for xs in _SHORT_LISTS if len(places := _noticed(task, faulty, xs, most)) <= most}
    tests: list[tuple[int, ...]] = []
    noticed: set[int] = set()
    while len(tests) < 4 and len(shown) > len(tests):
        tests.append(min((xs for xs in shown if xs not in tests), key=lambda xs: len(noticed | shown[xs])))
        noticed |= shown[tests[-1]]
    return [(xs, task.run(list(xs))) for xs in tests] if len(tests) == 4 and len(noticed) <= most else None


_SHORT_LISTS: tuple[tuple[int, ...], ...] = (
    (),
    *((x,) for x in range(-9, 10)),
    (0, 0),
    (1, 1),
    (0, 1),
    (7, 8),
    (-3, 5),
    (2, -2),
    (9, 0),
    (-8, -9),
)


def _noticed(task: Task, faulty: list[Callable[[list[int]], Any]], xs: tuple[int, ...], most: int) -> set[int]:
    """The faulty versions with a wrong result for the list; the search stops at `most` + 1 of them."""
    wanted = task.run(list(xs))
    noticed: set[int] = set()
    for number, run in enumerate(faulty):
        if run(list(xs)) != wanted:
            noticed.add(number)
        if len(noticed) > most:
            break
    return noticed


def wrong_golden(task: Task) -> str:
    """A published solution that leaves out the first operation."""
    return program(task.lines()[1:])


_HOSTS = (
    ("https://leetcode.com/problems/{slug}/", "https://leetcode.cn/problems/{slug}/description/"),
    ("https://codeforces.com/problemset/problem/{contest}/{index}", "https://codeforces.com/contest/{contest}/problem/{index}"),
    ("https://atcoder.jp/contests/abc{three}/tasks/abc{three}_{low}",
     "http://www.atcoder.jp/contests/abc{three}/tasks/abc{three}_{low}?lang=en"),
    ("https://www.hackerrank.com/challenges/{slug}/problem", "https://hackerrank.com/challenges/{slug}"),
    ("https://leetcode.com/problems/{slug}", "http://www.leetcode.com/problems/{slug}/solutions/?tab=all"),
)  # fmt: skip


def urls(rng: Random, number: int) -> tuple[str, str]:
    """Two addresses of one problem. `number` makes them unique; neighbors share a contest, not a problem."""
    host = _HOSTS[rng.randrange(len(_HOSTS))]
    words = ("list", "keep", "number", "filter", "odd-even", "largest", "chain", "small")
    names = {
        "slug": f"{rng.choice(words)}-{rng.choice(words)}-{number}",
        "contest": 1000 + number // 5,
        "index": "ABCDE"[number % 5],
        "low": "abcde"[number % 5],
        "three": f"{100 + number // 5:03d}",
    }
    return host[0].format(**names), host[1].format(**names)
