"""CPU time of judging one short program, beside LiveCodeBench's executor.

    python -m benchmarks.judge_cost --tests 20 --programs 64
    python -m benchmarks.judge_cost --tests 20 --programs 16 --livecodebench CHECKOUT

Three kinds of tests: `call` (JSON in and out), `stdin`, `check` (a published `check(candidate)` whose assertions stay
together). CPU time is that of judge, fork server and programs, per program, after both sides have started; it hardly
depends on what else the machine does, wall time does. LiveCodeBench's `check_correctness` (CHECKOUT is its repository)
judges the same programs in the same turns, and has no checks; the ratio is the median of those of the turns. The line
`fork` is what a process for each program costs by itself.
"""

import argparse
import gc
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from multiprocessing import get_context, set_start_method
from pathlib import Path
from statistics import median
from typing import Any

from ratchet.verifiers.code.domain import inputs_and_outputs
from ratchet.verifiers.code.judge import judge
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.sandbox.server import Sandbox

KINDS = ("call", "stdin", "check")


def doubling(kind: str, tests: int) -> Problem:
    numbers = range(1, tests + 1)
    rows: dict[str, list[dict[str, Any]]] = {
        "call": [{"call": {"args": [number]}, "output": 2 * number} for number in numbers],
        "stdin": [{"input": f"{number}\n", "output": str(2 * number)} for number in numbers],
    }
    lines = "".join(f"    assert candidate({number}) == {2 * number}\n" for number in numbers)
    rows["check"] = [{"check": f"def check(candidate):\n    start = 0\n{lines}"}]
    return Problem("doubling", "code", "", entry_point=None if kind == "stdin" else "f", tests=json.dumps(rows[kind]))


def program(kind: str, number: int) -> str:
    if kind == "stdin":
        return f"x = int(input())\ny = {number}\nprint(2 * x)\n"
    return f"def f(x):\n    y = {number}\n    return 2 * x\n"


def cpu_s() -> float:
    """CPU seconds of this process and of all children that it has waited for."""
    gc.collect()
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def ours(kind: str, tests: int, sources: list[str]) -> None:
    problem = doubling(kind, tests)
    with Sandbox() as sandbox:
        assert all(judge(problem, source, sandbox).passed for source in sources)


def bare_fork(sources: list[str]) -> None:
    """A process of this interpreter for each program, which ends at once: the least that a process of its own costs."""
    for _ in sources:
        if not (child := os.fork()):
            os._exit(0)
        os.waitpid(child, 0)


def theirs(checkout: str, kind: str, tests: int, sources: list[str]) -> None:
    set_start_method("fork", force=True)  # as in a process that was not itself spawned
    sys.path.insert(0, checkout)
    from lcb_runner.evaluation.compute_code_generation_metrics import check_correctness

    sample = {"input_output": inputs_and_outputs(doubling(kind, tests))}
    assert all(result is True for source in sources for result in check_correctness(sample, source, 6, False)[0])


def spent(work: Callable[..., None], *arguments: Any) -> tuple[float, float]:
    """CPU and wall seconds of `work` in a process of its own, with those of its start."""
    process = get_context("spawn").Process(target=work, args=arguments)
    before, began = cpu_s(), time.perf_counter()
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"{work.__name__} fails on a right program, or cannot start")
    return cpu_s() - before, time.perf_counter() - began


def per_program_ms(work: Callable[..., None], *arguments: Any, sources: list[str]) -> tuple[float, float]:
    """CPU and wall milliseconds: many programs less one, so that starting does not count."""
    many, one = spent(work, *arguments, sources), spent(work, *arguments, sources[:1])
    cpu, wall = (1000 * (all_of - first) / (len(sources) - 1) for all_of, first in zip(many, one, strict=True))
    return cpu, wall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", type=int, default=20)
    parser.add_argument("--programs", type=int, default=64)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--livecodebench", type=Path, metavar="CHECKOUT")
    options = parser.parse_args()
    forks = [per_program_ms(bare_fork, sources=[""] * (options.programs + 1)) for _ in range(options.turns)]
    print(
        f"fork:  a process that ends at once: CPU {_middle(forks, 0):.2f} ms, wall {_middle(forks, 1):.2f}", flush=True
    )
    for kind in KINDS:
        sources = [program(kind, number) for number in range(options.programs + 1)]
        own: list[tuple[float, float]] = []
        peers: list[tuple[float, float]] = []
        for _ in range(options.turns):
            own.append(per_program_ms(ours, kind, options.tests, sources=sources))
            if options.livecodebench and kind != "check":
                peers.append(per_program_ms(theirs, str(options.livecodebench), kind, options.tests, sources=sources))
        line = (
            f"{kind + ':':6} {options.tests} tests: CPU {_middle(own, 0):.2f} ms a program, wall {_middle(own, 1):.2f}"
        )
        if peers:
            ratios = [(peer[0] / one[0], peer[1] / one[1]) for peer, one in zip(peers, own, strict=True)]
            line += f"; LiveCodeBench {_middle(peers, 0):.2f}, {_middle(peers, 1):.2f}"
            line += f"; ratio {_middle(ratios, 0):.1f}, {_middle(ratios, 1):.1f}"
        print(line, flush=True)


def _middle(pairs: list[tuple[float, float]], place: int) -> float:
    return median(pair[place] for pair in pairs)


if __name__ == "__main__":
    main()
