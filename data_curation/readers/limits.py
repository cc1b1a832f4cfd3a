"""Read time and memory limits in any published unit: `2 seconds`, `500 milliseconds`, `256 megabytes`, `1 GB`,
numbers."""

import re
from typing import Any

from ratchet.data_curation.readers.malformed import Malformed

SECONDS = {
    "": None, "s": 1, "sec": 1, "secs": 1, "second": 1, "seconds": 1, "ms": 1e-3, "msec": 1e-3, "msecs": 1e-3,
    "millisecond": 1e-3, "milliseconds": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60, "minute": 60, "minutes": 60,
}  # fmt: skip
MEGABYTES = {
    "": None, "b": 1e-6, "byte": 1e-6, "bytes": 1e-6, "k": 1e-3, "kb": 1e-3, "kilobyte": 1e-3, "kilobytes": 1e-3,
    "kib": 1024e-6, "m": 1, "mb": 1, "megabyte": 1, "megabytes": 1, "mbytes": 1, "mib": 1.048576, "g": 1000, "gb": 1000,
    "gigabyte": 1000, "gigabytes": 1000, "gib": 1073.741824,
}  # fmt: skip
_NO_LIMIT = ("", "none", "null", "nan", "unlimited", "n/a", "-")
_LIMIT = re.compile(r"(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:[.,]\d+)?)\s*(?P<unit>[A-Za-z]*)")
_ABOUT = re.compile(r"\s*(?:(?:time|memory) limit)?(?:\s*per test(?: case)?)?\s*:?\s*", re.IGNORECASE)
_FROM_MILLISECONDS = 100
"""A number without a unit from here on is of milliseconds: no judge gives a program minutes."""
_FROM_KILOBYTES, _FROM_BYTES = 16_384, 4_000_000
"""A number without a unit from here on is of kilobytes or bytes: no judge gives a program that many megabytes."""


def read_seconds(value: Any, column: str) -> float | None:
    """A time limit in seconds; None if there is none. Raises Malformed for a value that is not a time."""
    if isinstance(value, dict) and value.keys() & {"seconds", "nanos"}:  # a protobuf duration
        return (value.get("seconds") or 0) + (value.get("nanos") or 0) / 1e9 or None
    number, factor = _number_and_factor(value, column, SECONDS, "a time limit like '2 seconds'")
    if factor is None:
        implied = 1e-3 if column.endswith("ms") or number >= _FROM_MILLISECONDS else 1
        factor = SECONDS.get(_last_word(column)) or implied
    return number * factor or None


def read_megabytes(value: Any, column: str) -> float | None:
    """A memory limit in megabytes; None if there is none. Raises Malformed for a value that is not a size."""
    number, factor = _number_and_factor(value, column, MEGABYTES, "a memory limit like '256 MB'")
    if factor is None:
        implied = 1e-6 if number >= _FROM_BYTES else 1e-3 if number >= _FROM_KILOBYTES else 1
        factor = MEGABYTES.get(_last_word(column)) or implied
    return number * factor or None


def _last_word(column: str) -> str:
    """The unit in a column's name: `s` of `time_limit_s`."""
    return column.rpartition("_")[2].casefold()


def _number_and_factor(
    value: Any, column: str, units: dict[str, float | None], expected: str
) -> tuple[float, float | None]:
    if value is None or str(value).strip().casefold() in _NO_LIMIT:
        return 0.0, 1
    text = _ABOUT.sub("", str(value), count=1).strip()
    match = _LIMIT.match(text)
    rest = text[match.end() :].strip(" .") if match else ""
    is_known = match and match["unit"].casefold() in units and (not rest or _ABOUT.fullmatch(rest) or rest[0] in "(/")
    if match is None or not is_known or isinstance(value, bool | list | dict):
        raise Malformed(column, f"{str(value)[:40]!r} is not {expected}")
    digits = match["number"]
    digits = digits.replace(",", "") if re.search(r",\d{3}(?!\d)", digits) else digits.replace(",", ".")
    return float(digits), units[match["unit"].casefold()]
