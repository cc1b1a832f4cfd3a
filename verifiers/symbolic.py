"""Computer algebra in a process of its own, which is killed when it takes too long.

No signals: an alarm cannot interrupt a computation inside C, and it is not ours to take from the trainer. The parent
watches the CPU clock of the worker and kills it; the worker's own CPU limit ends it when the parent is gone.
"""

from __future__ import annotations

import contextlib
import json
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_ROOT = str(Path(__file__).resolve().parents[1])
CPU_LIMIT_S = 1.5
WALL_LIMIT_S = 60.0
START_LIMIT_S = 120.0
MEMORY_BYTES = 900 << 20
_TICK_S = 0.05


class SymbolicTimeout(Exception):
    """The comparison took too long, or too much memory."""


class SymbolicFault(Exception):
    """Our machine's fault, not the answer's: somebody killed the worker."""


class Symbolic:
    """One algebra worker. Not thread-safe. Starts on first use, restarts after it had to be killed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen | None = None
        self._left_s: float | None = None  # of the budget of one pair, CPU seconds

    @contextlib.contextmanager
    def budget(self) -> Iterator[None]:
        """All comparisons inside share one time limit: a pair of sets asks for many."""
        self._left_s = CPU_LIMIT_S
        try:
            yield
        finally:
            self._left_s = None

    def equal(self, reference: str, answer: str) -> bool:
        """Do two normalized LaTeX expressions mean the same? Raises SymbolicTimeout."""
        limit_s = CPU_LIMIT_S if self._left_s is None else self._left_s
        self._start()
        try:
            self._process.stdin.write(json.dumps([reference, answer]).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self.close()
            raise SymbolicTimeout("the algebra worker had died") from None
        line, spent_s = self._line(limit_s, WALL_LIMIT_S)
        if self._left_s is not None:
            self._left_s = max(0.0, self._left_s - spent_s)
        return line == b"true"

    def _start(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        bootstrap = f"import sys; sys.path.insert(0, {_ROOT!r}); from verifiers.symbolic_worker import main; main()"
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-s", "-c", bootstrap],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )
        self._line(START_LIMIT_S, START_LIMIT_S)

    def _line(self, cpu_s: float, wall_s: float) -> tuple[bytes, float]:
        """The next line of the worker, and the CPU seconds it took."""
        process = self._process
        clock = (~process.pid << 3) | 2
        cpu_start, start = time.clock_gettime(clock), time.monotonic()
        watch = select.poll()
        watch.register(process.stdout, select.POLLIN)
        while not watch.poll(_TICK_S * 1000):
            spent = time.clock_gettime(clock) - cpu_start
            if spent > cpu_s or time.monotonic() - start > wall_s:
                self.close()
                raise SymbolicTimeout(f"no result after {cpu_s:g} s of computing")
        line = process.stdout.readline().strip()
        if not line:
            is_killed = process.wait() == -signal.SIGKILL  # its own limits end it otherwise
            self.close()
            if is_killed:
                raise SymbolicFault("the algebra worker was killed")
            raise SymbolicTimeout("the algebra worker ended: out of memory or time")
        return line, time.clock_gettime(clock) - cpu_start

    def close(self) -> None:
        """Kill the worker. Safe to call twice."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process.stdin.close()
            self._process.stdout.close()
            self._process = None
