r"""Test whether a value is of the thing that the question asks for: not `zebra = 42`, \log k for k, or the width for
the length."""

import itertools
import re

from ratchet.verifiers.math import words
from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.families import INTEGERS
from ratchet.verifiers.math.nodes import ZERO, names_of
from ratchet.verifiers.math.numeric import MOST_WORK, same_value
from ratchet.verifiers.math.question import Question, stem
from ratchet.verifiers.math.sentences import direction
from ratchet.verifiers.math.symbols import is_symbol
from ratchet.verifiers.math.tokens import single_letters, spelled
from ratchet.verifiers.math.vocabulary import VOCABULARY

_QUANTITIES = frozenset(word for section in ("lettered", "quantities") for word in VOCABULARY[section].split())
_SIZES, _RESULTS, _HAVING = (frozenset(VOCABULARY[each].split()) for each in ("sizes", "results", "having"))
_OPPOSITES = [({*one.split()}, {*other.split()}) for one, other in VOCABULARY["opposites"].items()]
_PRONOUNS = frozenset(VOCABULARY["restated"]["neutral"].split()) | {"everyone", "everybody", "who", "which", "also"}
_PROBABILITY = re.compile(r"\b(?:probability|chance|likelihood)\b", re.IGNORECASE)
_INTEGERS = re.compile(
    r"\bintegers?\b|\bintegral\b|\bwhole\b|\bnatural\b|\\(?:mathbb|Bbb|mathbf) ?\{?[ZN]|ℤ|ℕ", re.IGNORECASE
)
_COUNTING = re.compile(
    r"\bpositive\b|\bnatural\b|\bwhole numbers?\b|non-?negative|\bsequence|\bterms?\b|\bn-?th\b|recurren|\bseries\b"
    r"|\\(?:mathbb|Bbb|mathbf) ?\{?N|ℕ|\^\{?\+",
    re.IGNORECASE,
)
_SEVERAL = re.compile(r"\b(?:all|solutions|values|roots|zeros|pairs)\b", re.IGNORECASE)
_NAME = r"(?:\\[a-z]+|[A-Za-z])(?:_\{?\w\}?)?"
_TUPLE = re.compile(rf"\(\s*({_NAME}(?:\s*,\s*{_NAME})+)\s*\)")
_DERIVATIVE = re.compile(r"\\[dt]?frac\s*\{\s*d\s*([a-z])\s*\}\s*\{\s*d\s*([a-z])\s*\}")
_SEGMENT = re.compile(r"[A-Z] ?[A-Z]")


def names_another(question: Question, reference: Answer, answer: Answer) -> bool:
    """True if an answer of the right value gives it to something other than the question asks for."""
    return any(differs(question, reference, answer) for differs in _DIFFERENCES)


def _unknown(question: Question, reference: Answer, answer: Answer) -> bool:
    """`zebra = 42`: a name in words that is neither the question's nor that of a quantity."""
    if answer.kind != "equation" or answer.words or answer.parts[0].kind != "text":
        return False
    if not all(map(words.word, answer.parts[0].tokens)):
        return False
    said = [word for word in answer.parts[0].words.lower().split() if len(word) > 2]
    return bool(said) and not any(word in _QUANTITIES or stem(word) in question.stems for word in said)


def _other_size(question: Question, reference: Answer, answer: Answer) -> bool:
    """`radius 8 cm` where the diameter is asked for, `the sum of the roots is 8` where their product is, `the minimum
    is 8` where the maximum is."""
    said = {*map(words.word, answer.tokens)} - {""}
    if not said or reference.kind == "text":
        return False
    request, text = ({*re.findall("[a-z]+", each.lower())} for each in (question.last_sentence, question.text))
    if any(request & kind and said & kind and not said & kind & request for kind in (_SIZES, _RESULTS)):
        return True
    return any(
        text & one and said & other and not said & one and not text & other
        for one, other in (*_OPPOSITES, *(pair[::-1] for pair in _OPPOSITES))
    )


def _other_person(question: Question, reference: Answer, answer: Answer) -> bool:
    """`Jane has 12` where the question has no Jane."""
    return any(
        one.text.istitle() and words.word(two) in _HAVING and not _is_known(question, reference, words.word(one))
        for one, two in itertools.pairwise(answer.tokens)
    )


