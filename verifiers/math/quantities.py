"""An expression with a percent sign, a currency, a unit, or the noun of a count; and plain prose.

Only text that is known not to be part of the value is removed. `5 meters` and `5 apples` are 5 with a unit or a noun;
`5, not 6`, `5 squared` and `5 or more` are not numbers.
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from ratchet.verifiers.math import units, words
from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.expression import parse_expression
from ratchet.verifiers.math.nodes import is_sum, kinds_of, names_of, rational_value
from ratchet.verifiers.math.parts import split_groups
from ratchet.verifiers.math.tokens import FUNCTIONS, Token, Tokens
from ratchet.verifiers.math.units import Unit, parse_unit
from ratchet.verifiers.math.vocabulary import VOCABULARY

Parse = Callable[[Tokens], Answer]
_MOST_TRIES = 4
_CURRENCIES = {
    "\\$": units.DOLLAR,
    "£": units.STERLING,
    "€": units.EURO,
    "₹": units.RUPEE,
    "¥": units.YEN,
}
_MONEY = {"dollar", "sterling", "euro", "rupee", "yuan", "yen"}
_SUFFIXES = {
    "¢": units.DOLLAR._replace(size=Fraction(1, 100)),
    "'": units.ARCMINUTE,
    "''": units.ARCSECOND,
    "\\degree": units.DEGREE,
    **_CURRENCIES,
}
_ARCS = {parse_unit("minute"): units.ARCMINUTE, parse_unit("second"): units.ARCSECOND}
"""The units that minutes and seconds stand for behind degrees."""
_TEMPERATURES = {"c": units.CELSIUS, "celsius": units.CELSIUS, "f": units.FAHRENHEIT, "fahrenheit": units.FAHRENHEIT}
_UNIT_COMMANDS = {
    "\\mu": "μ", "\\Omega": "Ω", "\\angstrom": "angstrom", "\\cdot": "*",
    "\\times": "*", "\\degree": "degree", "\\sec": "sec",
}  # fmt: skip
_PLAIN_UNITS, _PLAINER_UNITS = (frozenset(VOCABULARY[section].split()) for section in ("plain_units", "plainer_units"))
_RESISTANCES = frozenset("mkKMG")
_PUNCTUATION = ("-", "!", "?", ".", '"', "(", ")", "`")
_LEADING = ("the", "a", "an", "on", "in", "at")
_LEFT_OUT, _NOTHING = (frozenset(VOCABULARY[section].split()) for section in ("left_out", "no_nouns_left"))
_ALL_REALS, _INFINITE = (frozenset(VOCABULARY[each].split(", ")) for each in ("all_reals", "infinitely_many"))
_SYNONYMS = {
    "dne": "does not exist",
    "true": "yes",
    "false": "no",
    "elsewhere": "otherwise",
}


def quantity(tokens: Tokens, parse: Parse) -> Answer | None:
    """The answer with its percent sign, currency, unit or noun as attributes; None if it has none of them. `parse`
    reads the rest, a bare expression."""
    if len(tokens) < 2:
        return None
    if (compound := _compound(tokens, parse)) is not None:
        return compound
    sign = tokens[:1] if tokens[0].isa("-") else ()
    first, last, before = tokens[len(sign)], tokens[-1], tokens[-2]
    rest = tokens[len(sign) + 1 :]
    if first.text in ("C", "A") and rest and rest[0].isa("\\$"):  # dollars of Canada, Australia
        return quantity((*sign, *rest), parse)
    if first.text in _CURRENCIES:
        return _with_unit(parse(sign + rest), _CURRENCIES[first.text], tokens)
    if first.isa("\\approx"):
        inner = quantity(tokens[1:], parse) or parse(tokens[1:])
        is_rounded = inner.kind == "scalar" and inner.value is not None and last.kind == "number"
        return replace(inner, places=len(last.text.partition(".")[2])) if is_rounded else inner
    per_cent = (words.word(before), words.word(last)) == ("per", "cent")
    if per_cent or last.isa("%") or words.word(last) in ("percent", "pct", "percentage"):
        inner = parse(tokens[: -2 if words.word(before) == "per" else -1])
        return replace(inner, percent=True, tokens=tokens) if inner.kind == "scalar" and inner.unit is None else None
    if before.isa("\\degree") and last.text.lower() in _TEMPERATURES:
        return _with_unit(parse(tokens[:-2]), _TEMPERATURES[last.text.lower()], tokens)
    is_index = len(tokens) > 2 and tokens[-3].isa("_")  # f_0'
    is_suffix = last.isa(*_SUFFIXES) and (last.text[0] != "'" or (before.kind == "number" and not is_index))
    if is_suffix and not any(token.text[1:] in FUNCTIONS or token.isa("\\cis") for token in tokens):
        return _with_unit(parse(tokens[:-1]), _SUFFIXES[last.text], tokens)
    if (unit := parse_unit(words.word(tokens[0]))) and unit.dimension[0][0] in _MONEY:
        rest = tokens[2:] if tokens[1].isa(".") else tokens[1:]  # Rs. 12
        return _with_unit(parse(rest), unit, tokens) if rest else None
    return _measured(tokens, parse)


def _compound(tokens: Tokens, parse: Parse) -> Answer | None:
    """5 ft 6 in, 2 hours 30 minutes, 63° 45'."""
    numbers = [i for i, token in enumerate(tokens) if token.kind == "number"]
    if (
        not 1 < len(numbers) < 4
        or numbers[0]
        or tokens[numbers[-1] - 1].isa("-", "+", "/", "^", "_", "(", "{", "\\cdot", "\\times")
    ):
        return None
    between = numbers[-1]
    while tokens[between - 1].isa(",") or words.word(tokens[between - 1]) == "and":  # 1 hour, 30 minutes, and 5 seconds
        between -= 1
    large, small = quantity(tokens[:between], parse), quantity(tokens[numbers[-1] :], parse)
    if small and large and large.unit == units.DEGREE and small.unit in _ARCS:
        small = replace(small, unit=_ARCS[small.unit])
    if not large or not small or not large.unit or not small.unit or large.unit.dimension != small.unit.dimension:
        return None
    ratio = large.unit.size / small.unit.size
    if large.value is None or small.value is None or ratio <= 1 or not 0 <= small.value < ratio or small.unit.words:
        return None
    value = large.value * ratio + small.value
    return replace(small, node=("number", value), value=value, tokens=tokens)


