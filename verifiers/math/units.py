"""Units of measurement: what `15 cm^2`, `square centimeters` and `m/s` say, and how they convert."""

from __future__ import annotations

import functools
import re
from fractions import Fraction
from typing import NamedTuple


class Unit(NamedTuple):
    """A product of powers of base units, and its size in them: a kilometer is 1000 of (("m", 1),)."""

    dimension: tuple[tuple[str, int], ...]
    size: Fraction


_INCH, _POUND = Fraction(254, 10_000), Fraction(45_359_237, 100_000_000)
_NAMES: dict[str, tuple[str, int, Fraction]] = {
    name: (base, power, Fraction(size))
    for (base, power, size), names in {
        ("m", 1, Fraction(1, 1000)): "mm millimeter millimetre",
        ("m", 1, Fraction(1, 100)): "cm centimeter centimetre",
        ("m", 1, Fraction(1)): "m meter metre",
        ("m", 1, Fraction(1000)): "km kilometer kilometre",
        ("m", 1, _INCH): "in inch inches",
        ("m", 1, 12 * _INCH): "ft foot feet",
        ("m", 1, 36 * _INCH): "yd yard",
        ("m", 1, 63_360 * _INCH): "mi mile",
        ("m", 2, 4840 * (36 * _INCH) ** 2): "acre",
        ("m", 3, Fraction(1, 1000)): "l liter litre",
        ("m", 3, Fraction(1, 1_000_000)): "ml milliliter millilitre",
        ("m", 3, 231 * _INCH**3): "gal gallon",
        ("s", 1, Fraction(1)): "s sec second",
        ("s", 1, Fraction(60)): "min minute",
        ("s", 1, Fraction(3600)): "h hr hour",
        ("s", 1, Fraction(86_400)): "day",
        ("s", 1, Fraction(604_800)): "week",
        ("month", 1, Fraction(1)): "month",
        ("month", 1, Fraction(12)): "year yr",
        ("kg", 1, Fraction(1, 1000)): "g gram",
        ("kg", 1, Fraction(1)): "kg kilogram",
        ("kg", 1, _POUND): "lb pound",
        ("kg", 1, _POUND / 16): "oz ounce",
        ("dollar", 1, Fraction(1)): "dollar usd",
        ("dollar", 1, Fraction(1, 100)): "cent",
        ("euro", 1, Fraction(1)): "euro eur",
        ("degree", 1, Fraction(1)): "degree deg",
        ("radian", 1, Fraction(1)): "radian rad",
        ("unit", 1, Fraction(1)): "unit",
        ("celsius", 1, Fraction(1)): "celsius",
        ("fahrenheit", 1, Fraction(1)): "fahrenheit",
        ("kelvin", 1, Fraction(1)): "kelvin k",
        ("joule", 1, Fraction(1)): "joule j",
        ("newton", 1, Fraction(1)): "newton n",
        ("watt", 1, Fraction(1)): "watt w",
        ("volt", 1, Fraction(1)): "volt v",
        ("ev", 1, Fraction(1)): "ev",
        ("hertz", 1, Fraction(1)): "hertz hz",
        ("mole", 1, Fraction(1)): "mole mol",
        ("am", 1, Fraction(1)): "am a.m",
        ("pm", 1, Fraction(1)): "pm p.m",
    }.items()
    for name in names.split()
}
_COMPOUND = {"mph": "mi/h", "kmh": "km/h", "kph": "km/h", "sq": "square"}
_WORD = re.compile(r"([A-Za-z.]+)(?:\^?\{?(-?\d)\}?)?|(/|\*|\\cdot)")
DOLLAR, DEGREE, RADIAN = (Unit(((name, 1),), Fraction(1)) for name in ("dollar", "degree", "radian"))


@functools.lru_cache(maxsize=1024)
def parse_unit(text: str) -> Unit | None:
    """`square centimeters`, `cm^2`, `m/s^2`, `miles per hour`; None for what is not a unit (ways, right triangles)."""
    powers: dict[str, int] = {}
    size, sign, prefix, end = Fraction(1), 1, 1, 0
    text = text.strip().rstrip(".")
    for match in _WORD.finditer(text):
        if text[end : match.start()].strip():
            return None
        end = match.end()
        word = (match[1] or "").lower().rstrip(".")
        word = _COMPOUND.get(word, word)
        if match[3] == "/" or word == "per":
            sign = -1
        elif word in ("square", "cubic"):
            prefix = 2 if word == "square" else 3
        elif word in ("mi/h", "km/h"):
            compound = parse_unit(word)
            assert compound is not None
            powers = dict(compound.dimension)
            size *= compound.size
        elif word:
            known = _NAMES.get(word) or _NAMES.get(word.removesuffix("s"))
            if known is None or len(powers) > 4:
                return None
            base, power, scale = known
            exponent = sign * prefix * int(match[2] or 1)
            powers[base] = powers.get(base, 0) + power * exponent
            size *= scale**exponent
            prefix = 1
    if end == 0 or text[end:].strip() or not any(powers.values()):
        return None
    return Unit(tuple(sorted((base, power) for base, power in powers.items() if power)), size)
