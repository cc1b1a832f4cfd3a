"""Science: the letter of a choice, a number with its unit within a tolerance, or an expression compared as in math.

`Problem.answer` is the reference. `Problem.tests`, a JSON object, says how it is compared: `{"options": [...]}`, or
`{"unit": "m/s", "tolerance": 0.05}`; without it, as an expression.
"""

import json
import math
import re
from dataclasses import replace
from functools import cache, lru_cache
from string import ascii_uppercase
from typing import Any, NamedTuple

from ratchet.verifiers.domain import Domain, Work
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.math.boxes import boxed_answer
from ratchet.verifiers.math.final_answer import judged_as_stated
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.submission import JudgeSettings, Submission

TOLERANCE = 0.05
"""Share of the reference by which a number may differ if the data set does not say: SciBench's (arXiv 2307.10635)."""
MAX_PROSE_WORDS = 4
"""Most words of a reference that is an expression; a longer one is a sentence."""

_WRAPPED = re.compile(r"\\(?:text|mathrm|mathbf|textbf|textrm|boldsymbol|bf|rm)\s*\{([^{}]*)\}|\$")
_LETTER = re.compile(r"\(?\s*([A-Za-z])\s*\)?\s*\.?")
_LETTER_AND_TEXT = re.compile(r"\(?\s*([A-Za-z])\s*(?:\)|[.:)])\s*(.+)", re.DOTALL)
_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}")

# Numbers with units. The grammar must match a whole text: with "or 4" or "not sure" behind it, it is not a quantity.
MAX_CHARACTERS = 200
_SUPERSCRIPTS = str.maketrans("⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹", "-+0123456789")

