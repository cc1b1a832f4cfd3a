"""Instruction following: judges the whole response by the instructions of its problem."""

from collections.abc import Sequence
from dataclasses import replace

from ratchet.verifiers.domain import Domain
from ratchet.verifiers.extraction import after_thinking
from ratchet.verifiers.instructions.scoring import accuracies, loose, read_tests, strict
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.submission import JudgeSettings


class Instructions(Domain):
    name = "instructions"
    templates = {"instructions": "{prompt}"}
    requires = ("tests",)
    reward = "graded"  # the share of the instructions that are followed, strictly: ProRL, arXiv 2505.24864
    isolation = "inline"
    curation = "ratchet.data_curation.domains.instructions:INSTRUCTIONS"

    def fault(self, problem: Problem) -> str:
        try:
            read_tests(problem.tests or "[]")
        except (ValueError, RecursionError) as error:
            return str(error)
        return ""

    def extract(self, response: str) -> str | None:
        """Everything after the thinking."""
        return (after_thinking(response) or "").strip() or None

    def judged(self, problem: Problem, answer: str, settings: JudgeSettings) -> Verdict:
        instructions = read_tests(problem.tests or "[]")
        followed = strict(instructions, answer)
        if all(followed):
            return Verdict(Outcome.PASSED, 1.0, "strict", extracted=answer)
        missed = ", ".join(each.id for each, good in zip(instructions, followed, strict=True) if not good)
        return Verdict(Outcome.FAILED, sum(followed) / len(followed), "strict", f"not followed: {missed}", answer)

    def for_judging(self, problem: Problem) -> Problem:
        return replace(problem, prompt="", metadata=None)

    def metrics(self, responses: Sequence[tuple[Problem, str]]) -> dict[str, float]:
        judged = []
        for problem, response in responses:
            instructions, text = read_tests(problem.tests or "[]"), self.extract(response) or ""
            judged.append((strict(instructions, text), loose(instructions, text)))
        return accuracies(judged) if judged else {}
