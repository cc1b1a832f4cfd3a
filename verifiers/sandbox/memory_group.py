"""A control group for the memory of one sandbox, below one that the machine's operator delegates to the judge."""

import os
from contextlib import suppress

NAMED_BY = "RATCHET_JUDGE_CGROUP"
"""The environment variable with the directory of the delegated group."""
SPARE_BYTES = 64 << 20
"""Beside the memory limits of its processes: the server, outputs, page tables."""
_FIRST_VICTIM, _AS_BEFORE = b"1000", b"0"


class MemoryGroup:
    """Counts all memory of its processes, also pipes, sockets and files in memory, and kills the largest one where they
    exceed the limit. Version 1 and 2 differ in the names of files."""

    def __init__(self, parent: str) -> None:
        """Raises OSError if `parent` is no group that gives its children the memory controller, or not ours."""
        self._parent = os.open(parent, os.O_PATH | os.O_DIRECTORY)
        self._name = f"ratchet-sandbox-{os.getpid()}"
        os.mkdir(self._name, dir_fd=self._parent)
        try:
            self._processes = self._open("cgroup.procs", os.O_WRONLY)
            try:
                self._limit, self._events = self._open("memory.max", os.O_WRONLY), self._open("memory.events")
            except FileNotFoundError:
                self._limit = self._open("memory.limit_in_bytes", os.O_WRONLY)
                self._events = self._open("memory.oom_control")
            for name in ("memory.swap.max", "memory.swappiness"):
                with suppress(FileNotFoundError):
                    os.write(self._open(name, os.O_WRONLY), b"0")
        except OSError:
            self.remove()
            raise
        self._bytes, self._score = 0, -1

    def _open(self, name: str, flags: int = os.O_RDONLY) -> int:
        return os.open(f"{self._name}/{name}", flags, dir_fd=self._parent)

    def enter(self) -> None:
        """Move this process into it, whose children follow; in the server, which no lack of memory then ends before
        one of its children."""
        os.write(self._processes, b"0")
        self._score = os.open("/proc/self/oom_score_adj", os.O_WRONLY)

    def hold(self, memory_bytes: int) -> None:
        """Limit it to this, and what is spare."""
        if memory_bytes != self._bytes:
            os.pwrite(self._limit, str(memory_bytes + SPARE_BYTES).encode(), 0)
            self._bytes = memory_bytes

    def offer(self, first: bool) -> None:
        """Make children forked from now on the first that a lack of memory ends, or not."""
        os.pwrite(self._score, _FIRST_VICTIM if first else _AS_BEFORE, 0)

    def kills(self) -> int:
        """How many processes lack of memory has ended."""
        lines = os.pread(self._events, 4096, 0).decode().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))

    def remove(self) -> None:
        """Once no process is in it."""
        with suppress(OSError):
            os.rmdir(self._name, dir_fd=self._parent)
