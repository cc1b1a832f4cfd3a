"""The shape of an answer: number, text, tuple or interval, collection, matrix, equation, expression with a unit."""

from __future__ import annotations

import functools
import itertools
import re
from dataclasses import replace
from fractions import Fraction

from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.expression import parse_rational
from ratchet.verifiers.math.intervals import (
    both,
    intervals_of,
    is_relation,
    is_variable,
    merged,
    tidy,
    with_usual_brackets,
)
from ratchet.verifiers.math.latex_normalization import normalize
from ratchet.verifiers.math.units import DEGREE, DOLLAR, parse_unit

_OPENING, _CLOSING = "([{", ")]}"
_MAX_PARTS = 64
_LETTER = re.compile(r"\(?([A-Za-z])\)?")
_WORDS = re.compile(r"[A-Za-z][A-Za-z'\- ]*[A-Za-z]")
_TEXT = re.compile(r"\\text\{([^{}]*)\}")
_TRAILING_TEXT = re.compile(r"(.+?)((?:\\text\{[^{}]*\}(?:\^\{?-?\d\}?)?(?:/|\\cdot)?)+)")
_BARE_UNIT = re.compile(
    r"(.*[\d})])\s?([A-Za-z]+(?: [A-Za-z]+)*(?:\^\{?[23]\}?)?(?:/[A-Za-z]+(?:\^\{?\d\}?)?)?|percent)\.?"
)
_LETTER_UNIT = re.compile(r"(.*[\d})])([A-Za-z])")
_SHOUTED = {"YES", "NO", "TRUE", "FALSE", "NONE", "EVEN", "ODD", "BOTH", "NEITHER"}
_NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_NO_COUNT = {"not", "or", "and", "if", "mod", "is", "when", "base"}
_TEMPERATURE = re.compile(r"(.+)\^\\circ\s?(?:\\text\{)?([CF])\}?")
_TIME = re.compile(r"(\d{1,2}:\d\d(?::\d\d)?)\s?(?:\\text\{)?\s*([AaPp])\.?\s?[Mm]\.?\}?")
_RATIO = re.compile(r"\d+(?:\.\d+)?(?::\d+(?:\.\d+)?){1,3}")
_BASED = re.compile(r"(-?)(?:\\text\{)?([0-9A-Z]+|[0-9a-f]+)\}?_\{?(?:\\text\{)?(\d+|two|three|eight|sixteen)\}{0,2}")
_CONGRUENT = re.compile(
    r"(?:(.+?)\\equiv)?([^=<>]+?)(?:\\p?mod|\((?:\\text\{\s?)?mod\s?\}?)(?![A-Za-z])\s?([^()]+?)\)?"
)
_SYMBOL = re.compile(
    r"(?:\\?[A-Za-z]+|\\text\{[^{}]*\})(?:_(?:\w|\{\\?\w+\}))?'?(?:\([A-Za-z0-9](?:,\s?[A-Za-z0-9])*\))?"
    r"|\([A-Za-z](?:,\s?[A-Za-z])*\)|\\angle\s?[A-Z]{1,3}|[A-Z]{2,3}"
)
_MATRIX = re.compile(r"\\begin\{([pbBvV]?matrix|array)\}(?:\{[lcr|]*\})?(.*)\\end\{\1\}", re.DOTALL)
_MEMBER = re.compile(r"([A-Za-z])\\in(?![A-Za-z])\s?")
_THOUSANDS = re.compile(r"-?\d{1,3}(?:,\d{3})+(?=[\\A-Za-z])")
_UNEQUAL = re.compile(r"[A-Za-z]\\ne(?![a-z])(.+)")
_EXCEPT = re.compile(r"(.+?)(?:\\setminus|\\backslash|-)\\\{(.+)\\\}")
_SET_BUILDER = re.compile(r"\\\{([A-Za-z])(?:\\in\\mathbb\{R\})?[|:](.+)\\\}")
_TRANSPOSED = re.compile(r"(.*(?:\\end\{\w+\}|[)\]]))\^(?:T|\\top|\{\\top\}|\\text\{T\}|\{\\text\{T\}\})", re.DOTALL)
_SCALED_MATRIX = re.compile(r"([^=&]+?)(?:\\cdot)?(\\begin\{[pb]matrix\}.*)", re.DOTALL)
_DECIMAL = re.compile(r"-?\d*\.(\d{3,})")
_REALS = {"\\mathbb{R}", "\\text{all real numbers}", "all real numbers"}


