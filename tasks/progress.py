"""The progress of a step in words, for the terminal and for logs."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

FORMATS = {
    "loss": "loss {:.3f}",
    "reward": "reward {:.2f}",
    "pass_rate": "pass rate {:.2f}",
    "response_tokens": "response length {:.0f} tok",
    "truncated": "truncated {:.1%}",
    "entropy": "entropy {:.2f}",
    "tokens_per_second": "tokens {:,.0f}/s",
    "open_calls": "open calls {:,.0f}",
    "cost": "cost so far {:,.3f}",
    "expected_cost": "in all about {:,.3f}",
}


class Progress:
    """The progress of one step. `facts` may change: they are read each time they are shown."""

    def __init__(self, title: str = "") -> None:
        self.title, self.started = title, time.monotonic()
        self.done = 0
        self.total: int | None = None
        self._first: tuple[float, int] | None = None
        self._facts: Mapping[str, Any] = {}

    def update(self, done: int, total: int | None, facts: Mapping[str, Any]) -> None:
        self.done, self.total, self._facts = done, total, facts
        self._first = self._first or (time.monotonic(), done)

    def count(self) -> str:
        """The count as text, such as `12/40, 3m 20s left`; "" without a total."""
        return f"{self.done:,}/{self.total:,}{self._left()}" if self.total else ""

    def facts(self) -> str:
        return in_words(self._facts, FORMATS, "   ")

    def _left(self) -> str:
        if not self._first or self.done <= self._first[1] or not self.total:
            return ""
        rate = (time.monotonic() - self._first[0]) / (self.done - self._first[1])
        return f", {duration((self.total - self.done) * rate)} left"


def in_words(facts: Mapping[str, Any], names: Iterable[str], between: str = ", ") -> str:
    """The known facts among `names`, in words."""
    return between.join(FORMATS[name].format(facts[name]) for name in names if name in facts)


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds) // 60}m {int(seconds) % 60:02d}s"
    return f"{seconds / 3600:.1f} h" if seconds < 2 * 86400 else f"{seconds / 86400:.1f} days"


def printable(text: str) -> str:
    """The text with its control characters written out, except line ends and tabs."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)
