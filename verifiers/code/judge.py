"""Does this program solve the problem? The judge alone holds the expected outputs; programs run in the sandbox."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ratchet.infra.problems import Problem
from ratchet.verifiers.code.comparison import short, text_difference, value_difference
from ratchet.verifiers.code.problem import DEFAULT_TIME_LIMIT_S, InvalidProblem, Request, read_problem
from ratchet.verifiers.code.published_checks import expects_exceptions
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.sandbox.runs import TestRun
from ratchet.verifiers.sandbox.server import Sandbox

FIRST_BATCH, LARGEST_BATCH = 24, 64
"""Tests given to one process, which hands back those it has not begun when `harness.SLICE_S` is over."""
MAX_ROUNDS = 32
"""How often a check may ask for calls whose arguments depend on what earlier calls returned."""

_REASONS = {
    "raised": "runtime_error",
    "exited": "runtime_error",
    "died": "runtime_error",
    "uncompilable": "compile_error",
    "exhausted": "memory_limit",
    "flooded": "output_limit",
    "timed_out": "time_limit",
}


@dataclass(frozen=True)
class TestResult:
    """One test of one program. `status` is `passed` or a kind of failure as in `Verdict.decided_by`; `got` what the
    program gave, or how it ended; `difference` where that first differs from what was expected, for people to read.
    `seconds` is the program's own word where it ran to its end."""

    __test__ = False  # not a pytest class
    index: int
    status: str
    got: str = ""
    difference: str = ""
    seconds: float = 0.0


def judge(problem: Problem, source: str, sandbox: Sandbox, *, fraction: bool = False) -> Verdict:
    """Run `source` on the problem's tests.

    Tests share a process, with a fresh `__main__` for each; a test that fails there is run once more in a process of
    its own, so that nothing the tests share can fail a right program. Without `fraction` the first failure settles it,
    the longest test comes first, and `Verdict.fraction` is the share of tests that had passed by then; with it, every
    test is run.

    A problem by whose tests nothing can be judged gives `unparseable`, decided by `invalid_problem`. Raises
    SandboxFault when the sandbox failed, which says nothing of the program: a pool tries again.
    """
    return examine(problem, source, sandbox, fraction=fraction)[0]


def examine(
    problem: Problem, source: str, sandbox: Sandbox, *, fraction: bool = False
) -> tuple[Verdict, list[TestResult]]:
    """As `judge`, and what each test showed that was run, in the order of the tests."""
    try:
        judgement = _Judgement(problem, source, sandbox)
        return judgement.settle(fraction), sorted(judgement.results, key=lambda result: result.index)
    except InvalidProblem as error:
        return Verdict(Outcome.UNPARSEABLE, decided_by="invalid_problem", detail=str(error), extracted=source), []


# ---------------------------------------------------------------------------------------- one program

Failure = tuple[str, str, str]
"""Why a test failed: kind of failure, what the program gave, the first difference."""

_OUT_OF_TIME = TestRun("timed_out", detail="all tests together used too much time")


