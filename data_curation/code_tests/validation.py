"""Validate the tests of code problems: golden solutions must pass them, and they must detect small faults.

Solutions come from data sets and run in the sandbox of `verifiers`, never here.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from ratchet.data_curation.base.files import HALF_WRITTEN
from ratchet.data_curation.base.journal import Journal, read_lines
from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.code_tests.golden_agreement import QUICK_S, QUICK_WIDER, Case, settle, verdicts
from ratchet.data_curation.code_tests.mutation import mutants
from ratchet.data_curation.curation_step import CurationStep, Rows, StepContext
from ratchet.data_curation.retry_timeouts import WIDER
from ratchet.data_curation.settings.curation import TestValidation
from ratchet.data_curation.split import Rejection, Split, add_metadata, partition, set_column
from ratchet.verifiers.domains import code_of
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.serving.local_pool import VerifierPool

STEP = "validate_tests"
RULES = ("too_few_tests", "golden_fails", "weak_tests")
BATCH = 32
"""Problems judged together, enough to keep the workers busy and few enough to show progress."""


@dataclass(frozen=True)
class ValidateTests(CurationStep):
    """Check that golden solutions pass their tests, and that the tests detect faults."""

    settings: TestValidation | None = None
    name: ClassVar[str] = STEP
    version: ClassVar[int] = 15
    resumable: ClassVar[bool] = True

    def parameters(self, context: StepContext) -> TestValidation:
        return self.settings or context.curation.validation

    def code(self, context: StepContext) -> Sequence[str]:
        return code_of([context.domain])

    def run(self, rows: Rows, context: StepContext) -> Iterable[Split]:
        # As a half-written file it is removed when the artifact is finished: until then, the next run may need it.
        journal = context.folder / f"journal.jsonl{HALF_WRITTEN}" if context.folder else None
        with context.open_pool(local=True, runs_programs=True) as pool:
            assert isinstance(pool, VerifierPool), "a local pool runs the programs of tests"
            split = validate_tests(rows.table(), self.parameters(context), pool, context.progress, journal)
        # No part of the artifact's content: it varies with the load of the machine.
        if timed_out := split.summary.pop("timed_out"):
            context.result.headline = f"{timed_out:,} mutants stopped by the time limit alone"
        context.result.metrics = {"mutants_timed_out": timed_out}
        if unchecked := split.summary["unchecked"]:
            has_teacher = context.curation.teacher.kind != "none"
            after = "those that the teacher solves stay" if has_teacher else "no teacher answers them"
            context.warning(f"{unchecked:,} problems have no solution, so nothing has checked their tests; {after}")
        yield split


def validate_tests(
    table: pa.Table,
    settings: TestValidation,
    pool: VerifierPool,
    progress: Callable[[int, int], None] = lambda done, total: None,
    journal: Path | None = None,
) -> Split:
    """Reject problems with fewer than `min_tests` tests (`too_few_tests`), problems whose golden solutions all fail
    (`golden_fails`), and problems whose tests detect less than `min_mutants_killed` of the small faults put into a
    golden solution (`weak_tests`). Tests that most golden solutions contradict are dropped first (`golden_agreement`).
    Tests of a problem without golden solutions are only counted, and its metadata say `unchecked`.

    Each row's metadata gains `validate_tests`: counts, and the evidence for each of the `dropped` tests. Only mutants
    that pass all tests make a row weak. The number of mutants that time out varies with the machine, so it is in the
    summary's `timed_out` and in no row. With a `journal`, settled problems are written to it, and the next call with
    the same table and settings reads them from it. Raises RatchetError when programs cannot be judged on this machine.
    """
    by_row: dict[int, dict[str, Any]] = {}
    if journal and journal.exists():
        by_row = {record["row"]: record["outcome"] for _, record in read_lines(journal)}
    outcomes: list[dict[str, Any]] = []
    for first in range(0, len(table), BATCH):
        rows = range(first, min(first + BATCH, len(table)))
        if any(row not in by_row for row in rows):
            batch_outcomes = _settle(from_table(table.slice(first, BATCH)), settings, pool)
            by_row |= dict(zip(rows, batch_outcomes, strict=True))
            if journal:
                with Journal(journal) as settled:
                    for row in rows:
                        settled.append({"row": row, "outcome": by_row[row]})
        outcomes += [by_row.pop(row) for row in rows]
        progress(rows.stop, len(table))
    return _split(table, outcomes)


def _settle(problems: list[Problem], settings: TestValidation, pool: VerifierPool) -> list[dict[str, Any]]:
    cases = [Case.of(problem) for problem in problems]

    def remaining() -> list[Case]:
        for case in cases:
            if not case.rejection and case.count_tests() < settings.min_tests:
                evidence = {"tests": case.count_tests(), "limit": settings.min_tests} | case.facts
                case.rejection = Rejection("too_few_tests", evidence)
        return [case for case in cases if not case.rejection]

    for case in remaining():
        if not case.golden:
            case.facts["unchecked"] = True
    settle([case for case in remaining() if case.golden], pool)
    _run_mutants([case for case in remaining() if case.golden], settings, pool)
    return [case.outcome() for case in cases]


@dataclass
class _Trial:
    """The mutants of one golden solution and their results so far."""

    case: Case
    mutants: list[str]
    needed: int
    """Mutants that must be killed."""
    ended: int = 0
    """Mutants that failed a test or never ended."""
    survivors: list[str] = field(default_factory=list)

    @property
    def is_weak(self) -> bool:
        return len(self.survivors) > len(self.mutants) - self.needed

    def wave(self) -> list[str]:
        """The mutants to run next: as many as could settle the trial; none once it is settled."""
        run = self.ended + len(self.survivors)
        return [] if self.is_weak else self.mutants[run : run + self.needed - self.ended]


def _run_mutants(cases: Sequence[Case], settings: TestValidation, pool: VerifierPool) -> None:
    """Reject cases as `weak_tests` that too many mutants survive. Facts: the `mutants` made."""
    trials = []
    for case in cases:
        faulty = mutants(case.golden[0], settings.max_mutants)
        case.facts["mutants"] = len(faulty)
        trials.append(_Trial(case, faulty, ceil(settings.min_mutants_killed * len(faulty))))
    while waves := [(trial, wave) for trial in trials if (wave := trial.wave())]:
        for quick, wider in ((True, QUICK_WIDER), (False, WIDER)):
            some = [(trial, wave) for trial, wave in waves if (trial.case.time_limit_s == QUICK_S) is quick]
            outcomes = iter(verdicts(pool, [p for trial, wave in some for p in trial.case.programs(wave)], wider))
            for trial, wave in some:
                for mutant, verdict in zip(wave, outcomes, strict=False):
                    trial.survivors += [mutant] if verdict.passed else []
                    trial.ended += not verdict.passed
                    trial.case.timed_out += verdict.outcome is Outcome.TIMEOUT
    for trial in trials:
        if trial.is_weak:
            evidence = {"survived": len(trial.survivors), "survivor": trial.survivors[0]}
            trial.case.rejection = Rejection("weak_tests", trial.case.facts | evidence)


def _split(table: pa.Table, outcomes: list[dict[str, Any]]) -> Split:
    facts = [outcome["facts"] for outcome in outcomes]
    for column, name in (("tests", "tests"), ("golden_solutions", "golden")):
        if any(outcome[name] is not None for outcome in outcomes):
            old = table.column(column).to_pylist()
            new = [value if o[name] is None else o[name] for value, o in zip(old, outcomes, strict=True)]
            table = set_column(table, column, new)
    rejections = [outcome["rejection"] and Rejection(**outcome["rejection"]) for outcome in outcomes]
    kept = [fact for fact, rejection in zip(facts, rejections, strict=True) if not rejection]
    measured = {"mutants": sum(fact.get("mutants", 0) for fact in facts)}
    measured["timed_out"] = sum(outcome["timed_out"] for outcome in outcomes)
    measured["golden_failed"] = sum(fact.get("golden_failed", 0) for fact in kept)
    measured["unchecked"] = sum(fact.get("unchecked", False) for fact in kept)
    measured["tests_dropped"] = sum(len(fact.get("dropped", ())) for fact in kept)
    return partition(STEP, RULES, add_metadata(table, STEP, facts), rejections, **measured)
