"""Do the tests notice small faults? Where too few are noticed: is the fault one at all, and which test would show it?

A mutant that survives may mean the same as the golden solution. So both are run on new inputs: a mutant that differs on
one is wrong, and one that never does is taken for equivalent and counts for nothing. An input on which a wrong mutant
shows, legal as far as the published tests tell, can become a test.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from ratchet.data_curation.input_generation import generate_inputs, is_like
from ratchet.data_curation.mutation import mutants
from ratchet.data_curation.split import Rejection
from ratchet.data_curation.validation_case import Case, check_judged, verdicts
from ratchet.infra.problems import CodeTest
from ratchet.infra.recipe.curation import TestValidation
from ratchet.verifiers.code.judge import examine, record
from ratchet.verifiers.serving.local_pool import VerifierPool

_OTHER_SEED = "import random\nrandom.seed(1)\n"
"""Before a golden solution, to see whether its output depends on drawn numbers: the sandbox seeds with 0."""


@dataclass
class Trial:
    """The mutants of one golden solution, and how they fared."""

    case: Case
    mutants: list[str]
    needed: int
    run: int = 0
    killed: int = 0
    survivors: list[str] = field(default_factory=list)
    careful: list[CodeTest] = field(default_factory=list)
    bold: list[CodeTest] = field(default_factory=list)
    shown_by: dict[str, tuple[CodeTest, str]] = field(default_factory=dict)
    """Of a survivor that is wrong: a new test that fails it, and how."""

    @classmethod
    def of(cls, case: Case, settings: TestValidation) -> "Trial":
        found = mutants(case.golden[0], settings.max_mutants)
        share = 1.0 if settings.generated_inputs and settings.max_added_tests else settings.min_mutants_killed
        return cls(case, found, ceil(share * len(found)))

    def wave(self) -> list[str]:
        """The mutants to run next: as many as could settle it; none when it is settled."""
        missing = self.needed - self.killed
        if missing <= 0 or len(self.survivors) > len(self.mutants) - self.needed:
            return []
        return self.mutants[self.run : self.run + missing]

    @property
    def is_suspect(self) -> bool:
        return self.killed < self.needed


def strengthen(cases: Sequence[Case], settings: TestValidation, pool: VerifierPool) -> None:
    """Leave each case with tests that notice as many wrong mutants as can be, new ones among them, or, where they
    notice less than `min_mutants_killed`, with the rejection `weak_tests`. Facts: mutants that were run, and `killed`
    by the published tests; of the survivors, where new inputs told them apart, `wrong` and `equivalent`; `generated`,
    the places of new tests, and `noticed`, how many wrong ones those kill."""
    trials = [Trial.of(case, settings) for case in cases]
    while waves := [(trial, wave) for trial in trials if (wave := trial.wave())]:
        _run(waves, pool)
    suspects = [trial for trial in trials if trial.is_suspect]
    if settings.generated_inputs:
        measure(suspects, settings.generated_inputs, pool)
    for trial in trials:
        trial.case.facts |= {"mutants": trial.run, "killed": trial.killed}
        if trial.is_suspect:
            _conclude(trial, settings)


def measure(trials: Sequence[Trial], inputs: int, pool: VerifierPool) -> None:
    """Run the mutants that are left, and the survivors on up to `inputs` new inputs, which show some to be wrong."""
    _run([(trial, trial.mutants[trial.run :]) for trial in trials], pool)
    _make_inputs(trials, inputs, pool)
    _show_faults(trials, pool)


def _run(asked: Sequence[tuple[Trial, Sequence[str]]], pool: VerifierPool) -> None:
    """Mutants against the problem's own tests."""
    found = iter(verdicts(pool, [program for trial, wave in asked for program in trial.case.programs(wave)]))
    for trial, wave in asked:
        for mutant in wave:
            trial.run += 1
            if next(found).passed:
                trial.survivors.append(mutant)
            else:
                trial.killed += 1


def _make_inputs(trials: Sequence[Trial], count: int, pool: VerifierPool) -> None:
    """New tests for each trial, expecting what the golden solutions give, where all give the same, twice."""
    for trial in trials:
        case = trial.case
        seed, program = case.problem.problem_id, case.golden[0]
        trial.careful = generate_inputs(case.tests, count - count // 2, seed)
        bold = generate_inputs(case.tests, count, seed, bold=True, program=program)
        trial.bold = [test for test in bold if test not in trial.careful][: count - len(trial.careful)]
    programs = [
        program
        for t in trials
        for program in t.case.programs([*t.case.golden, _reseeded(t.case.golden[0])], [*t.careful, *t.bold])
    ]
    recorded = iter(pool.map_programs(record, programs))
    for trial in trials:
        first, *others = [next(recorded) for _ in range(1 + len(trial.case.golden))]
        agreed = [
            test if test is not None and all(test == other[number] for other in others) else None
            for number, test in enumerate(first)
        ]
        published = [test.output for test in trial.case.tests if test.check is None]
        careful = [test for test in agreed[: len(trial.careful)] if test]
        trial.bold = [test for test in agreed[len(trial.careful) :] if test]
        trial.bold += [test for test in careful if not is_like(test.output, published)]
        trial.careful = [test for test in careful if is_like(test.output, published)]


def _reseeded(source: str) -> str:
    return source if "__future__" in source else _OTHER_SEED + source  # nothing may stand before such an import


def _show_faults(trials: Sequence[Trial], pool: VerifierPool) -> None:
    """Which survivors differ from the golden solutions on a new input; on a careful one, if on any."""
    for kind in ("careful", "bold"):
        asked = [
            (trial, tests, program)
            for trial in trials
            if (tests := getattr(trial, kind))
            for program in trial.case.programs([s for s in trial.survivors if s not in trial.shown_by], tests)
        ]
        examined = pool.map_programs(examine, [program for *_, program in asked])
        for (trial, tests, (problem, source)), (verdict, results) in zip(asked, examined, strict=True):
            check_judged(problem, verdict)
            if failed := next((result for result in results if result.status != "passed"), None):
                trial.shown_by[source] = tests[failed.index], failed.difference or failed.status


def _conclude(trial: Trial, settings: TestValidation) -> None:
    case = trial.case
    inputs = len(trial.careful) + len(trial.bold)
    # Without inputs nothing is known of the survivors: then all count as wrong.
    wrong = len(trial.shown_by) if inputs else len(trial.survivors)
    if settings.generated_inputs:
        case.facts |= {"inputs": inputs, "wrong": wrong, "equivalent": len(trial.survivors) - wrong}
    killers = Counter(trial.careful.index(test) for test, _ in trial.shown_by.values() if test in trial.careful)
    added = killers.most_common(settings.max_added_tests)
    noticed = sum(kills for _, kills in added)
    if trial.killed + noticed >= settings.min_mutants_killed * max(trial.killed + wrong, 1):
        if added:
            first = len(case.tests)
            case.tests = [*case.tests, *(trial.careful[number] for number, _ in added)]
            case.is_changed = True
            case.facts |= {"generated": list(range(first, len(case.tests))), "noticed": noticed}
        return
    evidence: dict[str, Any] = dict(case.facts)
    survivor = next(iter(trial.shown_by), trial.survivors[0] if trial.survivors else None)
    evidence["survivor"] = survivor
    if survivor in trial.shown_by:
        test, difference = trial.shown_by[survivor]
        evidence |= {"shown_by": test.call or test.input, "difference": difference}
    case.rejection = Rejection("weak_tests", evidence)
