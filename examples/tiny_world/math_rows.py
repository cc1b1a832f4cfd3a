"""The raw math file: sound problems and each kind of defect, in NuminaMath's columns."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from ratchet.examples.tiny_world import math_problems
from ratchet.examples.tiny_world.math_mess import LOOK_ALIKES, problem_of_kind
from ratchet.examples.tiny_world.math_problems import MathProblem
from ratchet.examples.tiny_world.raw_rows import Independence, Row, contaminated, draw_independent, mixture
from ratchet.examples.tiny_world.rewording import exchange_ending, exchange_opening, introduce, mistype, retypeset
from ratchet.verifiers.problem import problem_id

# Share of the raw rows with each defect; the rest is sound.
SHARES = {
    "exact_duplicate": 0.03, "near_duplicate": 0.04, "benchmark_copy": 0.02, "benchmark_reworded": 0.02,
    "multiple_choice": 0.03, "true_false": 0.02, "proof": 0.025, "sub_questions": 0.025, "figure": 0.025,
    "non_english": 0.025, "too_brief": 0.02, "long_answer": 0.02, "wrong_answer": 0.04, "malformed": 0.015,
    "look_alike": 0.02,
}  # fmt: skip


class MathRows:
    def __init__(self, rng: Random, benchmark: list[MathProblem]) -> None:
        self._rng, self._benchmark = rng, benchmark
        self._independence = Independence()
        for problem in benchmark:
            self._independence.accepts(problem.prompt)

    def rows(self, size: int) -> list[Row]:
        return mixture(self._rng, size, SHARES, self._sound, self._defective, most={"look_alike": len(LOOK_ALIKES)})

    def _sound(self, number: int) -> Row:
        def draw(level: int) -> tuple[str, MathProblem]:
            problem = math_problems.draw_problem(self._rng, level)
            return problem.prompt, problem

        prompt, problem = draw_independent(self._independence, math_problems.LEVELS, number, draw)
        return Row(self._columns(prompt, problem.answer, problem))

    def _defective(self, label: str, number: int, sound: Iterator[Row]) -> Row:
        rng = self._rng
        if label in ("exact_duplicate", "near_duplicate"):
            original = next(sound)
            prompt = original.columns["problem"]
            if label == "near_duplicate":
                prompt = self._reword(prompt, number)
            elif rng.random() < 0.3:
                prompt = prompt.replace(" ", "  ", 1)
            answer = original.columns["answer"]
            return Row(self._columns(prompt, answer), label, original)
        if label in ("benchmark_copy", "benchmark_reworded"):
            item = self._item(label)
            prompt = self._reword(item.prompt, number) if label == "benchmark_reworded" else item.prompt
            if label == "benchmark_copy" and number % 2:
                prompt = retypeset(rng, prompt)
            item_id = problem_id("math", item.prompt)
            return contaminated(self._columns(prompt, item.answer), label, item.prompt, item_id, ngram=9)
        if label == "wrong_answer":
            row = self._sound(number)
            right = row.columns["answer"]
            wrong = rng.choice([digit for digit in "0123456789" if digit != right])
            return Row(row.columns | {"answer": wrong, "solution": f"The answer is {wrong}."}, label)
        if label == "malformed":
            row = self._sound(number)
            breaks: list[dict[str, Any]] = [
                {"problem": None}, {"problem": "  \n"}, {"answer": None}, {"answer": "notfound"}, {"problem": ""},
                {"answer": ""}, {"date": "sometime in spring"},
            ]  # fmt: skip
            broken = breaks[number % len(breaks)]
            return Row(row.columns | {"solution": ""} | broken, "no_answer" if "answer" in broken else label)
        prompt, answer = problem_of_kind(rng, label, number)
        columns = self._columns(prompt, answer)
        if rng.random() < 0.3:  # few sources label their rows
            columns["question_type"] = {"multiple_choice": "MCQ", "proof": "proof"}.get(label, "math-word-problem")
        return Row(columns, label)

    def _item(self, label: str) -> MathProblem:
        """A benchmark item, long enough to be found after rewording."""
        lowest = 3 if label == "benchmark_reworded" else 1
        return self._rng.choice([problem for problem in self._benchmark if problem.level >= lowest] or self._benchmark)

    def _reword(self, prompt: str, number: int) -> str:
        """Other words at one end, a typing error in a long problem, or other typesetting."""
        rng = self._rng
        long = len(prompt.split()) >= 20
        ways: list[Callable[[], str]] = [
            lambda: retypeset(rng, prompt),
            lambda: introduce(rng, prompt) if long else retypeset(rng, prompt),
            lambda: exchange_opening(rng, prompt, math_problems.OPENINGS) if long else retypeset(rng, prompt),
            lambda: exchange_ending(rng, prompt, math_problems.QUESTIONS) if long else retypeset(rng, prompt),
            lambda: mistype(rng, prompt) if long else retypeset(rng, prompt),
        ]
        text = ways[number % len(ways)]()
        return text if text != prompt else introduce(rng, prompt)

    def _columns(self, prompt: str, answer: str, problem: MathProblem | None = None) -> dict[str, Any]:
        rng = self._rng
        source = rng.choice(("orca_math", "synthetic_math", "cn_k12", "olympiads", "aops_forum"))
        solution = ""
        if problem and rng.random() < 0.6:
            values = problem.chain.values()
            solution = " Then ".join(f"we have {value}." for value in values)
        return {
            "problem": prompt,
            "solution": solution,
            "answer": answer,
            "problem_type": "Algebra" if rng.random() < 0.5 else "Number Theory",
            "question_type": "math-word-problem",
            "source": source,
            "url": f"https://math.example.org/{source}/{rng.getrandbits(40):010x}" if rng.random() < 0.5 else None,
            "date": None,
        }
