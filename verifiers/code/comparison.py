"""Compare a program's output with the expected one, as the problem's source does.

A reader says how, in the problem's metadata:

    {"comparison": {"mode": "livecodebench"}}    LiveCodeBench's executor: lines or decimals; calls by ==
    {"comparison": {"mode": "leetcode"}}         floats that a call returns within 1e-5, absolute
    {"comparison": {"mode": "kattis", "arguments": ["float_tolerance", "1e-6"]}}
                                                 Kattis's default validator, with its own flags
    {"tolerance": 1e-6}                          numbers within this, absolute or relative; two integers are equal

Without one, standard output is compared word by word, and floats that a call returns may differ by 1e-6 of their
size. What is expected as an integer is never approximate.

Each function returns the first difference, for people to read; "" if there is none.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

RELATIVE_TOLERANCE = 1e-6
ABSOLUTE_TOLERANCE = 1e-9
LEETCODE_TOLERANCE = 1e-5
SHOWN_CHARACTERS = 200
MODES = ("tokens", "livecodebench", "leetcode", "kattis")
MAX_NUMBER_CHARACTERS = 4000
"""Longest number that a program may give; a longer one is text."""
_NUMBER = re.compile(rb"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?\Z", re.IGNORECASE)
_INTEGER = re.compile(rb"[+-]?\d+\Z")
_HEXADECIMAL = re.compile(rb"[+-]?0x([\da-f]+(\.[\da-f]*)?|\.[\da-f]+)(p[+-]?\d+)?\Z", re.IGNORECASE)
_NO_EXPONENT = re.compile(rb"([+-]?[\d.]+)e[+-]?\Z|([+-]?0x[\da-f.]+)p[+-]?\Z", re.IGNORECASE)
_SPACE = re.compile(rb"(\s+)")


@dataclass(frozen=True)
class Comparison:
    """Settings by which outputs and returned values are compared. `arguments` are the flags of Kattis's validator; a
    test may have more."""

    mode: str = "tokens"
    arguments: tuple[str, ...] = ()
    tolerance: float | None = None

    @property
    def by_equality(self) -> bool:
        """True if values that calls return are compared by Python's `==`."""
        return self.mode == "livecodebench"

    def floats(self, exact: bool) -> tuple[float, float]:
        """The relative and the absolute tolerance of floats that a call returns."""
        if self.tolerance is not None:
            return self.tolerance, self.tolerance
        if self.mode == "leetcode":
            return 0.0, LEETCODE_TOLERANCE
        return (0.0, 0.0) if exact or self.by_equality else (RELATIVE_TOLERANCE, ABSOLUTE_TOLERANCE)


def read_comparison(facts: Mapping[str, Any]) -> Comparison:
    """The comparison that a problem's metadata asks for. Raises ValueError."""
    tolerance = facts.get("tolerance")
    if tolerance is not None and not (is_number(tolerance) and 0 <= tolerance < math.inf):
        raise ValueError(f"its tolerance is {short(repr(tolerance))}: it must be a number, not negative, or null")
    entry = facts.get("comparison")
    if not isinstance(entry, dict) or "mode" not in entry:  # a column of a data set may have the same name
        return Comparison(tolerance=tolerance)
    mode, arguments = entry["mode"], entry.get("arguments") or []
    if mode not in MODES:
        raise ValueError(f"its comparison has the mode {short(repr(mode))}: it must be one of {', '.join(MODES)}")
    if not isinstance(arguments, list) or not all(isinstance(text, str) for text in arguments):
        raise ValueError("the arguments of its comparison are not a list of texts")
    if mode == "kattis":
        KattisFlags.read(arguments)
    return Comparison(mode, tuple(arguments), tolerance)


