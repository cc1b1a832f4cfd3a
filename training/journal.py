"""Append-only JSON lines that a resumed run cuts back to its checkpoint, so that no step appears twice."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ratchet.infra.artifacts import disk_errors, replacing


class Journal:
    """One file of records with a `step`. Rank 0 writes it; on other ranks it does nothing."""

    def __init__(self, path: Path, last_step: int, rank: int) -> None:
        """Open `path`, keeping the records up to and including `last_step`; a half-written last line is dropped."""
        self._writes = rank == 0
        self.records = 0
        """How many were there already."""
        if not self._writes:
            return
        kept = []
        if path.is_file():
            for line in path.read_bytes().split(b"\n")[:-1]:
                if json.loads(line)["step"] > last_step:
                    break
                kept.append(line + b"\n")
        self.path, self.records = path, len(kept)
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as temporary:
                temporary.write_bytes(b"".join(kept))
            self._file = open(path, "a", encoding="utf-8")

    def write(self, record: dict[str, Any]) -> None:
        if not self._writes:
            return
        with disk_errors(self.path):
            self._file.write(json.dumps(record, ensure_ascii=False) + "\n")
            self._file.flush()

    def take(self, records: list[dict[str, Any]]) -> None:
        """Write these records and empty the list."""
        for record in records:
            self.write(record)
        records.clear()

    def sync(self) -> None:
        """Put everything on disk: called before a checkpoint that counts on it."""
        if not self._writes:
            return
        with disk_errors(self.path):
            self._file.flush()
            os.fsync(self._file.fileno())
