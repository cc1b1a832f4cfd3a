"""Units, rates, bases and decimal marks that the question gives, so that an answer may omit them or write them
otherwise."""

import re
from collections.abc import Iterator
from dataclasses import replace

from ratchet.verifiers.math import words
from ratchet.verifiers.math.answer import Answer, Pair
from ratchet.verifiers.math.nodes import names_of
from ratchet.verifiers.math.question import Question
from ratchet.verifiers.math.structure import parse_tokens
from ratchet.verifiers.math.tokens import tokenize
from ratchet.verifiers.math.units import ARCMINUTE, ARCSECOND, CELSIUS, DEGREE, FAHRENHEIT, parse_unit

_SCALES = {
    unit: re.compile(rf"(?:°|circ\}}?\$?)\s*(?:\\(?:text|mathrm)\{{\s*)?{name[0]}\b|\b{name}", re.IGNORECASE)
    for unit, name in ((CELSIUS, "Celsius"), (FAHRENHEIT, "Fahrenheit"))
}
_PRIMES = {
    unit: (length, re.compile(rf"\b{pattern}\b", re.IGNORECASE))
    for unit, length, pattern in (
        (ARCMINUTE, parse_unit("feet"), "(?:feet|foot|ft)"),
        (ARCSECOND, parse_unit("inches"), r"(?:inch(?:es)?|in\.)"),
    )
}
_ABROAD = r"(?:und|das|wie|sind|les?|une|des|est|sont|sous|dans|avec|los|las|que|por|para|uma|di|jest)"
_DECIMAL_COMMA = re.compile(
    rf"(?<![\d,(\[])\d+(?:,|\{{,\}})\d{{1,2}}(?!\d|,\d|\s*[)\]])|\b{_ABROAD}\b.*[à-ÿ]|[à-ÿ].*\b{_ABROAD}\b",
    re.IGNORECASE | re.DOTALL,
)
_INTERCEPT = re.compile(r"\b\$?([xy])\$?[- ]intercept\b(?!s)", re.IGNORECASE)


def readings(question: Question, reference: Answer, answer: Answer) -> Iterator[Pair]:
    """Pairs of reference and answer with the question's unit, base, scale, axis, or decimal mark."""
    for one, other in ((reference, answer), (answer, reference)):
        digits, base = other.text.replace(" ", "").upper(), one.words.rpartition("_")[2]
        if one.kind == "based" and other.kind in ("scalar", "text") and digits.isalnum():
            based = replace(one, words=f"{digits}_{base}")
            if int(base) == question.base:
                yield (one, based) if one is reference else (based, one)
    if (length := _PRIMES.get(answer.unit) if answer.unit else None) and question.says(length[1]):  # 4'' as 4 inches
        yield reference, replace(answer, unit=length[0])
    if reference.unit == DEGREE and answer.unit and answer.unit in _SCALES and question.says(_SCALES[answer.unit]):
        yield reference, replace(answer, unit=DEGREE)
    for bare in (f(question, answer) for f in (_without_rate, _without_unit)):
        if bare is not None:
            yield reference, bare
    if (value := _intercept(question, reference, answer)) is not None:
        yield reference, value
    numbers = [_with_decimal_comma(question, each) for each in (reference, answer)]
    if any(numbers):
        yield numbers[0] or reference, numbers[1] or answer


def _without_rate(question: Question, answer: Answer) -> Answer | None:
    """`\\$33 \\text{ per day}` without the rate, where the question asks for one `per day`."""
    at = next((i for i, token in enumerate(answer.tokens) if i and words.word(token) in ("per", "each", "a", "an")), 0)
    rate = answer.tokens[at:] if at else ()
    noun = " ".join(map(words.word, rate[1:]))
    asked = re.compile(rf"\b(?:per|each|every|an?) {re.escape(noun)}\b", re.IGNORECASE)
    return parse_tokens(answer.tokens[:at]) if noun and asked.search(question.last_sentence) else None


def _intercept(question: Question, reference: Answer, answer: Answer) -> Answer | None:
    """The intercept of `(0, 3)`, where the question asks for that on one axis."""
    axes = {axis.lower() for axis in _INTERCEPT.findall(question.text)}
    is_point = reference.kind == "scalar" and answer.kind == "tuple" and answer.brackets == "()" and not answer.variable
    if len(axes) != 1 or not is_point or len(answer.parts) != 2:
        return None
    zero, value = answer.parts[:: 1 if axes == {"y"} else -1]
    return value if zero.value == 0 else None


def _with_decimal_comma(question: Question, answer: Answer) -> Answer | None:
    """`0,375` and `12,5 m` as numbers, where the question writes numbers so."""
    texts = [token.text for token in answer.tokens]
    is_number = texts[1:2] == [","] and (texts[0] + "".join(texts[2:3])).isdigit() and not answer.tokens[2].gap
    if not is_number or "," in texts[2:] or not question.says(_DECIMAL_COMMA):
        return None
    return parse_tokens((*tokenize(f"{texts[0]}.{texts[2]}"), *answer.tokens[3:]))


def _without_unit(question: Question, answer: Answer) -> Answer | None:
    """`\\frac{a}{b} \\text{ m/s}` without the unit that the question asks for."""
    asked = question.unit
    at = next((i for i, token in enumerate(answer.tokens) if i and token.upright and token.text.isalpha()), 0)
    if not asked or not at or answer.unit is not None:
        return None
    text = "".join(" " * token.gap + token.text for token in answer.tokens[at:])
    unit = parse_unit(text.replace("{", "").replace("}", ""))
    bare = parse_tokens(answer.tokens[:at])
    return bare if unit and unit[:2] == asked[1][:2] and bare.node and names_of(bare.node) else None
