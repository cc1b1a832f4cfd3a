"""References as responses, on whole published benchmark files: `python -m benchmarks.golden_answers DIRECTORY`.

DIRECTORY holds `benchmarks/` with aime24.json, amc22_23.json, math500.json, olympiad_bench.json, HumanEval.jsonl.gz.
Golden answers must score 1, empty ones 0, each golden answer in twenty harmless rewritings at least 0.99.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from ratchet.verifiers.serving.local_pool import VerifierPool
from tests.evaluation import golden


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    arguments = parser.parse_args()
    failed = False
    print("| benchmark | questions | golden | empty | 20 rewritings | refused | seconds |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    with VerifierPool() as pool, tempfile.TemporaryDirectory() as scratch:
        for name in golden.FILES:
            started = time.monotonic()
            problems = golden.problems(arguments.directory, name, Path(scratch))
            asked = (
                lambda p: [golden.golden(p)],
                lambda p: [""],
                lambda p: list(golden.rewritings(p)),
            )
            scores = [golden.scores_of(pool, problems, {p.problem_id: ask(p) for p in problems}) for ask in asked]
            right, empty, rewritten = (s["pass_at"]["1"]["value"] for s in scores)
            refused = sum(n - passed for passed, n in scores[2]["problems"].values())
            print(
                f"| {name} | {len(problems)} | {right:.4f} | {empty:.4f} | {rewritten:.4f} | {refused} | "
                f"{time.monotonic() - started:.0f} |", flush=True,
            )  # fmt: skip
            failed |= (right, empty) != (1, 0) or rewritten < 0.99
    sys.exit(failed)


if __name__ == "__main__":
    main()
