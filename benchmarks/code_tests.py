"""How good are published tests, and what does test validation make of them?

    python benchmarks/code_tests.py DATA --journal journal.jsonl

LeetCodeDataset's training problems go through the code flow as far as it needs no teacher. Then, of the problems that
were strengthened, other mutants are tried, on the published and on the strengthened tests. Last, the solution that a
model wrote for each problem (`response`, part of the data set and no golden solution) is judged by the new tests: where
it fails one, it is wrong, or the new test is.

Takes minutes. Killed, it goes on from the journal; delete that to begin anew.
"""

from __future__ import annotations

import argparse
import json
import resource
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from pathlib import Path

from rich.progress import Progress

from ratchet.data_curation.decontamination import decontaminate
from ratchet.data_curation.deduplication import deduplicate
from ratchet.data_curation.domains import plan_of
from ratchet.data_curation.golden_agreement import settle
from ratchet.data_curation.mutant_kills import Trial, measure
from ratchet.data_curation.mutation import mutants
from ratchet.data_curation.readers import read_problems
from ratchet.data_curation.rules import filter_by_rules
from ratchet.data_curation.validation import STEP, validate_tests
from ratchet.data_curation.validation_case import Case
from ratchet.infra.problems import CodeTest, Problem, from_table
from ratchet.infra.recipe.curation import Curation, Decontamination, TestValidation
from ratchet.verifiers.code.judge import examine
from ratchet.verifiers.extraction import python_program
from ratchet.verifiers.serving.local_pool import VerifierPool
from ratchet.verifiers.submission import EVERY_TEST

FILE, BENCHMARK = "code_raw/LeetCodeDataset-v0.2.0-train.jsonl.gz", "benchmarks/HumanEval.jsonl.gz"
SETTINGS = TestValidation(min_tests=2)  # many of these problems have no more
THRESHOLDS = (0.5, 0.7, 0.9, 1.0)
HELD_OUT = 12


def facts_of(problem: Problem) -> dict:
    return json.loads(problem.metadata or "{}")[STEP]


def wrong_in(facts: dict) -> int:
    """Mutants that are wrong."""
    return facts["killed"] + facts.get("wrong", 0)


def halves(problem: Problem) -> tuple[list[CodeTest], list[CodeTest]]:
    """The published tests and the new ones."""
    new = set(facts_of(problem)["generated"])
    tests = problem.code_tests()
    return [t for i, t in enumerate(tests) if i not in new], [t for i, t in enumerate(tests) if i in new]


def try_other_mutants(strengthened: Sequence[Problem], pool: VerifierPool) -> None:
    """Mutants that validation did not see, told from equivalent ones on inputs that it did not see."""
    cases = [Case.of(replace(problem, problem_id=problem.problem_id + " again")) for problem in strengthened]
    for case, problem in zip(cases, strengthened, strict=True):
        case.tests = halves(problem)[0]
    settle(cases, pool)  # for the time that their golden solutions need
    trials = []
    for case in cases:
        seen = mutants(case.golden[0], SETTINGS.max_mutants)
        other = [m for m in mutants(case.golden[0], SETTINGS.max_mutants + HELD_OUT) if m not in seen]
        trials.append(Trial(case, other, len(other)))
    measure(trials, SETTINGS.generated_inputs, pool)
    wrong = [
        program
        for trial, problem in zip(trials, strengthened, strict=True)
        for program in trial.case.programs(trial.shown_by, halves(problem)[1])
    ]
    through = sum(verdict.passed for verdict in pool.run_programs(wrong))
    killed, equivalent = sum(t.killed for t in trials), sum(len(t.survivors) - len(t.shown_by) for t in trials)
    total = killed + len(wrong)
    print(
        f"\nOther mutants of the {len(trials)} strengthened problems: {total} wrong, {equivalent} taken for equivalent."
    )
    known = [
        program
        for t in trials
        if (inputs := [*t.careful, *t.bold])
        for program in t.case.programs([mutant for mutant in t.mutants if mutant not in t.survivors], inputs)
    ]
    shown = sum(not verdict.passed for verdict in pool.run_programs(known))
    print(f"- of {len(known)} that the published tests kill, the new inputs show {shown} ({shown / len(known):.1%})")
    for name, passed in (("published", len(wrong)), ("strengthened", through)):
        print(f"- let through by the {name} tests: {passed} ({passed / total:.1%})")


