"""Does this program solve the problem? The judge alone holds the expected outputs; programs run in the sandbox."""

from __future__ import annotations

import ast
import json
import math
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from infra.problems import CodeTest, Problem
from verifiers.outcome import Outcome, Verdict
from verifiers.published_checks import read_check
from verifiers.sandbox.server import Sandbox, SandboxFault, TestRun

DEFAULT_TIME_LIMIT_S = 4.0
"""Seconds for one test, when the problem sets no limit: CPU time and sleep; waiting for a busy core does not count."""
DEFAULT_MEMORY_LIMIT_MB = 1024.0
OUTPUT_LIMIT_BYTES = 8 << 20
TOTAL_LIMIT_S, TOTAL_LIMIT_FACTOR = 10.0, 4.0
"""Seconds for all tests of one program: the larger of a floor and a multiple of the time limit. One program that
is slow on each of a hundred tests must not hold a worker for minutes."""
FIRST_BATCH, LARGEST_BATCH = 24, 64
"""Tests given to one process, which hands back those it has not begun when `harness.SLICE_S` is over."""
ATTEMPTS = 3
RELATIVE_TOLERANCE = 1e-6
ABSOLUTE_TOLERANCE = 1e-9
"""Of floats that a call returns, when the problem's metadata has no `tolerance` of its own."""
MAX_ROUNDS = 32
"""How often a check may ask for calls whose arguments depend on what earlier calls returned."""
SHOWN_CHARACTERS = 200

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


class InvalidProblem(Exception):
    """No program can be judged by these tests; the message says why."""


def judge(problem: Problem, source: str, sandbox: Sandbox, *, fraction: bool = False) -> Verdict:
    """Run `source` on the problem's tests.

    Tests share a process, with a fresh `__main__` for each; a test that fails there is run once more in a process of
    its own, so that nothing the tests share can fail a right program. Without `fraction` the first failure settles it,
    the longest test comes first, and `Verdict.fraction` is the share of tests that had passed by then; with it, every
    test is run.

    A fault of the sandbox is retried, then the outcome is `infra_error`, never a failure of the program. A problem by
    whose tests nothing can be judged gives `unparseable`, decided by `invalid_problem`.
    """
    return examine(problem, source, sandbox, fraction=fraction)[0]


def examine(
    problem: Problem, source: str, sandbox: Sandbox, *, fraction: bool = False
) -> tuple[Verdict, list[TestResult]]:
    """As `judge`, and what each test showed that was run, in the order of the tests."""
    for attempt in range(ATTEMPTS):
        judgement = None
        try:
            judgement = _Judgement(problem, source, sandbox)
            return judgement.settle(fraction), sorted(judgement.results, key=lambda result: result.index)
        except InvalidProblem as error:
            return Verdict(Outcome.UNPARSEABLE, decided_by="invalid_problem", detail=str(error), extracted=source), []
        except SandboxFault as fault:
            if attempt == ATTEMPTS - 1:
                return Verdict(Outcome.INFRA_ERROR, decided_by="sandbox", detail=str(fault), extracted=source), []
    raise AssertionError("unreachable")


# ------------------------------------------------------------------------------------------ the problem


def read_tests(problem: Problem) -> list[CodeTest]:
    """The problem's tests, those assertions of a check that are plain calls among them as calls. Raises InvalidProblem
    when there are none, or one cannot be used."""
    try:
        published = problem.code_tests()
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidProblem(f"its tests cannot be read: {error}") from None
    tests = []
    for number, test in enumerate(published):
        try:
            if test.check is None:
                tests.append(_checked(test))
            elif not isinstance(test.check, str):
                raise ValueError("its check is not text")
            else:
                tests += [CodeTest(**read) for read in read_check(test.check)]
        except ValueError as error:
            raise InvalidProblem(f"test {number}: {error}") from None
    if not tests:
        raise InvalidProblem("it has no tests")
    if any(test.call or test.check for test in tests):
        _check_entry_point(problem.entry_point)
    return tests


def _checked(test: CodeTest) -> CodeTest:
    if test.call is None:
        if not isinstance(test.input or "", str) or not isinstance(test.output, str):
            raise ValueError("its input or its output is not text")
        return test
    call = test.call
    if not isinstance(call, dict) or not call.keys() <= {"args", "kwargs"}:
        raise ValueError('its call is not {"args": [...], "kwargs": {...}}')
    if not isinstance(call.get("args", []), list) or not isinstance(call.get("kwargs", {}), dict):
        raise ValueError("its args are not a list, or its kwargs no object")
    return test