# E_k, \Delta H^\circ, v(t), |F|: one name. Of free words and digits, "v is 8 or v" would be one too.
_NAME = (
    r"\|?\s*(?:(?:\\[A-Za-z]{1,12}|[Dd]elta)(?:_[A-Za-z0-9]{1,12})?\s*)?\\?[A-Za-z]\w{0,11}"
    r"(?:\s*(?:_\s*[A-Za-z0-9]{1,12}|\^\s*(?:\\[A-Za-z]{1,12}|\*)|deg|')){0,4}\s*(?:\(\s*[A-Za-z]\w?\s*\)\s*)?\|?"
)
_NUMBER = re.compile(
    rf"(?:(?:{_NAME}\s*)?(?:=|≈|\\approx)\s*)?(?P<sign>[-+]?)\s*"
    r"(?:(?P<value>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)(?:\s*/\s*(?P<under>\d+)|[eE](?P<e>[-+]?\d{1,3}))?"
    r"|(?=10\s*\^))(?:\s*(?:[*x]\s*)?10\s*\^\s*(?P<power>[-+]?\d{1,3}))?(?![\d.,^])"
)
_LARGEST_POWER = 300  # of ten, in a float
_POWER_OF_TEN = re.compile(r"\s*10\s*\^\s*([-+]?\d{1,3})(?!\d)")
_UNIT = re.compile(r"\s*\*?\s*(?P<name>[A-Za-z_]{1,30})(?:(?:\s*\^\s*)?(?P<exponent>-?\d)(?!\d))?")
_SYMBOL = re.compile(r"[kcdm]m|[kmM]?(?:Pa|mol|[gJLNWVA])|[CKTsm]")
"""Units that are written together: kgm^{-3}, Jkg^{-1}K^{-1}."""
_REWRITTEN = (
    (re.compile(r"[−–]"), "-"),
    (re.compile(r"\\(?:times|cdot|ast)(?![A-Za-z])|[×·⋅∙]"), "*"),
    (re.compile(r"\\[dt]?frac\s*\{\s*(\d+)\s*\}\s*\{\s*(\d+)\s*\}"), r"\1/\2"),
    (re.compile(r"\\(?:mathrm|text|textrm|mathbf|operatorname|rm|mbox)(?![A-Za-z])"), " "),
    (re.compile(r"\\[dt]?frac\s*\{\s*\{?([^{}]*)\}?\s*\}\s*\{\s*\{?([^{}]*)\}?\s*\}"), r" (\1)/(\2) "),
    (re.compile("[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+"), lambda match: "^" + match[0].translate(_SUPERSCRIPTS)),
    (re.compile(r"\^\s*\(\s*(-?\d+)\s*\)"), r"^\1"),  # 10^(-19)
    (re.compile(r"\b(?:[Dd]egrees?\s+)?([CF])(?:elsius|ahrenheit)(?![A-Za-z])"), r"deg \1"),
    (re.compile("℃"), " degC "),
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
_NAMES |= {"decays": "count", "disintegrations": "count", "cycle": "count", "cycles": "count"}
_NAMES |= {"KG": "kg", "Amps": "ampere", "amps": "ampere"}  # pint reads kilogauss, and attometers per second


_ANGLES = "(?<!ste)radian|degree(?!_)|turn|revolution|arc"
_OF_A_KIND = ("hertz", "becquerel", "sievert", "gray", _ANGLES, "steradian", "candela", "lumen|lux")
"""Units of the same dimension that measure different things: 60 rad/s is no 60 Hz."""


class Quantity(NamedTuple):
    """A number with its unit."""

    value: float
    unit: str
    """The unit in pint's notation; "" if none is given."""
    apart: str = ""
    """The unit if letters written together are units of their own: ms^{-1} is m s^{-1} where m/s is asked for."""
    evaluated: bool = True
    """True if no division is left to do: 34/2 is no answer for 17, as in math."""


class Reference(NamedTuple):
    """A reference: the options of a choice, a quantity, or neither for an expression."""

    answer: str
    options: tuple[str, ...] = ()
    quantity: Quantity | None = None
    scale: float = 1.0
    tolerance: float = TOLERANCE


@lru_cache(maxsize=4096)
def read_reference(answer: str, tests: str | None) -> Reference:
    """Read a reference. Raises ValueError that says why nothing can be compared with it."""
    answer, facts = answer.strip(), json.loads(tests) if tests else {}
    if not answer:
        raise ValueError("it has no answer")
    if not isinstance(facts, dict) or facts.keys() - {"options", "unit", "tolerance"}:
        raise ValueError("tests is not an object with options, or with unit and tolerance")
    if "options" in facts:
        return _choice(answer, facts["options"])
    if facts:
        return _quantity(answer, facts.get("unit") or "", facts.get("tolerance", TOLERANCE))
    if len(_WORD.findall(answer)) > MAX_PROSE_WORDS:
        raise ValueError("its answer is prose: no letter, number or expression")
    return Reference(answer)


def _choice(answer: str, options: Any) -> Reference:
    texts = isinstance(options, list) and all(isinstance(option, str) and option.strip() for option in options)
    if not texts or not 2 <= len(options) <= len(ascii_uppercase):
        raise ValueError("its options are not from 2 to 26 texts")
    if answer not in ascii_uppercase[: len(options)] or len(answer) != 1:
        raise ValueError(f"its answer {answer[:40]!r} is the letter of none of its {len(options)} options")
    return Reference(answer, tuple(map(_folded, options)))


def _quantity(answer: str, unit: Any, tolerance: Any) -> Reference:
    number = read_quantity(answer)
    if number is None or number.unit:
        raise ValueError(f"its answer {answer[:40]!r} is not a number")
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 0 <= tolerance < 1:
        raise ValueError(f"its tolerance {tolerance!r} is not from 0 to 1")
    known_unit = read_unit(unit) if isinstance(unit, str) else None
    scale, name = known_unit or (1.0, "")  # of an unknown unit only the number is compared
    return Reference(answer, (), Quantity(number.value, name, evaluated=number.evaluated), scale, tolerance)


def _plain(text: str) -> str:
    return " ".join(_WRAPPED.sub(r"\1", text).split())


def _folded(text: str) -> str:
    return _plain(text).casefold().rstrip(".")


def chosen(answer: str, options: tuple[str, ...]) -> str | None:
    """The letter of the one option that an answer names: by its letter, its text, or both if they agree."""
    text, letters = _plain(answer), ascii_uppercase[: len(options)]
    if (match := _LETTER.fullmatch(text)) and match[1].upper() in letters:
        return match[1].upper()
    if match := _LETTER_AND_TEXT.fullmatch(text):
        letter = match[1].upper()
        return letter if letter in letters and options[letters.index(letter)] == _folded(match[2]) else None
    named = [letter for letter, option in zip(letters, options, strict=True) if option == _folded(text)]
    return named[0] if len(named) == 1 else None


class Science(Domain):
    name = "science"
    compares_math = True
    templates = {
        "science": "{prompt}\n\nReason step by step and put the final answer in \\boxed{{}}.",
        "science_choice": "{prompt}\n\nReason step by step and put the letter of the right option in \\boxed{{}}.",
        "science_number": "{prompt}\n\nReason step by step and put the final answer, a decimal number, in \\boxed{{}}.",
    }
    curation = "ratchet.data_curation.domains.science:SCIENCE"

    def template(self, problem: Problem) -> str:
        facts = json.loads(problem.tests or "{}")
        return "science_choice" if "options" in facts else "science_number" if facts else "science"

    def fault(self, problem: Problem) -> str:
        try:
            read_reference(problem.answer or "", problem.tests)
        except (ValueError, RecursionError) as error:
            return str(error)
        return ""

    def reference_fault(self, problem: Problem) -> str:
        return self.fault(problem) or ("" if problem.tests else domain_of("math").reference_fault(problem))

    def reference(self, problem: Problem) -> str:
        facts, answer = json.loads(problem.tests or "{}"), problem.answer or ""
        if "options" in facts:
            return f"{answer}. {facts['options'][ascii_uppercase.index(answer)]}"
        return f"{answer} {facts.get('unit') or ''}".strip()

    def extract(self, response: str) -> str | None:
        return boxed_answer(response)

    def prepare(self, submission: Submission) -> Verdict | Work:
        problem = submission.problem
        reference = read_reference(problem.answer or "", problem.tests)
        if not reference.options and reference.quantity is None:
            return domain_of("math").prepare(replace(submission, problem=replace(problem, domain="math")))
        return judged_as_stated(submission, super().prepare)

    def judged(self, problem: Problem, answer: str, settings: JudgeSettings) -> Verdict:
        reference = read_reference(problem.answer or "", problem.tests)
        answered = chosen(answer, reference.options) if reference.options else read_quantity(answer)
        if answered is None:
            return Verdict(Outcome.FAILED, decided_by="unread", extracted=answer)
        if isinstance(answered, str) or reference.quantity is None:
            right, how = answered == reference.answer, "choice"
        elif reference.quantity.evaluated and not answered.evaluated:
            right, how = False, "unevaluated"
        else:
            right, how = same_quantity(answered, reference.quantity, reference.scale, reference.tolerance), "quantity"
        return Verdict(Outcome.PASSED if right else Outcome.FAILED, float(right), how, extracted=answer)


def read_quantity(text: str) -> Quantity | None:
    """Read a decimal number or a simple fraction, optionally times a power of ten, optionally with a unit; None for
    anything else."""
    text = _rewritten(text) if len(text) <= MAX_CHARACTERS else ""
    match = _NUMBER.match(text)
    unit = read_unit(text[match.end() :]) if match else None
    if match is None or unit is None:
        return None
    part = match.groupdict()
    exponent = int(part["e"] or 0) + int(part["power"] or 0)
    try:
        value = float((part["value"] or "1").replace(",", "")) / float(part["under"] or 1) * 10.0**exponent * unit[0]
    except (OverflowError, ZeroDivisionError):
        return None
    apart = read_unit(text[match.end() :], apart=True) or unit
    over, under = part["value"] or "", int(part["under"] or 0)
    evaluated = not under or (over.isdecimal() and int(over) % under != 0)
    return Quantity(-value if part["sign"] == "-" else value, unit[1], apart[1], evaluated)


def unit_text(text: str) -> str:
    """The text after the number of a quantity, for `read_unit`."""
    text = _rewritten(text)
    match = _NUMBER.match(text)
    return " ".join(text[match.end() :].split()) if match else ""


@lru_cache(maxsize=4096)
def read_unit(text: str, apart: bool = False) -> tuple[float, str] | None:
    """Read a power of ten and a unit, "" for none; None if it is not a unit. "J/mol K" and "J/(mol K)" are the same.
    With `apart` letters written together before a negative exponent are units of their own."""
    text = re.sub(r"^(?:1|\(\s*1\s*\))\s*/", "/", _rewritten(text))
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
            sign = -1 if number else 1
            exponent *= sign
            name = _with_its_capitals(_NAMES.get(unit["name"], unit["name"].replace("micro_", "µ")))
            symbols = _SYMBOL.findall(name)
            if "".join(symbols) != name or (_is_unit(name) and name != "Nm" and not (apart and exponent < 0)):
                symbols = [name]
            factors += [f"{symbol}**{sign}" for symbol in symbols[:-1]] + [f"{symbols[-1]}**{exponent}"]
            place = unit.end()
    joined = "*".join(factors)
    return (10.0 ** int(power[1]) if power else 1.0, joined) if _is_unit(joined) else None


def _with_its_capitals(name: str) -> str:
    """A unit as pint has it: Joules, KHz."""
    forms = (name, f"k{name[1:]}" if name[0] == "K" else name, name.lower() if len(name) > 3 else name)
    return next(filter(_is_unit, forms), name)


def same_quantity(answer: Quantity, reference: Quantity, scale: float, tolerance: float) -> bool:
    """True if two quantities differ by at most this share of the reference, which is in its unit times `scale`. An
    answer without a unit is in the requested one, with or without that power of ten."""
    values = [answer.value, answer.value / scale]
    if answer.unit:
        if _kinds(answer.unit) and _kinds(reference.unit) and _kinds(answer.unit) != _kinds(reference.unit):
            return False
        values = [
            value / scale
            for unit in (answer.unit, answer.apart)
            if (value := _converted(answer.value, unit, reference.unit)) is not None
        ][:1]
    limit = tolerance * abs(reference.value)
    return any(math.isclose(value, reference.value, rel_tol=1e-12, abs_tol=limit) for value in values)


def _converted(value: float, unit: str, target: str) -> float | None:
    """The value in the other unit; None if the units have different dimensions."""
    registry, error = _pint()
    try:
        return float(registry.Quantity(value, unit).to(target or "dimensionless").magnitude)
    except (error, ValueError, OverflowError, ZeroDivisionError, AssertionError):  # the last for some logarithmic units
        return None


@lru_cache(maxsize=4096)
def _kinds(unit: str) -> frozenset[str]:
    names = str(_pint()[0].parse_units(unit)) if unit else ""
    return frozenset(kind for kind in _OF_A_KIND if re.search(kind, names))


def _is_unit(unit: str) -> bool:
    if not unit:
        return True
    registry, error = _pint()
    try:
        return bool(registry.parse_units(unit))
    except (error, ValueError, AttributeError, TypeError):
        return False


def _rewritten(text: str) -> str:
    """The text without LaTeX wrappers, with one notation for each thing."""
    for pattern, replacement in _REWRITTEN:
        text = pattern.sub(replacement, text)
    return " ".join(text.split()).rstrip(".")


@cache
def _pint() -> Any:
    """The registry of units, and the class of its errors."""
    from pint import UnitRegistry
    from pint.errors import PintError

    return UnitRegistry(autoconvert_offset_to_baseunit=True), PintError
