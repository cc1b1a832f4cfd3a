"""Golden solutions against tests: decide which of the two is wrong where they disagree.

A test that most of the independent golden solutions contradict is wrong and is dropped. A golden solution that fails
any remaining test is wrong itself. A single golden solution is no evidence against a test.
"""

import ast
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ratchet.data_curation.retry_timeouts import WIDER, patient, unhurried
from ratchet.data_curation.split import Rejection
from ratchet.verifiers.code.judge import TestResult, examine
from ratchet.verifiers.code.problem import DEFAULT_TIME_LIMIT_S
from ratchet.verifiers.code.published_checks import read_check
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.problem import CodeTest, Problem
from ratchet.verifiers.sandbox.server import Sandbox
from ratchet.verifiers.serving.local_pool import VerifierPool
from ratchet.verifiers.submission import EVERY_TEST, Submission

MAX_GOLDEN = 3
"""Independent golden solutions that are run per problem: enough for a majority."""
QUICK_S = 0.2
"""CPU seconds per test for mutants of a golden solution that stays below this limit: many mutants loop forever."""
QUICK_WIDER = 5.0
"""Factor on this limit for mutants that exceed it."""
MAX_WRONG = 0.5
"""Largest share of a problem's tests that may be dropped; above it, the golden solutions are suspect instead."""
SHOWN_CHARACTERS = 300
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


@dataclass
class Case:
    """A problem during test validation."""

    problem: Problem
    tests: list[CodeTest]
    golden: list[str]
    """Golden solutions that differ in more than layout; after `settle`, those that pass all tests."""
    time_limit_s: float | None
    """Time limit of golden solutions and of their mutants."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Measurements for the problem's metadata."""
    rejection: Rejection | None = None
    failed_golden: list[str] = field(default_factory=list)
    timed_out: int = 0
    """Mutants that only the time limit stopped. Informative only: another machine may count a different number."""

    @classmethod
    def of(cls, problem: Problem) -> "Case":
        tests = [part for test in problem.code_tests() for part in _assertions(test)]
        independent: dict[str, str] = {}
        for source in problem.golden_solutions or []:
            independent.setdefault(_structure(source), source)
        return cls(problem, tests, [*independent.values()][:MAX_GOLDEN], problem.time_limit_s)

    def programs(self, sources: Iterable[str], time_limit_s: float | None = None) -> list[tuple[Problem, str]]:
        """The sources in the form that a pool takes. They share one problem, so that its tests are read once."""
        limit = time_limit_s or self.time_limit_s
        problem = replace(self.problem, tests=_tests_json(self.tests), time_limit_s=limit)
        return [(problem, source) for source in sources]

    def count_tests(self) -> int:
        """The number of tests; a check counts as many as it has assertions."""
        return sum(1 if test.check is None else test.check.count("assert") for test in self.tests)

    def outcome(self) -> dict[str, Any]:
        """The changes to the row, as JSON: `rejection`, `facts`; `tests` and `golden`, None where unchanged."""
        failed = {*map(_structure, self.failed_golden)}
        passing = [s for s in self.problem.golden_solutions or [] if _structure(s) not in failed] if failed else None
        return {
            "rejection": asdict(self.rejection) if self.rejection else None,
            "facts": {"tests": self.count_tests()} | self.facts,
            "tests": _tests_json(self.tests) if "dropped" in self.facts else None,
            "golden": passing,
            "timed_out": self.timed_out,
        }


def settle(cases: Sequence[Case], pool: VerifierPool) -> None:
    """Leave each case with valid tests and the golden solutions that pass all of them, or with the rejection
    `golden_fails`."""
    failures = _run_golden(cases, pool)
    disputed = [case for case in cases if len(case.golden) > 1 and failures[id(case)]]
    failures |= _run_golden(_drop_contradicted(disputed, pool), pool)
    for case in cases:
        failed = failures[id(case)]
        if len(failed) == len(case.golden):
            shown = [{"decided_by": v.decided_by, "detail": _shown(v.detail)} for v in failed.values()]
            case.rejection = Rejection("golden_fails", {"failures": shown} | case.facts)
        elif failed:
            case.failed_golden, case.facts["golden_failed"] = list(failed), len(failed)
            case.golden = [source for source in case.golden if source not in failed]


