"""Does this program solve the problem? The judge alone holds the expected outputs; programs run in the sandbox."""

from __future__ import annotations

import json
import math
from typing import Any

from infra.problems import CodeTest, Problem
from verifiers.outcome import Outcome, Verdict
from verifiers.sandbox.server import Sandbox, SandboxFault, TestRun

DEFAULT_TIME_LIMIT_S = 4.0
"""Seconds for one test, when the problem sets no limit: CPU time and sleep; waiting for a busy core does not count."""
DEFAULT_MEMORY_LIMIT_MB = 1024.0
OUTPUT_LIMIT_BYTES = 8 << 20
TOTAL_LIMIT_S, TOTAL_LIMIT_FACTOR = 10.0, 4.0
"""Seconds for all tests of one program: the larger of a floor and a multiple of the time limit. One program that
is slow on each of a hundred tests must not hold a worker for minutes."""
FIRST_BATCH, LARGEST_BATCH = 8, 64
ATTEMPTS = 3
RELATIVE_TOLERANCE = 1e-6
ABSOLUTE_TOLERANCE = 1e-9

_REASONS = {
    "raised": "runtime_error",
    "exited": "runtime_error",
    "died": "runtime_error",
    "uncompilable": "compile_error",
    "exhausted": "memory_limit",
    "flooded": "output_limit",
    "timed_out": "time_limit",
    "refuted": "wrong_answer",
}


def judge(problem: Problem, source: str, sandbox: Sandbox, *, fraction: bool = False) -> Verdict:
    """Run `source` on the problem's tests.

    Tests share a process, with a fresh `__main__` for each; a test that fails there is run once more in a process of
    its own, so that nothing the tests share can fail a right program. Without `fraction` the first failure settles it,
    and `Verdict.fraction` is the share of tests that had passed by then; with it, every test is run.

    A fault of the sandbox is retried, then the outcome is `infra_error`, never a failure of the program. Raises
    ValueError when the problem's tests cannot be read or there are none.
    """
    tests = problem.code_tests()
    if not tests:
        raise ValueError(f"problem {problem.problem_id} has no tests")
    for attempt in range(ATTEMPTS):
        try:
            return _Judgement(problem, source, tests, sandbox).settle(fraction)
        except SandboxFault as fault:
            if attempt == ATTEMPTS - 1:
                return Verdict(Outcome.INFRA_ERROR, decided_by="sandbox", detail=str(fault), extracted=source)
    raise AssertionError("unreachable")