def try_responses(strengthened: Sequence[Problem], pool: VerifierPool) -> None:
    pairs = [(p, source) for p in strengthened if (source := python_program(json.loads(p.metadata)["response"]))]
    old, new = (
        [program for p, source in pairs for program in Case.of(p).programs([source], halves(p)[half])]
        for half in (0, 1)
    )
    passed = [verdict.passed for verdict in pool.run_programs(old)]
    right = [pair for pair, is_right in zip(pairs, passed, strict=True) if is_right]
    again = pool.map_programs(partial(examine, settings=EVERY_TEST), list(compress(new, passed)))
    failed = [
        (p, [r for r in results if r.status != "passed"]) for (p, _), (_, results) in zip(right, again, strict=True)
    ]
    tests = sum(len(results) for _, results in again)
    disputed = [(problem, results) for problem, results in failed if results]
    failures = sum(len(results) for _, results in disputed)
    print(f"\nModels' solutions that pass the published tests of these: {len(right)}. Of {tests} new tests they fail")
    print(f"{failures}, of {len(disputed)} problems:")
    for problem, results in disputed:
        test = halves(problem)[1][results[0].index]
        print(f"- {problem.source_url}: {json.dumps(test.call)[:200]}: {results[0].difference[:120]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the directory that holds code_raw/ and benchmarks/")
    parser.add_argument("--journal", type=Path, required=True, help="what was settled, for when this is killed")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--problems", type=int, help="only so many of the problems, spread over all")
    arguments = parser.parse_args()

    config = Curation(decontaminate=Decontamination(ngram=plan_of("code").ngram))
    items = read_problems(arguments.data / BENCHMARK, "code").kept
    splits = [read_problems(arguments.data / FILE, "code")]
    splits.append(filter_by_rules(splits[-1].kept, plan_of("code").rules, config.rules))
    splits.append(decontaminate(splits[-1].kept, items, config.decontaminate))
    splits.append(deduplicate(splits[-1].kept, config.deduplicate))
    table = splits[-1].kept
    if arguments.problems:
        table = table.take([n * len(table) // arguments.problems for n in range(arguments.problems)])
    with VerifierPool(arguments.workers) as pool, Progress() as progress:
        task = progress.add_task("validating", total=len(table))
        splits.append(
            validate_tests(
                table, SETTINGS, pool, journal=arguments.journal,
                progress=lambda done, total: progress.update(task, completed=done),
            )
        )  # fmt: skip
        for split in splits:
            print(split.step, split.summary["rows_in"], "->", split.summary["rows_out"], split.summary["dropped"])
        print({name: value for name, value in splits[-1].summary.items() if type(value) is int})
        kept = from_table(splits[-1].kept)
        rejected = splits[-1].rejected.filter(
            [rule == "weak_tests" for rule in splits[-1].rejected["rule"].to_pylist()]
        )
        facts = [facts_of(problem) for problem in kept] + [json.loads(e) for e in rejected["evidence"].to_pylist()]
        facts = [f for f in facts if f["mutants"]]
        print(f"\nOf {len(facts)} problems with mutants, tests that notice less than a share of them:")
        for share in THRESHOLDS:
            weak = (
                sum(f["killed"] < share * f["mutants"] for f in facts),
                sum(f["killed"] < share * wrong_in(f) for f in facts),
                sum(f["killed"] + f.get("noticed", 0) < share * wrong_in(f) for f in facts),
            )
            shown = ", ".join(f"{count} ({count / len(facts):.1%})" for count in weak)
            print(f"- {share}: all mutants counted, wrong ones only, with the new tests: {shown}")
        wrong, killed = sum(map(wrong_in, facts)), sum(f["killed"] for f in facts)
        noticed, equal = (sum(f.get(name, 0) for f in facts) for name in ("noticed", "equivalent"))
        print(f"\nMutants: {wrong} wrong, {equal} taken for equivalent. The published tests let through")
        print(f"{wrong - killed} ({1 - killed / wrong:.1%}), with the new ones {wrong - killed - noticed} "
              f"({1 - (killed + noticed) / wrong:.1%})")  # fmt: skip
        strengthened = [problem for problem in kept if "generated" in facts_of(problem)]
        try_other_mutants(strengthened, pool)
        try_responses(strengthened, pool)
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(f"\nCPU of this run: {sum(s.ru_utime + s.ru_stime for s in spent):.0f} s")


if __name__ == "__main__":
    main()
