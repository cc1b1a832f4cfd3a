"""How long does it take to judge many small programs? The judge against a fresh interpreter for every test.

    python benchmarks/code_judge.py --programs 256 --tests 6 --workers 2

Half of the programs are right, a quarter wrong on every test, a quarter wrong on the last; no two are the same text.
The peer is the obvious way: `python -I -S` for each test, stopping at the first failure, as many at once as workers.
It confines nothing, and does not even load the site packages. Verdicts of both must agree.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from infra.problems import Problem
from verifiers.pool import VerifierPool
from verifiers.sandbox import sandbox_isolation


def programs(count: int, tests: int) -> list[str]:
    bodies = ("2 * x", "2 * x + 0", "x", f"2 * x if x < {tests} else 0")
    return [f"def f(x):\n    y = {number}\n    return {bodies[number % 4]}\n" for number in range(count)]


def judged(problem: Problem, sources: list[str], workers: int) -> list[bool]:
    with VerifierPool(workers) as pool:
        pool.run_programs([(problem, f"def f(x): return {number}") for number in range(workers)])  # start them
        begin_clock()
        verdicts = pool.run_programs([(problem, source) for source in sources])
        end_clock("judge")
    return [verdict.passed for verdict in verdicts]


def spawned(problem: Problem, sources: list[str], workers: int) -> list[bool]:
    def passes(source: str) -> bool:
        for test in problem.code_tests():
            program = f"{source}\nimport json\nprint(json.dumps(f(*{test.call['args']!r})))\n"
            done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, timeout=60)
            if done.returncode or json.loads(done.stdout) != test.output:
                return False
        return True

    with ThreadPoolExecutor(workers) as pool:
        begin_clock()
        passed = list(pool.map(passes, sources))
        end_clock("python -I -S per test")
    return passed


_clock: dict[str, float] = {}
_measured: dict[str, float] = {}


def begin_clock() -> None:
    _clock["wall"] = time.perf_counter()


def end_clock(name: str) -> None:
    _measured[name] = time.perf_counter() - _clock["wall"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=256)
    parser.add_argument("--tests", type=int, default=6)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    tests = [{"call": {"args": [number]}, "output": 2 * number} for number in range(1, options.tests + 1)]
    problem = Problem("doubling", "code", "", entry_point="f", tests=json.dumps(tests))
    sources = programs(options.programs, options.tests)

    print(f"{options.programs} programs, {options.tests} tests each, {options.workers} workers; {sandbox_isolation()}")
    if judged(problem, sources, options.workers) != spawned(problem, sources, options.workers):
        raise SystemExit("the two disagree about a program")
    for name, seconds in _measured.items():
        each = 1000 * seconds * options.workers / options.programs
        print(f"{name:24} {seconds:7.2f} s  {each:7.2f} ms a program a worker")
    ours, theirs = _measured.values()
    print(f"ratio {theirs / ours:.1f}")


if __name__ == "__main__":
    main()
