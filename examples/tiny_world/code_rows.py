"""The raw code file: sound problems and each kind of defect, in TACO's columns."""

import json
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from random import Random
from typing import Any

from ratchet.examples.tiny_world import code_mess, code_problems
from ratchet.examples.tiny_world.code_problems import CodeProblem, Task
from ratchet.examples.tiny_world.math_mess import fill
from ratchet.examples.tiny_world.raw_rows import Independence, Row, contaminated, draw_independent, mixture, words
from ratchet.examples.tiny_world.rewording import exchange_opening, introduce, mistype, retypeset
from ratchet.verifiers.problem import problem_id

# Share of the raw rows with each defect; the rest is sound.
SHARES = {
    "exact_duplicate": 0.03, "near_duplicate": 0.03, "two_urls": 0.03, "benchmark_copy": 0.025,
    "benchmark_reworded": 0.025, "special_judge": 0.03, "interactive": 0.025, "image": 0.025, "platform_template": 0.02,
    "no_golden_solution": 0.025, "non_english": 0.02, "too_brief": 0.02, "wrong_tests": 0.03, "weak_tests": 0.025,
    "too_few_tests": 0.025, "released_after": 0.025, "malformed": 0.02, "look_alike": 0.02,
}  # fmt: skip
RELEASE_CUTOFF = date(2024, 8, 1)  # AceReason's: code problems from this day on are held out


