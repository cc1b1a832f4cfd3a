"""Code: one Python program in a fenced block, run on the tests of its problem by `judge.py`."""

from dataclasses import replace

from ratchet.infra.problems import Problem
from ratchet.verifiers.code.judge import judge
from ratchet.verifiers.code.problem import InvalidProblem, read_problem
from ratchet.verifiers.code.verl_tests import inputs_and_outputs
from ratchet.verifiers.domain import Domain, Work
from ratchet.verifiers.extraction import python_program
from ratchet.verifiers.submission import JudgeSettings


class Code(Domain):
    name = "code"
    templates = {
        "code": "{prompt}\n\nWrite Python code that solves the problem, in one fenced ```python block.",
        "code_with_starter": (
            "{prompt}\n\nStart from this function header:\n```\n{starter_code}\n```\n\n"
            "Give the whole program in one fenced ```python block."
        ),
    }
    requires = ("tests",)
    curation = "ratchet.data_curation.domains.code:CODE"
    runs_programs = True
    verl_reward = "taco"

    def template(self, problem: Problem) -> str:
        return "code_with_starter" if problem.starter_code else "code"

    def fault(self, problem: Problem) -> str:
        try:
            read_problem(problem)
        except InvalidProblem as error:
            return str(error)
        return ""

    def extract(self, response: str) -> str | None:
        return python_program(response)

    def judged(self, problem: Problem, answer: str, settings: JudgeSettings) -> Work:
        limits = (problem.time_limit_s, problem.memory_limit_mb)
        facts = ("code", problem.problem_id, problem.tests, problem.entry_point, problem.metadata, limits, settings)
        return Work(problem, answer, facts, lambda tools: judge(problem, answer, tools.sandbox, settings))

    def for_judging(self, problem: Problem) -> Problem:
        return replace(problem, prompt="", starter_code=None)

    def ground_truth(self, problem: Problem) -> str:
        return inputs_and_outputs(problem)
