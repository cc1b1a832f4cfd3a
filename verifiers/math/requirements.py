"""Forms that a question requires: solved for a letter, factored, expanded, in lowest terms, rounded, as a percentage,
in a base, as a count.

An answer of the right value in another form is refused: it may be the question itself.
"""

import functools
import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.changes import direction
from ratchet.verifiers.math.nodes import ZERO, Node, is_prime, is_sum, names_of, nodes_of
from ratchet.verifiers.math.quantities import with_letter_unit
from ratchet.verifiers.math.structure import parse_answer
from ratchet.verifiers.math.units import parse_unit

_NAME = r"\$?\\?\(?\s*([A-Za-z](?:_\w)?|\\[a-z]+)(?![A-Za-z])"
_SOLVED = (
    re.compile(rf"\bsolv(?:e|ing)\b[^.?!]{{0,120}}?\bfor (?:the |positive |real |all )*{_NAME}", re.IGNORECASE),
    re.compile(
        rf"\b(?:express|write|find|give|determine)\s+{_NAME}[$)\\]*,?\s+(?:in terms of|as a function|explicitly)", re.I
    ),
    re.compile(rf"\bmake\s+{_NAME}[$)\\]*\s+the subject", re.IGNORECASE),
)
_FACTOR = re.compile(r"\bfactori[sz]e\b|\bfactor\b(?!s)(?! of)", re.IGNORECASE)
_EXPAND = re.compile(r"\bexpand\b|\bmultiply out\b|\bwithout (?:brackets|parentheses)", re.IGNORECASE)
_LOWEST = re.compile(
    r"\b(?:lowest|simplest) (?:terms|form)|\bsimplest\b|\bsimplif|\breduced\b|\birreducible", re.IGNORECASE
)
_SCIENTIFIC = re.compile(
    r"\bscientific notation|\bstandard (?:index )?form of the number|\bexponential notation", re.IGNORECASE
)
_ROUNDED = re.compile(
    r"\bnearest\b|\bdecimal places?\b|\bsignificant (?:figures|digits)|\bround(?:ed)?\b(?: your| the| to| off|\.)", re.I
)
_FRACTION = re.compile(r"\b(?:as|to|into) an? (?:\w+ )?fraction|\bas a quotient", re.IGNORECASE)
_DECIMAL = re.compile(
    r"\b(?:as|to|into) an? (?:\w+ )?decimal\b(?! place)|\bin decimal (?:form|notation)", re.IGNORECASE
)
_MIXED = re.compile(r"\bas a mixed (?:number|fraction)", re.IGNORECASE)
_PERCENTAGE = re.compile(r"\b(?:as|to|into) an? percent", re.IGNORECASE)
_PRIMES = re.compile(r"\bprime factori[sz]|\bproduct of (?:its )?prime|\bprime powers", re.IGNORECASE)
_POWER = re.compile(r"\bas a power of\b", re.IGNORECASE)
_SLOPE_INTERCEPT = re.compile(r"\bslope[-– ]+(?:y[-– ]*)?intercept\b", re.IGNORECASE)
_VERTEX = re.compile(r"\bvertex form|\bcomplet(?:e|ing) the square", re.IGNORECASE)
_LINE_FORM = re.compile(r"\b(?:standard|general|point[-– ]slope) form", re.IGNORECASE)
_ANY_FORM = re.compile(
    r"\bform\b|\bsolv(?:e|ing)\b[^.?!]*\bfor\b|\bexpress\b|\bin terms of\b|\bas a function of\b", re.I
)
_BASE = (
    r"(?:base[- ]\$?(\d+|two|three|four|five|six|seven|eight|nine|ten|twelve|sixteen)\b"
    r"|(binary|octal|decimal|hexadecimal)\b(?! (?:places?|points?|digits?)\b))"
)
_BASES = {"binary": 2, "octal": 8, "decimal": 10, "hexadecimal": 16}
_BASE_ASKED = re.compile(
    rf"\b(?:to|in|into|as|using)\s+(?:(?:an?|the)\s+)?{_BASE}(?! (?:number|numeral|integer)s?\s+\$?\w*\d)"
    rf"|(?<!whose )(?<!with )(?<!has )\b{_BASE} (?:value|representation|form|expansion|equivalent|notation)\b"
    rf"|\bwhat (?:number (?:in|to) )?{_BASE}",
    re.IGNORECASE,
)
_ASKING = re.compile(
    r"\?|\b(?:convert|write|express|find|compute|give|change|calculate|evaluate|represent|add|subtract|multiply|divide"
    r"|answer|determine|rewrite|translate|state)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.?!])\s+(?=[A-Z$\\])")