class CodeRows:
    def __init__(self, rng: Random, benchmark: list[CodeProblem]) -> None:
        self._rng, self._benchmark = rng, benchmark
        self._independence = Independence()
        self._urls = 0
        for problem in benchmark:
            self._independence.accepts(problem.prompt)
        self._problems: dict[str, CodeProblem] = {}  # by statement, for copies and faults

    def rows(self, size: int) -> list[Row]:
        most = {"look_alike": len(code_mess.MESS["code"]["look_alike"])}
        return mixture(self._rng, size, SHARES, self._sound, self._defective, most)

    def _problem(self, number: int, suits: Callable[[Task], Any] = lambda task: True) -> CodeProblem:
        def draw(level: int) -> tuple[str, Task] | None:
            task = code_problems.draw_task(self._rng, level)
            return (code_problems.render(self._rng, task), task) if suits(task) else None

        prompt, task = draw_independent(self._independence, code_problems.LEVELS, number, draw)
        problem = CodeProblem(prompt, task, code_problems.draw_tests(self._rng, task))
        self._problems[prompt] = problem
        return problem

    def _sound(self, number: int) -> Row:
        problem = self._problem(number)
        return Row(self._columns(problem.prompt, problem))

    def _defective(self, label: str, number: int, sound: Iterator[Row]) -> Row:
        rng = self._rng
        if label in ("exact_duplicate", "near_duplicate", "two_urls"):
            return self._copy(label, number, sound)
        if label in ("benchmark_copy", "benchmark_reworded"):
            lowest = 17 if label == "benchmark_reworded" else 1  # words: a short item has too few n-grams to be found
            item = rng.choice([p for p in self._benchmark if len(words(p.prompt)) >= lowest] or self._benchmark)
            prompt = item.prompt
            if label == "benchmark_reworded":
                prompt = self._reword_ends(prompt, number)
            elif number % 2:
                prompt = retypeset(rng, prompt)
            item_id = problem_id("code", item.prompt, code_problems.ENTRY_POINT)
            return contaminated(self._columns(prompt, item), label, item.prompt, item_id, ngram=14)
        problem = self._problem(number)
        columns = self._columns(problem.prompt, problem)
        if label == "no_golden_solution":
            columns["solutions"] = rng.choice(("[]", "", None))
        elif label == "wrong_tests":
            if number % 3 == 2:
                columns["solutions"] = json.dumps([code_mess.wrong_golden(problem.task)])
            else:
                columns["input_output"] = code_mess.input_output(code_mess.wrong_tests(rng, problem))
        elif label == "weak_tests":
            problem = self._problem(number, suits=code_mess.weak_tests)
            tests = code_mess.weak_tests(problem.task)
            columns = self._columns(problem.prompt, problem) | {"input_output": code_mess.input_output(tests)}
        elif label == "too_few_tests":
            columns["input_output"] = code_mess.input_output(problem.tests[: rng.randint(1, 2)])
        elif label == "released_after":
            columns["date"] = (RELEASE_CUTOFF + timedelta(days=rng.randint(1, 400))).isoformat()
        elif label == "malformed":
            tests = columns["input_output"]
            breaks: list[dict[str, Any]] = [
                {"question": None}, {"question": " "}, {"input_output": tests[:-9]},
                {"input_output": tests.replace("[[", "[", 1)[:-2]}, {"date": "31/12/19 or so"},
                {"input_output": json.dumps({"fn_name": "solve", "inputs": [[[1]], [[2]]], "outputs": [1]})},
                {"solutions": "['def solve(xs):"},
            ]  # fmt: skip
            columns |= breaks[number % len(breaks)]
        elif label == "platform_template":
            statement, starter = code_mess.PLATFORM_TEMPLATES[number % len(code_mess.PLATFORM_TEMPLATES)]
            columns |= {"question": fill(rng, statement), "starter_code": starter}
        else:
            columns["question"] = code_mess.statement_of_kind(rng, label, number, problem.prompt)
        return Row(columns, label)

    def _copy(self, label: str, number: int, sound: Iterator[Row]) -> Row:
        rng = self._rng
        original = next(sound)
        prompt = original.columns["question"]
        problem = self._problems[prompt]
        if label == "near_duplicate":
            prompt = self._reword(prompt, number)
        elif label == "two_urls":  # in words so different that only the address matches
            prompt = code_problems.render(rng, problem.task)
            while not self._independence.accepts(prompt):
                original = next(sound)
                problem = self._problems[original.columns["question"]]
                prompt = code_problems.render(rng, problem.task)
        copy = self._columns(prompt, problem)
        if label == "two_urls":
            original.columns["url"], copy["url"] = code_mess.urls(rng, self._next_url())
        return Row(copy, label, original)

    def _reword(self, prompt: str, number: int) -> str:
        rng = self._rng
        long = len(prompt.split()) >= 18
        ways: list[Callable[[], str]] = [
            lambda: retypeset(rng, prompt),
            lambda: self._reword_ends(prompt, number),
            lambda: mistype(rng, prompt) if long else retypeset(rng, prompt),
        ]
        return ways[number % len(ways)]()

    def _reword_ends(self, prompt: str, number: int) -> str:
        if number % 2:
            return introduce(self._rng, prompt)
        return exchange_opening(self._rng, prompt, code_problems.OPENINGS)

    def _next_url(self) -> int:
        self._urls += 1
        return self._urls

    def _columns(self, prompt: str, problem: CodeProblem) -> dict[str, Any]:
        rng = self._rng
        released = date(2015, 1, 1) + timedelta(days=rng.randrange((RELEASE_CUTOFF - date(2015, 1, 1)).days))
        return {
            "question": prompt,
            "solutions": json.dumps([problem.golden_solution]),
            "starter_code": "",
            "input_output": code_mess.input_output(problem.tests, wrapped=rng.random() < 0.3),
            "difficulty": ("EASY", "MEDIUM", "HARD")[problem.level - 1],
            "name": None,
            "source": rng.choice(("leetcode", "codeforces", "atcoder", "hackerrank")),
            "tags": json.dumps(["lists"]),
            "url": code_mess.urls(rng, self._next_url())[0] if rng.random() < 0.7 else None,
            "date": released.isoformat() if rng.random() < 0.8 else None,
            "picture_num": None,
            "time_limit": "1.0 seconds",
            "memory_limit": "256.0 megabytes",
        }
