"""Computer algebra in a process of its own, which is killed when it takes too long.

No signals: an alarm cannot interrupt a computation inside C, and it is not ours to take from the trainer. We watch the
CPU clock of the worker and kill it; its own CPU limit ends it when we are gone. A process that has loaded the algebra,
and does nothing else, forks the next one: after hopeless answers nobody waits for imports.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

from ratchet.verifiers import child_source

_SWITCHES = ("MPMATH_NOGMPY", "SYMPY_GROUND_TYPES")  # of sympy's own: what it computes with
CPU_LIMIT_S = 1.0
ATTEMPTS = 3
WALL_LIMIT_S = 60.0
START_LIMIT_S = 120.0
MEMORY_BYTES = 900 << 20
_TICK_S = 0.05


class SymbolicTimeout(Exception):
    """The comparison took too long, or too much memory."""


class SymbolicFault(Exception):
    """Our machine's fault, not the answer's: somebody killed the worker."""


class Symbolic:
    """One algebra worker. Not thread-safe. Starts on first use, and is replaced when it had to be killed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen | None = None  # which forks the workers
        self._worker: tuple[int, int] | None = None  # the present one: pidfd, clock of its CPU time
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
        """Do two normalized LaTeX expressions mean the same? Raises SymbolicTimeout, and SymbolicFault."""
        fault = ""
        for _ in range(ATTEMPTS):
            try:
                return self._asked(reference, answer)
            except OSError as error:
                self.close()  # and with it what may still be in the pipes
                fault = str(error)
        raise SymbolicFault(f"the algebra worker was killed: {fault}")

    def _asked(self, reference: str, answer: str) -> bool:
        limit_s = CPU_LIMIT_S if self._left_s is None else self._left_s
        self._start()
        before = self._cpu_s()
        assert self._process and self._process.stdin
        self._process.stdin.write(json.dumps([reference, answer]).encode() + b"\n")
        line = self._line(before + limit_s, WALL_LIMIT_S)
        if not line:
            self._replace_worker()
            raise SymbolicTimeout(f"no result after {limit_s:g} s of computing")
        if self._left_s is not None:
            self._left_s = max(0.0, self._left_s - (self._cpu_s() - before))
        if line.startswith(b"ended"):
            if line == b"ended %d" % -signal.SIGKILL:  # its own limits end it otherwise
                raise ChildProcessError("by somebody else")
            self._forget_worker()
            raise SymbolicTimeout("the algebra worker ended: out of memory or time")
        return line == b"true"

    def _start(self) -> None:
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-s", "-c", child_source("ratchet.verifiers.math.symbolic_worker")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,  # what is polled must not wait in a buffer
                env={"PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "OMP_NUM_THREADS": "1"}
                | {name: os.environ[name] for name in _SWITCHES if name in os.environ},
                start_new_session=True,
            )
        if self._worker is None:
            state, _, pid = self._line(None, START_LIMIT_S).partition(b" ")
            if state != b"ready":
                raise ChildProcessError("it did not start")
            self._worker = os.pidfd_open(int(pid)), (~int(pid) << 3) | 2  # see clock_getcpuclockid(3)

    def _line(self, cpu_s: float | None, wall_s: float) -> bytes:
        """The next line of the worker, or what it says of its end; nothing when the CPU clock of the worker reaches
        `cpu_s`, or after `wall_s`. Raises ConnectionError when nobody is there any more."""
        assert self._process and self._process.stdout
        start = time.monotonic()
        watch = select.poll()
        watch.register(self._process.stdout, select.POLLIN)
        while not watch.poll(_TICK_S * 1000):
            if (cpu_s is not None and self._cpu_s() > cpu_s) or time.monotonic() - start > wall_s:
                return b""
        line = self._process.stdout.readline().strip()
        if not line:
            raise ConnectionError("it is gone")
        return line

    def _cpu_s(self) -> float:
        assert self._worker
        try:
            return time.clock_gettime(self._worker[1])
        except OSError:  # it has just ended, which its line will say
            return 0.0

    def _replace_worker(self) -> None:
        assert self._worker
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._worker[0], signal.SIGKILL)
        while not (line := self._line(None, WALL_LIMIT_S)).startswith(b"ended"):
            if not line:
                raise TimeoutError("it does not end")
        self._forget_worker()

    def _forget_worker(self) -> None:
        if self._worker is not None:
            os.close(self._worker[0])
            self._worker = None

    def close(self) -> None:
        """Kill the worker. Safe to call twice."""
        if self._worker is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._worker[0], signal.SIGKILL)
            self._forget_worker()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe:
                    pipe.close()
            self._process = None