_COUNTED = re.compile(
    r"(?:\bhow many|\b(?:find|determine|compute|calculate|give|what (?:is|was)) the (?:total |whole )*number of)\s+"
    r"((?:(?!(?:of|are|is|was|were|can|do|does|did|will|would|could|should|must|may|has|have|had|that|which|who|with"
    r"|for|from|to|at|on|in|per|and|or|if|he|she|they|it|you|we)\b)[\w$-]+\s*)+)[^?]*\??[^?]*\Z",
    re.IGNORECASE,
)
_WORK = re.compile(
    r"\b(?:simplify|evaluate|compute|calculate|expand|factor(?:i[sz]e)?|rationali[sz]e|convert|express|write|reduce)\b[^$.]{0,30}?"
    r"(?:\$+([^$]+)\$+|\\\((.+?)\\\)|(?<![\w.])(-?\d[\d.,]*\d(?:/\d+)?)(?![\w$]))",
    re.IGNORECASE,
)


class Required(NamedTuple):
    """The forms that a question requires; the letter that it solves for; the formulas that it has one rewrite; -1 if it
    asks how far something falls, 1 if how far it rises; the base that it asks for (0: none); and if it asks for a count
    of things."""

    forms: tuple[str, ...]
    letter: str
    given: frozenset[str]
    direction: int
    base: int
    is_count: bool


@functools.lru_cache(maxsize=4096)
def required(question: str) -> Required:
    """Found by the question's words."""
    forms = tuple(name for name, (pattern, _) in _FORMS.items() if pattern.search(question))
    letters = [match[1] for pattern in _SOLVED for match in pattern.finditer(question)]
    worked = (next(filter(None, match.groups())) for match in _WORK.finditer(question))
    given = frozenset(parse_answer(text.strip()).spelling for text in worked) - {""}
    said = {direction(word.lower()) for word in re.findall(r"[A-Za-z]+", question)} - {0}
    letter = letters[-1] if letters else ""
    change = said.pop() if len(said) == 1 else 0
    return Required(forms, letter, given, change, _base_asked(question), _asks_count(question))


def _base_asked(question: str) -> int:
    """The one base that the answer shall be in, not that of a number which is given; 0 if there is none."""
    sentences = [each for each in _SENTENCE.split(question) if _ASKING.search(each)]
    found = (next(filter(None, match.groups())) for each in sentences for match in _BASE_ASKED.finditer(each))
    bases = {_BASES.get(text.lower()) or parse_answer(text).value for text in found}
    return int(bases.pop() or 0) if len(bases) == 1 else 0


def _asks_count(question: str) -> bool:
    """Whether it asks last how many there are of something that is no unit: `how many 15 cm pieces`, not `how many
    square meters`."""
    match = _COUNTED.search(question)
    nouns = re.findall(r"[A-Za-z]+|\d+", match[1]) if match else []
    units = (
        not before.isdigit() and parse_unit(noun) and not after.endswith("s")
        for before, noun, after in zip(["", *nouns], nouns, [*nouns[1:], ""], strict=False)
    )
    return bool(nouns) and not any(units)


def refusal(question: str, reference: Answer, answer: Answer) -> str:
    """What the question requires and the answer, of the right value, is not; "" if it may pass."""
    wanted = required(question)
    if wanted.letter and not _is_solved(wanted.letter, reference, answer):
        return f"the question asks for {wanted.letter}"
    if _ANY_FORM.search(question) and (why := _is_turned(question, reference, answer)):
        return why
    if answer.words in ("fall", "rise") and wanted.direction == {"fall": 1, "rise": -1}[answer.words]:
        return "the question asks for the opposite change"
    if answer.spelling in wanted.given and answer.spelling != reference.spelling:
        return "it repeats the question"
    ours, theirs = _value(reference), _value(answer)
    if wanted.base not in (0, 10) and theirs.value is not None and {"_", "base"} & theirs.symbols:
        return f"the question asks for base {wanted.base}"
    if wanted.is_count and ours.kind == theirs.kind == "scalar" and ours.unit is None and _is_measured(theirs):
        return "the question asks for a count"
    for name in wanted.forms:
        _, meets = _FORMS[name]
        if meets(ours, ours) and not meets(theirs, ours):
            return f"the question asks for {name if name.startswith('a ') else 'an answer ' + name}"
    return ""


