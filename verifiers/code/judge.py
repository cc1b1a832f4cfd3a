"""Judge whether a program solves its problem. Only the judge has the expected outputs; programs run in the sandbox."""

import ast
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ratchet.verifiers.code.checker_runs import CheckerFault, check_output, checker_process
from ratchet.verifiers.code.checkers import Checker
from ratchet.verifiers.code.comparison import short, text_difference, value_difference
from ratchet.verifiers.code.compiled import CppSubmission, DoesNotCompile, cpp_sandbox
from ratchet.verifiers.code.problem import CHECKER_TOTAL_FACTOR, InvalidProblem, Request, read_problem
from ratchet.verifiers.code.published_checks import as_check
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.sandbox.check_source import prepare_checks
from ratchet.verifiers.sandbox.runs import CheckExecution, Limits, Talker, TestRun
from ratchet.verifiers.sandbox.server import Sandbox
from ratchet.verifiers.submission import JudgeSettings

_REASONS = {
    "uncompilable": "compile_error", "exhausted": "memory_limit", "flooded": "output_limit", "timed_out": "time_limit",
}  # fmt: skip
"""The kind of failure by the status of a run; others are a `runtime_error`."""
_CHECK_ENDS = {"timed_out": ("time_limit", "takes too long"), "exhausted": ("memory_limit", "uses too much memory")}
"""The kind of failure and what a check does, by how its process was ended."""


@dataclass(frozen=True)
class TestResult:
    """One test of one program. `status` is `passed` or a failure as in `Verdict.decided_by`; `result` the program's
    output, or how it ended; `difference` the first difference from what was expected, for people to read. `seconds` is
    the program's own report, if it finished the test."""

    __test__ = False  # not a pytest class
    index: int
    status: str
    result: str = ""
    difference: str = ""
    seconds: float = 0.0


def judge(
    problem: Problem, source: str, sandbox: Sandbox, settings: JudgeSettings = JudgeSettings(), language: str = ""
) -> Verdict:
    """Run `source` on the problem's tests. It is in `language`, which may be omitted where the problem allows only one.

    Tests share a process. If a test fails there that passes in a process of its own, then so does every test: the
    verdict is that of fresh processes alone, one run for each test, so that shared state fails no right program. What
    passes is not run again. Tests of a published check share what its own harness shares. If the first failure decides,
    the longest test comes first, and `Verdict.fraction` counts the tests that passed before it.
    The default limit for all tests together is `CodeProblem.budget_s`; fresh processes have it once more.

    A problem whose tests cannot be used gives `unparseable`, decided by `invalid_problem`; one whose checker fails on
    this program, where that tells nothing about the program, `infra_error`, decided by `checker`. Raises SandboxFault,
    which says nothing about the program: a pool tries again.
    """
    return examine(problem, source, sandbox, settings, language)[0]


def examine(
    problem: Problem, source: str, sandbox: Sandbox, settings: JudgeSettings = JudgeSettings(), language: str = ""
) -> tuple[Verdict, list[TestResult]]:
    """Judge a program as `judge` does; also returns the results of the tests that ran, in the order of the tests."""
    try:
        judged = _Judging(problem, source, sandbox, settings, language)
        try:
            return judged.decide(), sorted(judged.results, key=lambda result: result.index)
        finally:
            judged.close()
    except InvalidProblem as error:
        return Verdict(Outcome.UNPARSEABLE, decided_by="invalid_problem", detail=str(error), extracted=source), []
    except CheckerFault as error:
        return Verdict(Outcome.INFRA_ERROR, decided_by="checker", detail=str(error), extracted=source), []


Failure = tuple[str, str, str]
"""The reason why a test failed: kind of failure, the program's output, the first difference."""

_Outcome = tuple[int, Failure | None, float]
"""One test: its index, its failure, and the seconds that the program reports."""


class _Shares(Exception):
    """A test failed that passes in a process of its own."""


class _Hurried(Exception):
    """A test ran out of time on a busy machine, which may be why."""


class _NotJson(Exception):
    """The value of an exact call is not JSON, and may still equal the expected one: Python must compare them."""


