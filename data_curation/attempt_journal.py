"""The journal of teacher answers: append-only, one JSON line each, found again by key.

What is paid for is never lost: a line is handed to the kernel as soon as its answer is there, and with `durable` it is
on the disk before the next one is written, so that neither a kill nor a power failure takes an answer that was written.
A line torn off by either is dropped on the next opening. Texts stay in the file; memory holds their places.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from ratchet.infra.artifacts import sync_path
from ratchet.infra.errors import RatchetError


class Journal:
    """The answers under `wanted` keys, and the place where new ones are written. A context manager.

    One process writes at a time; a second one that opens the file waits for the first to end. Raises RatchetError for
    a line in the middle that is no answer.
    """

    def __init__(self, path: Path, wanted: Collection[str], durable: bool) -> None:
        self.path, self._durable = path, durable
        self._file = open(path, "a+b", buffering=0)
        fcntl.flock(self._file, fcntl.LOCK_EX)  # two writers would tear each other's lines; ends with the process
        self._reader = open(path, "rb")
        self._places: dict[str, int] = {}
        self.facts: dict[str, dict[str, Any]] = {}
        """What is known of each wanted answer but its text."""
        end = 0
        for place, size, key, facts in read_journal(path):
            end = place + size
            if key in wanted:
                self._places[key], self.facts[key] = place, facts
        self._file.truncate(end)  # a torn last line
        if durable:
            sync_path(path.parent)  # a file is only as durable as its name

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.fsync(self._file.fileno())
        self._file.close()
        self._reader.close()

    def add(self, key: str, response: str, **facts: Any) -> None:
        line = json.dumps({"key": key, **facts, "response": response}, ensure_ascii=False).encode() + b"\n"
        place = self._file.seek(0, os.SEEK_END)
        with memoryview(line) as rest:
            while rest:  # a nearly full disk takes a part of the line, then says why
                rest = rest[self._file.write(rest) :]
        if self._durable:
            os.fsync(self._file.fileno())
        self._places[key], self.facts[key] = place, facts

    def response(self, key: str) -> str:
        self._reader.seek(self._places[key])
        return json.loads(self._reader.readline())["response"]


def read_journal(path: Path) -> Iterator[tuple[int, int, str, dict[str, Any]]]:
    """(place, size, key, facts) of each line, a torn last one left out. Takes no lock and changes nothing."""
    begin = 0
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                facts = json.loads(line)
                key, _ = facts.pop("key"), facts.pop("response")
            except (ValueError, KeyError, AttributeError) as error:
                raise RatchetError(
                    f"{path}, line {number}: not an answer ({error!r}). Remove that line and run again."
                ) from error
            yield begin, len(line), key, facts
            begin += len(line)
