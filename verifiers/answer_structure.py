"""The shape of an answer: number, text, tuple or interval, collection, matrix, equation, expression with a unit."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from verifiers.latex_normalization import normalize
from verifiers.rational import parse_rational

Kind = Literal["scalar", "text", "based", "tuple", "collection", "matrix", "equation"]

_OPENING, _CLOSING = "([{", ")]}"
_MAX_PARTS = 64
_LETTER = re.compile(r"\(?([A-Za-z])\)?")
_WORDS = re.compile(r"[A-Za-z][A-Za-z'\- ]*[A-Za-z]")
_TEXT = re.compile(r"\\text\{([^{}]*)\}")
_TRAILING_UNIT = re.compile(r"(.+?)\\text\{([^{}]*)\}(?:\^\{?\d\}?)?")
_BARE_UNIT = re.compile(r"(.*[\d})])\s?([A-Za-z]+(?: [A-Za-z]+)?)(?:\^\{?([23])\}?)?")
_BASED = re.compile(r"([0-9A-Z]+)_\{?(?:\\text\{)?(\d+|two|three|eight)\}{0,2}")
_SYMBOL = re.compile(
    r"(?:\\?[A-Za-z]+|\\text\{[^{}]*\})(?:_\{?\w+\}?)?'?(?:\([A-Za-z0-9](?:,\s?[A-Za-z0-9])*\))?"
    r"|\([A-Za-z](?:,\s?[A-Za-z])*\)|\\angle\s?[A-Z]{1,3}|[A-Z]{2,3}"
)
_MATRIX = re.compile(r"\\begin\{([pbBvV]?matrix|array)\}(?:\{[lcr|]*\})?(.*)\\end\{\1\}", re.DOTALL)
_MEMBER = re.compile(r"([A-Za-z])\\in(?![A-Za-z])\s?")
_RELATION = re.compile(r"\\le(?![a-z])|\\ge(?![a-z])|<|>")
_THOUSANDS = re.compile(r"-?\d{1,3}(?:,\d{3})+(?=[\\A-Za-z])")
_REALS = {"\\mathbb{R}", "\\text{all real numbers}", "all real numbers"}

_UNITS = {
    name: unit
    for unit, names in {
        "cm": "cm centimeter centimeters", "mm": "mm millimeter millimeters", "km": "km kilometer kilometers",
        "m": "m meter meters metre metres", "in": "inch inches", "ft": "ft foot feet", "mi": "mile miles",
        "yd": "yard yards", "s": "s sec second seconds", "min": "min minute minutes", "h": "h hr hour hours",
        "d": "day days", "week": "week weeks", "month": "month months", "year": "year years", "g": "g gram grams",
        "kg": "kg kilogram kilograms", "lb": "pound pounds lb lbs", "oz": "ounce ounces", "l": "liter liters litres",
        "cent": "cent cents", "dollar": "dollar dollars", "degree": "degree degrees deg", "mph": "mph",
        "unit": "unit units", "square": "sq square", "radian": "radian radians rad", "way": "way ways",
        "point": "point points", "people": "people", "student": "student students",
    }.items()
    for name in names.split()
}  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """A parsed answer. `text` is the normalized notation; what else is set depends on `kind`:

    scalar: `value` when rational; `percent`; `unit`. based: `text` is digits_base. tuple: `brackets` and ordered
    `parts` (intervals too). collection: `parts` without order (lists, sets, unions, both signs of ±). matrix: `parts`
    are rows, tuples with no brackets. equation: `parts` are the sides.
    """

    kind: Kind
    text: str
    value: Fraction | None = None
    parts: tuple[Answer, ...] = ()
    brackets: str = ""
    percent: bool = False
    unit: str = ""
    variable: str = ""


@functools.lru_cache(maxsize=16_384)
def parse_answer(text: str) -> Answer:
    """Parse an answer as published or as boxed. Total: what has no known shape is a scalar without a value."""
    return _parse(normalize(text), 0)


def _parse(text: str, depth: int) -> Answer:
    value = parse_rational(text)
    if value is not None:
        return Answer("scalar", text, value)
    if depth > 8:
        return Answer("scalar", text)
    text = _unwrapped(text)
    if text.startswith("\\$"):
        inner = _parse(text[2:].strip(), depth + 1)  # before commas are taken for a list
        return Answer("scalar", inner.text, inner.value, unit="dollar") if inner.kind == "scalar" else inner
    if thousands := _THOUSANDS.match(text):
        text = thousands[0].replace(",", "") + text[thousands.end() :]
    if text in _REALS:
        text = "(-\\infty,\\infty)"
    for shape in (_matrix, _words, _based, _relation, _collection, _bracketed, _plus_minus):
        if (answer := shape(text, depth)) is not None:
            return answer
    return _scalar(text, depth)


def _unwrapped(text: str) -> str:
    """Without braces or a `\\boxed` around the whole."""
    if text.startswith("\\boxed{"):
        text = text[len("\\boxed") :]
    while text.startswith("{") and _closing(text, 0) == len(text) - 1:
        text = text[1:-1].strip()
    return text


def _closing(text: str, start: int) -> int:
    """Where the bracket that opens at `start` closes; intervals close with either of ) and ]. -1 when nowhere."""
    depth = 0
    for position in range(start, len(text)):
        character = text[position]
        if character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth -= 1
            if depth == 0:
                return position
    return -1


def split_top(text: str, separator: str) -> list[str]:
    """Split where `separator` stands outside all brackets and environments."""
    parts, depth, begin, position = [], 0, 0, 0
    while position < len(text):
        if text.startswith("\\begin{", position):
            depth += 1
            position += len("\\begin")
            continue
        if text.startswith("\\end{", position):
            depth -= 1
            position += len("\\end")
            continue
        character = text[position]
        if character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth -= 1
        elif depth == 0 and text.startswith(separator, position):
            parts.append(text[begin:position].strip())
            position += len(separator)
            begin = position
            continue
        position += 1
    parts.append(text[begin:].strip())
    return parts


def _matrix(text: str, depth: int) -> Answer | None:
    match = _MATRIX.fullmatch(text)
    if not match:
        return None
    rows = [row.strip() for row in match[2].split("\\\\")]
    parsed = tuple(
        Answer("tuple", row, parts=tuple(_parse(cell.strip(), depth + 1) for cell in row.split("&")))
        for row in rows
        if row
    )
    # Round and square brackets mean the same; bars mean a determinant.
    return Answer("matrix", text, parts=parsed, brackets="|" if match[1][0] in "vV" else "(")


def _words(text: str, depth: int) -> Answer | None:
    inner = match[1] if (match := _TEXT.fullmatch(text)) else text
    if letter := _LETTER.fullmatch(inner.strip()):
        return Answer("text", letter[1]) if match or inner.startswith("(") or inner.isupper() else None
    if match or (_WORDS.fullmatch(inner) and not (inner.islower() and len(inner) < 4 and " " not in inner)):
        if match and (number := parse_rational(inner.strip())) is not None:
            return Answer("scalar", inner.strip(), number)
        listed = [part.strip() for part in inner.split(",")]
        if len(listed) > 1 and all(listed):
            return Answer("collection", text, parts=tuple(_parse(f"\\text{{{part}}}", depth + 1) for part in listed))
        words = " ".join(inner.split())
        # Names of points (AB is not BA, and not ab) keep their case.
        return Answer("text", words if words.isupper() else words.casefold().rstrip("."))
    return None


def _based(text: str, depth: int) -> Answer | None:
    match = _BASED.fullmatch(text)
    if not match or not any(character.isdigit() for character in match[1]):
        return None
    base = {"two": "2", "three": "3", "eight": "8"}.get(match[2], match[2])
    return Answer("based", f"{match[1]}_{base}")


def _relation(text: str, depth: int) -> Answer | None:
    """Equations, and inequalities in one variable, which are intervals."""
    if member := _MEMBER.match(text):
        inner = _parse(text[member.end() :], depth + 1)
        return Answer(inner.kind, inner.text, inner.value, inner.parts, inner.brackets, variable=member[1])
    if _RELATION.search(text) and "," not in text and "=" not in text:
        return _interval(text, depth)
    if "=" not in text or "\\ne" in text:
        return None
    if any("=" in part for part in split_top(text, ",")) and len(split_top(text, ",")) > 1:
        return None  # a list of equations
    sides = split_top(text, "=")
    if len(sides) < 2 or not all(sides) or len(sides) > 8:
        return None
    return Answer("equation", text, parts=tuple(_parse(side, depth + 1) for side in sides))


def _interval(text: str, depth: int) -> Answer | None:
    operators = _RELATION.findall(text)
    sides = [side.strip() for side in _RELATION.split(text)]
    if len(operators) > 2 or not all(sides):
        return None
    if {operator in ("<", "\\le") for operator in operators} == {False}:
        mirrored = {">": "<", "\\ge": "\\le"}
        operators = [mirrored[operator] for operator in reversed(operators)]
        sides.reverse()
    if any(operator in (">", "\\ge") for operator in operators):
        return None
    if len(sides) == 3:
        low, variable, high = sides
    elif _is_variable(sides[0]) and not _is_variable(sides[1]):
        low, (variable, high), operators = "-\\infty", sides, ["<", operators[0]]
    else:
        (low, variable), high, operators = sides, "\\infty", [operators[0], "<"]
    if not _is_variable(variable):
        return None
    brackets = ("[" if operators[0] == "\\le" else "(") + ("]" if operators[1] == "\\le" else ")")
    parts = (_parse(low, depth + 1), _parse(high, depth + 1))
    return Answer("tuple", text, parts=parts, brackets=brackets, variable=variable)


def _is_variable(text: str) -> bool:
    return bool(re.fullmatch(r"[A-Za-z](?:_\w)?|\\(?:theta|alpha|beta|lambda)", text))


def _collection(text: str, depth: int) -> Answer | None:
    if text in ("\\emptyset", "\\{\\}"):
        return Answer("collection", "\\emptyset")
    for separator in ("\\cup", ","):
        parts = split_top(text, separator)
        if 1 < len(parts) <= _MAX_PARTS and all(parts):
            return Answer("collection", text, parts=_flattened([_parse(part, depth + 1) for part in parts]))
    if text.startswith("\\{") and text.endswith("\\}") and _closing(text, 1) == len(text) - 1:
        parts = split_top(text[2:-2], ",")
        if len(parts) <= _MAX_PARTS and all(parts):
            return Answer("collection", text, parts=_flattened([_parse(part, depth + 1) for part in parts]))
    return None


def _flattened(parts: list[Answer]) -> tuple[Answer, ...]:
    """±3 in a list is two of its members."""
    flat: list[Answer] = []
    for part in parts:
        flat.extend(part.parts if part.kind == "collection" else [part])
    return tuple(flat)


def _bracketed(text: str, depth: int) -> Answer | None:
    if not text.startswith(("(", "[")) or not text.endswith((")", "]")) or _closing(text, 0) != len(text) - 1:
        return None
    parts = split_top(text[1:-1], ",")
    if len(parts) == 1:
        return _parse(parts[0], depth + 1) if text[0] == "(" and text[-1] == ")" and parts[0] else None
    if len(parts) > _MAX_PARTS or not all(parts):
        return None
    return Answer("tuple", text, parts=tuple(_parse(part, depth + 1) for part in parts), brackets=text[0] + text[-1])


def _plus_minus(text: str, depth: int) -> Answer | None:
    if "\\pm" not in text:
        return None
    signs = [("+", "-"), ("-", "+")]
    parts = [_parse(_tidy(text.replace("\\pm", up).replace("\\mp", down)), depth + 1) for up, down in signs]
    return Answer("collection", text, parts=tuple(parts))


def _tidy(text: str) -> str:
    text = text.replace("=+", "=").replace("(+", "(").replace("{+", "{").replace(" ", "")
    return text[1:] if text.startswith("+") else text


def _scalar(text: str, depth: int) -> Answer:
    """A number or expression, with its percent sign or unit taken off."""
    if text.endswith(("\\%", "%")):
        inner = _parse(text.rstrip("%").rstrip("\\").strip(), depth + 1)
        return Answer("scalar", inner.text, inner.value, percent=True) if inner.kind == "scalar" else inner
    if text.endswith("^\\circ"):
        inner = _parse(text[: -len("^\\circ")], depth + 1)
        if inner.value is not None:
            return Answer("scalar", inner.text, inner.value, unit="degree")
        return Answer("scalar", text)
    if match := _TRAILING_UNIT.fullmatch(text):
        inner = _parse(match[1].strip(), depth + 1)
        name = match[2].strip().lower().rstrip(".")
        if name == "percent":
            return Answer("scalar", inner.text, inner.value, percent=True)
        return Answer(inner.kind, inner.text, inner.value, inner.parts, inner.brackets, unit=_UNITS.get(name, name))
    if (match := _BARE_UNIT.fullmatch(text)) and (match[2].lower() in _UNITS or match[2] == "percent"):
        inner = _parse(match[1].strip(), depth + 1)
        if inner.value is not None and (len(match[2]) > 1 or (match[3] is None and text[len(match[1])] == " ")):
            if match[2] == "percent":
                return Answer("scalar", inner.text, inner.value, percent=True)
            return Answer("scalar", inner.text, inner.value, unit=_UNITS[match[2].lower()])
    return Answer("scalar", text)


def known_unit(unit: str) -> bool:
    return unit in set(_UNITS.values())


def is_symbol(answer: Answer) -> bool:
    """Is this the left side of a definition, such as x, f(x), \\angle A or (x, y)?"""
    if answer.kind == "tuple":
        return all(_is_variable(part.text) for part in answer.parts)
    return (answer.value is None and bool(_SYMBOL.fullmatch(answer.text))) or answer.kind == "text"