def _with_unit(inner: Answer, unit: Unit, tokens: Tokens) -> Answer | None:
    if inner.kind != "scalar" or inner.node is None or inner.percent or inner.unit not in (None, unit):
        return None
    return replace(inner, unit=unit, tokens=tokens)


def _measured(tokens: Tokens, parse: Parse) -> Answer | None:
    """A value followed by its unit or its noun."""
    depth = opened = tries = 0
    for position, token in enumerate(tokens):
        if token.isa("(", "[", "{", "\\{"):
            opened = position if depth == 0 else opened
            depth += 1
        elif token.isa(")", "]", "}", "\\}"):
            depth -= 1
        elif depth == 0 and position:
            upright = token.kind == "name" and token.upright and token.text not in ("i", "e")
            is_fraction = token.isa("\\frac") and len(tokens) > position + 2 and tokens[position + 2].upright
            signs = ("\\mu", "\\angstrom", "\\Omega", "\\sec")
            if upright or token.kind in ("word", "run") or token.isa(*signs) or is_fraction:
                answer, tries = _suffixed(tokens, position, parse), tries + 1
                if answer is not None or token.kind == "word" or tries == _MOST_TRIES:
                    return answer
    if opened and tokens[-1].isa(")") and words.word(tokens[opened + 1]):  # 9 (apples)
        noun = tokens[opened + 1]._replace(gap=tokens[opened].gap)
        return _suffixed((*tokens[:opened], noun, *tokens[opened + 2 : -1]), opened, parse)
    return None


def _suffixed(tokens: Tokens, position: int, parse: Parse) -> Answer | None:
    value, suffix = tokens[:position], tokens[position:]
    if value[-1].isa("\\cdot", "\\times"):
        value = value[:-1]
    if not value:
        return None
    is_argument = suffix[0].kind == "run" and not (suffix[0].gap and value[-1].kind == "number")
    if value[-1].isa(",") or (is_argument and any(token.text[1:] in FUNCTIONS for token in value)):
        return None  # \\cos 2\\pi ft
    if _may_be_product(suffix, value):
        return None
    if (unit := parse_unit(_unit_text(suffix))) is not None:
        inner = parse(value)
        # In 1 + 5 m and in x m, m is not a unit of the whole.
        is_vector = suffix[0].upright and inner.node is not None and "vector" in kinds_of(inner.node)
        is_loose = inner.node is not None and (names_of(inner.node) or is_sum(inner.node)) and not is_vector
        return (
            None
            if is_loose and (suffix[0].kind in ("name", "command") or value[-1].text[0] == "\\")
            else _with_unit(inner, unit, tokens)
        )
    phrase = [token for token in suffix if not token.isa("-", "'")]
    if suffix[0].kind == "name" or any(token.kind not in ("word", "run") and not token.upright for token in phrase):
        return None
    is_apart = (suffix[0].gap and value[-1].kind == "number") or value[-1].isa("}", ")")
    inner = parse(value) if is_apart or all(token.upright for token in phrase) else Answer("text")
    texts = [token.text for token in phrase]
    if inner.node is None or names_of(inner.node) or not words.is_noun_phrase(texts, inner.value):
        return None
    return _with_unit(inner, Unit((("counted", 1),), words=words.noun_stem(texts)), tokens)


