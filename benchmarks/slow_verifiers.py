"""A domain that takes a second a verdict beside one that takes milliseconds: does either wait for the other?

    python -m benchmarks.slow_verifiers [--workers 2] [--slow 8] [--fast 200]

The pool gets the slow domain's responses first, as a step would whose slow prompts end early, then the fast one's.
Ideal is what no schedule can beat: all work divided by the workers, and at least the longest verdict. Printed: when
all verdicts are there, which is what a training step waits for, as a ratio to the ideal; and when the fast domain's
are, which is what another client of a shared reward server waits for, as a ratio to what they take alone.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence

from benchmarks.endurance import ROOT
from ratchet.verifiers.domain import Domain
from ratchet.verifiers.domains import OWN_DOMAINS
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.registry import IMPORT_PATH
from ratchet.verifiers.serving.local_pool import VerifierPool

SLOW = Problem("slow", "slow", "", answer="1")
FAST = Problem("fast", "fast", "", answer="1")


class Fast(Domain):
    """A confined process each, as for any domain that is not judged in place (most of math is)."""

    name = "fast"
    templates = {"fast": "{prompt}"}

    def extract(self, response: str) -> str | None:
        return response

    def score(self, problem: Problem, answer: str) -> float:
        return 1.0


class Slow(Fast):
    name = "slow"
    templates = {"slow": "{prompt}"}

    def score(self, problem: Problem, answer: str) -> float:
        time.sleep(1)
        return 1.0


def timed(pool: VerifierPool, cases: Sequence[tuple[Problem, str]]) -> dict[str, list[float]]:
    """Seconds from the first submission to each verdict, by domain."""
    start = time.perf_counter()
    for number, (problem, response) in enumerate(cases):
        pool.submit(number, problem, response)
    seconds: dict[str, list[float]] = {}
    for number, verdict in pool.results():
        assert verdict.passed, verdict
        seconds.setdefault(cases[number][0].domain, []).append(time.perf_counter() - start)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--slow", type=int, default=8)
    parser.add_argument("--fast", type=int, default=200)
    arguments = parser.parse_args()
    os.environ |= {OWN_DOMAINS: "benchmarks.slow_verifiers:Slow,benchmarks.slow_verifiers:Fast", IMPORT_PATH: str(ROOT)}

    def fast(first: int) -> list[tuple[Problem, str]]:
        return [(FAST, f"response {number}") for number in range(first, first + arguments.fast)]

    slow = [(SLOW, f"slow {number}") for number in range(arguments.slow)]
    with VerifierPool(arguments.workers) as pool:
        warm = [(SLOW, f"start {n}") for n in range(2 * arguments.workers)] + fast(0)[: 10 * arguments.workers]
        timed(pool, warm)  # processes start, and the pool learns what takes long
        alone = max(timed(pool, fast(10_000))["fast"])
        both = timed(pool, slow + fast(20_000))
    ideal = max(1.0, (arguments.slow + alone * arguments.workers) / arguments.workers)
    last = max(max(each) for each in both.values())
    print(f"{arguments.slow} slow and {arguments.fast} fast verdicts, {arguments.workers} workers")
    print(f"all: {last:.2f} s, {last / ideal:.2f} times the ideal {ideal:.2f} s")
    print(f"the fast ones: {max(both['fast']):.2f} s, {max(both['fast']) / alone:.1f} times what they take alone")


if __name__ == "__main__":
    main()
