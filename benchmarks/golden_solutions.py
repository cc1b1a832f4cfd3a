"""Does the judge pass what is known to be right, and do published tests notice small faults?

    python benchmarks/golden_solutions.py --mutants 0 mbpp.jsonl.gz HumanEval.jsonl.gz LeetCodeDataset-train.jsonl.gz

Every golden solution of these files is judged by its own tests; those that do not pass are listed with the reason. Then
up to `--mutants` copies of each that passes get one fault: a range off by one, a flipped comparison, a wrong constant.
What the tests let through is in part not wrong at all: a fault may change nothing.

With `--data-only`, run as `python -m benchmarks.golden_solutions`, in a copy of the repository in which a program can
return data only: what passes without it but not with it is decided by proxies of the program's objects.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rich.progress import track

from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.code_tests.mutation import mutants
from ratchet.data_curation.read import read_problems
from ratchet.verifiers.code.problem import read_problem
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.serving.local_pool import VerifierPool

QUICK_S = 0.2
KINDS = ("range", "comparison", "constant")  # of data_curation.mutation
CHUNK = 64
RETURNED = '        return self.encode(value) | ({"apart": True} if apart else {})\n'
"""In `verifiers/sandbox/objects.py`: what a call returned goes to the check."""


def judged(title: str, programs: list[tuple[Problem, str]], pool: VerifierPool) -> Iterator[Verdict]:
    for first in track(range(0, len(programs), CHUNK), title):
        yield from pool.run_programs(programs[first : first + CHUNK])


def measure(name: str, path: Path, faults: int, pool: VerifierPool) -> bool:
    table = read_problems(path, "code")
    problems = from_table(table.kept)
    programs = [(problem, problem.golden_solutions[0]) for problem in problems]
    published = [test for problem in problems for test in problem.code_tests()]
    tests = [(problem, test) for problem in problems for test in read_problem(problem).tests]
    checked = {problem.problem_id for problem, test in tests if test.check is not None}
    calls = sum(test.call is not None for _, test in tests)
    print(
        f"{name}: {len(problems)} problems, {len(table.rejected)} rows unreadable, {len(published)} tests. The judge "
        f"compares {calls} ({100 * calls / len(tests):.1f} %) itself, in all tests of {len(problems) - len(checked)} "
        f"problems ({100 - 100 * len(checked) / len(problems):.1f} %); {len(tests) - calls} run apart from the program"
    )
    begin = time.perf_counter()
    verdicts = list(judged("  golden solutions", programs, pool))
    seconds = time.perf_counter() - begin
    passed = [program for program, verdict in zip(programs, verdicts, strict=True) if verdict.passed]
    print(f"  golden solutions: {len(passed)} of {len(programs)} pass, in {seconds:.1f} s")
    for (problem, _), verdict in zip(programs, verdicts, strict=True):
        if not verdict.passed:
            row = json.loads(problem.metadata).get("task_id", problem.source_id)
            print(f"    {row}: {verdict.outcome.value}, {verdict.decided_by}: {verdict.detail}")

    if not faults:
        return len(passed) == len(programs) and not len(table.rejected)
    # Most mutants that never end are then noticed early; slow golden solutions keep their problem's limit.
    quick = [(replace(problem, time_limit_s=QUICK_S), source) for problem, source in passed]
    fits = [verdict.passed for verdict in judged("  golden, quickly", quick, pool)]
    timed = [one if fit else other for one, other, fit in zip(quick, passed, fits, strict=True)]
    faulty = [(p, mutant, kind) for p, s in timed for kind in KINDS[:faults] for mutant in mutants(s, 1, (kind,))]
    made, through, reasons = Counter(), Counter(), Counter()
    found = judged("  mutants", [(problem, mutant) for problem, mutant, _ in faulty], pool)
    for (_, _, kind), verdict in zip(faulty, found, strict=True):
        made[kind] += 1
        through[kind] += verdict.passed
        reasons[verdict.decided_by] += 1
        if verdict.outcome in (Outcome.INFRA_ERROR, Outcome.UNPARSEABLE):
            raise SystemExit(f"a mutant could not be judged: {verdict}")
    for kind in KINDS:
        if made[kind]:
            print(f"  {kind:10} {made[kind]:5} mutants, {100 * through[kind] / made[kind]:5.1f} % pass the tests")
    if faulty:
        share = 100 * through.total() / made.total()
        print(f"  together   {made.total():5} mutants, {share:5.1f} % pass the tests; decided by {dict(reasons)}")
    return len(passed) == len(programs) and not len(table.rejected)


def data_only(options: argparse.Namespace) -> str:
    from benchmarks.planted_faults import Copy

    with tempfile.TemporaryDirectory() as directory:
        copy = Copy(Path(directory))
        file = copy.root / "verifiers/sandbox/objects.py"
        text = file.read_text()
        if text.count(RETURNED) != 1:
            raise SystemExit(f"{file.name} has changed: adapt RETURNED")
        refusing = "        self.reference = super().reference  # type: ignore\n        try:\n    "
        allowing = "        finally:\n            del self.reference\n"
        file.write_text(text.replace(RETURNED, refusing + RETURNED + allowing))
        arguments = [
            "--mutants",
            "0",
            "--workers",
            str(options.workers),
            *(str(path.resolve()) for path in options.files),
        ]
        return copy.python("-m", "benchmarks.golden_solutions", *arguments).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--mutants", type=int, default=3, help="of each golden solution; 0 for none")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--data-only", action="store_true")
    options = parser.parse_args()
    if options.data_only:
        print(data_only(options))
        return
    with VerifierPool(options.workers) as pool:
        results = [measure(path.name, path, options.mutants, pool) for path in options.files]
    raise SystemExit(not all(results))


if __name__ == "__main__":
    main()