def _check_entry_point(entry_point: Any) -> None:
    if not entry_point or not isinstance(entry_point, str):
        raise InvalidProblem("its tests are calls, and it names no entry point")
    try:
        ast.parse(entry_point, mode="eval")
    except (SyntaxError, ValueError):
        raise InvalidProblem(f"its entry point {entry_point[:80]!r} is not an expression") from None


@dataclass(frozen=True)
class _Rules:
    """What a problem says beyond its tests."""

    limit_s: float
    memory_bytes: int
    prelude: str | None
    tolerance: float | None

    @classmethod
    def of(cls, problem: Problem) -> _Rules:
        try:
            metadata = json.loads(problem.metadata or "{}")
            prelude, tolerance = metadata.get("prelude"), metadata.get("tolerance")
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise InvalidProblem(f"its metadata is not a JSON object: {error}") from None
        limit_s = problem.time_limit_s or DEFAULT_TIME_LIMIT_S
        memory_mb = problem.memory_limit_mb or DEFAULT_MEMORY_LIMIT_MB
        for name, value in (("time limit", limit_s), ("memory limit", memory_mb), ("tolerance", tolerance or 0)):
            if not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise InvalidProblem(f"its {name} is {value!r}")
        if not isinstance(prelude or "", str):
            raise InvalidProblem("its prelude is not text")
        return cls(limit_s, int(memory_mb * (1 << 20)), prelude, tolerance)


# ---------------------------------------------------------------------------------------- one program

Failure = tuple[str, str, str]
"""Why a test failed: kind of failure, what the program gave, the first difference."""

_OUT_OF_TIME = TestRun("timed_out", detail="all tests together used too much time")
_first_calls: OrderedDict[tuple[Any, ...], dict[str, Any]] = OrderedDict()  # what a check asks for before any answer
_CHECKS_REMEMBERED = 4096