def verdicts(pool: VerifierPool, programs: Sequence[tuple[Problem, str]], wider: float = WIDER) -> list[Verdict]:
    """The verdicts on programs. One that exceeds its time limit is run again with `wider` times the limit. Raises
    RatchetError for a program that cannot be judged on this machine."""
    submissions = [Submission(*program, is_program=True, settings=pool.settings) for program in programs]
    outcomes = patient(pool, submissions, wider)
    for (problem, _), verdict in zip(programs, outcomes, strict=True):
        _check_judged(problem, verdict)
    return outcomes


def _run_golden(cases: Sequence[Case], pool: VerifierPool) -> dict[int, dict[str, Verdict]]:
    """The failing golden solutions of each case (by `id`), with their verdicts. Solutions are run with the mutants'
    short limit first; where all pass, their mutants get that limit too. Others have the problem's, and beyond that a
    second run with more: a busy machine rejects no row."""
    failures: dict[int, dict[str, Verdict]] = {id(case): {} for case in cases}
    asked = [(case, case.golden) for case in cases]
    for limit in (QUICK_S, None):
        programs = [program for case, sources in asked for program in case.programs(sources, limit)]
        outcomes = iter(pool.run_programs(programs) if limit else verdicts(pool, programs))
        again = []
        for case, sources in asked:
            failed = {source: verdict for source in sources if not (verdict := next(outcomes)).passed}
            if limit and failed:
                again.append((case, list(failed)))
            elif limit:
                case.time_limit_s = limit
            else:
                failures[id(case)] = failed
        asked = again
    return failures


def _drop_contradicted(cases: Sequence[Case], pool: VerifierPool) -> list[Case]:
    """Drop the tests to which more than half of the golden solutions give a wrong answer; returns the changed cases.
    The evidence goes into their facts."""

    def every_test(problem: Problem, source: str, sandbox: Sandbox) -> tuple[Verdict, list[TestResult]]:
        return examine(problem, source, sandbox, unhurried(EVERY_TEST, problem))

    programs = []
    for case in cases:  # a test that only the time limit ends contradicts nothing, on whatever machine
        programs += case.programs(case.golden, WIDER * (case.problem.time_limit_s or DEFAULT_TIME_LIMIT_S))
    examined = iter(pool.map_programs(every_test, programs))
    changed = []
    for case in cases:
        wrong: dict[int, list[TestResult]] = {}
        for verdict, results in (next(examined) for _ in case.golden):
            _check_judged(case.problem, verdict)
            for result in results:
                if result.status == "wrong_answer":
                    wrong.setdefault(result.index, []).append(result)
        voters = len(case.golden)
        dropped = [
            {
                "test": number,
                "differences": [_shown(result.difference) for result in results],
                "golden": f"{len(results)} of {voters}",
            }
            for number, results in sorted(wrong.items())
            if 2 * len(results) > voters
        ]
        if len(dropped) > MAX_WRONG * len(case.tests):
            case.facts["contradicted_tests"] = len(dropped)
        elif dropped:
            gone = {evidence["test"] for evidence in dropped}
            case.facts["dropped"] = dropped
            case.tests = [test for number, test in enumerate(case.tests) if number not in gone]
            changed.append(case)
    return changed


def _shown(text: str) -> str:
    """The beginning of a program's output, without addresses, which differ from run to run."""
    return _ADDRESS.sub("0x…", text)[:SHOWN_CHARACTERS]


def _check_judged(problem: Problem, verdict: Verdict) -> None:
    # What a problem's own checker cannot judge has not passed.
    if verdict.outcome is Outcome.INFRA_ERROR and verdict.decided_by != "checker":
        raise RatchetError(
            f"Problem {problem.problem_id} ({problem.source}, row {problem.source_id}) could not be judged: "
            f"{verdict.detail}. `ratchet doctor` says what is wrong with the sandbox."
        )


def _tests_json(tests: Sequence[CodeTest]) -> str:
    """Tests as the JSON of the `tests` column."""
    rows = []
    for test in tests:
        if test.check is not None:
            rows.append({"check": test.check})
        else:
            call = {"input": test.input} if test.call is None else {"call": test.call}
            more = {"exact": True} if test.exact else {"arguments": test.arguments} if test.arguments else {}
            rows.append({**call, "output": test.output, **more})
    return json.dumps(rows, ensure_ascii=False)


def _assertions(test: CodeTest) -> list[CodeTest]:
    """A check split as the judge reads it: each independent assertion becomes a test."""
    if test.check is None:
        return [test]
    try:
        return [CodeTest(**part) for part in read_check(test.check)]
    except ValueError:
        return [test]


def _structure(source: str) -> str:
    """Equal for programs that differ only in comments and layout."""
    try:
        return ast.dump(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source
