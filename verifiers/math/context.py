"""Requirements that a question adds to a reference, and parts that it lets an answer omit or say differently: unit,
base, modulus, conditions, names, order."""

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

from ratchet.verifiers.math import (
    integers,
    letters,
    listings,
    measures,
    requested,
    restated,
    words,
)
from ratchet.verifiers.math.answer import Answer, Pair, with_nodes
from ratchet.verifiers.math.evaluated import has_arithmetic_left
from ratchet.verifiers.math.nodes import ZERO, Node, names_of, natural, nodes_of, replaced
from ratchet.verifiers.math.numeric import constant_value
from ratchet.verifiers.math.parts import trimmed
from ratchet.verifiers.math.quantities import with_letter_unit
from ratchet.verifiers.math.question import Question
from ratchet.verifiers.math.readings import without_constant
from ratchet.verifiers.math.sentence_values import stated_values
from ratchet.verifiers.math.structure import is_list, parse_answer, parse_tokens, read_tokens
from ratchet.verifiers.math.tokens import spelled
from ratchet.verifiers.math.units import parse_unit

_POWER = r"(?:[²³]|\^\{?[23]\}?)?"
_LETTERS = re.compile(rf"\$?(-?\d[\d.,\s]*)\s+(([A-Za-zμΩ]{{1,4}}){_POWER}(?:/[a-z]{{1,3}}{_POWER})?)\.?\$?")
_EXTREMES = (
    (re.compile(r"\b(?:greatest|largest|maximum|maximal|most|highest|longest)\b", re.IGNORECASE), ("at", "most")),
    (re.compile(r"\b(?:least|smallest|minimum|minimal|fewest|lowest|shortest)\b", re.IGNORECASE), ("at", "least")),
)
_SOLVING = re.compile(r"\bsolv|\bsolutions?\b|\broots?\b", re.IGNORECASE)
_IDENTITY = re.compile(r"\bidentity\b|\\(?:mathbf|bm|boldsymbol)\s*\{?\s*I\b|\bI_\{?\d")
_EXISTING = re.compile(r"\bdo(?:es)? (?:there )?(?:\w+ )*exist|\b(?:is|are) there\b", re.IGNORECASE)
_COUNTS = re.compile(r"\bhow many\b|\bnumber of\b", re.IGNORECASE)
_ANTIDERIVATIVE = re.compile(
    r"\bantiderivative|\bindefinite integral|\bintegrate\b(?![^.?]*\bfrom\b)"
    r"|\\int(?![a-z]|\s*(?:\\limits)?\s*[_^])",
    re.IGNORECASE,
)
_NATURAL = re.compile(
    r"\\int(?![a-z])|\\lim(?![a-z])|\\sum_.*\\infty|\\ln(?![a-z])|\be\^|\\exp(?![a-z])|\bintegra|\bantideriv|\bderivative"
    r"|\bdifferential|\basymptotic|\bentropy\b|\bprime number theorem",
    re.IGNORECASE | re.DOTALL,
)
_COMMON = re.compile(
    r"\\log_?\s*(?:_|\{?10)|\\lg(?![a-z])|\bbase[- ]\$?(?:10|ten)\b|\bcommon log|\bpH\b|\bdecibel|\\log.*\\ln(?![a-z])"
    r"|\\ln(?![a-z]).*\\log",
    re.DOTALL,
)
_POSITIVE_INTEGERS = re.compile(r"\b(?:positive|natural|non-?negative)\b", re.IGNORECASE)
_INTEGERS = re.compile(r"\b(?:positive |negative |non-?negative )?(?:integers?|natural numbers?|whole numbers?)\b")
_LEAST = {"positive": 1, "natural": 1, "nonnegative": 0, "non-negative": 0}
_RATIO = re.compile(r"\bratio of\b(?!.*(?:\bform\b|\w\s*:\s*\w|\bintegers\b|\bterms\b))", re.IGNORECASE | re.DOTALL)
_INFINITE = ("name", "\\infty")


def required(question: Question, text: str, same: Callable[[str, str], bool]) -> Answer:
    """The reference as the question asks for it: 25 becomes 25% after "what percent" (numbers up to 1 stay, since they
    are ambiguous), a list has an order if one is asked for, an option its text, a number its unit. `same` compares
    texts."""
    reference = parse_answer(text)
    if (option := _as_option(question, reference, text, same)) is not None:
        return option
    if reference.kind == "scalar" and not reference.percent and reference.unit is None:
        if reference.value is not None and reference.value > 1 and question.is_percentage:
            return replace(reference, percent=True)
        return _with_unit(question, reference, text)
    is_ordered = is_list(reference) and question.orders(len(reference.parts))
    return replace(reference, ordered=True) if is_ordered else reference