WIDER = 1.5
"""Factor on the limits of a program that ran out of time on a busy machine and is judged again, once: neighbors on the
same core and cache make it use that much more CPU time."""
_OUT_OF_TIME = TestRun("timed_out", detail="all tests together used too much time")


class _Judging:
    """One program on one problem: the time it has left, and its results so far."""

    def __init__(self, problem: Problem, source: str, sandbox: Sandbox, settings: JudgeSettings, language: str) -> None:
        self.problem = read_problem(problem)
        source = source.removeprefix("\ufeff")  # a byte order mark
        self.source = source
        self.sandbox = sandbox
        self.compiled = None
        only, *more = self.problem.languages
        if more and not language:
            raise InvalidProblem(f"it allows {', '.join([only, *more])}, and nothing says which the program is in")
        self.run_source, self.modules = self.problem.files.run_in_python(source)
        if (language or only) == "cpp":
            self.compiled = CppSubmission(sandbox, source, self.problem.standard, self.problem.files)
        self.every_test = settings.fraction
        self.total_s = self.budget_s = self.problem.budget_s if settings.total_s is None else settings.total_s
        self.check_s = CHECKER_TOTAL_FACTOR * self.problem.check_s
        self.has_slow_outputs = False  # for its checker
        self.results: list[TestResult] = []
        self.wider = 1.0
        # Calls of a check are one with the rest of it: in its order, in its process.
        self.as_checks = any(test.check is not None for test in self.problem.tests)

    def close(self) -> None:
        if self.compiled:
            self.compiled.close()

    def decide(self) -> Verdict:
        try:
            return self._decide_once()
        except _Hurried:
            self.wider, self.total_s, self.results = WIDER, WIDER * self.total_s, []
            self.budget_s, self.check_s = self.total_s, CHECKER_TOTAL_FACTOR * self.problem.check_s
            return self._decide_once()

    def _hurried(self, run: TestRun | None) -> None:
        """Raises _Hurried, once for a program."""
        if run is not None and run.status == "timed_out" and run.loaded and self.wider == 1:
            raise _Hurried

    def _decide_once(self) -> Verdict:
        if self.problem.checker and self.problem.checker.interactive:
            return self._decide((index, self._converse(index, self.problem.checker), 0.0) for index in self._order())
        if self.compiled:
            return self._decide(self._apart())
        try:
            return self._decide(self._shared(self._order()))
        except _Shares:
            self.results, self.budget_s = [], self.total_s
            return self._decide(self._apart())
        except _NotJson:
            self.results, self.budget_s, self.as_checks = [], self.total_s, True
            return self._decide_once()

    def _decide(self, outcomes: Iterator["_Outcome"]) -> Verdict:
        passed = 0
        failure: tuple[str, str] | None = None
        for index, failed, seconds in outcomes:
            seconds = min(max(seconds, 0.0), self.problem.limit_s) if math.isfinite(seconds) else 0.0
            self.results.append(TestResult(index, *(failed or ("passed",)), seconds=seconds))
            if failed is None:
                passed += 1
                continue
            failure = failure or (failed[0], f"test {index}: {failed[1]}")
            if not self.every_test or failed[0] == "compile_error":
                break
        if failure is None:
            return Verdict(Outcome.PASSED, 1.0, "all_tests", extracted=self.source)
        outcome = Outcome.TIMEOUT if failure[0] == "time_limit" else Outcome.FAILED
        return Verdict(outcome, passed / len(self.problem.tests), *failure, extracted=self.source)

    def _order(self) -> list[int]:
        return sorted(self.problem.requests) if self.every_test else list(self.problem.requests)

    def _shared(self, order: list[int]) -> Iterator["_Outcome"]:
        """Run these tests in one process, then the checks, as the caller iterates. Raises _Shares as soon as a test
        shows that sharing matters, and _NotJson."""
        tests, requests = self.problem.tests, self.problem.requests
        checks = self._checks()
        order = [index for index in order if index not in checks]
        # A checker sees outputs only when their process is over: a wrong program should not run every test first.
        ahead = 1 if self.problem.checker and not self.every_test else len(order)
        while order:
            batch, ahead = order[:ahead], 2 * ahead
            runs = self._run([requests[index] for index in batch], None if self.every_test else self._fails(batch))
            count = next((i for i, run in enumerate(runs) if i > 0 and run.status == "not_run"), len(runs))
            for position, (index, run) in enumerate(zip(order, runs[:count], strict=False)):
                failed = self._assess(index, run)
                # The first test of a process shared it with none; the calls of a check are meant to share.
                if failed and position > 0 and not tests[index].exact:
                    run = self._run([requests[index]])[0]
                    if (failed := self._assess(index, run)) is None:
                        raise _Shares
                yield index, failed, run.seconds
            order = order[count:]  # the process may have ended early; the rest get another
        if checks:
            yield from self._check(checks)

    def _checks(self) -> dict[int, str]:
        """The checks among the tests, in their order."""
        tests = enumerate(self.problem.tests)
        return {
            index: as_check(test, self.problem.comparison) if test.check is None else test.check
            for index, test in tests
            if test.check is not None or (test.exact and self.as_checks)
        }

    def _apart(self) -> Iterator["_Outcome"]:
        """Each test in a process of its own, except those of a published check, which are meant to share."""
        tests, order = self.problem.tests, self._order()
        yield from self._shared([index for index in order if tests[index].exact])
        for index in order:
            if not tests[index].exact:
                [run] = self._run([self.problem.requests[index]])
                yield index, self._assess(index, run), run.seconds

    def _fails(self, order: list[int]) -> Callable[[int, TestRun], bool]:
        if self.problem.checker:
            return lambda _, run: run.status not in ("done", "exited")

        def fails(position: int, run: TestRun) -> bool:
            try:
                return self._assess(order[position], run) is not None
            except _NotJson:  # enough to know: it is raised when the process has ended
                return True

        return fails

    def _run(self, requests: list[Request], enough: Callable[[int, TestRun], bool] | None = None) -> list[TestRun]:
        if self.budget_s <= 0:
            return [_OUT_OF_TIME] * len(requests)
        entry_point, prelude, limits = self.problem.entry_point, self.problem.prelude, self._limits()
        execution = (self.compiled or self.sandbox).run(
            self.run_source, requests, limits, entry_point=entry_point, prelude=prelude, modules=self.modules,
            enough=enough,
        )  # fmt: skip
        self.budget_s -= execution.spent_s
        if execution.runs[0].status == "unprepared":
            self._require_prelude()
        for run in execution.runs:
            self._hurried(run)
        return execution.runs

    def _require_prelude(self) -> None:
        """Raises InvalidProblem if the prelude fails without a program: a program can report that too."""
        request = {"kind": "stdin", "input": ""}
        prelude = self.problem.prelude
        [run] = self.sandbox.run("", [request], self._limits(), entry_point=None, prelude=prelude).runs
        if run.status == "unprepared":
            raise InvalidProblem(f"its prelude fails: {run.detail}")

    def _limits(self) -> Limits:
        problem, test_s = self.problem, min(self.wider * self.problem.limit_s, self.budget_s)
        return Limits(
            test_s, self.budget_s, problem.memory_bytes, problem.output_bytes, problem.check_s, problem.checker_bytes
        )

    def _assess(self, index: int, run: TestRun) -> Failure | None:
        """The failure of a test; None if it passed."""
        test = self.problem.tests[index]
        if run.status != "done" and (run.status != "exited" or test.call is not None):
            return _broken(run)
        if self.problem.checker:
            return self._checked(index, run.output, self.problem.checker)
        if test.call is not None and run.output == self.problem.returned[index]:
            return None
        if test.call is None:
            output = run.output
            difference = text_difference(output, test.output, self.problem.comparison, test.arguments)
        elif test.exact and run.output[:1] == b"r":
            raise _NotJson
        else:
            output = run.output[1:]
            difference = value_difference(run.output, test.output, self.problem.comparison, test.exact)
        return ("wrong_answer", f"got {short(output)}", difference) if difference else None

    def _checked(self, index: int, output: bytes, checker: Checker) -> Failure | None:
        """Ask the problem's checker about an output. If it fails, it is asked about the expected output: if it can
        tell there, the output has broken it, and is wrong. No program gains by that, nor loses by a broken checker."""
        if self.check_s <= 0:
            return self._without_time(index, checker)
        test = self.problem.tests[index]
        run = self._ask_checker(index, output, checker)
        accepts = checker.accepts(run)
        if accepts is None:
            expected = self._ask_checker(index, test.output.encode("utf-8", "surrogatepass"), checker)
            can_tell = checker.accepts(expected)
            points, most = checker.points(run), checker.points(expected)
            if points is not None and most:
                few = f"its checker gives it {points:g} points, and the expected output {most:g}"
                return ("wrong_answer", f"got {short(output)}", few) if points < most else None
            # In Kattis's format the expected output need not be one that a program may give.
            if can_tell is None or (can_tell is False and checker.protocol != "kattis"):
                raise CheckerFault(f"test {index}: its checker {_fault_of(run)}, also on the expected output")
            return "wrong_answer", f"got {short(output)}", f"its checker {_fault_of(run)} on this output alone"
        reason = short(run.output) if run.output and checker.protocol != "script" else ""
        return (
            None if accepts else ("wrong_answer", f"got {short(output)}", f"its checker rejects it {reason}".rstrip())
        )

    def _without_time(self, index: int, checker: Checker) -> Failure:
        """The failure of a test for which the checker's total is used up. If it would be for the expected outputs too,
        the checker is at fault."""
        if not self.has_slow_outputs:
            left, test = self.check_s, self.problem.tests[index]
            run = self._ask_checker(index, test.output.encode("utf-8", "surrogatepass"), checker)
            all_s = (left - self.check_s) * len(self.problem.tests)
            if checker.accepts(run) is None or all_s > CHECKER_TOTAL_FACTOR * self.problem.check_s:
                raise CheckerFault("its checker takes too long on all tests together")
            self.has_slow_outputs = True
        return "wrong_answer", "", "its checker takes too long on such outputs"

    def _ask_checker(self, index: int, output: bytes, checker: Checker) -> TestRun:
        problem = self.problem
        limits = Limits(problem.check_s, problem.check_s, problem.checker_bytes, problem.output_bytes)
        run, spent_s = check_output(checker, self.sandbox, limits, problem.tests[index], output)
        self.check_s -= spent_s
        return run

    def _converse(self, index: int, interactor: Checker) -> Failure | None:
        """A test with an interactor. It decides, unless the program has failed before; if it fails itself, the program
        is at fault only where a golden solution has passed all tests."""
        if self.budget_s <= 0:
            return _broken(_OUT_OF_TIME)
        other = checker_process(interactor, self.sandbox, self.problem.tests[index])
        try:
            own = self._process()
        except DoesNotCompile as reason:
            return _broken(TestRun("uncompilable", detail=str(reason)))
        server = self.sandbox if own.job and other.job else cpp_sandbox(self.sandbox)
        talk = server.converse(own, other, self._limits(), interactor.accepting)
        self.budget_s -= talk.spent_s
        accepts, program = interactor.accepts(talk.interactor), talk.program
        self._hurried(program)
        if program and program.status == "unprepared":
            self._require_prelude()
        if program and program.status not in ("done", "exited"):
            return _broken(program)
        if accepts is None and not self.problem.is_validated:
            raise CheckerFault(f"test {index}: its interactor {_fault_of(talk.interactor)}")
        reason = "rejects it" if accepts is False else _fault_of(talk.interactor)
        detail = f"its interactor {reason} {short(talk.interactor.output) if talk.interactor.output else ''}".rstrip()
        return None if accepts else ("wrong_answer", detail, detail)

    def _process(self) -> Talker:
        if self.compiled:
            return Talker(None, self.compiled.built().file, argv=["./program"])
        job = {"source": self.run_source, "tests": [{"kind": "joined"}], "entry_point": None}
        return Talker(job | {"prelude": self.problem.prelude, "modules": self.modules})

    def _check(self, checks: dict[int, str]) -> Iterator[_Outcome]:
        """Run checks on the program. If it changes arguments of a call whose value a check uses, they must also hold
        where the check does not see that: it may compute from these arguments what it expects."""
        outcomes, has_changed = self._run_checks(checks)
        if has_changed and (self.every_test or not any(failed for _, failed, _ in outcomes)):
            self.budget_s = self.total_s
            others, _ = self._run_checks(checks, is_apart=True)
            outcomes = [one if one[1] else _apart(other) for one, other in zip(outcomes, others, strict=False)]
        yield from outcomes

    def _run_checks(self, checks: dict[int, str], is_apart: bool = False) -> tuple[list[_Outcome], bool]:
        """Run checks in one process, as their harness does; after one that ends it, in another. Also returns whether
        the program has changed arguments of calls whose value was used."""
        outcomes: list[_Outcome] = []
        has_changed, left = False, dict(checks)
        try:
            prepared = prepare_checks(tuple(checks.values()), self.problem.prelude, is_apart)
        except ValueError as error:
            raise InvalidProblem(f"its check cannot be run: {error}") from None
        while left and self.budget_s > 0:
            execution = self.sandbox.check(
                self.source, replace(prepared, codes=prepared.codes[-len(left) :]), self._limits(),
                entry_point=self.problem.entry_point or "", prelude=self.problem.prelude,
                to_first_failure=not self.every_test, is_apart=is_apart,
            )  # fmt: skip
            self.budget_s -= execution.spent_s
            self._hurried(execution.program)
            records = iter(execution.records)
            for index, check in list(left.items()):
                questioned, record = next(records, (execution.questioned, {}))
                has_changed |= bool(record.get("changed"))
                failed = self._conclusion(check, record, questioned, execution)
                outcomes.append((index, failed, 0.0))
                del left[index]
                if failed and not self.every_test:
                    return outcomes, has_changed
                if record.get("status") in (None, "gone"):
                    break
        outcomes += ((index, _broken(_OUT_OF_TIME), 0.0) for index in left)
        return outcomes, has_changed

    def _conclusion(
        self, check: str, record: dict[str, Any], questioned: bool, execution: CheckExecution
    ) -> Failure | None:
        program, status, detail = execution.program, record.get("status"), record.get("detail", "")
        if status == "held":
            return None
        if program is not None and program.status == "unprepared":
            self._require_prelude()
            return _broken(program)
        if status == "invalid":
            raise InvalidProblem(f"its check cannot be run: {detail}" if "prelude" not in detail else detail)
        if status == "gone" and program is not None and program.status != "exited":
            return _broken(program)
        if status is None:
            reason, fault = _CHECK_ENDS.get(execution.check_ended, ("runtime_error", "ends its process"))
            if not questioned:
                raise InvalidProblem(f"its check cannot be run: it {fault}")
            detail = f"the published check {fault} on what was returned"
            return reason, detail, detail
        if status in ("gone", "raised"):
            return "runtime_error", detail, detail
        reason = "" if detail == "AssertionError: " else f" ({detail})"
        return "wrong_answer", f"got {short(record['got'])}", f"does not hold: {_last_statement(check)}{reason}"


@functools.lru_cache(maxsize=1024)
def _last_statement(check: str) -> str:
    functions = (node for node in ast.parse(check).body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return short(ast.unparse(next(node for node in functions if node.name == "check").body[-1]))


def _apart(outcome: _Outcome) -> _Outcome:
    """The outcome of a check in a second run, which says so if it failed."""
    index, failed, seconds = outcome
    where = "(in a run that does not see changes of arguments)"
    return index, failed and (failed[0], f"{failed[1]} {where}", f"{failed[2]} {where}"), seconds


def _fault_of(run: TestRun) -> str:
    """A checker's behavior that is no verdict, in words."""
    ends = {"timed_out": "takes too long", "exhausted": "uses too much memory", "flooded": "prints too much"}
    return ends.get(run.status, f"gives no verdict ({run.detail or short(run.output)})")


def _broken(run: TestRun) -> Failure:
    reason = run.detail or run.status
    return _REASONS.get(run.status, "runtime_error"), reason, reason