class _Judgement:
    """One program on one problem: the budget it has left, and what its tests have shown so far."""

    def __init__(self, problem: Problem, source: str, tests: list[CodeTest], sandbox: Sandbox) -> None:
        self.source = source
        self.tests = tests
        self.sandbox = sandbox
        self.limit_s = problem.time_limit_s or DEFAULT_TIME_LIMIT_S
        self.budget_s = max(TOTAL_LIMIT_S, TOTAL_LIMIT_FACTOR * self.limit_s)
        self.settings = {
            "entry_point": problem.entry_point,
            "prelude": json.loads(problem.metadata or "{}").get("prelude"),
            "memory_bytes": int((problem.memory_limit_mb or DEFAULT_MEMORY_LIMIT_MB) * (1 << 20)),
            "output_bytes": OUTPUT_LIMIT_BYTES,
        }
        self.requests = [_request(test) for test in tests]

    def settle(self, fraction: bool) -> Verdict:
        queue = list(range(len(self.tests)))
        passed = 0
        failure: tuple[str, str] | None = None
        size = FIRST_BATCH
        while queue:
            batch, queue = queue[:size], queue[size:]
            size = min(2 * size, LARGEST_BATCH)
            for position, (index, run) in enumerate(zip(batch, self._run(batch), strict=True)):
                if run.status == "not_run" and position > 0:
                    queue = batch[position:] + queue  # the process ended early; the rest get another
                    break
                problem = self._assess(index, run)
                # The first test of a batch had the process to itself; for time, once more may still help.
                if problem and (position > 0 or problem[0] == "time_limit"):
                    problem = self._assess(index, self._run([index])[0])
                if problem is None:
                    passed += 1
                    continue
                failure = failure or (problem[0], f"test {index}: {problem[1]}")
                if not fraction or problem[0] == "compile_error":
                    queue = []
                    break
        if failure is None:
            return Verdict(Outcome.PASSED, 1.0, "all_tests", extracted=self.source)
        outcome = Outcome.TIMEOUT if failure[0] == "time_limit" else Outcome.FAILED
        return Verdict(outcome, passed / len(self.tests), *failure, extracted=self.source)

    def _run(self, batch: list[int]) -> list[TestRun]:
        if self.budget_s <= 0:
            return [TestRun("timed_out", detail="all tests together used too much time")] * len(batch)
        execution = self.sandbox.run(
            self.source,
            [self.requests[index] for index in batch],
            test_s=min(self.limit_s, self.budget_s),
            total_s=self.budget_s,
            **self.settings,
        )
        self.budget_s -= execution.spent_s
        return execution.runs

    def _assess(self, index: int, run: TestRun) -> tuple[str, str] | None:
        """None when the test passed, else (reason, detail)."""
        test = self.tests[index]
        kind = self.requests[index]["kind"]
        if run.status == "done" or (run.status == "exited" and kind == "stdin"):
            if kind == "check" or (same_text if kind == "stdin" else same_value)(run.output, test.output):
                return None
            return "wrong_answer", _shown(run.output)
        return _REASONS.get(run.status, "runtime_error"), run.detail or run.status


def _request(test: CodeTest) -> dict[str, Any]:
    """What the sandbox is told of a test: never its output."""
    if test.check is not None:
        return {"kind": "check", "check": test.check}
    if test.call is not None:
        return {"kind": "call", "args": test.call.get("args", []), "kwargs": test.call.get("kwargs", {})}
    return {"kind": "stdin", "input": test.input or ""}


def same_text(written: bytes, expected: Any) -> bool:
    """Equal line by line, but for white space at the ends of lines and empty lines at the end."""
    expected = str(expected).encode("utf-8", "surrogatepass")
    return written == expected or _lines(written) == _lines(expected)


def _lines(text: bytes) -> list[bytes]:
    return [line.rstrip() for line in text.rstrip().split(b"\n")]


def same_value(written: bytes, expected: Any) -> bool:
    """Is the encoded value of a call the expected JSON value? Floats within 1e-6 relative."""
    kind, body = written[:1], written[1:]
    if kind == b"r":
        return isinstance(expected, str) and body.decode("utf-8", "replace") == expected
    if kind != b"j":
        return False
    if body == json.dumps(expected).encode():
        return True
    try:
        return _close(json.loads(body), expected)
    except (ValueError, RecursionError):
        return False


def _close(value: Any, expected: Any) -> bool:
    if isinstance(value, float) or isinstance(expected, float):
        numbers = isinstance(value, int | float) and isinstance(expected, int | float)
        if not numbers:
            return False
        try:
            return value == expected or math.isclose(
                value, expected, rel_tol=RELATIVE_TOLERANCE, abs_tol=ABSOLUTE_TOLERANCE
            )
        except OverflowError:  # an integer too large for a float
            return False
    if isinstance(expected, list):
        return (
            isinstance(value, list)
            and len(value) == len(expected)
            and all(_close(one, other) for one, other in zip(value, expected, strict=True))
        )
    if isinstance(expected, dict):
        return (
            isinstance(value, dict)
            and value.keys() == expected.keys()
            and all(_close(value[key], expected[key]) for key in expected)
        )
    return bool(value == expected)


def _shown(output: bytes) -> str:
    return "got " + repr(output[:200].decode("utf-8", "replace"))
