"""A confined process as the fork server sees it: its CPU time, memory, threads and end."""

import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_THREADS_READ = 64
"""Threads whose state is read: to read hundreds every tick would cost more than they do."""


class Child:
    """A process, by its pid. `proc` is a descriptor of the /proc that shows it, which may no longer be mounted here."""

    def __init__(self, pid: int, proc: int) -> None:
        self.pid, self.exited = pid, os.pidfd_open(pid)
        self.used_s = 0.0
        """CPU seconds."""
        self._proc = proc
        self._pid_there, self._bytes_at_start = "", 0

    def cpu(self) -> float:
        """CPU seconds by the process's clock, see clock_getcpuclockid(3); the last known when it has just ended."""
        with suppress(OSError):
            self.used_s = time.clock_gettime((~self.pid << 3) | 2)
        return self.used_s

    def resident(self) -> int:
        """Bytes in memory that the process has allocated since its start, including shared ones; 0 when it has just
        ended."""
        try:
            size = _resident(f"{self._there()}/status", self._proc)
            # A fork has what we have.
            self._bytes_at_start = self._bytes_at_start or _resident("self/status", self._proc)
            return size - self._bytes_at_start
        except (OSError, StopIteration, IndexError, ValueError):
            return 0

    def is_awake(self) -> bool:
        """True if a thread runs or waits for a core; true also if that cannot be read."""
        states = self._read_threads("stat", lambda text: text.rpartition(")")[2].split()[0])
        return not states or any(state in "RD" for state in states)

    def waited_s(self) -> float:
        """The longest time, in seconds, that one of the process's threads has waited for a core."""
        return max(self._read_threads("schedstat", lambda text: int(text.split()[1]) / 1e9), default=0.0)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def exit_code(self) -> int:
        """The exit code of a process that has ended; negative for a signal. The process remains to be reaped."""
        ended = os.waitid(os.P_PIDFD, self.exited, os.WEXITED | os.WNOWAIT)
        assert ended
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    def reap(self) -> int:
        """Wait for the process to end; returns the wait status."""
        _, status, usage = os.wait4(self.pid, 0)
        os.close(self.exited)
        self.used_s = usage.ru_utime + usage.ru_stime
        return status

    def _there(self) -> str:
        """The process's pid in `proc`: a pid of our own namespace means nothing there."""
        if not self._pid_there:
            details = read_text(f"self/fdinfo/{self.exited}", self._proc)
            self._pid_there = next(line.split()[1] for line in details.splitlines() if line.startswith("Pid:"))
        return self._pid_there

    def _read_threads(self, name: str, parse: Callable[[str], Any]) -> list[Any]:
        values = []
        with suppress(OSError, StopIteration):
            tasks = os.open(f"{self._there()}/task", os.O_RDONLY, dir_fd=self._proc)
            try:
                for thread in os.listdir(tasks)[:_THREADS_READ]:
                    with suppress(OSError, ValueError, IndexError):
                        values.append(parse(read_text(f"{thread}/{name}", tasks)))
            finally:
                os.close(tasks)
        return values


def load_per_core(proc: int) -> float:
    """Runnable threads on this machine per core, averaged over a minute; 1 if unknown."""
    try:
        return float(read_text("loadavg", proc).split()[0]) / len(os.sched_getaffinity(0))
    except (OSError, ValueError, IndexError):
        return 1.0


def is_closed(pipe: int) -> bool:
    """True if nobody can write to a pipe any more."""
    poll = select.poll()
    poll.register(pipe, select.POLLHUP)
    return any(event & select.POLLHUP for _, event in poll.poll(0))


def _resident(path: str, directory: int) -> int:
    """Bytes of anonymous and shared memory in a /proc/<pid>/status; files, such as libraries, do not count."""
    lines = read_text(path, directory).splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))


def read_text(path: str, directory: int) -> str:
    descriptor = os.open(path, os.O_RDONLY, dir_fd=directory)
    try:
        return os.read(descriptor, 65536).decode()
    finally:
        os.close(descriptor)
