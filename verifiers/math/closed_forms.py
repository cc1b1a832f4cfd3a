"""Powers, factorials, binomials and products of primes that may stand for the number they equal."""

import re
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.forms import is_of_primes
from ratchet.verifiers.math.nodes import Node, is_prime, kinds_of, names_of, nodes_of
from ratchet.verifiers.math.question import Question

_NO_CLOSED_FORM = re.compile(
    r"\bsimplif|\bas an? (?:integer|decimal|whole|number)|\bdecimal\b|\bdigits?\b"
    r"|\bpower\b|\bfactorial\b|\bsquared\b|\bcubed\b|\bremainder\b|\bscientific\b|\bnearest\b|\bround|\bexpand|\bexponent",
    re.IGNORECASE,
)
_MOST_NUMBERS = 6
_CLOSED = {"^", "binomial", "factorial"}


def allows_closed_form(question: Question, answer: Answer) -> bool:
    """True if powers, factorials, binomials or a product of primes may answer for the number they equal: the question
    does not ask to compute them, and they are not its own arithmetic."""
    value = answer.stated
    if value.kind != "scalar" or not value.node or names_of(value.node) or question.says(_NO_CLOSED_FORM):
        return False
    kinds, numbers = kinds_of(value.node), [each[1] for each in nodes_of(value.node) if each[0] == "number"]
    if len(numbers) > _MOST_NUMBERS or kinds - _CLOSED - {"+", "-", "*", "/", "number"}:
        return False
    if any(number.denominator > 1 for number in numbers):
        return False
    given = {*re.findall(r"\d+", question.text)}
    if not kinds & _CLOSED:
        return kinds <= {"*", "number"} and all(map(is_prime, numbers)) and not given & {str(each) for each in numbers}
    own = Counter(abs(number) for number in numbers if number)
    is_own = any(
        own <= Counter(token.value for token in formula)
        and not (formula[0].kind == "name" and formula[1:2][0].isa("_"))
        for formula in question.formulas
        if len(formula) > 1
    )
    primes = {node[1] for node in nodes_of(value.node) if node[0] == "*" for node in node[1:] if node[0] == "number"}
    is_factored = is_of_primes(value.node) and not given & {str(each) for each in primes}
    return (is_factored or not _is_padded(value.node)) and not is_own


def _is_padded(node: Node) -> bool:
    """True if it has a sum with zero, a product with one, or products of plain numbers beside its powers."""
    if node[0] in _CLOSED or node[0] == "number":
        return False
    if node[0] in "+-" and ("number", Fraction(0)) in node[1 if node[0] == "+" else 2 :]:
        return True
    factors = [*_plain_factors(node)]
    return len(factors) > 1 or Fraction(1) in factors or any(_is_padded(part) for part in node[1:])


def _plain_factors(node: Node) -> Iterator[Fraction]:
    if node[0] in ("*", "/"):
        for part in node[1:]:
            yield from [part[1]] if part[0] == "number" else _plain_factors(part)
