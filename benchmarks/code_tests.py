"""How good are published tests, and what does test validation make of them?

    python benchmarks/code_tests.py DATA --journal journal.jsonl

LeetCodeDataset's training problems go through the steps of code curation that need no teacher. Takes minutes; a killed
run continues from the journal.
"""

from __future__ import annotations

import argparse
import json
import resource
from pathlib import Path

from rich.progress import Progress

from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.code_tests.validation import STEP, validate_tests
from ratchet.data_curation.decontamination.problems import decontaminate
from ratchet.data_curation.deduplication.copies import deduplicate
from ratchet.data_curation.domains import plan_of
from ratchet.data_curation.read import read_problems
from ratchet.data_curation.rule_filter import filter_by_rules
from ratchet.data_curation.settings.curation import Curation, Decontamination, TestValidation
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.serving.local_pool import VerifierPool

FILE, BENCHMARK = "code_raw/LeetCodeDataset-v0.2.0-train.jsonl.gz", "benchmarks/HumanEval.jsonl.gz"
SETTINGS = TestValidation(min_tests=2, min_mutants_killed=1.0)  # many of these problems have no more
THRESHOLDS = (0.5, 0.7, 0.9, 1.0)


def facts_of(problem: Problem) -> dict:
    return json.loads(problem.metadata or "{}")[STEP]


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
    splits.append(filter_by_rules(splits[-1].kept, config.rules))
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
            print(
                split.summary["step"],
                split.summary["rows_in"],
                "->",
                split.summary["rows_out"],
                split.summary["dropped"],
            )
        print({name: value for name, value in splits[-1].summary.items() if type(value) is int})
        kept = from_table(splits[-1].kept)
        rejected = splits[-1].rejected.filter(
            [rule == "weak_tests" for rule in splits[-1].rejected["rule"].to_pylist()]
        )
        facts = [facts_of(problem) for problem in kept] + [json.loads(e) for e in rejected["evidence"].to_pylist()]
        facts = [f for f in facts if f.get("mutants")]
        print(f"\nOf {len(facts)} problems with mutants, tests that notice less than a share of them:")
        for share in THRESHOLDS:
            weak = sum(f["mutants"] - f.get("survived", 0) < share * f["mutants"] for f in facts)
            print(f"- {share}: {weak} ({weak / len(facts):.1%})")
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(f"\nCPU of this run: {sum(s.ru_utime + s.ru_stime for s in spent):.0f} s")


if __name__ == "__main__":
    main()