def is_number(value: Any) -> bool:
    """True for an int or a float, but not for a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def text_difference(
    written: bytes, expected: str, comparison: Comparison = Comparison(), arguments: Sequence[str] = ()
) -> str:
    """Compare standard output. `arguments` are the test's own flags of Kattis's validator."""
    wanted = expected.encode("utf-8", "surrogatepass")
    if written == wanted:
        return ""
    if comparison.mode == "livecodebench":
        return _decimal_difference(written.decode("utf-8", "replace"), wanted.decode("utf-8", "replace"))
    if comparison.mode == "kattis":
        return _kattis_difference(written, wanted, KattisFlags.read([*comparison.arguments, *arguments]))
    tolerance = comparison.tolerance
    for number, (one, other) in enumerate(zip(got := written.split(), want := wanted.split(), strict=False), 1):
        if one != other and not (tolerance and _numbers_close(one, other, tolerance)):
            return _token_difference(wanted, number, other, one)
    return "" if len(got) == len(want) else f"expected {len(want)} words, got {len(got)}"


def _token_difference(wanted: bytes, number: int, want: bytes, got: bytes) -> str:
    """The difference, with the line of the expected output where the text has many."""
    count = 0
    for line, text in enumerate(wanted.split(b"\n"), 1):
        count += len(text.split())
        if count >= number:
            return f"line {line}: expected {short(want)}, got {short(got)}"
    return f"expected {short(want)}, got {short(got)}"


def _numbers_close(output: bytes, want: bytes, tolerance: float) -> bool:
    if not (_NUMBER.match(output) and _NUMBER.match(want)):
        return False
    if _INTEGER.match(output) and _INTEGER.match(want):  # "+5", "007"
        return _digits(output) == _digits(want)
    if max(len(output), len(want)) > MAX_NUMBER_CHARACTERS:
        return False
    if math.isinf(float(want)):  # 1e999 is not near 1e400
        return False
    is_close = math.isclose(float(output), float(want), rel_tol=tolerance, abs_tol=tolerance)
    if is_close and _INTEGER.match(want):  # 1.9999999 for 2, but not 998244353.0 for 998244352
        return abs(Decimal(output.decode()) - Decimal(want.decode())) < Decimal("0.5")
    return is_close


def _digits(integer: bytes) -> tuple[bool, bytes]:
    digits = integer.lstrip(b"+-").lstrip(b"0")
    return integer[:1] == b"-" and digits != b"", digits


def _decimal_difference(written: str, wanted: str) -> str:
    """Compare as LiveCodeBench's `grade_stdio`: equal lines without surrounding space, else equal decimals."""
    got, want = ([line.strip() for line in text.strip().split("\n")] for text in (written, wanted))
    if len(got) != len(want):
        return f"expected {len(want)} lines, got {len(got)}"
    for number, (one, other) in enumerate(zip(got, want, strict=True), 1):
        if one != other and not _same_decimals(one, other):
            return f"line {number}: expected {short(other)}, got {short(one)}"
    return ""


def _same_decimals(one: str, other: str) -> bool:
    numbers, wanted = _decimals(one), _decimals(other)
    return numbers is not None and numbers == wanted


def _decimals(line: str) -> list[Decimal] | None:
    try:
        numbers = [Decimal(word) for word in line.split()]
    except (InvalidOperation, ValueError):
        return None
    return None if any(number.is_snan() for number in numbers) else numbers  # comparing one raises


@dataclass(frozen=True)
class KattisFlags:
    """The flags of Kattis's default validator; a tolerance of -1 means none."""

    case_sensitive: bool = False
    space_change_sensitive: bool = False
    absolute: float = -1.0
    relative: float = -1.0

    @classmethod
    def read(cls, arguments: Iterable[str]) -> "KattisFlags":
        """Read the validator's flags. Raises ValueError for an unknown one."""
        found: dict[str, Any] = {}
        rest = iter(arguments)
        for flag in rest:
            if flag in ("case_sensitive", "space_change_sensitive"):
                found[flag] = True
            elif flag in ("float_tolerance", "float_absolute_tolerance", "float_relative_tolerance"):
                value = _kattis_float(next(rest, "").encode("utf-8", "replace"))
                if value is None:
                    raise ValueError(f"{flag} of Kattis's validator has no number")
                found |= {"absolute": value} if "relative" not in flag else {}
                found |= {"relative": value} if "absolute" not in flag else {}
            else:
                raise ValueError(f"Kattis's validator has no flag {short(flag)}")
        return cls(**found)


def _kattis_difference(written: bytes, wanted: bytes, flags: KattisFlags) -> str:
    """Compare as `default_validator` of problemtools."""
    got, want = written.split(), wanted.split()
    for number, (one, other) in enumerate(zip(got, want, strict=False), 1):
        # Its words are C's texts, which a NUL ends.
        if not _kattis_same(one.split(b"\0")[0], other.split(b"\0")[0], flags):
            return _token_difference(wanted, number, other, one)
    if len(got) != len(want):
        return f"expected {len(want)} words, got {len(got)}"
    if flags.space_change_sensitive and _SPACE.findall(written) != _SPACE.findall(wanted):
        return "other white space than expected"
    return "" if not flags.space_change_sensitive or written[:1].isspace() == wanted[:1].isspace() else "other space"


def _kattis_same(word: bytes, want: bytes, flags: KattisFlags) -> bool:
    if max(flags.absolute, flags.relative) >= 0 and (judge := _kattis_float(want)) is not None:
        team = _kattis_float(word)
        if team is None:
            return False
        distance = abs(judge - team)
        return distance <= flags.absolute or distance <= flags.relative * abs(judge)
    return word == want if flags.case_sensitive else word.lower() == want.lower()