def _may_be_product(suffix: Tokens, value: Tokens) -> bool:
    """True if letters that stand for a unit may be factors: `3mg`, `2\\mu g`, `2km` with a spring's constant.
    Upright letters, words of three letters, and a few shorter ones apart from the number, are a unit."""
    letters = suffix[0]
    if letters.isa("\\mu"):
        return not any(token.upright for token in suffix)
    if letters.upright or letters.kind != "run" or len(letters.text) > 2:
        return False
    is_apart = letters.gap and value[-1].kind == "number"
    return letters.text not in (_PLAIN_UNITS if is_apart else _PLAINER_UNITS)


def _unit_text(tokens: Tokens) -> str:
    """Text for `parse_unit`; "?" for tokens that no unit has."""
    if tokens[0].isa("\\frac") and len(halves := split_groups(tokens[1:])) == 2:  # \\frac{miles}{hour}
        return f"{_unit_text(halves[0])} / {_unit_text(halves[1])}"
    text = ""
    for token in tokens:
        if token.kind in ("word", "run", "name", "number"):
            text += token.text if text.endswith("μ") else " " + token.text
        elif token.isa("\\Omega") and text[-1:] in _RESISTANCES and not token.gap:
            text += "Ω"
        elif token.isa("^", "{", "}", "-", "/", "(", ")"):
            text += " " if token.text == "-" and text[-1:] not in ("^", "{") else token.text  # ft-lb, m^{-1}
        elif token.text in _UNIT_COMMANDS:
            text += " " + _UNIT_COMMANDS[token.text]
        elif not token.isa("."):
            return "?"
    return text


def with_letter_unit(answer: Answer, apart: bool) -> Answer:
    """Read `5m`, which is 5·m in algebra, as five meters if the reference has a unit; if it has none, only if the
    letters are `apart`, as in `5 m`, or no likely product, as in `5km`."""
    for position, token in enumerate(answer.tokens):
        before = answer.tokens[position - 1]
        follows = position and (not apart or (before.kind == "number" and (token.gap or token.text in _PLAIN_UNITS)))
        if follows and token.kind in ("name", "run") and (unit := parse_unit(_unit_text(answer.tokens[position:]))):
            node = parse_expression(answer.tokens[:position])
            letters = sum(each.kind in ("name", "run") for each in answer.tokens[position:])
            if apart and (letters > 1 or _is_odd_power(unit)):
                continue
            if node is not None and not names_of(node):
                return replace(answer, node=node, value=rational_value(node), unit=unit)
    return answer


def _is_odd_power(unit: Unit) -> bool:
    """s^2 and g^3, which nothing is measured in: powers are of a length."""
    return len(unit.dimension) == 1 and unit.dimension[0][1] != 1 and unit.dimension[0][0] != "m"


def prose(tokens: Tokens) -> str:
    """An answer of words alone in one spelling; "" for any other."""
    if rank := words.ranked(tokens) if 1 < len(tokens) < 7 else "":
        return rank
    if not any(_is_word(token, len(tokens)) for token in tokens) or tokens[0].isa("-"):
        return ""  # also of -AB, which is not AB
    words_read: list[str] = []
    for token in tokens:
        if token.kind in ("word", "run", "name") and token.text.isalpha():
            words_read.append(words.folded(token.text))
        elif not token.isa(*_PUNCTUATION):
            return ""
    while len(words_read) > 1 and words_read[0] in _LEADING:
        words_read = words_read[1:]
    text = words.canonical(words_read)
    if "and" in words_read or "or" in words_read:
        return ""
    kept = [each for each in words_read if each not in _LEFT_OUT]
    if kept[:1] == ["no"] and len(words_read) > 1 and _NOTHING.issuperset(kept[1:]):
        return "no solution"
    short = " ".join(kept)
    if short in _INFINITE:
        return "infinite"
    text = short if short in _ALL_REALS else text.removesuffix("条件")
    return _SYNONYMS.get(text, text)


def _is_word(token: Token, count: int) -> bool:
    """True if letters are a word: upright ones, many, or names of points alone."""
    if token.text.istitle() and words.canonical([token.text]) != token.text:
        return True  # Sat
    if token.kind != "run" or token.text.isupper():
        return token.kind == "word" or (token.kind == "run" and (count == 1 or len(token.text) > 3))
    return len(token.text) > 3 or (len(token.text) == 3 and count > 1)
