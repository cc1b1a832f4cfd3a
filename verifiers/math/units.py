"""Parse and convert units of measurement: `cm^2`, `square centimeters`, `kg m/s^2`."""

import functools
import re
from fractions import Fraction
from typing import NamedTuple

from ratchet.verifiers.math.vocabulary import VOCABULARY


class Unit(NamedTuple):
    """A product of powers of base units and its size in them: a kilometer is 1000 of (("m", 1),). The noun of a count
    is a unit too, of its own dimension, with its sorted `words`."""

    dimension: tuple[tuple[str, int], ...]
    size: Fraction = Fraction(1)
    words: tuple[str, ...] = ()


def _table(section: str) -> dict[str, Unit]:
    """The units of lines such as `1/1000 m3: liter litre`."""
    table = {}
    for line in VOCABULARY[section].splitlines():
        unit, _, names = line.partition(":")
        size, _, powers = unit.partition(" ")
        dimension = tuple((base, int(power or 1)) for base, power in _BASE.findall(powers))
        table |= dict.fromkeys(names.split(), Unit(dimension, Fraction(size)))
    return table


_BASE = re.compile(r"([A-Za-z]+)(-?\d)?")
_SYMBOLS, _NAMES = _table("symbols_of_units"), _table("names_of_units")
_BASES = {base for each in (*_SYMBOLS.values(), *_NAMES.values()) for base, _ in each.dimension}
_PREFIXES, _PREFIX_NAMES, _POWERS = (VOCABULARY[section] for section in ("prefixes", "prefix_names", "powers"))
_BEHIND = ("squared", "cubed")
_PIECE = re.compile(r"\s*(?:([^\W\d_]+|¢)\.?(?:\s*\^\s*\{?\s*(-?)\s*(\d)\s*\}?|(\d)(?!\d))?|(/|[*·⋅])|\((.+?)\))")
DOLLAR, EURO, STERLING, RUPEE, YEN, DEGREE, RADIAN, CELSIUS, FAHRENHEIT = (
    Unit(((name, 1),))
    for name in ("dollar", "euro", "sterling", "rupee", "yen", "degree", "radian", "celsius", "fahrenheit")
)
POUND, SECOND = _NAMES["pound"], _NAMES["second"]
ARCMINUTE, ARCSECOND = (DEGREE._replace(size=Fraction(1, each)) for each in (60, 3600))

NO_UNITS = frozenset(["in", "pm", "am", "us", "has"])
"""Words that look like units but are not."""


def is_measure(unit: Unit) -> bool:
    """True if no noun is among the unit's bases, unlike in `pencils per class`."""
    return not unit.words and all(base in _BASES for base, _ in unit.dimension)


@functools.lru_cache(maxsize=2048)
def parse_unit(text: str) -> Unit | None:
    """Parse `square centimeters`, `cm^2`, `m/s^2`, `J mol^{-1} K^{-1}`, `miles per hour`; None for anything that is not
    a unit."""
    powers: dict[str, int] = {}
    size, sign, power, position = Fraction(1), 1, 1, 0
    last: tuple[Unit, int] | None = None
    text = text.replace("electron volt", "electronvolt")
    while position < len(text.rstrip()):
        match = _PIECE.match(text, position)
        if not match or len(powers) > 6:
            return None
        position = match.end()
        word = (match[1] or "").lower()
        if match[5] or word == "per":
            sign = -1 if match[5] in (None, "/") else sign
            continue
        if word in _BEHIND:  # meters squared
            if last is None:
                return None
            (base, exponent), last = last, None
            exponent *= _POWERS[word] - 1
            size *= base.size**exponent
            for name, each in base.dimension:
                powers[name] += each * exponent
            continue
        if word in _POWERS:
            power = _POWERS[word]
            continue
        base = parse_unit(match[6]) if match[6] else _base(match[1])
        if base is None:
            # 3 atoms per pulse: the noun of a count is a unit among units.
            if len(word) < 4 or not (sign < 0 or (word[-1] == "s" and ("/" in text or "per " in text))):
                return None
            base = Unit(((word, 1),))
        exponent = sign * power * int(match[3] or match[4] or 1) * (-1 if match[2] else 1)
        size *= base.size**exponent
        for name, each in base.dimension:
            powers[name] = powers.get(name, 0) + each * exponent
        power, last = 1, (base, exponent)
    dimension = tuple(sorted((base, power) for base, power in powers.items() if power))
    return Unit(dimension, size) if dimension else None


def _base(word: str) -> Unit | None:
    """The unit of one word."""
    if word in _SYMBOLS:
        return _SYMBOLS[word]
    if word[1:] in _SYMBOLS and word[0] in _PREFIXES and word != "min":
        return _scaled(_SYMBOLS[word[1:]], _PREFIXES[word[0]])
    for middle in range(1, min(4, len(word))):  # J K as one word, N m
        if word[:middle].isupper() and (first := _base(word[:middle])) and (second := _SYMBOLS.get(word[middle:])):
            return Unit(tuple(sorted(first.dimension + second.dimension)), first.size * second.size)
    lower = word.lower()
    for name in (lower, lower.removesuffix("s"), lower.removesuffix("es")):
        for prefix, exponent in {"": 0, **_PREFIX_NAMES}.items():
            if name.startswith(prefix) and name[len(prefix) :] in _NAMES:
                return _scaled(_NAMES[name[len(prefix) :]], exponent)
    return None


def _scaled(unit: Unit, exponent: int) -> Unit:
    return unit._replace(size=unit.size * Fraction(10) ** exponent)
