"""A row, and the reason why it cannot be read."""

from typing import Any

Row = dict[str, Any]


class Malformed(Exception):
    """A row that cannot be read; it becomes a rejected row."""

    def __init__(self, field: str, reason: str):
        super().__init__(field, reason)  # both, so that it can be pickled
        self.field, self.reason = field, reason

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}"
