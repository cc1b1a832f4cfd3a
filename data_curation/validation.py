"""Validation of a code problem's tests: the golden solution passes them, and small faults in it do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any

import pyarrow as pa

from data_curation.mutation import mutants
from data_curation.split import Rejection, Split, add_metadata, partition
from infra.errors import RatchetError
from infra.inference.protocol import derive_seed
from infra.problems import Problem, from_table
from infra.recipe.model import TestValidation
from verifiers.outcome import Outcome, Verdict
from verifiers.pool import VerifierPool

STEP = "validate_tests"
RULES = ("too_few_tests", "golden_fails", "weak_tests")
GOLDEN_TRIED = 3
"""Published solutions tried per problem before its tests count as wrong."""
MUTANT_TIME_LIMIT_S = 1.0
"""A fault often makes a loop endless; waiting the whole limit for it would say nothing more."""
PROBLEMS_AT_ONCE = 64

Progress = Callable[[int, int], None]


@dataclass
class _Case:
    """What is known of one problem's tests so far."""

    problem: Problem
    golden: str | None = None
    failures: list[dict[str, Any]] = field(default_factory=list)
    mutants: list[str] = field(default_factory=list)
    killed: int = 0
    tried: int = 0
    survivor: str | None = None


def validate_tests(
    problems: pa.Table, settings: TestValidation, pool: VerifierPool, progress: Progress | None = None
) -> Split:
    """Reject problems whose tests cannot be trusted; `metadata.validation` of the others says how strong theirs are.

    Rules: `too_few_tests`; `golden_fails` (none of the first published solutions passes); `weak_tests` (fewer than
    `min_mutants_killed` of the mutants of the golden solution fail). Programs run in the pool's sandbox. Mutants are
    tried until the verdict is settled, so `killed` counts those `tried`. A problem without mutants passes: nothing is
    known against its tests. Raises RatchetError when the sandbox does not work.
    """
    cases = [_Case(problem) for problem in from_table(problems)]
    for start in range(0, len(cases), PROBLEMS_AT_ONCE):
        part = [case for case in cases[start : start + PROBLEMS_AT_ONCE] if _test_count(case) >= settings.min_tests]
        _run_golden(part, pool)
        _run_mutants([case for case in part if case.golden], settings, pool)
        if progress:
            progress(min(start + PROBLEMS_AT_ONCE, len(cases)), len(cases))
    strengths = [{"mutants_tried": case.tried, "mutants_killed": case.killed} for case in cases]
    return partition(STEP, RULES, add_metadata(problems, "validation", strengths), [_judge(c, settings) for c in cases])


def _judge(case: _Case, settings: TestValidation) -> Rejection | None:
    if _test_count(case) < settings.min_tests:
        return Rejection("too_few_tests", {"tests": _test_count(case), "limit": settings.min_tests})
    if case.golden is None:
        return Rejection("golden_fails", {"failures": case.failures})
    if case.mutants and case.killed < _needed(case, settings):
        evidence = {"tried": case.tried, "killed": case.killed, "needed": _needed(case, settings)}
        return Rejection("weak_tests", evidence | {"survivor": case.survivor})
    return None


def _test_count(case: _Case) -> int:
    """Tests of the problem. One `check` function counts as its assertions."""
    return sum(1 if test.check is None else test.check.count("assert") for test in case.problem.code_tests())


def _run_golden(cases: Sequence[_Case], pool: VerifierPool) -> None:
    """Find each problem's first passing solution, one round of attempts at a time."""
    for attempt in range(GOLDEN_TRIED):
        waiting = [c for c in cases if c.golden is None and len(c.problem.golden_solutions or []) > attempt]
        solutions = [(case.problem.golden_solutions or [])[attempt] for case in waiting]
        verdicts = pool.run_programs([(case.problem, source) for case, source in zip(waiting, solutions, strict=True)])
        for case, source, verdict in zip(waiting, solutions, verdicts, strict=True):
            _require_sandbox(case, verdict)
            if verdict.passed:
                case.golden = source
            else:
                case.failures.append({"solution": attempt, "by": verdict.decided_by, "detail": verdict.detail[:300]})


def _run_mutants(cases: Sequence[_Case], settings: TestValidation, pool: VerifierPool) -> None:
    """Run mutants until each problem has enough killed, or can no longer have."""
    for case in cases:
        assert case.golden is not None
        seed = derive_seed(case.problem.problem_id, "mutants")
        case.mutants = mutants(case.golden, settings.max_mutants, seed)
    while True:
        work = []
        for case in cases:
            wanted = _needed(case, settings) - case.killed
            if 0 < wanted <= len(case.mutants) - case.tried:
                impatient = replace(case.problem, time_limit_s=MUTANT_TIME_LIMIT_S)
                work += [(case, impatient, m) for m in case.mutants[case.tried : case.tried + wanted]]
        if not work:
            return
        verdicts = pool.run_programs([(problem, mutant) for _, problem, mutant in work])
        for (case, _, mutant), verdict in zip(work, verdicts, strict=True):
            _require_sandbox(case, verdict)
            case.tried += 1
            case.killed += not verdict.passed
            if verdict.passed:
                case.survivor = mutant


def _needed(case: _Case, settings: TestValidation) -> int:
    return ceil(settings.min_mutants_killed * len(case.mutants))


def _require_sandbox(case: _Case, verdict: Verdict) -> None:
    if verdict.outcome is Outcome.INFRA_ERROR:
        raise RatchetError(
            f"The sandbox failed on problem {case.problem.problem_id} ({case.problem.source}, row "
            f"{case.problem.source_id}): {verdict.detail}. `ratchet doctor` says what is wrong with it."
        )