def _is_known(question: Question, reference: Answer, word: str) -> bool:
    is_answer = word in reference.text.lower()
    return is_answer or len(word) < 3 or word in _PRONOUNS or stem(word) in question.stems


def _other_side(question: Question, reference: Answer, answer: Answer) -> bool:
    r"""`AB = 5` for `BC = 5`, `dx/dy` for `dy/dx`, `\log k = 13` for k."""
    if answer.kind != "equation" or answer.words:
        return False
    left = answer.parts[0]
    if reference.kind == "equation" and not reference.words:
        sides = [each.parts[0].text for each in (reference, answer)]
        if all(map(_SEGMENT.fullmatch, sides)) and {*sides[0]} != {*sides[1]}:
            return True
    written = {*map(spelled, question.formulas)}
    letters = names_of(left.node or ZERO)
    if letters and left.tokens[0].isa("\\log", "\\ln") and left.text not in written:
        return reference.kind == "scalar"
    if letters and any(token.isa("\\cdot") for token in left.tokens) and left.text not in written:
        return reference.kind == "scalar" and "product" not in question.text
    derived = _DERIVATIVE.fullmatch(left.text.replace(" ", ""))
    asked = {match.groups() for match in _DERIVATIVE.finditer(question.text)}
    return derived is not None and derived.groups() not in asked and derived.groups()[::-1] in asked


def _other_order(question: Question, reference: Answer, answer: Answer) -> bool:
    """`(b, a) = (-2, 1)` and `b = -2, a = 1` for (a, b) = (-2, 1)."""
    named = {part.parts[0].text: part.parts[-1] for part in reference.parts if part.kind == "equation"}
    if any(len(name) > 1 for name in named):  # numbered roots have any order
        return False
    if (reference.kind != "tuple" or reference.brackets != "()") and len(named) < 2:
        return False
    if answer.kind == "equation" and not answer.words and len(answer.parts) == 2:
        left, right = answer.parts
        names = [part.text for part in left.parts] if left.kind == right.kind == "tuple" else []
        values = [*right.parts]
    else:
        equations = [part for part in answer.parts if part.kind == "equation" and len(part.parts) == 2]
        names = [part.parts[0].text for part in equations] if answer.kind == "collection" else []
        values = [part.parts[1] for part in equations]
    if len({*names}) < len(reference.parts) or len(names) != len(reference.parts) or len(values) != len(names):
        return False
    if {*named} == {*names}:
        order, wanted = [*named], [*named.values()]
    else:
        order, wanted = _order(question, names), [*reference.parts]
    numbers = [part for part in (*values, *wanted) if part.kind == "scalar" and part.node and not names_of(part.node)]
    if order is None or len(named) == 1 or len(numbers) < 2 * len(values):
        return False
    pairs = ((values[names.index(name)], part) for name, part in zip(order, wanted, strict=True))
    return any(same_value(part.node or ZERO, value.node or ZERO, [MOST_WORK]) is False for value, part in pairs)


def _order(question: Question, names: list[str]) -> list[str] | None:
    """These names as a tuple of the question has them, or by the alphabet."""
    written = [[each.strip() for each in match[1].split(",")] for match in _TUPLE.finditer(question.text)]
    order = next((each for each in written if {*each} == {*names}), None)
    return order or (sorted(names) if all(len(name) == 1 for name in names) else None)


def _restricted(question: Question, reference: Answer, answer: Answer) -> bool:
    """`f(n) = n for all even n`; `x > 2, x \\in \\mathbb{Z}` for x > 2; `k\\pi, k \\in \\mathbb{N}` for all of them.
    A letter that the question has, or that numbers the members of a sequence, is what it says there."""
    if reference.domain or any(part.domain for part in reference.parts):
        return False
    domains = {each for part in (answer, *answer.parts) for each in part.domain.split()}
    if domains & {"even", "odd", "prime"}:
        return True
    is_counted, is_whole = question.says(_COUNTING), question.says(_INTEGERS)
    if answer.variable or any(part.variable for part in answer.parts):
        return "Q" in domains or (not is_whole and bool(domains & {"Z", "N", "N0"}))
    letters = {letter for letter in _letters(answer) if not question.names(letter.lstrip("\\"))}
    is_narrow = not is_counted and any(each in ("N", "N0", "R+") or each[0] == ">" for each in domains)
    is_narrow |= "Q" in domains or ("Z" in domains and not is_whole and not letters <= INTEGERS)
    return is_narrow and bool(letters)


