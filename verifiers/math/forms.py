"""Forms that a question requires: solved for a letter, factored, expanded, in lowest terms, rounded, as a percentage,
in a base, as a count.

An answer of the right value in another form is refused: it may be the question itself.
"""

import math
import re
from collections.abc import Callable
from fractions import Fraction

from ratchet.verifiers.math import words
from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.nodes import (
    ZERO,
    Node,
    factors_of,
    is_prime,
    is_sum,
    kinds_of,
    names_of,
    nodes_of,
    rational_value,
)
from ratchet.verifiers.math.numeric import MOST_WORK, proportional, same_value
from ratchet.verifiers.math.quantities import with_letter_unit
from ratchet.verifiers.math.question import Question
from ratchet.verifiers.math.sentences import direction
from ratchet.verifiers.math.tokens import spelled
from ratchet.verifiers.math.units import DEGREE, is_measure

_TRIGONOMETRIC = frozenset(["sin", "cos", "tan", "cot", "sec", "csc"])


def refusal(question: Question, reference: Answer, answer: Answer) -> str:
    """The required form that an answer of the right value does not have, as text; "" if the answer may pass."""
    if question.letter and not _is_solved(question.letter, reference, answer):
        return f"the question asks for {question.letter}"
    if question.fixes_coefficients and (why := _is_scaled(question, reference, answer)):
        return why
    if "in a form" in question.forms and (why := _is_turned(question, reference, answer)):
        return why
    if answer.words in ("fall", "rise") and question.direction == {"fall": 1, "rise": -1}[answer.words]:
        return "the question asks for the opposite change"
    said = spelled(tuple(token for token in answer.tokens if not direction(words.word(token))))  # Reduce 24/36
    if _repeats(question, reference, answer) or (said in question.given and answer.spelling != reference.spelling):
        return "it repeats the question"
    ours, theirs = _value(reference), _value(answer)
    if question.base not in (0, 10) and theirs.value is not None and {"_", "base"} & theirs.symbols:
        return f"the question asks for base {question.base}"
    if question.is_count and ours.kind == theirs.kind == "scalar" and ours.unit is None and _is_measured(theirs):
        return "the question asks for a count"
    asked = question.unit
    wanted = [unit[:2] for unit in (asked and asked[1], reference.unit) if unit]  # to hours, minutes and seconds
    if question.says(_CONVERT) and asked and answer.unit and answer.unit[:2] not in wanted:
        return f"the question asks for {asked[0]}"
    if asked and asked[1] == DEGREE and theirs.unit is None and "\\pi" in theirs.symbols - ours.symbols:
        return "the question asks for degrees"
    is_bare = ours.unit is None and with_letter_unit(ours, apart=True).unit is None
    if not asked and is_bare and theirs.unit and (given := question.unit_instead(theirs.unit)):
        return f"the question measures in {given}"
    if question.has_template and _is_unlike(reference, answer):
        return "the question shows another form"
    if "in a form" in question.forms and question.says(_ONLY_IN) and _functions(theirs) - _functions(ours):
        return "the question says in terms of what"
    if _evaluates(question, ours, theirs):
        return "the question asks to evaluate it"
    for name, meets in _FORMS.items():
        if name in question.forms and meets(ours, ours) and not meets(theirs, ours):
            return f"the question asks for {name if name.startswith('a ') else 'an answer ' + name}"
    return ""


_ONLY_IN = re.compile(r"\bin terms of\b[^.?!]*\b(?:sin|cos|tan|cot|sec|csc)")
_CONVERT = re.compile(r"\b(?:convert|express|rewrite)\b", re.IGNORECASE)


def _evaluates(question: Question, reference: Answer, answer: Answer) -> bool:
    r"""True if an answer still has a function of a number that the question has and the reference has not: `\cos
    570^\circ` where `\cos 210^\circ` is to be computed."""
    left = _functions(answer) - _functions(reference)
    return any(f"\\{name}" in question.text for name in left) and not names_of(answer.node or ZERO)


def _functions(answer: Answer) -> frozenset[str]:
    return frozenset(node[0] for node in nodes_of(answer.node or ZERO)) & _TRIGONOMETRIC


