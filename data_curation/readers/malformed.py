"""A row, the reason why it cannot be read, and columns that no row can be read by."""

from pathlib import Path
from typing import Any

from ratchet.verifiers.errors import RatchetError

Row = dict[str, Any]


class Malformed(Exception):
    """A row that cannot be read; it becomes a rejected row."""

    def __init__(self, field: str, reason: str):
        super().__init__(field, reason)  # both, so that it can be pickled
        self.field, self.reason = field, reason

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}"


def check_names(names: list[str], path: Path) -> None:
    """Raise RatchetError for a column that a file has twice."""
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise RatchetError(f"{path}: it has the columns {', '.join(twice)} more than once. Give each column one name.")
