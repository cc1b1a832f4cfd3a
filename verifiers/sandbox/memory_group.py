"""A control group for the memory of one sandbox, below one that the machine's operator delegates to the judge."""

import os
from contextlib import suppress

NAMED_BY = "RATCHET_JUDGE_CGROUP"
"""The environment variable with the directory of the delegated group."""
SPARE_BYTES = 64 << 20
"""Bytes beyond the memory limits of the group's processes: the server, outputs, page tables."""
_FIRST_VICTIM, _AS_BEFORE = b"1000", b"0"


class MemoryGroup:
    """A control group that counts all memory of its processes, including pipes, sockets and files in memory, and kills
    the largest process if they exceed the limit. Versions 1 and 2 differ in the names of files."""

    def __init__(self, parent: str) -> None:
        """Create the group. Raises OSError if `parent` does not give its children the memory controller, or is not
        ours."""
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
        """Move this process, the server, and its future children into the group. A lack of memory then ends a child
        before the server."""
        os.write(self._processes, b"0")
        self._score = os.open("/proc/self/oom_score_adj", os.O_WRONLY)

    def hold(self, memory_bytes: int) -> None:
        """Limit the group to these bytes plus the spare ones."""
        if memory_bytes != self._bytes:
            os.pwrite(self._limit, str(memory_bytes + SPARE_BYTES).encode(), 0)
            self._bytes = memory_bytes

    def offer(self, first: bool) -> None:
        """Make children forked from now on the first that a lack of memory ends, or undo that."""
        os.pwrite(self._score, _FIRST_VICTIM if first else _AS_BEFORE, 0)

    def kills(self) -> int:
        """The number of processes that a lack of memory has ended."""
        lines = os.pread(self._events, 4096, 0).decode().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))

    def remove(self) -> None:
        """Remove the group, once no process is in it."""
        with suppress(OSError):
            os.rmdir(self._name, dir_fd=self._parent)
