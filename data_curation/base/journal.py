"""JSON lines that survive a kill: appended one at a time, read back without a torn last line."""

import fcntl
import json
import mmap
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ratchet.data_curation.base.files import disk_errors, sync_path
from ratchet.data_curation.base.slow_calls import say_if_slow
from ratchet.verifiers.errors import RatchetError


def read_lines(path: Path, begin: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
    """The end byte and the record of each whole line from byte `begin` on. Takes no lock. Raises RatchetError for a
    line that is not a JSON object."""
    with open(path, "rb") as file:
        file.seek(begin)
        for line in file:
            if not line.endswith(b"\n"):
                return
            try:
                record = json.loads(line)
                if not isinstance(record, dict):
                    raise ValueError("not an object")
            except ValueError as error:
                number = path.read_bytes()[:begin].count(b"\n") + 1
                raise RatchetError(
                    f"{path}, line {number}: not a JSON object ({error}). Remove that line and run again."
                ) from error
            begin += len(line)
            yield begin, record


class Tail:
    """A reader of a journal of progress as it grows. Each record has a `step`, the number `done`, or a `note`.

    A writer that is killed and resumed cuts its file back, and may have outgrown it by the next look. The file is then
    read again from its start; steps that were read before are not repeated.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.furthest = 0
        """The last step, or number done, ever read."""
        self._end, self._line = 0, b""  # end of the last line read, and that line
        self._repeated = 0  # records up to here were read before the file was cut

    def read(self) -> Iterator[dict[str, Any]]:
        """The records since the last call."""
        if not self.path.is_file():
            return
        with open(self.path, "rb") as file:
            file.seek(self._end - len(self._line))
            if file.read(len(self._line)) != self._line:
                self._end, self._line, self._repeated = 0, b"", self.furthest
            for end, record in read_lines(self.path, self._end):
                file.seek(self._end)
                self._end, self._line = end, file.read(end - self._end)
                reached = record.get("step", record.get("done", 0))
                self.furthest = max(self.furthest, reached)
                if "note" in record or reached > self._repeated:
                    yield record


class Journal:
    """A writer of one file of JSON lines. A context manager.

    Each line goes to the kernel at once, so a kill loses no written line; with `durable` it is on disk before `append`
    returns, so a power failure loses none either. With `alone`, a second process that opens the file waits for the
    first to end, and `is_locked` finds the writer. Whatever follows the last line end, or byte `keep`, is removed.
    """

    def __init__(self, path: Path, durable: bool = False, alone: bool = False, keep: int | None = None) -> None:
        self.path, self._durable = path, durable
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(path, "a+b", buffering=0)
            if alone:
                with say_if_slow(f"Another run writes to {path}. Waiting for it …"):
                    fcntl.flock(self._file, fcntl.LOCK_EX)
            self._file.truncate(self._whole() if keep is None else keep)
            if durable:
                sync_path(path.parent)  # a file is only as durable as its name

    def append(self, record: Mapping[str, Any]) -> int:
        """Append a record; returns the first byte of its line."""
        line = json.dumps(record, ensure_ascii=False).encode() + b"\n"
        with disk_errors(self.path):
            place = self._file.seek(0, os.SEEK_END)
            try:
                with memoryview(line) as rest:
                    while rest:  # a nearly full disk takes part of the line before the error
                        rest = rest[self._file.write(rest) :]
            except BaseException:
                self._file.truncate(self._whole())  # else the next line would be behind that part
                raise
            if self._durable:
                os.fsync(self._file.fileno())
        return place

    def record_at(self, place: int) -> dict[str, Any]:
        """The record whose line begins at this byte."""
        with open(self.path, "rb") as file:
            file.seek(place)
            return json.loads(file.readline())

    def sync(self) -> None:
        """Make all written lines durable."""
        with disk_errors(self.path):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.sync()
        self.close()

    def _whole(self) -> int:
        """The end of the last whole line."""
        size = self._file.seek(0, os.SEEK_END)
        if not size:  # nothing to map
            return 0
        with mmap.mmap(self._file.fileno(), size, access=mmap.ACCESS_READ) as content:
            return content.rfind(b"\n") + 1