@functools.lru_cache(maxsize=16_384)
def parse_answer(text: str) -> Answer:
    """Parse an answer as published or as boxed. Total: what has no known shape is a scalar without a value."""
    return _parse(normalize(text), 0)


def _parse(text: str, depth: int) -> Answer:
    value = parse_rational(text)
    if value is not None:
        return Answer("scalar", text, value, places=_rounded_places(text, value))
    if depth > 8:
        return Answer("scalar", text)
    text = with_usual_brackets(_unwrapped(text))
    if text.startswith("\\$"):
        inner = _parse(text[2:].strip(), depth + 1)  # before commas are taken for a list
        return Answer("scalar", inner.text, inner.value, unit=DOLLAR) if inner.kind == "scalar" else inner
    if thousands := _THOUSANDS.match(text):
        text = thousands[0].replace(",", "") + text[thousands.end() :]
    if text in _REALS:
        text = "(-\\infty,\\infty)"
    for shape in (_matrix, _clock, _words, _based, _congruence, _relation, _collection, _bracketed, _plus_minus):
        if (answer := shape(text, depth)) is not None:
            return answer
    return _scalar(text, depth)


def _rounded_places(text: str, value: Fraction) -> int | None:
    """To how many decimals a reference was rounded; None when it is exact.

    0.333 and 1.414 are rounded; 0.125 and 42.1875 are not, for they are short fractions, and with fewer than three
    decimals (prices, 2.5) nothing is taken for rounded.
    """
    match = _DECIMAL.fullmatch(text)
    return len(match[1]) if match and value.denominator > 100 else None


def _unwrapped(text: str) -> str:
    """Without braces or a `\\boxed` around the whole."""
    if text.startswith("\\boxed{"):
        text = text[len("\\boxed") :]
    while text.startswith("{") and _closing(text, 0) == len(text) - 1:
        text = text[1:-1].strip()
        text = text if text.endswith("...") else text.rstrip(".,;").strip()
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
    if (transposed := _TRANSPOSED.fullmatch(text)) and (inner := _parse(transposed[1], depth + 1)).kind != "scalar":
        if inner.kind != "matrix":
            return inner  # a row turned into a column: a vector all the same
        columns = zip(*(row.parts for row in inner.parts), strict=False)
        return replace(inner, text=text, parts=tuple(Answer("tuple", "", parts=column) for column in columns))
    if text[:1] in ("(", "[") and text[1:].startswith("\\begin") and _closing(text, 0) == len(text) - 1:
        text = text[1:-1]
    match = _MATRIX.fullmatch(text)
    if not match:
        scaled = _SCALED_MATRIX.fullmatch(text)
        inner = _matrix(scaled[2], depth + 1) if scaled else None
        return _scaled(inner, scaled[1], depth) if scaled and inner else None
    rows = [row.strip() for row in match[2].split("\\\\")]
    parsed = tuple(
        Answer("tuple", row, parts=tuple(_parse(cell.strip(), depth + 1) for cell in row.split("&")))
        for row in rows
        if row
    )
    # Round and square brackets mean the same; bars mean a determinant.
    return Answer("matrix", text, parts=parsed, brackets="|" if match[1][0] in "vV" else "(")


def _scaled(matrix: Answer, factor: str, depth: int) -> Answer:
    def times(cell: Answer) -> Answer:
        return _parse(f"({factor})\\cdot({cell.text})", depth + 1)

    rows = tuple(replace(row, parts=tuple(times(cell) for cell in row.parts)) for row in matrix.parts)
    return replace(matrix, text=factor + matrix.text, parts=rows)