class _Judgement:
    """One program on one problem: the budget it has left, and what its tests have shown so far."""

    def __init__(self, problem: Problem, source: str, sandbox: Sandbox) -> None:
        self.problem = read_problem(problem)
        self.source = source
        self.sandbox = sandbox
        self.budget_s = self.problem.budget_s
        self.results: list[TestResult] = []

    def settle(self, fraction: bool) -> Verdict:
        passed = 0
        failure: tuple[str, str] | None = None
        for index, failed, seconds in self._outcomes(longest_first=not fraction):
            seconds = min(max(seconds, 0.0), self.problem.limit_s) if math.isfinite(seconds) else 0.0
            self.results.append(TestResult(index, *(failed or ("passed",)), seconds=seconds))
            if failed is None:
                passed += 1
                continue
            failure = failure or (failed[0], f"test {index}: {failed[1]}")
            if not fraction or failed[0] == "compile_error":
                break
        if failure is None:
            return Verdict(Outcome.PASSED, 1.0, "all_tests", extracted=self.source)
        outcome = Outcome.TIMEOUT if failure[0] == "time_limit" else Outcome.FAILED
        return Verdict(outcome, passed / len(self.problem.tests), *failure, extracted=self.source)

    def _outcomes(self, longest_first: bool) -> Iterator[tuple[int, Failure | None, float]]:
        """(index, failure, seconds) of each test; tests are run as far as these are asked for."""
        requests = self.problem.requests
        order = list(requests) if longest_first else sorted(requests)
        runs = self._in_batches([requests[index] for index in order])
        for index, (is_first, run) in zip(order, runs, strict=True):
            failed = self._assess(index, run)
            # The first test of a process had it to itself; for time, once more may still help.
            if failed and (not is_first or failed[0] == "time_limit"):
                run = self._run([requests[index]])[0]
                failed = self._assess(index, run)
            yield index, failed, run.seconds
        for index, test in enumerate(self.problem.tests):
            if test.check is not None:
                yield index, *self._check(test.check)

    def _in_batches(self, requests: list[Request]) -> Iterator[tuple[bool, TestRun]]:
        """Each request's run, and whether it was the first in its process."""
        size = FIRST_BATCH
        while requests:
            runs = self._run(requests[:size])
            size = min(2 * size, LARGEST_BATCH)
            done = next((i for i, run in enumerate(runs) if i > 0 and run.status == "not_run"), len(runs))
            for position, run in enumerate(runs[:done]):
                yield position == 0, run
            requests = requests[done:]  # the process may have ended early; the rest get another

    def _run(self, requests: list[Request]) -> list[TestRun]:
        if self.budget_s <= 0:
            return [_OUT_OF_TIME] * len(requests)
        runs = self._spend(self.source, requests, min(self.problem.limit_s, self.budget_s), self.budget_s)
        if runs[0].status == "unprepared":
            self._without_program({"kind": "stdin", "input": ""})  # a program can say so too: ask without one
        return runs

    def _without_program(self, request: Request) -> TestRun:
        limit_s = max(self.problem.limit_s, DEFAULT_TIME_LIMIT_S)  # for the check, which is not what is judged
        [run] = self._spend("", [request], limit_s, limit_s)
        if run.status == "unprepared":
            raise InvalidProblem(f"its prelude fails: {run.detail}")
        return run

    def _spend(self, source: str, requests: list[Request], test_s: float, total_s: float) -> list[TestRun]:
        execution = self.sandbox.run(
            source,
            requests,
            entry_point=self.problem.entry_point,
            prelude=self.problem.prelude,
            test_s=test_s,
            total_s=total_s,
            memory_bytes=self.problem.memory_bytes,
            output_bytes=self.problem.output_bytes,
        )
        self.budget_s -= execution.spent_s
        return execution.runs

    def _assess(self, index: int, run: TestRun) -> Failure | None:
        """None when the test passed."""
        test = self.problem.tests[index]
        if run.status == "done" or (run.status == "exited" and test.call is None):
            if test.call is None:
                shown, difference = run.output, text_difference(run.output, test.output, self.problem.tolerance)
            else:
                shown, difference = run.output[1:], value_difference(run.output, test.output, self.problem.tolerance)
            return ("wrong_answer", f"got {short(shown)}", difference) if difference else None
        return _broken(run)

    # ------------------------------------------------------------------------------------------ checks

    def _check(self, check: str) -> tuple[Failure | None, float]:
        """Run a check apart from the program, on what the program returned; first calls in a shared process, then,
        should it not hold, each in its own."""
        for alone in (False, True):
            failed, seconds, calls = self._check_once(check, alone)
            if failed is None or calls < 2:
                break
        return failed, seconds

    def _check_once(self, check: str, alone: bool) -> tuple[Failure | None, float, int]:
        answers: list[tuple[str, str]] = []
        seconds = 0.0
        for _ in range(MAX_ROUNDS):
            if self.budget_s <= 0:
                return _broken(_OUT_OF_TIME), seconds, 0
            report = self._replay(check, answers)
            if report is None:
                return ("wrong_answer", "", "the published check does not end on what was returned"), seconds, 0
            if not report["calls"]:
                return self._conclusion(check, answers, report["failure"]), seconds, len(answers)
            requests = [{"kind": "exact_call", "call": call} for call in report["calls"]]
            runs = [(True, self._run([request])[0]) for request in requests] if alone else self._in_batches(requests)
            del answers[report["used"] :]
            for request, (is_first, run) in zip(requests, runs, strict=True):
                if run.status != "done" and not (is_first and run.status != "timed_out"):
                    run = self._run([request])[0]
                seconds += run.seconds
                if run.status != "done" and not (run.status == "raised" and run.output and expects_exceptions(check)):
                    return _broken(run), seconds, 1
                answers.append((request["call"], run.output.decode("utf-8", "replace")))
        raise InvalidProblem(f"its check asks for calls {MAX_ROUNDS} times, each time depending on the answers")

    def _replay(self, check: str, answers: list[tuple[str, str]]) -> dict[str, Any] | None:
        """What `sandbox.replay` says; None when it came to no end. The first run is the same for every program."""
        known = self.problem.first_calls
        if not answers and check in known:
            return known[check]
        run = self._without_program({"kind": "replay", "check": check, "answers": answers})
        if run.status != "done":
            if not answers:
                raise InvalidProblem(f"its check cannot be run: {run.detail or run.status}")
            return None
        report = json.loads(run.output)
        if not answers:
            if not report["calls"]:
                why = ": ".join(report["failure"] or ["it never calls the candidate"])
                raise InvalidProblem(f"its check decides before there is an answer: {why}")
            known[check] = report
        return report

    def _conclusion(self, check: str, answers: list[tuple[str, str]], failure: list[str] | None) -> Failure | None:
        if failure is None:
            return None
        name, message = failure
        if any(name in _read_answer(value).get("raised", ()) for _, value in answers):
            return "runtime_error", f"{name}: {message}", f"{name}: {message}"  # which the check did not expect
        if name in ("NameError", "ImportError", "ModuleNotFoundError"):
            raise InvalidProblem(f"its check needs what is not there: {message}")
        functions = (node for node in ast.parse(check).body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
        body = ast.unparse(next(node for node in functions if node.name == "check").body[-1])
        said = f" ({name}: {message})" if name != "AssertionError" or message else ""
        returned = ", ".join(_shown_answer(value) for _, value in answers[-3:])
        return "wrong_answer", f"got {short(returned)}", f"does not hold: {short(body)}{said}"


def _read_answer(encoded: str) -> dict[str, Any]:
    try:
        answer = json.loads(encoded)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _shown_answer(encoded: str) -> str:
    answer = _read_answer(encoded)
    if "raised" in answer:
        return f"{(answer['raised'] or ['an exception'])[0]}"
    return encoded if answer.get("objects") else json.dumps((answer.get("value") or [None])[0])


def _broken(run: TestRun) -> Failure:
    said = run.detail or run.status
    return _REASONS.get(run.status, "runtime_error"), said, said
