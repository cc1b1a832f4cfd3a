"""Code: one program in a fenced block, run on the tests of its problem by `judge.py`.

It is in Python unless the problem says otherwise: `answer_languages` in its metadata.
"""

import ast
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ratchet.verifiers.code.checkers import checker_of
from ratchet.verifiers.code.judge import judge
from ratchet.verifiers.code.problem import InvalidProblem, read_problem
from ratchet.verifiers.code.program_files import has_program_files
from ratchet.verifiers.code.shown_tests import tests_as_text
from ratchet.verifiers.domain import Domain, NotExpressible, Work
from ratchet.verifiers.extraction import language_of, marked_blocks, python_program
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.submission import JudgeSettings, Submission


class Code(Domain):
    name = "code"
    templates = {
        "code": "{prompt}\n\nWrite Python code that solves the problem, in one fenced ```python block.",
        "code_with_starter": (
            "{prompt}\n\nStart from this function header:\n```\n{starter_code}\n```\n\n"
            "Give the whole program in one fenced ```python block."
        ),
    }
    placeholders = {
        **Domain.placeholders,
        "examples": lambda problem: tests_as_text(problem, problem.code_tests()[:1]),
        "tests": lambda problem: tests_as_text(problem, problem.code_tests()),
    }
    requires = ("tests",)
    curation = "ratchet.data_curation.domains.code:CODE"
    runs_programs = True

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

    def prepare(self, submission: Submission) -> Verdict | Work:
        languages = languages_of(submission.problem)
        if languages == ("python",):
            prepared = super().prepare(submission)
            if not isinstance(prepared, Work) or submission.is_program or not (mark := _other_mark(submission.text)):
                return prepared
            # A task of its own: the same program in a block of Python is not explained so.
            facts, run = (*prepared.facts, mark), prepared.run
            return replace(prepared, facts=facts, run=lambda tools: _explained(run(tools), mark))
        if not submission.finished:
            return super().prepare(submission)
        if submission.is_program:
            language = language_of_program(submission.problem, submission.text)
            return self.judged(submission.problem, submission.text, submission.settings, language)
        blocks = [(mark, body) for mark, body in marked_blocks(submission.text) if body.strip()]
        # Only where the problem allows one language, its absence says nothing.
        programs = [(language_of(mark), body) for mark, body in blocks if language_of(mark) in languages] or [
            (languages[0], body) for mark, body in blocks if not mark and len(languages) == 1
        ]
        if not programs:
            there = ", ".join(mark or "no mark" for mark, _ in blocks) or "no block"
            detail = f"no block is marked {' or '.join(languages)}, but: {there}"
            return Verdict(Outcome.UNPARSEABLE, decided_by="no_answer", detail=detail)
        language, source = programs[-1]
        return self.judged(submission.problem, source, submission.settings, language)

    def judged(self, problem: Problem, answer: str, settings: JudgeSettings, language: str = "") -> Work:
        limits = (problem.time_limit_s, problem.memory_limit_mb)
        facts = ("code", problem.problem_id, problem.tests, problem.entry_point, problem.metadata, limits, settings)
        facts = (*facts, language) if language else facts
        return Work(problem, answer, facts, lambda tools: judge(problem, answer, tools.sandbox, settings, language))

    def for_judging(self, problem: Problem) -> Problem:
        return replace(problem, prompt="", starter_code=None)

    def ground_truth(self, problem: Problem) -> str:
        return inputs_and_outputs(problem)


def languages_of(problem: Problem) -> tuple[str, ...]:
    """The languages that a problem allows; Python if the problem cannot be read, which the judge then reports."""
    if "answer_languages" not in str(problem.metadata):
        return ("python",)
    try:
        return read_problem(problem).languages
    except InvalidProblem:
        return ("python",)


def language_of_program(problem: Problem, source: str) -> str:
    """The language of a program that no block marks: of two that a problem allows, Python if it is that."""
    languages = languages_of(problem)
    if len(languages) == 1:
        return ""
    try:
        ast.parse(source.removeprefix("\ufeff"))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return "cpp"
    return "python"


def _other_mark(response: str) -> str:
    """The mark of a block in C++ that answers a problem which asks for Python; "" if there is none."""
    marks = [mark for mark, _ in marked_blocks(response)]
    is_other = marks and language_of(marks[-1]) == "cpp" and all(language_of(mark) != "python" for mark in marks)
    return marks[-1] if is_other else ""


def _explained(verdict: Verdict, mark: str) -> Verdict:
    """The verdict with the reason why a block in C++ is no program in Python."""
    if verdict.decided_by != "compile_error":
        return verdict
    return replace(verdict, detail=f"the block is marked {mark}, and Python is asked for; {verdict.detail}")


def inputs_and_outputs(problem: Problem) -> str:
    """Tests for verl's own reward functions: JSON `{"inputs", "outputs", "fn_name"?}`, the arguments of a call one JSON
    value per line. Raises NotExpressible."""
    tests = problem.code_tests()
    if not tests:
        raise NotExpressible("it has no tests")
    if any(test.check is not None for test in tests):
        raise NotExpressible("a test is a program that checks, not an input and an output")
    if checker_of(problem.metadata):
        raise NotExpressible("it has a checker, because several outputs are right")
    if has_program_files(problem.metadata):
        raise NotExpressible("its programs are built with files of their own")
    if problem.entry_point is None:
        return json.dumps({"inputs": [t.input for t in tests], "outputs": [t.output for t in tests]})
    names = _parameters(problem)
    inputs = ["\n".join(json.dumps(value) for value in _positional(test.call or {}, names)) for test in tests]
    outputs = [json.dumps(test.output) for test in tests]
    return json.dumps({"inputs": inputs, "outputs": outputs, "fn_name": problem.entry_point.split(".")[-1]})


def _positional(call: Mapping[str, Any], names: list[str]) -> list[Any]:
    """All arguments in the order of the parameters."""
    arguments, by_name = list(call.get("args") or []), dict(call.get("kwargs") or {})
    for name in names[len(arguments) : len(arguments) + len(by_name)]:
        if name in by_name:
            arguments.append(by_name.pop(name))
    if by_name:
        raise NotExpressible(f"the position of the argument {next(iter(by_name))!r} is not known")
    return arguments


def _parameters(problem: Problem) -> list[str]:
    """The names of the entry point's parameters, from the starter code or a solution, which are parsed, never run."""
    name = (problem.entry_point or "").split(".")[-1]
    for source in (problem.starter_code, *(problem.golden_solutions or [])):
        try:
            tree = ast.parse(_with_body(source or ""))
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
                return [argument.arg for argument in node.args.args if argument.arg != "self"]
    return []


def _with_body(source: str) -> str:
    """Starter code often ends with a bare header, which is not valid Python."""
    lines = source.rstrip().split("\n")
    indent = len(lines[-1]) - len(lines[-1].lstrip())
    return source.rstrip() + f"\n{' ' * (indent + 4)}pass\n" if lines[-1].rstrip().endswith(":") else source