class _Judgement:
    """One program on one problem: the budget it has left, and what its tests have shown so far."""

    def __init__(self, problem: Problem, source: str, sandbox: Sandbox) -> None:
        self.tests = read_tests(problem)
        self.rules = _Rules.of(problem)
        self.source = source
        self.sandbox = sandbox
        self.entry_point = problem.entry_point
        self.budget_s = max(TOTAL_LIMIT_S, TOTAL_LIMIT_FACTOR * self.rules.limit_s)
        longest = max((len(test.output) for test in self.tests if isinstance(test.output, str)), default=0)
        self.output_bytes = max(OUTPUT_LIMIT_BYTES, 8 * longest)
        self.results: list[TestResult] = []

    def settle(self, fraction: bool) -> Verdict:
        passed = 0
        failure: tuple[str, str] | None = None
        for index, problem, seconds in self._outcomes(longest_first=not fraction):
            seconds = min(max(seconds, 0.0), self.rules.limit_s) if math.isfinite(seconds) else 0.0
            self.results.append(TestResult(index, *(problem or ("passed",)), seconds=seconds))
            if problem is None:
                passed += 1
                continue
            failure = failure or (problem[0], f"test {index}: {problem[1]}")
            if not fraction or problem[0] == "compile_error":
                break
        if failure is None:
            return Verdict(Outcome.PASSED, 1.0, "all_tests", extracted=self.source)
        outcome = Outcome.TIMEOUT if failure[0] == "time_limit" else Outcome.FAILED
        return Verdict(outcome, passed / len(self.tests), *failure, extracted=self.source)

    def _outcomes(self, longest_first: bool) -> Iterator[tuple[int, Failure | None, float]]:
        """(index, failure, seconds) of each test; tests are run as far as these are asked for."""
        requests = {i: _request(test) for i, test in enumerate(self.tests) if test.check is None}
        order = list(requests)
        if longest_first and len(order) > 1:
            order.sort(key=lambda index: -_size(requests[index]))
        runs = self._in_batches([requests[index] for index in order])
        for index, (is_first, run) in zip(order, runs, strict=True):
            problem = self._assess(index, run)
            # The first test of a process had it to itself; for time, once more may still help.
            if problem and (not is_first or problem[0] == "time_limit"):
                run = self._run([requests[index]])[0]
                problem = self._assess(index, run)
            yield index, problem, run.seconds
        for index, test in enumerate(self.tests):
            if test.check is not None:
                yield index, *self._check(test.check)

    def _in_batches(self, requests: list[dict[str, Any]]) -> Iterator[tuple[bool, TestRun]]:
        """Each request's run, and whether it was the first in its process."""
        size = FIRST_BATCH
        while requests:
            runs = self._run(requests[:size])
            size = min(2 * size, LARGEST_BATCH)
            done = next((i for i, run in enumerate(runs) if i > 0 and run.status == "not_run"), len(runs))
            for position, run in enumerate(runs[:done]):
                yield position == 0, run
            requests = requests[done:]  # the process may have ended early; the rest get another

    def _run(self, requests: list[dict[str, Any]]) -> list[TestRun]:
        if self.budget_s <= 0:
            return [_OUT_OF_TIME] * len(requests)
        runs = self._spend(self.source, requests, min(self.rules.limit_s, self.budget_s), self.budget_s)
        if runs[0].status == "unprepared":
            self._without_program({"kind": "stdin", "input": ""})  # a program can say so too: ask without one
        return runs

    def _without_program(self, request: dict[str, Any]) -> TestRun:
        limit_s = max(self.rules.limit_s, DEFAULT_TIME_LIMIT_S)  # for the check, which is not what is judged
        [run] = self._spend("", [request], limit_s, limit_s)
        if run.status == "unprepared":
            raise InvalidProblem(f"its prelude fails: {run.detail}")
        return run

    def _spend(self, source: str, requests: list[dict[str, Any]], test_s: float, total_s: float) -> list[TestRun]:
        execution = self.sandbox.run(
            source,
            requests,
            entry_point=self.entry_point,
            prelude=self.rules.prelude,
            test_s=test_s,
            total_s=total_s,
            memory_bytes=self.rules.memory_bytes,
            output_bytes=self.output_bytes,
        )
        self.budget_s -= execution.spent_s
        return execution.runs

    def _assess(self, index: int, run: TestRun) -> Failure | None:
        """None when the test passed."""
        test = self.tests[index]
        if run.status == "done" or (run.status == "exited" and test.call is None):
            if test.call is None:
                shown, difference = run.output, text_difference(run.output, test.output, self.rules.tolerance)
            else:
                shown, difference = run.output[1:], value_difference(run.output, test.output, self.rules.tolerance)
            return ("wrong_answer", f"got {_short(shown)}", difference) if difference else None
        return _broken(run)

    # ------------------------------------------------------------------------------------------ checks

    def _check(self, check: str) -> tuple[Failure | None, float]:
        """Run a check apart from the program, on what the program returned; first calls in a shared process, then,
        should it not hold, each in its own."""
        for alone in (False, True):
            problem, seconds, calls = self._check_once(check, alone)
            if problem is None or calls < 2:
                break
        return problem, seconds

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
                if run.status != "done":
                    return _broken(run), seconds, 1
                answers.append((request["call"], run.output.decode("utf-8", "replace")))
        raise InvalidProblem(f"its check asks for calls {MAX_ROUNDS} times, each time depending on the answers")

    def _replay(self, check: str, answers: list[tuple[str, str]]) -> dict[str, Any] | None:
        """What `sandbox.replay` says; None when it came to no end. The first run is the same for every program."""
        key = (check, self.rules.prelude, self.entry_point)
        if not answers and (report := _first_calls.get(key)):
            return report
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
            _first_calls[key] = report
            while len(_first_calls) > _CHECKS_REMEMBERED:
                _first_calls.popitem(last=False)
        return report

    def _conclusion(self, check: str, answers: list[tuple[str, str]], failure: list[str] | None) -> Failure | None:
        if failure is None:
            return None
        name, message = failure
        if name in ("NameError", "ImportError", "ModuleNotFoundError"):
            raise InvalidProblem(f"its check needs what is not there: {message}")
        returned = ", ".join(map(_shown_answer, [value for _, value in answers[-3:]]))
        body = ast.unparse(next(n for n in ast.parse(check).body if getattr(n, "name", "") == "check").body[-1])
        said = f" ({name}: {message})" if name != "AssertionError" or message else ""
        return "wrong_answer", f"got {_short(returned)}", f"does not hold: {_short(body)}{said}"


def _request(test: CodeTest) -> dict[str, Any]:
    """What the sandbox is told of a test: never its output."""
    if test.call is not None:
        return {"kind": "call", "args": test.call.get("args", []), "kwargs": test.call.get("kwargs", {})}
    return {"kind": "stdin", "input": test.input or ""}


def _size(request: dict[str, Any]) -> int:
    return len(request["input"]) if request["kind"] == "stdin" else len(json.dumps(request))