def _letters(answer: Answer) -> frozenset[str]:
    """The letters of its values, without the arguments and indices of the left sides of equations."""
    sides = [part.parts for part in (answer, *answer.parts) if part.kind == "equation" and not part.words]
    given = {token.text for left, *_ in sides for token in single_letters(left.tokens)}
    values = [value for side in sides for value in side[1:]] or [answer, *answer.parts]
    return frozenset().union(*(names_of(value.node) for value in values if value.node)) - given


def _listed(question: Question, reference: Answer, answer: Answer) -> bool:
    """`1, 100` for 1100, where the question may ask for several values."""
    is_list = answer.kind == "collection" and len(answer.parts) > 1
    is_list &= reference.value is not None and all(part.value is not None for part in answer.parts)
    return is_list and question.says(_SEVERAL)


def _odds(question: Question, reference: Answer, answer: Answer) -> bool:
    """`1:6` for a probability of 1/6."""
    spoken = {words.word(token) for token in answer.tokens}
    if "odds" in spoken and "odds" not in question.text.lower():
        return True
    return answer.kind == "ratio" and reference.kind == "scalar" and question.says(_PROBABILITY)


def _misnamed(question: Question, reference: Answer, answer: Answer) -> bool:
    """`5 pears and 3 apples` as 5, 3, where the question names apples first."""
    if any(part.unit or part.kind == "equation" for part in reference.parts):
        return False
    parts = question.in_order(answer.parts) if answer.kind == reference.kind == "collection" else None
    return parts is not None and [part.value for part in parts] != [part.value for part in reference.parts]


def _extremes_swapped(question: Question, reference: Answer, answer: Answer) -> bool:
    """`minimum 5, maximum 1`."""
    said = {part.parts[0].text[:3].lower(): part.parts[-1].value for part in answer.parts if part.kind == "equation"}
    low, high = said.get("min"), said.get("max")
    return low is not None and high is not None and low > high


def _negative_change(question: Question, reference: Answer, answer: Answer) -> bool:
    """`a decrease of -25%`, but not a fall to -5."""
    spoken = [words.word(token) for token in answer.tokens]
    is_change = any(direction(word) or word == "deceleration" for word in spoken) and "to" not in spoken
    pairs = itertools.pairwise(answer.tokens)
    return is_change and any(one.isa("-") and other.kind == "number" for one, other in pairs)


def _two_truths(question: Question, reference: Answer, answer: Answer) -> bool:
    """`It is false that the statement is false`."""
    return sum(words.word(token) in ("true", "false") for token in answer.tokens) > 1 and len(reference.tokens) == 1


def _respectively(question: Question, reference: Answer, answer: Answer) -> bool:
    """`Bob and Alice get 12 and 20 respectively`, where the question names Alice first."""
    first = next((i for i, token in enumerate(answer.tokens) if token.kind == "number"), 0)
    said = [token.text for token in answer.tokens]
    names = [word for word in said if word[:1].isupper() and word.isalpha() and word[1:].islower()]
    places = [question.text.find(name) for name in names]
    is_apart = len(names) > 1 and {*names} <= {*said[:first]} and answer.kind == "collection"
    return is_apart and -1 not in places and places != sorted(places)


def _other_event(question: Question, reference: Answer, answer: Answer) -> bool:
    r"""`P(\overline{A})` for P(A): what the question asks for without words, with another argument."""
    if answer.kind != "equation" or answer.words or reference.kind != "scalar":
        return False
    left = answer.parts[0]
    head = left.text.split(" ( ")[0]
    if head != "P" or any(len(words.word(token)) > 1 for token in left.tokens):
        return False
    asked = question.formulas[-1] if question.formulas else ()
    return spelled(asked).startswith("P (") and spelled(asked) != left.text and is_symbol(left)


_DIFFERENCES = (
    _unknown, _other_size, _other_person, _other_side, _other_order, _restricted, _listed, _odds, _misnamed,
    _extremes_swapped, _negative_change, _two_truths, _respectively, _other_event,
)  # fmt: skip
