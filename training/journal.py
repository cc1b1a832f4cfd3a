"""Append-only JSON lines, which a resumed run truncates to its checkpoint, so that no step appears twice."""

from pathlib import Path
from typing import Any

from ratchet.infra.store import journal


class Journal:
    """One file of records with a `step`. Rank 0 writes it; on other ranks it does nothing."""

    def __init__(self, path: Path, last_step: int, rank: int) -> None:
        """Open `path`, keeping the records up to and including `last_step`; a half-written last line is dropped."""
        self._lines = None
        if rank == 0:
            kept = 0
            for end, record in journal.read_lines(path) if path.is_file() else ():
                if record["step"] > last_step:
                    break
                kept = end
            self._lines = journal.Journal(path, keep=kept)

    def write(self, record: dict[str, Any]) -> None:
        if self._lines:
            self._lines.append(record)

    def take(self, records: list[dict[str, Any]]) -> None:
        for record in records:
            self.write(record)
        records.clear()

    def sync(self) -> None:
        if self._lines:
            self._lines.sync()
