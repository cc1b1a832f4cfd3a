"""Are a code problem's tests right, and are they any good? A golden solution must pass, and small faults must show.

Solutions come from data sets and run in the sandbox of `verifiers`, never here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil

import pyarrow as pa

from data_curation.mutation import mutants
from data_curation.split import Rejection, Split, add_metadata, partition
from infra.errors import RatchetError
from infra.problems import Problem, from_table
from infra.recipe.model import TestValidation
from verifiers.outcome import Outcome, Verdict
from verifiers.tickets import Pool

STEP = "validate_tests"
RULES = ("too_few_tests", "golden_fails", "weak_tests")
MAX_GOLDEN = 3
"""Golden solutions tried before the tests are held to be wrong: published ones have errors of their own."""
MUTANT_TIME_LIMIT_S = 0.2
"""CPU seconds a test may take a mutant, where the golden solution needs less: many loop for ever."""
BATCH = 32
"""Problems judged together: keeps the workers busy, and progress visible."""


def validate_tests(
    table: pa.Table,
    settings: TestValidation,
    pool: Pool,
    progress: Callable[[int, int], None] | None = None,
) -> Split:
    """Reject problems with fewer than `min_tests` tests (`too_few_tests`), whose golden solutions all fail
    (`golden_fails`), or whose tests notice less than `min_mutants_killed` of the faults put into a golden solution
    that passes (`weak_tests`).

    Faults are tried until that is settled. Metadata of each row gains `validate_tests`: number of tests, mutants run
    and killed. A program without a place for a fault has no mutants and passes. Raises RatchetError when programs
    cannot be judged on this machine.
    """
    cases = [_Case(problem, settings) for problem in from_table(table)]
    for first in range(0, len(cases), BATCH):
        _settle(cases[first : first + BATCH], pool)
        if progress:
            progress(min(first + BATCH, len(cases)), len(cases))
    run, killed = sum(case.run for case in cases), sum(case.killed for case in cases)
    table = add_metadata(table, STEP, [case.facts() for case in cases])
    return partition(STEP, RULES, table, [case.verdict() for case in cases], mutants=run, mutants_killed=killed)


class _Case:
    """One problem on its way to a verdict."""

    def __init__(self, problem: Problem, settings: TestValidation) -> None:
        self.problem, self.settings = problem, settings
        self.timed = problem  # with the time limit that its programs get here
        tests = problem.code_tests()
        self.tests = sum(1 if test.check is None else test.check.count("assert") for test in tests)
        self.enough = self.tests >= settings.min_tests
        self.tried: list[Verdict] = []
        self.mutants: list[str] = []
        self.run = self.killed = 0
        self.survivor: str | None = None
        self.golden_source: str | None = None  # the first golden solution that passes

    def golden(self) -> list[str]:
        return (self.problem.golden_solutions or [])[:MAX_GOLDEN] if self.enough else []

    def judged(self, source: str, verdict: Verdict) -> None:
        self.tried.append(verdict)
        if verdict.passed and self.golden_source is None:
            self.golden_source, self.mutants = source, mutants(source, self.settings.max_mutants)

    @property
    def needed(self) -> int:
        return ceil(self.settings.min_mutants_killed * len(self.mutants))

    def wave(self) -> list[str]:
        """The mutants to run next: as many as could settle it; none when it is settled."""
        missing, survived = self.needed - self.killed, self.run - self.killed
        if missing <= 0 or survived > len(self.mutants) - self.needed:
            return []
        return self.mutants[self.run : self.run + missing]

    def mutated(self, mutant: str, verdict: Verdict) -> None:
        self.run += 1
        self.killed += not verdict.passed
        if verdict.passed:
            self.survivor = self.survivor or mutant

    def facts(self) -> dict[str, int]:
        return {"tests": self.tests, "mutants": self.run, "killed": self.killed}

    def verdict(self) -> Rejection | None:
        if not self.enough:
            return Rejection("too_few_tests", {"tests": self.tests, "limit": self.settings.min_tests})
        if self.golden_source is None:
            failures = [{"decided_by": verdict.decided_by, "detail": verdict.detail[:300]} for verdict in self.tried]
            return Rejection("golden_fails", {"failures": failures})
        if self.killed < self.needed:
            return Rejection("weak_tests", self.facts() | {"survivor": self.survivor})
        return None


def _settle(cases: list[_Case], pool: Pool) -> None:
    # A solution that keeps to the mutants' time limit is right, and so gives its mutants that limit; the others get
    # what the problem allows, and so do their mutants.
    for is_quick in (True, False):
        asked = [(c, source) for c in cases if c.golden_source is None for source in c.golden()]
        for case, _ in asked:
            case.timed = replace(case.problem, time_limit_s=MUTANT_TIME_LIMIT_S) if is_quick else case.problem
            case.tried.clear()
        for (case, source), verdict in zip(asked, _run([(c.timed, s) for c, s in asked], pool), strict=True):
            case.judged(source, verdict)
    while faulty := [(case, mutant) for case in cases for mutant in case.wave()]:
        for (case, mutant), verdict in zip(faulty, _run([(c.timed, m) for c, m in faulty], pool), strict=True):
            case.mutated(mutant, verdict)


def _run(pairs: list[tuple[Problem, str]], pool: Pool) -> list[Verdict]:
    verdicts = pool.run_programs(pairs)
    for (problem, _), verdict in zip(pairs, verdicts, strict=True):
        if verdict.outcome is Outcome.INFRA_ERROR:
            raise RatchetError(
                f"Problem {problem.problem_id} ({problem.source}, row {problem.source_id}) could not be judged: "
                f"{verdict.detail}. `ratchet doctor` says what is wrong with the sandbox."
            )
    return verdicts
