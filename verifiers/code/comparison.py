"""Compares what a program gave with what was expected: standard output line by line, returned values part by part.

Each function returns the first difference, for people to read, "" if there is none.
"""

import json
import math
from typing import Any

RELATIVE_TOLERANCE = 1e-6
ABSOLUTE_TOLERANCE = 1e-9
"""Of floats that a call returns, if the problem's metadata has no `tolerance`."""
SHOWN_CHARACTERS = 200


def text_difference(written: bytes, expected: str, tolerance: float | None = None) -> str:
    """Compares standard output line by line, ignoring white space at line ends and empty lines at the end. With
    `tolerance`, absolute or relative, numbers in the same position may differ by that much."""
    expected_text = expected.encode("utf-8", "surrogatepass")
    if written == expected_text:
        return ""
    got_lines, wanted_lines = _lines(written), _lines(expected_text)
    for number, (line, want) in enumerate(zip(got_lines, wanted_lines, strict=False), 1):
        if line != want and not (tolerance and _tokens_close(line, want, tolerance)):
            return f"line {number}: expected {short(want)}, got {short(line)}"
    if len(got_lines) != len(wanted_lines):
        return f"expected {len(wanted_lines)} lines, got {len(got_lines)}"
    return ""


def _lines(text: bytes) -> list[bytes]:
    return [line.rstrip() for line in text.rstrip().split(b"\n")]


def _tokens_close(output: bytes, want: bytes, tolerance: float) -> bool:
    ones, others = output.split(), want.split()
    try:
        return len(ones) == len(others) and all(
            one == other or math.isclose(float(one), float(other), rel_tol=tolerance, abs_tol=tolerance)
            for one, other in zip(ones, others, strict=True)
        )
    except ValueError:
        return False


def value_difference(written: bytes, expected: Any, tolerance: float | None = None, exact: bool = False) -> str:
    """Compares the encoded value of a call with a JSON value. Floats may differ by 1e-6 of their size, by nothing if
    `exact`, or by the problem's `tolerance`, absolute or relative."""
    kind, body = written[:1], written[1:]
    if kind == b"r":
        is_same = isinstance(expected, str) and body.decode("utf-8", "replace") == expected
        return "" if is_same else f"expected {short(json.dumps(expected))}, got {short(body)}, which is not JSON"
    if kind != b"j":
        return "nothing was returned"
    if body == json.dumps(expected).encode():
        return ""
    relative, absolute = RELATIVE_TOLERANCE, ABSOLUTE_TOLERANCE
    if exact or tolerance is not None:
        relative = absolute = 0.0 if exact else tolerance or 0.0
    try:
        return _difference(json.loads(body), expected, relative, absolute, "")
    except (ValueError, RecursionError):
        return "the returned value cannot be read"


def _difference(value: Any, expected: Any, relative: float, absolute: float, place: str) -> str:
    if isinstance(expected, list) and isinstance(value, list):
        if len(value) != len(expected):
            return f"{place or 'value'}: expected {len(expected)} items, got {len(value)}"
        pairs = ((f"{place}[{i}]", *pair) for i, pair in enumerate(zip(value, expected, strict=True)))
    elif isinstance(expected, dict) and isinstance(value, dict):
        if value.keys() != expected.keys():
            return f"{place or 'value'}: expected the keys {short(str([*expected]))}, got {short(str([*value]))}"
        pairs = ((f"{place}[{key!r}]", value[key], expected[key]) for key in expected)
    elif _same_scalar(value, expected, relative, absolute):
        return ""
    else:
        return f"{place or 'value'}: expected {short(json.dumps(expected))}, got {short(json.dumps(value))}"
    return next(
        (difference for at, one, other in pairs if (difference := _difference(one, other, relative, absolute, at))), ""
    )


def _same_scalar(value: Any, expected: Any, relative: float, absolute: float) -> bool:
    if not (isinstance(value, float) or isinstance(expected, float)) or relative == absolute == 0:
        return bool(value == expected)
    if not (isinstance(value, int | float) and isinstance(expected, int | float)):
        return False
    try:
        return value == expected or math.isclose(value, expected, rel_tol=relative, abs_tol=absolute)
    except OverflowError:  # an integer too large for a float
        return False


def short(text: bytes | str) -> str:
    """Truncated, for reports only: comparison never truncates."""
    if isinstance(text, bytes):
        text = text[: 4 * SHOWN_CHARACTERS + 4].decode("utf-8", "replace")
    return repr(text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…")
