"""Lists whose order, names or rule the question or the answer gives: `(b, a) = (-1, 2)`, `(a) 13 (b) 91`, A < D < B."""

import re
from collections.abc import Iterator
from dataclasses import replace

from ratchet.verifiers.math.answer import Answer, Pair
from ratchet.verifiers.math.asked import order_of
from ratchet.verifiers.math.enumerated import enumerated
from ratchet.verifiers.math.nodes import kinds_of
from ratchet.verifiers.math.parts import split, trimmed
from ratchet.verifiers.math.question import Question
from ratchet.verifiers.math.regions import variable_of
from ratchet.verifiers.math.structure import is_list, parse_tokens

_COORDINATES = re.compile(r"\b(?:coordinate|point|pair|vert(?:ex|ice)|midpoint|cent(?:er|re))s?\b", re.IGNORECASE)
_IN_ORDER = re.compile(
    r"\bin (?:this|that|the given|(?:in|de)creasing|(?:a|de)scending) order\b|\brespectively\b", re.IGNORECASE
)


def readings(question: Question, reference: Answer, answer: Answer) -> Iterator[Pair]:
    """Pairs of reference and answer with lists, tuples and named values as the question asks for them."""
    yield from _listed(question, reference, answer)
    yield from _enumerated(reference, answer)
    yield from _in_question_order(question, reference, answer)
    yield from _of_parts(reference, answer)
    yield from _ordered(question, reference, answer)


def _listed(question: Question, reference: Answer, answer: Answer) -> Iterator[Pair]:
    """`(6, 1260)` for 6 and 1260 where their order is given, `2, -1` for a point."""
    if is_list(reference) and not reference.ordered and _names_a_set(answer, len(reference.parts)):
        yield reference, answer.parts[1]
    pair, values = (reference, answer) if reference.kind == "tuple" else (answer, reference)
    if pair.kind != "tuple" or pair.brackets != "()" or pair.variable or not is_list(values):
        return
    is_asked = question.says(_COORDINATES) if pair is reference else values.ordered and question.says(_IN_ORDER)
    if is_asked:
        as_list = replace(pair, kind="collection", brackets="", ordered=True)
        values = replace(values, ordered=True)
        yield (as_list, values) if pair is reference else (values, as_list)


def named_list(question: Question, reference: Answer, answer: Answer) -> Answer | None:
    """`(h, a) = (-1, 2)` and `h = -1, a = 2` as the values of a and h, in the order in which the question has them."""
    if not is_list(reference) or any(part.kind == "equation" or part.variable for part in reference.parts):
        return None
    pairs = [part.parts for part in answer.parts if part.kind == "equation" and not part.words]
    if answer.kind == "equation" and not answer.words and all(side.kind == "tuple" for side in answer.parts):
        left, *right = answer.parts
        pairs = [*zip(left.parts, right[0].parts, strict=False)] if len(right) == 1 else []
    values = {pair[0].text: pair[-1] for pair in pairs if len(pair) == 2}
    order = order_of(question, [*values]) if len(values) == len(reference.parts) else None
    parts = tuple(values[name] for name in order or ())
    return replace(answer, kind="collection", parts=parts, ordered=True) if order else None


def _names_a_set(answer: Answer, size: int) -> bool:
    """True for `{a, b} = {1, 2}`."""
    if answer.kind != "equation" or answer.words or len(answer.parts) != 2:
        return False
    left, right = answer.parts
    return left.brackets == right.brackets == "{" and all(map(variable_of, left.parts)) and len(left.parts) == size


def _enumerated(reference: Answer, answer: Answer) -> Iterator[Pair]:
    """Both with all members of what lists them by a rule. Of roots as powers of e, 1 and -1 are no arithmetic left."""
    wanted, got = enumerated(reference), enumerated(answer)
    if wanted or got:
        one, other = wanted or reference, got or answer
        yield one, other
        nodes = [part.node for part in got.parts if part.node] if got else []
        are_powers = any("e" in kinds_of(node, names=True) for node in nodes)
        if are_powers and all(part.places is None for part in (reference, *reference.parts)):
            yield other, one


def _in_question_order(question: Question, reference: Answer, answer: Answer) -> Iterator[Pair]:
    """`4 helicopters and 7 goats` as 7, 4, where the question names goats first."""
    parts = question.in_order(answer.parts) if is_list(reference) and is_list(answer) else None
    if parts is not None:
        yield replace(reference, ordered=True), replace(answer, parts=parts, ordered=True)


def _of_parts(reference: Answer, answer: Answer) -> Iterator[Pair]:
    """`(a) 13 (b) 91` as 13, 91 in this order."""
    tokens = answer.tokens
    at: list[int] = []
    for i in range(1, len(tokens)):
        if tokens[i].isa(")") and len(at) < 8 and tokens[i - 1].text == "abcdefgh"[len(at)]:
            at.append(i)
    if len(at) != len(reference.parts) or len(at) < 2 or reference.kind != "collection" or reference.brackets:
        return
    begins = [i - 1 - (i > 1 and tokens[i - 2].isa("(")) for i in at]
    values = [trimmed(tokens[i + 1 : end]) for i, end in zip(at, [*begins[1:], len(tokens)], strict=True)]
    if begins[0] == 0 and all(values):
        parts = tuple(map(parse_tokens, values))
        yield replace(reference, ordered=True), replace(answer, kind="collection", node=None, parts=parts, ordered=True)


def _ordered(question: Question, reference: Answer, answer: Answer) -> Iterator[Pair]:
    """ADBC, and A < D < B < C in the direction that is asked for, as A, D, B, C."""
    sign = question.ranking
    members = split(answer.tokens, sign) if sign and answer.kind in ("chain", "scalar") else []
    if len(members) == len(reference.parts) > 2 and reference.kind == "collection" and all(members):
        parts = tuple(map(parse_tokens, members))
        yield replace(reference, ordered=True), Answer("collection", answer.tokens, parts=parts, ordered=True)
    letters = [part.words if part.kind == "option" else part.text for part in reference.parts]
    if len(letters) < 2 or not all(len(each) == 1 and each.isalpha() for each in letters):
        return
    texts = answer.spelling.split()
    if [*answer.spelling] == letters or (texts[::2] == letters and {*texts[1::2]} == {sign}):
        yield reference, reference