def _clock(text: str, depth: int) -> Answer | None:
    """Times of day, and ratios 3:5, which without am or pm a time may be too."""
    if match := _TIME.fullmatch(text):
        return Answer("text", match[1].lstrip("0"), unit=parse_unit(match[2] + "m"))
    if _RATIO.fullmatch(text):
        return Answer("ratio", text.lstrip("0"), parts=tuple(_parse(part, depth + 1) for part in text.split(":")))
    return None


def _congruence(text: str, depth: int) -> Answer | None:
    match = _CONGRUENT.fullmatch(text)
    if not match:
        return None
    residue, modulus = _parse(match[2].strip(), depth + 1), _parse(match[3].strip(), depth + 1)
    return Answer("congruence", text, parts=(residue, modulus), variable=(match[1] or "").strip())


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
        words = " ".join(inner.split()).rstrip(".")
        if words.lower() in _NUMBERS:
            return Answer("scalar", words, Fraction(_NUMBERS.index(words.lower())))
        # Names of points (AB is not BA, and not ab) keep their case.
        is_name = words.isupper() and words not in _SHOUTED
        return Answer("text", words if is_name else words.casefold())
    return None


def _based(text: str, depth: int) -> Answer | None:
    match = _BASED.fullmatch(text)
    if not match or not any(character.isdigit() for character in match[2]):
        return None
    base = {"two": "2", "three": "3", "eight": "8", "sixteen": "16"}.get(match[3], match[3])
    if base == "10":
        return _parse(match[1] + match[2], depth + 1)
    return Answer("based", f"{match[1]}{match[2].upper()}_{base}")


def _relation(text: str, depth: int) -> Answer | None:
    """Equations, and inequalities in one variable, which are intervals."""
    if member := _MEMBER.match(text):
        inner = _parse(text[member.end() :], depth + 1)
        return Answer(inner.kind, inner.text, inner.value, inner.parts, inner.brackets, variable=member[1])
    if unequal := _UNEQUAL.fullmatch(text):
        return _all_but("\\mathbb{R}", unequal[1], depth)
    if excluded := _EXCEPT.fullmatch(text):
        return _all_but(excluded[1], excluded[2], depth)
    if builder := _SET_BUILDER.fullmatch(text):
        inner = _parse(builder[2], depth + 1)
        return replace(inner, variable="") if inner.kind in ("tuple", "collection") else None
    if is_relation(text) and "," not in text and "=" not in text:
        return _intervals(text, depth)
    if "=" not in text or "\\ne" in text:
        return None
    if any("=" in part for part in split_top(text, ",")) and len(split_top(text, ",")) > 1:
        return None  # a list of equations
    sides = split_top(text, "=")
    if len(sides) < 2 or not all(sides) or len(sides) > 8:
        return None
    return Answer("equation", text, parts=tuple(_parse(side, depth + 1) for side in sides))


def _all_but(whole: str, points: str, depth: int) -> Answer | None:
    r"""`x \ne 1, 2`, `[0,9]\setminus\{5\}`: the intervals between the points."""
    interval = _parse(whole, depth + 1)
    listed = [_parse(part.strip(), depth + 1) for part in split_top(points, ",")]
    if interval.kind != "tuple" or len(interval.parts) != 2 or any(p.kind != "scalar" or not p.text for p in listed):
        return None
    if len(listed) > 1:
        if any(point.value is None for point in listed):
            return None
        listed.sort(key=lambda point: point.value or Fraction(0))
    low, high = interval.parts
    ends = list(itertools.pairwise([low, *listed, high]))
    brackets = [interval.brackets[0] + ")", *["()"] * (len(ends) - 2), "(" + interval.brackets[1]]
    gaps = [Answer("tuple", "", parts=pair, brackets=b) for pair, b in zip(ends, brackets, strict=True)]
    return Answer("collection", f"{whole}\\setminus{points}", parts=tuple(gaps))


def _intervals(text: str, depth: int) -> Answer | None:
    found = [
        Answer(
            "tuple", text, parts=(_parse(low, depth + 1), _parse(high, depth + 1)), brackets=brackets, variable=variable
        )
        for low, high, brackets, variable in intervals_of(text)
    ]
    return Answer("collection", text, parts=tuple(found)) if len(found) > 1 else next(iter(found), None)