def _as_option(question: Question, reference: Answer, text: str, same: Callable[[str, str], bool]) -> Answer | None:
    """The letter of a choice with its text; None if it is none of the question's options, or has its text."""
    listed = question.options
    if not listed or (reference.kind == "option" and reference.parts):
        return None
    letter = reference.words if reference.kind == "option" else reference.text
    several = [part.words if part.kind == "option" else part.text for part in reference.parts]
    if is_list(reference) and len({*several} & {*listed}) == len(several):
        parts = tuple(parse_answer(f"({each}) {listed[each]}") for each in several)
        return replace(reference, parts=parts)
    if re.fullmatch("[A-J]{2,}", text) and len(set(text)) == len(text) and set(text) <= set(listed):
        return replace(parse_answer(", ".join(text)), spelling=reference.spelling)  # several choices: ACD
    if letter not in listed:
        equal = [letter for letter, option in listed.items() if same(option, text)]
        letter = equal[0] if len(equal) == 1 else ""
    option = parse_answer(f"({letter}) {listed[letter]}") if letter else None
    return option and replace(option, spelling=reference.spelling)


def _with_unit(question: Question, reference: Answer, text: str) -> Answer:
    """The reference with the unit that the question asks for; `7 m` as `7 \\text{ m}` where the question has it."""
    asked = question.unit
    measured = with_letter_unit(reference, apart=False)
    if measured is not reference and asked and measured.unit and asked[1].dimension == measured.unit.dimension:
        return measured
    if (match := _LETTERS.fullmatch(text)) and (unit := parse_unit(match[2].replace("²", "^2").replace("³", "^3"))):
        shown = re.search(rf"(?<![\w\\])\d[\d.,]*\s*{re.escape(match[3])}(?!\w)", question.text)
        is_unit = shown or (asked and asked[1].dimension == unit.dimension) or not question.names(match[3])
        is_variable = any(spelled(formula) == match[3] for formula in question.formulas)
        return parse_answer(f"{match[1]} \\text{{ {match[2]}}}") if is_unit and not is_variable else reference
    if not asked or reference.node is None or names_of(reference.node):
        return reference
    return replace(reference, unit=asked[1])


def other_readings(question: Question, reference: Answer, answer: Answer, text: str) -> Iterator[Pair]:
    """Pairs of reference and answer as the question lets them be read; one pair that is the same makes the answer
    right."""
    if _says_the_same(question, reference, answer):
        yield reference, reference
    yield from _in_words(question, reference, answer)
    for value in requested.requested_values(question, answer):
        yield reference, value
    is_counted = answer.domain in ("N", "N0") and question.says(_POSITIVE_INTEGERS)
    is_class = "congruence" in (reference.kind, *(part.kind for part in reference.parts))
    if is_class and answer.kind in ("equation", "collection") and (is_counted or not answer.domain):
        yield reference, replace(answer, domain="Z")
    if answer.kind == "congruence" and str(answer.parts[1].value) in question.moduli:
        yield reference, answer.parts[0]
    if (bare := _without_condition(question, answer)) is not None:
        yield reference, bare
    for module in (measures, listings, letters):
        yield from module.readings(question, reference, answer)
    if _bounds_agree(question, reference, answer):
        yield reference, reference
    if reference.kind == answer.kind == "moment" and "year" not in answer.words:
        year = re.search(r" year (\d+)", reference.words)
        if year and re.search(rf"\b{year[1]}\b", question.text):
            yield replace(reference, words=reference.words.replace(year[0], "")), answer
    said = [words.word(token) for token in answer.tokens]
    if "a mixed number" in question.forms and said[1:2] == ["and"]:  # 7 and 5/6
        yield reference, parse_tokens((answer.tokens[0], *answer.tokens[2:]))
    if reference.tokens and reference.tokens[-1].isa(")") and (bare := restated.without_remark(reference.tokens)):
        yield parse_tokens(bare), answer  # -1 (odd)
    if question.says(_ANTIDERIVATIVE) and answer.node and (node := without_constant(answer.node)):
        yield reference, replace(answer, node=node)
    if question.says(_NATURAL) and not question.says(_COMMON):
        pair = (_with_natural(reference), _with_natural(answer))
        if pair != (reference, answer):
            yield pair
    value = answer.stated
    is_matrix = reference.kind == "matrix" and value.kind == "scalar" and not has_arithmetic_left(value.node or ZERO)
    if is_matrix and (question.says(_IDENTITY) or not question.names("I")):
        yield reference, _with_matrices(value, len(reference.parts))
    is_share = reference.kind == "ratio" and len(reference.parts) == 2 and reference.parts[1].value == 1
    if is_share and answer.kind == "scalar" and question.says(_RATIO):
        yield reference.parts[0], answer
    is_quotation = question.quotes(text)
    for value in () if is_quotation else restated.values(question, reference, answer):
        yield reference, value
    for value in () if is_quotation else stated_values(question, reference, words.numbered(read_tokens(text))):
        yield reference, value


def _bounds_agree(question: Question, reference: Answer, answer: Answer) -> bool:
    r"""True for `k \in \{2, 3, ...\}`, `k > 1` and `k \ge 2`, where the question says that k is an integer."""
    sides = [each for each in map(integers.bounds, (reference, answer)) if each]
    names = {name for name, _, _ in sides} - {""}
    if len(sides) < 2 or len(names) != 1:
        return False
    letter = rf"[^.?!$]{{0,20}}\$?\(?\s*{min(names)}(?![A-Za-z])"
    said = re.search(f"({_INTEGERS.pattern}){letter}", question.text, re.IGNORECASE)
    if said is None:
        return False
    least = next((least for start, least in _LEAST.items() if said[1].lower().startswith(start)), None)
    if least is not None:
        sides = [(name, least if low is None else low, high) for name, low, high in sides]
    return sides[0][1:] == sides[1][1:]