def _value(answer: Answer) -> Answer:
    """What is said to be equal to a name."""
    if answer.kind != "equation" or answer.words:
        return answer
    is_backwards = len(answer.parts) == 2 and answer.parts[1].node and answer.parts[1].node[0] == "name"
    return answer.parts[0 if is_backwards else -1]


def _is_solved(letter: str, reference: Answer, answer: Answer) -> bool:
    """Whether an equation has the letter alone on one side, as the reference does; only equations can fail."""
    if answer.kind != "equation" or answer.words or len(answer.parts) != 2 or None in (p.node for p in answer.parts):
        return True
    if reference.kind == "equation" and not _has_alone(letter, reference):
        return True
    is_letter = all(part.node and part.node[0] != "name" for part in answer.parts)
    return _has_alone(letter, answer) or (is_letter and reference.kind != "equation")


def _has_alone(letter: str, equation: Answer) -> bool:
    sides = [part.node or ZERO for part in equation.parts]
    return any(one == ("name", letter) and letter not in names_of(other) for one, other in (sides, sides[::-1]))


def _is_turned(question: str, reference: Answer, answer: Answer) -> str:
    """Why an equation is not solved for a letter as the reference is; "" if it is, or need not be."""
    if any(each.kind != "equation" or each.words or len(each.parts) != 2 for each in (reference, answer)):
        return ""
    ours, theirs = (
        {name for part in each.parts if part.node for name in names_of(part.node) if _has_alone(name, each)}
        for each in (reference, answer)
    )
    if ours and not theirs and any(pattern.search(question) for pattern in (_SLOPE_INTERCEPT, _VERTEX)):
        return f"it is not solved for {min(ours)}"
    differ = theirs and not ours & theirs and (ours or _LINE_FORM.search(question))
    return f"it is solved for {min(theirs)}" if differ else ""


def _is_measured(answer: Answer) -> bool:
    """Whether a number has a unit of measure."""
    unit = answer.unit or (with_letter_unit(answer, apart=True).unit if answer.value is None else None)
    return unit is not None and not unit.words and unit.dimension != (("unit", 1),)


def _factors(node: Node) -> tuple[Fraction, int]:
    """The numeric factor of a product, and how many others it has, powers as often as they are multiplied."""
    if node[0] == "number":
        return node[1], 0
    if node[0] == "-" and node[1] == ZERO:
        number, count = _factors(node[2])
        return -number, count
    if node[0] == "^" and node[2][0] == "number" and node[2][1].denominator == 1 and 0 < node[2][1] < 32:
        is_call = node[1][0] == "applied"  # of x(x - 2)^2 the bracket alone is squared
        number, count = _factors(node[1][2] if is_call else node[1])
        return number ** int(node[2][1]), count * int(node[2][1]) + is_call
    if node[0] in ("*", "/"):
        (number, count), (other, more) = _factors(node[1]), _factors(node[2])
        return (number * other, count + more) if node[0] == "*" else (number / (other or 1), count - more)
    if node[0] == "applied":  # x(x - 2)
        number, count = _factors(node[2])
        return number, count + 1
    return Fraction(1), 1


def _is_factored(answer: Answer, reference: Answer) -> bool:
    if not answer.node or not reference.node:
        return True
    (number, count), (wanted, most) = _factors(answer.node), _factors(reference.node)
    return most < 2 or (count >= most and not (number and abs(wanted / number) > 1))


def _is_expanded(answer: Answer, reference: Answer) -> bool:
    products = [each for each in nodes_of(answer.node or ZERO) if each[0] in ("*", "^", "applied")]
    return not any(is_sum(part) and names_of(part) for each in products for part in each[1:] if isinstance(part, tuple))