def _repeats(question: Question, reference: Answer, answer: Answer) -> bool:
    """True if a quantity of the question is given in its own unit although another one is asked for, or two of its
    numbers as a fraction although a percentage is."""
    asked = question.unit
    numbers = [token.text for token in answer.tokens if token.kind == "number"]
    if reference.percent and answer.symbols & {"\\frac", "/"} and len(numbers) == 2:  # 18/72 for a percentage
        return all(re.search(rf"(?<![\d.]){re.escape(each)}(?![\d.])", question.text) for each in numbers)
    if not asked or answer.unit is None or answer.unit[:2] == asked[1][:2] or answer.kind != "scalar":
        return False
    number = next(iter(numbers), "")
    return bool(re.search(rf"(?<![\d.]){re.escape(number)}(?![\d.])", question.text))


def _value(answer: Answer) -> Answer:
    """The value that an equation gives to a name, or the answer itself."""
    if answer.kind != "equation" or answer.words:
        return answer
    is_backwards = len(answer.parts) == 2 and answer.parts[1].node and answer.parts[1].node[0] == "name"
    return answer.parts[0 if is_backwards else -1]


def _is_solved(letter: str, reference: Answer, answer: Answer) -> bool:
    """True if an equation has the letter alone on one side, as the reference does; only equations can fail."""
    if answer.kind != "equation" or answer.words or len(answer.parts) != 2 or None in (p.node for p in answer.parts):
        return True
    if reference.kind == "equation" and not _has_alone(letter, reference):
        return True
    is_letter = all(part.node and part.node[0] != "name" for part in answer.parts)
    return _has_alone(letter, answer) or (is_letter and reference.kind != "equation")


def _has_alone(letter: str, equation: Answer) -> bool:
    sides = [part.node or ZERO for part in equation.parts]
    return any(one == ("name", letter) and letter not in names_of(other) for one, other in (sides, sides[::-1]))


def _is_turned(question: Question, reference: Answer, answer: Answer) -> str:
    """The reason why an equation is not solved for a letter as the reference is; "" if it is, or need not be."""
    if any(each.kind != "equation" or each.words or len(each.parts) != 2 for each in (reference, answer)):
        return ""
    ours, theirs = (
        {name for part in each.parts if part.node for name in names_of(part.node) if _has_alone(name, each)}
        for each in (reference, answer)
    )
    if ours and not theirs and question.forms & {"in slope-intercept form", "in vertex form"}:
        return f"it is not solved for {min(ours)}"
    differ = theirs and not ours & theirs and (ours or "in the form of a line" in question.forms)
    return f"it is solved for {min(theirs)}" if differ else ""


def _is_scaled(question: Question, reference: Answer, answer: Answer) -> str:
    """The reason why an equation is a multiple of the one whose coefficients the question fixes; "" if it is that
    one."""
    if any(each.kind != "equation" or each.words or len(each.parts) != 2 for each in (reference, answer)):
        return ""
    sides = [part.node for part in (*reference.parts, *answer.parts)]
    ours, theirs = [node or ZERO for node in sides[:2]], [node or ZERO for node in sides[2:]]
    if None in sides or same_value(("-", *ours), ("-", *theirs), [MOST_WORK]):
        return ""
    is_turned = theirs[0] == ZERO or not question.fixes_sign
    if is_turned and same_value(("-", *ours), ("-", *theirs[::-1]), [MOST_WORK]):
        return ""
    return "the question fixes its coefficients"


def _is_measured(answer: Answer) -> bool:
    """True if a number has a unit of measure."""
    unit = answer.unit or (with_letter_unit(answer, apart=True).unit if answer.value is None else None)
    return unit is not None and is_measure(unit) and unit.dimension != (("unit", 1),)


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


def _terms(node: Node) -> list[list[Node]]:
    """The terms of a sum, each as its factors and divisors (powers of -1), without numbers; those of 2(x + y) too."""
    if node[0] in ("+", "-"):
        return [term for part in node[1:] if part != ZERO for term in _terms(part)]
    if node[0] in ("*", "/"):
        one, other = (rational_value(part) is not None for part in node[1:])
        if other or (one and node[0] == "*"):
            return _terms(node[1 if other else 2])
    return [_parts(node)]