def _says_the_same(question: Question, reference: Answer, answer: Answer) -> bool:
    """True if the answer's words mean the reference where this is asked: "none", a claim, a place."""
    counts = question.says(_COUNTS)
    if (reference.words == "infinite" and answer.node == _INFINITE) or (
        answer.words == "infinite" and reference.node == _INFINITE and counts
    ):
        return True
    says_none = answer.kind == "collection" and not answer.parts
    is_denial = says_none or answer.words.startswith(("does not exist", "no such"))
    if reference.words == "no" and is_denial and question.says(_EXISTING):
        return True
    is_empty = reference.kind == "collection" and not reference.parts
    if is_empty and answer.words == "does not exist" and question.says(_SOLVING):
        return True
    for one, other in ((reference, answer), (answer, reference)):
        says_none = other.words == "none" or (other.kind == "collection" and not other.parts)
        if one.value == 0 and says_none and counts:
            return True
    is_claim = reference.words in ("yes", "no") and answer.words != reference.words
    if is_claim and restated.is_yes(question, answer.tokens) is (reference.words == "yes"):
        return True
    pairs = ((answer, reference), (reference, answer))
    return any(restated.says(question, reference, *pair) for pair in pairs)


def _with_matrices(answer: Answer, size: int) -> Answer:
    """The answer with matrices of `size` rows for diag(1, 2), and for I, as in `6I`, or I_2 if there are two."""
    node = answer.node or ZERO
    ones = [("number", Fraction(1))] * size
    diagonals = {
        each: [*each[2:]] for each in nodes_of(node) if each[:2] == ("call", "\\diag") and len(each) == size + 2
    }
    diagonals |= {(kind, name): ones for kind in ("name", "vector") for name in ("I", f"I_{size}")}
    return replace(answer, node=replaced(node, {each: _diagonal(entries) for each, entries in diagonals.items()}))


def _diagonal(entries: list[Node]) -> Node:
    rows = range(len(entries))
    return ("rows", *(("row", *(entries[at] if at == column else ZERO for column in rows)) for at in rows))


def _in_words(question: Question, reference: Answer, answer: Answer) -> Iterator[Pair]:
    """`at most 5` as 5 where the most is asked for, a fall of 5 as 5 where a fall is."""
    for pattern, said in _EXTREMES if len(answer.tokens) > 2 else ():
        if tuple(map(words.word, answer.tokens[:2])) == said and question.says(pattern):
            yield reference, parse_tokens(answer.tokens[2:])
    for one, other in ((reference, answer), (answer, reference)):
        is_change = one.words in ("fall", "rise") and one.value is not None and not other.words
        if is_change and question.direction == (-1 if one.words == "fall" else 1):
            size = abs(one.value or 0)
            positive = replace(one, value=size, node=("number", size), words="")
            yield (positive, other) if one is reference else (other, positive)


def rounded(question: Question, answer: Answer) -> Answer:
    """The value 9.4 of `\\sqrt{89} \\approx 9.4` if that is true and the question asks to round; otherwise the
    answer."""
    left, sign, right = answer.spelling.partition("\\approx")
    if not sign or "\\approx" in right or "rounded" not in question.forms:
        return answer
    exact, value = parse_answer(left.rpartition("=")[2]), parse_answer(right)
    number = next((token.text for token in value.tokens if token.kind == "number"), "")
    exactly = constant_value(exact.node) if exact.node and exact.value is None else exact.value
    if exactly is None or value.value is None or value.kind != "scalar" or left.count("=") > 1:
        return answer
    is_near = abs(exactly - value.value) <= Fraction(1, 2 * 10 ** len(number.partition(".")[2]))
    return value if is_near and exact.unit in (None, value.unit) else answer


def _with_natural(answer: Answer) -> Answer:
    r"""\\log as the natural logarithm, unless the answer writes a base itself."""
    has_base = any(
        one.isa("\\lg") or (one.isa("\\log") and two.isa("_")) for one, two in itertools.pairwise(answer.tokens)
    )
    return answer if has_base or "\\log" not in answer.symbols else with_nodes(answer, natural)


def _without_condition(question: Question, answer: Answer) -> Answer | None:
    """`x - 3, x \\ne -3` without what the question says itself."""
    for at in range(len(answer.tokens) - 1, 1, -1) if question.conditions else ():
        tail = answer.tokens[at:]
        tail = tail[1:-1] if tail[0].isa("(") and tail[-1].isa(")") else tail
        if spelled(tail) in question.conditions:
            core = trimmed(answer.tokens[:at])
            while core and (core[-1].isa("(") or words.word(core[-1]) in ("for", "where", "with", "if", "when", "and")):
                core = trimmed(core[:-1])
            return parse_tokens(core) if core else None
    return None