def _collection(text: str, depth: int) -> Answer | None:
    if text in ("\\emptyset", "\\{\\}"):
        return Answer("collection", "\\emptyset")
    for separator in ("\\cup", ","):
        parts = split_top(text, separator)
        if 1 < len(parts) <= _MAX_PARTS and all(parts):
            members = [_parse(part, depth + 1) for part in parts]
            flat = merged(_flattened(members, sets=True)) if separator == "\\cup" else both(_flattened(members))
            return flat[0] if len(flat) == 1 else Answer("collection", text, parts=flat)
    if text.startswith("\\{") and text.endswith("\\}") and _closing(text, 1) == len(text) - 1:
        parts = split_top(text[2:-2], ",")
        if len(parts) <= _MAX_PARTS and all(parts):
            return Answer("collection", text, parts=_flattened([_parse(part, depth + 1) for part in parts]))
    return None


def _flattened(parts: list[Answer], sets: bool = False) -> tuple[Answer, ...]:
    """±3 in a list is two of its members; a set is one member of a list, and all of its members in a union."""
    flat: list[Answer] = []
    for part in parts:
        opened = part.kind == "collection" and (sets or not part.text.startswith("\\{"))
        flat.extend(part.parts if opened else [part])
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
    parts = [_parse(tidy(text.replace("\\pm", up).replace("\\mp", down)), depth + 1) for up, down in signs]
    return Answer("collection", text, parts=tuple(parts))


def _scalar(text: str, depth: int) -> Answer:
    """A number or expression, with its percent sign or unit taken off."""
    if text.endswith(("\\%", "%")):
        inner = _parse(text.rstrip("%").rstrip("\\").strip(), depth + 1)
        return Answer("scalar", inner.text, inner.value, percent=True) if inner.kind == "scalar" else inner
    if text.startswith("\\approx"):
        inner = _parse(text[len("\\approx") :].strip(), depth + 1)
        if inner.value is None or not inner.text[-1].isdigit():
            return inner
        return replace(inner, places=len(inner.text.partition(".")[2]))
    if match := _TEMPERATURE.fullmatch(text):
        inner = _parse(match[1], depth + 1)
        return replace(inner, unit=parse_unit({"C": "celsius", "F": "fahrenheit"}[match[2]]))
    if text.endswith("^\\circ"):
        inner = _parse(text[: -len("^\\circ")], depth + 1)
        return replace(inner, unit=DEGREE) if inner.value is not None else Answer("scalar", text)
    if match := _TRAILING_TEXT.fullmatch(text):
        name = re.sub(r"\\text\{\s*([^{}]*?)\s*\}", r"\1", match[2]).strip().rstrip(".,;")
        unit = parse_unit(name)
        words = name.lower().split()
        if unit is not None or (len(words) <= 4 and not _NO_COUNT & set(words)):
            inner = _parse(match[1].strip(), depth + 1)
            return replace(inner, percent=True) if name == "percent" else replace(inner, unit=unit)
    if match := _BARE_UNIT.fullmatch(text):
        unit = parse_unit(match[2]) if len(match[2]) > 1 else None
        if unit is not None or match[2] == "percent":
            inner = _parse(match[1].strip(), depth + 1)
            if inner.value is not None:
                return replace(inner, percent=match[2] == "percent", unit=unit)
    return Answer("scalar", text)


def with_letter_unit(answer: Answer) -> Answer:
    """`5m`, which is 5·m in algebra, as five meters, for a reference that has a unit."""
    if (match := _LETTER_UNIT.fullmatch(answer.text)) and (unit := parse_unit(match[2])):
        inner = _parse(match[1], 0)
        if inner.value is not None:
            return replace(inner, unit=unit)
    return answer


def is_symbol(answer: Answer) -> bool:
    """Is this the left side of a definition, such as x, f(x), \\angle A or (x, y)?"""
    if answer.kind == "tuple":
        return all(is_variable(part.text) for part in answer.parts)
    return (answer.value is None and bool(_SYMBOL.fullmatch(answer.text))) or answer.kind == "text"
