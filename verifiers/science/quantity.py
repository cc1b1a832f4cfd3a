"""Numbers with units, as published answers and models write them. The grammar must match a whole text: with anything
left over ("or 4", "not sure") it is not a quantity. Units are pint's."""

import math
import re
from functools import cache, lru_cache
from typing import Any, NamedTuple

MAX_CHARACTERS = 200

_NUMBER = re.compile(
    r"(?:(?:\\?[A-Za-z]\w{0,11}\s*)?(?:=|≈|\\approx)\s*)?(?P<sign>[-+]?)\s*"  # E_k =
    r"(?:(?P<value>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)(?:\s*/\s*(?P<under>\d+)|[eE](?P<e>[-+]?\d{1,3}))?"
    r"|(?=10\s*\^))(?:\s*(?:[*x]\s*)?10\s*\^\s*(?P<power>[-+]?\d{1,3}))?(?![\d.,^])"
)
_LARGEST_POWER = 300  # of ten, in a float
_POWER_OF_TEN = re.compile(r"\s*10\s*\^\s*([-+]?\d{1,3})(?!\d)")
_UNIT = re.compile(r"\s*\*?\s*(?P<name>[A-Za-z_]{1,30})(?:(?:\s*\^\s*)?(?P<exponent>-?\d)(?!\d))?")
_REWRITTEN = (
    (re.compile(r"[−–]"), "-"),
    (re.compile(r"\\(?:times|cdot|ast)(?![A-Za-z])|[×·⋅∙]"), "*"),
    (re.compile(r"\\[dt]?frac\s*\{\s*(\d+)\s*\}\s*\{\s*(\d+)\s*\}"), r"\1/\2"),
    (re.compile(r"\\(?:mathrm|text|textrm|mathbf|operatorname|rm|mbox)(?![A-Za-z])"), " "),
    (re.compile(r"\\\$"), " dollar "),
    (re.compile(r"\\(?:left|right|quad|qquad)(?![A-Za-z])|\\[,;:! ]|[$~]"), " "),
    (re.compile(r"\\AA(?![A-Za-z])|Å"), " angstrom "),
    (re.compile(r"\^?\s*\{?\s*\\circ\s*\}?|°"), " deg"),
    (re.compile(r"[{}]"), ""),
    (re.compile(r"deg\s*([CF])(?![A-Za-z])"), r" deg\1 "),
    (re.compile(r"\\Omega(?![A-Za-z])|[ΩΩ]"), "ohm"),
    (re.compile(r"\\mu(?![A-Za-z])\s*|[μµ]\s*"), "micro_"),
    (re.compile(r"\\?%"), " percent"),
    (re.compile(r"\bper\b"), "/"),
    (re.compile(r"(?<=[A-Za-z])-(?=[A-Za-z])"), "*"),  # ft-lb
)
_NAMES = {"Torr": "torr", "kPA": "kPa", "Year": "year", "photons": "count", "molecules": "count", "dollar": "count"}


class Quantity(NamedTuple):
    value: float
    unit: str
    """In pint's notation; "" if none is given."""


def read_quantity(text: str) -> Quantity | None:
    """A decimal number or a simple fraction, optionally times a power of ten, optionally with a unit; else None."""
    text = _rewritten(text) if len(text) <= MAX_CHARACTERS else ""
    found = _NUMBER.match(text)
    unit = read_unit(text[found.end() :]) if found else None
    if found is None or unit is None:
        return None
    part = found.groupdict()
    exponent = int(part["e"] or 0) + int(part["power"] or 0)
    try:
        value = float((part["value"] or "1").replace(",", "")) / float(part["under"] or 1) * 10.0**exponent * unit[0]
    except (OverflowError, ZeroDivisionError):
        return None
    return Quantity(-value if part["sign"] == "-" else value, unit[1])


def unit_text(text: str) -> str:
    """The text after the number of a quantity, for `read_unit`."""
    text = _rewritten(text)
    found = _NUMBER.match(text)
    return " ".join(text[found.end() :].split()) if found else ""


@lru_cache(maxsize=4096)
def read_unit(text: str) -> tuple[float, str] | None:
    """A power of ten and a unit, "" for none; None if it is not a unit. "J/mol K" and "J/(mol K)" are the same."""
    text = _rewritten(text)
    power = _POWER_OF_TEN.match(text)
    if power and abs(int(power[1])) > _LARGEST_POWER:
        return None
    factors = []
    parts = (text[power.end() :] if power else text).replace("(", " ").replace(")", " ").split("/")
    for number, part in enumerate(parts):
        place = 0
        while part[place:].strip(" *"):
            unit = _UNIT.match(part, place)
            if unit is None or (exponent := int(unit["exponent"] or 1)) == 0:
                return None
            exponent *= -1 if number else 1
            name = _NAMES.get(unit["name"], unit["name"].replace("micro_", "µ"))
            factors.append(f"{name}**{exponent}")
            place = unit.end()
    joined = "*".join(factors)
    return (10.0 ** int(power[1]) if power else 1.0, joined) if _is_unit(joined) else None


def same_quantity(answer: Quantity, reference: Quantity, scale: float, tolerance: float) -> bool:
    """Whether they differ by at most this share of the reference, which is in its unit times `scale`. An answer without
    a unit is in the requested one, with or without that power of ten."""
    values = [answer.value, answer.value / scale]
    if answer.unit:
        registry, error = _pint()
        try:
            converted = registry.Quantity(answer.value, answer.unit).to(reference.unit or "dimensionless")
        except (error, ValueError, OverflowError, ZeroDivisionError):
            return False
        values = [converted.magnitude / scale]
    limit = tolerance * abs(reference.value)
    return any(math.isclose(value, reference.value, rel_tol=1e-12, abs_tol=limit) for value in values)


def _is_unit(unit: str) -> bool:
    if not unit:
        return True
    registry, error = _pint()
    try:
        return bool(registry.parse_units(unit))
    except (error, ValueError, AttributeError, TypeError):
        return False


def _rewritten(text: str) -> str:
    """Without LaTeX wrappers, and with one notation for each thing."""
    for pattern, replacement in _REWRITTEN:
        text = pattern.sub(replacement, text)
    return text.strip().rstrip(".")


@cache
def _pint() -> Any:
    """The registry of units, and the class of its errors."""
    from pint import UnitRegistry
    from pint.errors import PintError

    return UnitRegistry(autoconvert_offset_to_baseunit=True), PintError
