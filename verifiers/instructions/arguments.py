"""Read arguments of instructions. Each function returns the value as it is used, and raises ValueError for a wrong
one."""

from collections.abc import Callable
from typing import Any

RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "less than": lambda n, limit: n < limit,
    "at least": lambda n, limit: n >= limit,
    "at most": lambda n, limit: n <= limit,
    "exactly": lambda n, limit: n == limit,
    "around": lambda n, limit: abs(n - limit) <= max(round(limit / 10), 1),
}
"""Relations of IFEval (the first two) and of RLVR-IFeval."""


def _require(is_valid: bool, value: Any, kind: str) -> None:
    if not is_valid:
        raise ValueError(f"{value!r} is not {kind}")


def count(value: Any) -> int:
    """A whole number from 0."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    _require(number and value == int(value) and value >= 0, value, "a whole number from 0")
    return int(value)


def ordinal(value: Any) -> int:
    """A whole number from 1."""
    _require(count(value) > 0, value, "a whole number from 1")
    return int(value)


def text(value: Any) -> str:
    """A text without blanks at its ends; not empty."""
    _require(isinstance(value, str) and bool(value.strip()), value, "text")
    return value.strip()


def verbatim(value: Any) -> str:
    """A text with the blanks at its ends kept."""
    text(value)
    return value


def texts(value: Any) -> list[str]:
    """A list of texts; not empty."""
    _require(isinstance(value, list) and bool(value), value, "a list of texts")
    return [text(each) for each in value]


def letter(value: Any) -> str:
    """A single character, in lower case."""
    _require(len(text(value)) == 1, value, "a single character")
    return value.strip().lower()


def relation(value: Any) -> str:
    """One of `RELATIONS`."""
    _require(isinstance(value, str) and value in RELATIONS, value, f"one of {', '.join(RELATIONS)}")
    return value