def _shown_answer(encoded: str) -> str:
    try:
        graph = json.loads(encoded)
        return json.dumps(graph if graph["objects"] else graph["value"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return encoded


def _broken(run: TestRun) -> Failure:
    said = run.detail or run.status
    return _REASONS.get(run.status, "runtime_error"), said, said


# ----------------------------------------------------------------------------------------- comparison


def text_difference(written: bytes, expected: str, tolerance: float | None = None) -> str:
    """Where standard output first differs from what was expected, "" when it does not: equal line by line, but for
    white space at the ends of lines and empty lines at the end. With `tolerance`, absolute or relative, numbers in the
    same place may differ by that much."""
    wanted = expected.encode("utf-8", "surrogatepass")
    if written == wanted:
        return ""
    got_lines, wanted_lines = _lines(written), _lines(wanted)
    for number, (got, want) in enumerate(zip(got_lines, wanted_lines, strict=False), 1):
        if got != want and not (tolerance and _tokens_close(got, want, tolerance)):
            return f"line {number}: expected {_short(want)}, got {_short(got)}"
    if len(got_lines) != len(wanted_lines):
        return f"expected {len(wanted_lines)} lines, got {len(got_lines)}"
    return ""


def _lines(text: bytes) -> list[bytes]:
    return [line.rstrip() for line in text.rstrip().split(b"\n")]


def _tokens_close(got: bytes, want: bytes, tolerance: float) -> bool:
    ones, others = got.split(), want.split()
    return len(ones) == len(others) and all(
        one == other or _decimals_close(one, other, tolerance) for one, other in zip(ones, others, strict=True)
    )


def _decimals_close(one: bytes, other: bytes, tolerance: float) -> bool:
    try:
        return math.isclose(float(one), float(other), rel_tol=tolerance, abs_tol=tolerance)
    except ValueError:
        return False


def value_difference(written: bytes, expected: Any, tolerance: float | None = None) -> str:
    """Where the encoded value of a call first differs from the expected JSON value, "" when it does not. Floats may
    differ by 1e-6 of their size, or by `tolerance`, absolute or relative, when the problem names one."""
    kind, body = written[:1], written[1:]
    if kind == b"r":
        is_same = isinstance(expected, str) and body.decode("utf-8", "replace") == expected
        return "" if is_same else f"expected {_short(json.dumps(expected))}, got {_short(body)}, which is not JSON"
    if kind != b"j":
        return "nothing was returned"
    if body == json.dumps(expected).encode():
        return ""
    relative, absolute = (RELATIVE_TOLERANCE, ABSOLUTE_TOLERANCE) if tolerance is None else (tolerance, tolerance)
    try:
        return _difference(json.loads(body), expected, relative, absolute, "")
    except (ValueError, RecursionError):
        return "what was returned cannot be read"


def _difference(value: Any, expected: Any, relative: float, absolute: float, place: str) -> str:
    if isinstance(expected, list) and isinstance(value, list):
        if len(value) != len(expected):
            return f"{place or 'value'}: expected {len(expected)} items, got {len(value)}"
        pairs = ((f"{place}[{i}]", *pair) for i, pair in enumerate(zip(value, expected, strict=True)))
    elif isinstance(expected, dict) and isinstance(value, dict):
        if value.keys() != expected.keys():
            return f"{place or 'value'}: expected the keys {_short(str([*expected]))}, got {_short(str([*value]))}"
        pairs = ((f"{place}[{key!r}]", value[key], expected[key]) for key in expected)
    else:
        if _same_scalar(value, expected, relative, absolute):
            return ""
        return f"{place or 'value'}: expected {_short(json.dumps(expected))}, got {_short(json.dumps(value))}"
    return next((found for at, one, other in pairs if (found := _difference(one, other, relative, absolute, at))), "")


def _same_scalar(value: Any, expected: Any, relative: float, absolute: float) -> bool:
    if not (isinstance(value, float) or isinstance(expected, float)):
        return bool(value == expected)
    if not (isinstance(value, int | float) and isinstance(expected, int | float)):
        return False
    try:
        return value == expected or math.isclose(value, expected, rel_tol=relative, abs_tol=absolute)
    except OverflowError:  # an integer too large for a float
        return False


def _short(text: bytes | str) -> str:
    """For reports only: what is compared is never cut."""
    if isinstance(text, bytes):
        text = text[: 4 * SHOWN_CHARACTERS + 4].decode("utf-8", "replace")
    shown = text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"
    return repr(shown)
