"""Golden solutions against tests: which of the two is wrong where they disagree.

A test that most of the independent golden solutions contradict is wrong: it is repaired where most of them give one
other output, and dropped where they do not. A golden solution that contradicts a test most others pass is wrong itself.
One golden solution alone proves nothing against a test.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ratchet.data_curation.split import Rejection
from ratchet.data_curation.validation_case import Case, check_judged, verdicts
from ratchet.infra.problems import CodeTest
from ratchet.verifiers.code.judge import TestResult, examine, record
from ratchet.verifiers.outcome import Verdict
from ratchet.verifiers.serving.local_pool import VerifierPool
from ratchet.verifiers.submission import EVERY_TEST

QUICK_S = 0.2
"""CPU seconds a test may take a mutant where the golden solution needs less: many mutants loop for ever."""
MAX_WRONG = 0.5
"""Share of a problem's tests that may be repaired or dropped; with more, the golden solutions are what is strange."""
SHOWN = 300


def settle(cases: Sequence[Case], pool: VerifierPool) -> None:
    """Leave each case with the tests that hold and the golden solutions that pass all of them, or with the rejection
    `golden_fails`."""
    failures = _run_golden(cases, pool)
    disputed = [case for case in cases if len(case.golden) > 1 and failures[id(case)]]
    if disputed:
        changed = _settle_disputes(disputed, pool)
        failures |= _run_golden(changed, pool)
    for case in cases:
        failed = failures[id(case)]
        if len(failed) < len(case.golden):
            case.failed_golden = list(failed)
            case.golden = [source for source in case.golden if source not in failed]
            if failed:
                case.facts["golden_failed"] = len(failed)
        else:
            shown = [
                {"decided_by": verdict.decided_by, "detail": verdict.detail[:SHOWN]} for verdict in failed.values()
            ]
            case.rejection = Rejection("golden_fails", {"failures": shown} | case.facts)


def _run_golden(cases: Sequence[Case], pool: VerifierPool) -> dict[int, dict[str, Verdict]]:
    """The golden solutions that fail, with why. One that keeps to the mutants' time limit is right, and so gives its
    mutants that limit; the others get what the problem allows, and so do their mutants."""
    failures: dict[int, dict[str, Verdict]] = {id(case): {} for case in cases}
    asked = [(case, case.golden) for case in cases]
    for limit in (QUICK_S, None):
        programs = [program for case, sources in asked for program in case.programs(sources, time_limit_s=limit)]
        found = iter(verdicts(pool, programs))
        again = []
        for case, sources in asked:
            failed = {source: verdict for source in sources if not (verdict := next(found)).passed}
            if limit and not failed:
                case.time_limit_s = limit
            elif limit:
                again.append((case, list(failed)))
            else:
                failures[id(case)] = failed
        asked = again
    return failures


def _settle_disputes(cases: Sequence[Case], pool: VerifierPool) -> list[Case]:
    """Repair or drop tests that most golden solutions contradict; the cases that changed."""
    programs = [program for case in cases for program in case.programs(case.golden)]
    examined = iter(pool.map_programs(partial(examine, settings=EVERY_TEST), programs))
    recorded = iter(pool.map_programs(record, programs))
    changed = []
    for case in cases:
        results: list[list[TestResult]] = []
        for verdict, found in (next(examined) for _ in case.golden):
            check_judged(case.problem, verdict)
            results.append(found)
        if _vote(case, results, [next(recorded) for _ in case.golden]):
            changed.append(case)
    return changed


def _vote(case: Case, results: list[list[TestResult]], recorded: list[list[CodeTest | None]]) -> bool:
    """Whether the case's tests changed; the evidence for each change goes into its facts."""
    voters = len(case.golden)
    tests: list[CodeTest] = []
    repaired, dropped = [], []
    for number, test in enumerate(case.tests):
        contradicting = sum(
            result.index == number and result.status == "wrong_answer" for found in results for result in found
        )
        if 2 * contradicting <= voters:
            tests.append(test)
            continue
        outputs = Counter(json.dumps(gave.output) for given in recorded if (gave := given[number]) is not None)
        output, votes = outputs.most_common(1)[0] if outputs else ("", 0)
        evidence = {"test": number, "expected": _short(test.output if test.check is None else test.check)}
        if 2 * votes > voters:
            repaired.append({**evidence, "now": _short(json.loads(output)), "golden": f"{votes} of {voters}"})
            tests.append(replace(test, output=json.loads(output)))
        else:
            given = [_short(json.loads(text)) for text in outputs]
            dropped.append({**evidence, "given": given, "golden": f"{contradicting} of {voters}"})
    if not repaired and not dropped:
        return False
    if len(repaired) + len(dropped) > MAX_WRONG * len(case.tests):
        case.facts["contradicted_tests"] = len(repaired) + len(dropped)
        return False
    case.facts |= ({"repaired": repaired} if repaired else {}) | ({"dropped": dropped} if dropped else {})
    case.tests, case.is_changed = tests, True
    return True


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"
