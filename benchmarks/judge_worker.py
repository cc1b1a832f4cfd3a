"""One code judge that is measured in turns with another: the child of `python -m benchmarks.code_judge --against`.

Reads lines `FORM COUNT` (call or stdin), judges so many programs in one sandbox, and answers with CPU seconds of the
judge and of the sandbox, and seconds of wall time. It uses only what the judges of all revisions have, so that the same
text measures each of them.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ratchet.verifiers.code.judge import judge
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.sandbox.server import Sandbox

FORMS = ("call", "stdin")


@dataclass
class Spent:
    """Seconds of wall time, and of CPU in this process and in what it started."""

    wall: float = 0.0
    judge: float = 0.0
    sandboxes: float = 0.0

    @property
    def cpu(self) -> float:
        return self.judge + self.sandboxes


@contextmanager
def measured(pids: list[int]) -> Iterator[Spent]:
    """What happens inside, and beneath the processes `pids` and their children."""
    spent = Spent()
    before = time.perf_counter(), time.process_time(), _cpu(pids)
    yield spent
    after = time.perf_counter(), time.process_time(), _cpu(pids)
    spent.wall, spent.judge, spent.sandboxes = (b - a for a, b in zip(before, after, strict=True))


def _cpu(pids: list[int]) -> float:
    """CPU seconds of these processes, of their children, and of all that those have waited for."""
    ticks = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(name) in pids or int(fields[1]) in pids:
                ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def doubling(tests: int, form: str, **fields: float) -> Problem:
    numbers = range(1, tests + 1)
    if form == "call":
        cases = [{"call": {"args": [number]}, "output": 2 * number} for number in numbers]
    else:
        cases = [{"input": f"{number}\n", "output": str(2 * number)} for number in numbers]
    return Problem(
        "doubling", "code", "", entry_point="f" if form == "call" else None, tests=json.dumps(cases), **fields
    )


def trivial(number: int, form: str, result: str = "2 * x") -> str:
    if form == "call":
        return f"def f(x):\n    y = {number}\n    return {result}\n"
    return f"x = int(input())\ny = {number}\nprint({result})\n"


def main() -> None:
    problems = {form: doubling(int(sys.argv[1]), form) for form in FORMS}
    with Sandbox() as sandbox:
        for form, problem in problems.items():
            assert judge(problem, trivial(-1, form), sandbox).passed
        print("ready", flush=True)
        for line in sys.stdin:
            form, count = line.split()
            with measured([sandbox._process.pid]) as spent:
                for number in range(int(count)):
                    assert judge(problems[form], trivial(number, form), sandbox).passed
            print(spent.judge, spent.sandboxes, spent.wall, flush=True)


if __name__ == "__main__":
    main()