def _kattis_float(word: bytes) -> float | None:
    """The number that glibc's `%lf` reads from all of a word, where that is finite: `1e` and `1e+` are 1."""
    if len(word) > MAX_NUMBER_CHARACTERS:
        return None
    if match := _NO_EXPONENT.match(word):
        word = match[1] or match[2]
    if _NUMBER.match(word):
        number = float(word)
    elif _HEXADECIMAL.match(word):
        try:
            number = float.fromhex(word.decode())
        except OverflowError:
            return None
    else:
        return None
    return number if math.isfinite(number) else None


def value_difference(written: bytes, expected: Any, comparison: Comparison = Comparison(), exact: bool = False) -> str:
    """Compare the encoded value of a call (`harness._encode`) with a JSON value."""
    kind, body = written[:1], written[1:]
    if kind == b"r":
        is_same = isinstance(expected, str) and body.decode("utf-8", "replace") == expected
        return "" if is_same else f"expected {short(_json(expected))}, got {short(body)}, which is not JSON"
    if kind not in (b"j", b"n"):
        return "nothing was returned"
    try:
        value = _RETURNED.decode(body.decode())
        return _difference(_numbers(value) if kind == b"n" else value, expected, *comparison.floats(exact), "")
    except Exception:  # the program's own bytes, in which anything may be wrong
        return "the returned value cannot be read"


class _Digits(str):
    """An integer too long for Python to read quickly, by its digits."""


def _integer(text: str) -> Any:
    return int(text) if len(text) <= MAX_NUMBER_CHARACTERS else _Digits(text)


def _float(text: str) -> float:
    if len(text) > MAX_NUMBER_CHARACTERS:
        raise ValueError("a number of too many digits")
    return float(text)


_RETURNED = json.JSONDecoder(parse_int=_integer, parse_float=_float)


def returned(expected: Any) -> bytes:
    """The encoded value of a call that returns exactly `expected`; any other equal value needs `value_difference`."""
    try:
        return b"j" + json.dumps(expected).encode()
    except (ValueError, RecursionError):  # an integer of more digits than Python writes
        return b""


def _numbers(value: Any) -> Any:
    """Decode `values.with_numbers`: each value in a list that begins with its kind."""
    kind, *body = value
    match kind:
        case "plain":
            return body[0]
        case "list":
            return [_numbers(item) for item in body[0]]
        case "dict":
            return {key: _numbers(item) for key, item in body[0]}
        case "complex":
            return complex(float(body[0]), float(body[1]))
        case "Decimal" if len(body[0]) <= MAX_NUMBER_CHARACTERS:
            return Decimal(body[0])
        case "Fraction" if all(type(part) is int for part in body):
            return Fraction(*body)
    raise ValueError("no kind of number")


def _difference(value: Any, expected: Any, relative: float, absolute: float, place: str) -> str:
    if isinstance(expected, list) and isinstance(value, list):
        if len(value) != len(expected):
            return f"{place or 'value'}: expected {len(expected)} items, got {len(value)}"
        pairs = ((f"{place}[{i}]", *pair) for i, pair in enumerate(zip(value, expected, strict=True)))
    elif isinstance(expected, dict) and isinstance(value, dict):
        if value.keys() != expected.keys():
            return f"{place or 'value'}: expected the keys {short(str([*expected]))}, got {short(str([*value]))}"
        pairs = ((f"{place}[{short(str(key))}]", value[key], expected[key]) for key in expected)
    elif _same_scalar(value, expected, relative, absolute):
        return ""
    else:
        return f"{place or 'value'}: expected {short(_json(expected))}, got {short(_json(value))}"
    return next(
        (difference for at, one, other in pairs if (difference := _difference(one, other, relative, absolute, at))), ""
    )


def _same_scalar(value: Any, expected: Any, relative: float, absolute: float) -> bool:
    if isinstance(value, _Digits):
        return is_number(expected) and isinstance(expected, int) and _json(expected) == value
    if value == expected:
        return True
    if not isinstance(expected, float) or not isinstance(value, int | float | Decimal | Fraction):
        return False
    if isinstance(value, float) and math.isnan(value):
        return math.isnan(expected)
    try:
        return math.isclose(value, expected, rel_tol=relative, abs_tol=absolute) if relative or absolute else False
    except (OverflowError, ValueError):  # an integer too large for a float
        return False


def _json(value: Any) -> str:
    """A value as JSON for reports; integers by their digits."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 3 * MAX_NUMBER_CHARACTERS:
        return format(Decimal(value), "f")
    try:
        return json.dumps(value, default=str)
    except ValueError:
        return f"<{type(value).__name__}>"


def short(text: bytes | str) -> str:
    """A text truncated for reports; comparison never truncates."""
    if isinstance(text, bytes):
        text = text[: 4 * SHOWN_CHARACTERS + 4].decode("utf-8", "replace")
    return repr(text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…")