def _parts(node: Node, inverted: bool = False) -> list[Node]:
    if node[0] in ("*", "/"):
        return _parts(node[1], inverted) + _parts(node[2], inverted ^ (node[0] == "/"))
    if node[0] == "applied":
        return [("name", node[1]), *_parts(node[2], inverted)]
    if node[0] == "-" and node[1] == ZERO:
        return _parts(node[2], inverted)
    if rational_value(node) is not None:
        return []
    return [("^", node, ("number", Fraction(-1))) if inverted else node]


def _skeleton(node: Node, within: bool = False) -> str:
    """The structure of an expression, with any numbers and in any order; `within` a function or exponent, any
    constant."""
    if rational_value(node) is not None or (within and not names_of(node)):
        return "#"
    terms = []
    for term in _terms(node):
        parts = []
        for part in term if not within or any(map(names_of, term)) else ():
            function = part[0] not in ("+", "-", "root", "^")
            inner = (_skeleton(each, function or i > 0) for i, each in enumerate(part[1:]) if isinstance(each, tuple))
            parts.append(str(part) if part[0] == "name" else f"{part[0]}({' '.join(inner)})")
        terms.append("*".join(sorted(parts)) or "#")
    return "+".join(sorted(terms))


def _is_unlike(reference: Answer, answer: Answer) -> bool:
    """True if an answer is not built as the reference is, or has a root that is not reduced."""
    sides = [each.parts[0].node or ZERO for each in (reference, answer) if each.kind == "equation"]
    ours, theirs = _value(reference), _value(answer)
    if ours.kind != "scalar" or theirs.kind != "scalar" or not ours.node or not theirs.node:
        return False
    if any(side[0] not in ("name", "applied", "call") for side in sides):
        return False
    is_reduced = _is_lowest(theirs, ours) or not _is_lowest(ours, ours)
    return not is_reduced or _skeleton(ours.node) != _skeleton(theirs.node)


def _is_factored(answer: Answer, reference: Answer) -> bool:
    if not answer.node or not reference.node:
        return True
    for kind, name in (("root", ""), ("", "i")):  # over a larger field
        holds = [kind in kinds_of(node) or ("name", name) in nodes_of(node) for node in (reference.node, answer.node)]
        if holds == [False, True]:
            return False
    (number, count), (wanted, most) = _factors(answer.node), _factors(reference.node)
    return most < 2 or (count >= most and not (number and abs(wanted / number) > 1))


def _is_expanded(answer: Answer, reference: Answer) -> bool:
    products = [each for each in nodes_of(answer.node or ZERO) if each[0] in ("*", "^", "applied")]
    return not any(is_sum(part) and names_of(part) for each in products for part in each[1:] if isinstance(part, tuple))


def _is_lowest(answer: Answer, reference: Answer) -> bool:
    if answer.kind == "ratio":
        terms = [term.value for term in answer.parts]
        whole = [int(term) for term in terms if term is not None and term.denominator == 1]
        return None in terms or (len(whole) == len(terms) and math.gcd(*whole) == 1)
    for node in nodes_of(answer.node or ZERO):
        if node[0] == "/" and node[1][0] == node[2][0] == "number" and math.gcd(*(int(p[1]) for p in node[1:])) > 1:
            return False
        if node[0] == "root" and node[1][0] == "number" and _has_power(node[1][1], node[2]):
            return False
        if node[0] == "/" and _cancels(node):
            return False
    terms = [sorted(map(repr, term)) for term in _terms(answer.node or ZERO)]
    return all(terms.count(term) == 1 for term in terms)


def _cancels(fraction: Node) -> bool:
    """True if a factor with letters, or a number, is above and below the bar."""
    above, below = ([part[1] if part[0] == "^" else part for part in _parts(half)] for half in fraction[1:])
    numbers = [_factors(half)[0] for half in fraction[1:]]
    if all(number.denominator == 1 for number in numbers) and math.gcd(*(int(number) for number in numbers)) > 1:
        return True
    return any(
        names_of(one) and names_of(one) == names_of(two) and proportional(one, two, False, [MOST_WORK])
        for one in above
        for two in below
    )