def _is_lowest(answer: Answer, reference: Answer) -> bool:
    if answer.kind == "ratio":
        terms = [term.value for term in answer.parts]
        return (
            None in terms or any(t.denominator > 1 for t in terms if t) or math.gcd(*(int(t) for t in terms if t)) == 1
        )
    for node in nodes_of(answer.node or ZERO):
        if node[0] == "/" and node[1][0] == node[2][0] == "number" and math.gcd(*(int(p[1]) for p in node[1:])) > 1:
            return False
        if node[0] == "root" and node[1][0] == "number" and _has_power(node[1][1], node[2]):
            return False
    return True


def _has_power(radicand: Fraction, index: int) -> bool:
    """Whether a whole number is divisible by the power of another."""
    if radicand.denominator > 1 or not 0 < radicand < 10**9:
        return False
    return any(radicand.numerator % each**index == 0 for each in range(2, round(radicand.numerator ** (1 / index)) + 1))


def _is_scientific(answer: Answer, reference: Answer) -> bool:
    node = answer.node or ZERO
    node = node[2] if node[0] == "-" and node[1] == ZERO else node
    if node[0] == "number":
        return any(
            token.kind == "number" and re.fullmatch(r"\d(?:\.\d+)?[eE]-?\+?\d+", token.text) for token in answer.tokens
        )
    is_product = node[0] == "*" and node[1][0] == "number" and node[2][:2] == ("^", ("number", Fraction(10)))
    return is_product and 1 <= abs(node[1][1]) < 10


def _is_rounded(answer: Answer, reference: Answer) -> bool:
    if reference.value is None or answer.kind != "scalar" or answer.percent != reference.percent:
        return True
    scale = answer.unit.size / reference.unit.size if reference.unit and answer.unit else 1
    return answer.value is not None and answer.value * scale == reference.value


def _is_fraction(answer: Answer, reference: Answer) -> bool:
    return not any(token.kind == "number" and "." in token.text for token in answer.tokens)


def _is_decimal(answer: Answer, reference: Answer) -> bool:
    return not any(node[0] == "/" for node in nodes_of(answer.node or ZERO)) and not _is_mixed_form(answer)


def _is_mixed_form(answer: Answer) -> bool:
    return answer.value is not None and answer.value.denominator > 1 and "frac" in answer.text


def _is_mixed(answer: Answer, reference: Answer) -> bool:
    return answer.value is None or abs(answer.value) < 1 or answer.node is None or answer.node[0] != "/"


def _bases(node: Node) -> list[Node]:
    """The factors of a product, without their exponents."""
    if node[0] == "*":
        return _bases(node[1]) + _bases(node[2])
    return _bases(node[1]) if node[0] == "^" else [node]


def _is_of_primes(answer: Answer, reference: Answer) -> bool:
    bases = _bases(answer.node or ZERO)
    return answer.node is not None and all(base[0] == "number" and is_prime(base[1]) for base in bases)


def _is_power(answer: Answer, reference: Answer) -> bool:
    node = answer.node or ZERO
    return node[0] == "^" and reference.node is not None and node[1] == reference.node[1]


def _is_percentage(answer: Answer, reference: Answer) -> bool:
    return answer.percent or answer.value is None or not reference.percent or answer.value == reference.value


def _is_vertex(answer: Answer, reference: Answer) -> bool:
    """With each letter as often as the reference."""
    theirs, ours = (sum(map(str.isalpha, side.letters.split())) for side in (answer, reference))
    return theirs <= ours


_FORMS: dict[str, tuple[re.Pattern[str], Callable[[Answer, Answer], bool]]] = {
    "factored": (_FACTOR, _is_factored),
    "expanded": (_EXPAND, _is_expanded),
    "in lowest terms": (_LOWEST, _is_lowest),
    "in scientific notation": (_SCIENTIFIC, _is_scientific),
    "rounded": (_ROUNDED, _is_rounded),
    "a fraction": (_FRACTION, _is_fraction),
    "a decimal": (_DECIMAL, _is_decimal),
    "a mixed number": (_MIXED, _is_mixed),
    "a percentage": (_PERCENTAGE, _is_percentage),
    "a product of primes": (_PRIMES, _is_of_primes),
    "a power": (_POWER, _is_power),
    "in slope-intercept form": (_SLOPE_INTERCEPT, _is_expanded),
    "in vertex form": (_VERTEX, _is_vertex),
}
"""By the name of each form: how a question asks for it, and whether an answer has it, given the reference."""
