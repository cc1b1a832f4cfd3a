"""The progress of a confined process: the lines of its report, in a copy that it cannot reach."""

import mmap
import os


class Progress:
    """Copies a report as it grows, and counts its lines, at most `tests`.

    The copy is what counts. A line that is in it cannot be taken back or changed, so a test's clock restarts once for
    each result, not whenever a program says so. Both happen in the kernel: nothing of a report gets into this process's
    own memory, which later children inherit.
    """

    def __init__(self, report: int, copy: int, tests: int) -> None:
        self._report, self._copy, self._tests = report, copy, tests
        self._size = self._lines = 0

    def update(self) -> bool:
        """Copy the new part of the report; returns True if tests have ended since the last call and there are more."""
        begin, size = self._size, os.fstat(self._report).st_size
        while self._size < size and (sent := os.sendfile(self._copy, self._report, self._size, size - self._size)):
            self._size += sent
        if self._size == begin:
            return False
        before = self._lines
        with mmap.mmap(self._copy, self._size, access=mmap.ACCESS_READ) as text:
            while self._lines < self._tests and (begin := text.find(b"\n", begin) + 1):
                self._lines += 1
        return before < self._lines < self._tests