def _has_power(radicand: Fraction, index: int) -> bool:
    """True if a whole number is divisible by the power of another."""
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
    answer = with_letter_unit(answer, apart=False) if answer.value is None and reference.unit else answer
    scale = answer.unit.size / reference.unit.size if reference.unit and answer.unit else 1
    return answer.value is not None and answer.value * scale == reference.value


def _is_fraction(answer: Answer, reference: Answer) -> bool:
    return not any(token.kind == "number" and "." in token.text for token in answer.tokens)


def _is_decimal(answer: Answer, reference: Answer) -> bool:
    return not any(node[0] == "/" for node in nodes_of(answer.node or ZERO)) and not _is_mixed_form(answer)


def _is_mixed_form(answer: Answer) -> bool:
    return answer.value is not None and answer.value.denominator > 1 and "frac" in answer.text


def _is_mixed(answer: Answer, reference: Answer) -> bool:
    if answer.value is None or abs(answer.value) < 1 or answer.node is None:
        return True
    return answer.node[0] != "/" and not any(token.kind == "number" and "." in token.text for token in answer.tokens)


def _is_decomposed(answer: Answer, reference: Answer) -> bool:
    """True if it has as many terms as the reference."""
    return len(_terms(answer.node or ZERO)) >= len(_terms(reference.node or ZERO)) > 1


def _has_same_terms(answer: Answer, reference: Answer) -> bool:
    """True if a sum or product of numbers has the reference's: 1/2 + 1/3, not 1/6 + 4/6."""
    sign = "+" if reference.node and reference.node[0] == "+" else "*"
    ours, theirs = (
        [rational_value(part) for part in factors_of(each.node or ZERO, sign)] for each in (reference, answer)
    )
    return len(ours) < 2 or None in ours or sorted(ours, key=str) == sorted(theirs, key=str)


def is_of_primes(node: Node | None) -> bool:
    """True if it is a product of primes and of powers of primes."""
    bases = [factor[1] if factor[0] == "^" else factor for factor in factors_of(node or ZERO)]
    return all(base[0] == "number" and is_prime(base[1]) for base in bases)


def _is_power(answer: Answer, reference: Answer) -> bool:
    node = answer.node or ZERO
    return node[0] == "^" and reference.node is not None and node[1] == reference.node[1]


def _is_percentage(answer: Answer, reference: Answer) -> bool:
    return answer.percent or answer.value is None or not reference.percent or answer.value == reference.value


def _is_vertex(answer: Answer, reference: Answer) -> bool:
    """True if each letter is there as often as in the reference."""
    theirs, ours = (sum(map(str.isalpha, side.letters.split())) for side in (answer, reference))
    return theirs <= ours


_FORMS: dict[str, Callable[[Answer, Answer], bool]] = {
    "factored": _is_factored,
    "expanded": _is_expanded,
    "in lowest terms": _is_lowest,
    "in scientific notation": _is_scientific,
    "rounded": _is_rounded,
    "a fraction": _is_fraction,
    "a decimal": _is_decimal,
    "a mixed number": _is_mixed,
    "a percentage": _is_percentage,
    "with positive exponents": lambda answer, reference: (
        not any(node[0] == "^" and (rational_value(node[2]) or 0) < 0 for node in nodes_of(answer.node or ZERO))
    ),
    "rationalized": lambda answer, reference: (
        not any(
            node[0] == "/" and ("root" in kinds_of(node[2]) or ("^" in kinds_of(node[2]) and not names_of(node[2])))
            for node in nodes_of(answer.node or ZERO)
        )
    ),
    "a product of primes": lambda answer, reference: is_of_primes(answer.node),
    "a power": _is_power,
    "a sum or product of its numbers": _has_same_terms,
    "in partial fractions": _is_decomposed,
    "in slope-intercept form": _is_expanded,
    "in vertex form": _is_vertex,
}
"""True if an answer has the form, given the reference."""
