"""An answer that has been read."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from ratchet.verifiers.math.units import Unit

Kind = Literal["scalar", "text", "based", "tuple", "collection", "matrix", "equation", "congruence", "ratio"]


@dataclass(frozen=True)
class Answer:
    """A parsed answer. `text` is the normalized notation; what else is set depends on `kind`:

    scalar: `value` when rational; `percent`; `unit`; `places`, the decimals it was rounded to. based: `text` is
    digits_base. tuple: `brackets` and ordered `parts` (intervals too). collection: `parts` without order (lists, sets,
    unions, both signs of ±). matrix: `parts` are rows, tuples with no brackets. equation: `parts` are the sides.
    congruence: residue and modulus. ratio: its terms. `variable` is what an interval or a congruence is about.
    """

    kind: Kind
    text: str
    value: Fraction | None = None
    parts: tuple[Answer, ...] = ()
    brackets: str = ""
    percent: bool = False
    unit: Unit | None = None
    places: int | None = None
    variable: str = ""
