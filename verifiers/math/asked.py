r"""Test whether a value is of the thing that the question asks for: not `zebra = 42`, \log k for k, or the width for
the length."""

import itertools
import re

from ratchet.verifiers.math import words
from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.families import INTEGERS
from ratchet.verifiers.math.nodes import ZERO, kinds_of, names_of
from ratchet.verifiers.math.numeric import MOST_WORK, same_value
from ratchet.verifiers.math.question import Question, stem
from ratchet.verifiers.math.sentences import direction
from ratchet.verifiers.math.structure import is_list
from ratchet.verifiers.math.tokens import Tokens, single_letters, spelled
from ratchet.verifiers.math.units import DEGREE, RADIAN
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
_EXTREMES = {
    "max": re.compile(r"\b(?:largest|greatest|max(?:imum|imal)?|most|highest)\b", re.IGNORECASE),
    "min": re.compile(r"\b(?:smallest|least|min(?:imum|imal)?|lowest)\b", re.IGNORECASE),
}
_TUPLE = re.compile(rf"\(\s*({_NAME}(?:\s*,\s*{_NAME})+)\s*\)")
_DERIVATIVE = re.compile(r"\\[dt]?frac\s*\{\s*d\s*([a-z])\s*\}\s*\{\s*d\s*([a-z])\s*\}")
_SQUARE = re.compile(r"[\[\]]")
_STATISTICS = ("P", "E", "\\Var", "\\Cov")
_POINTS = re.compile(r"\b(?:coordinates?|points?|vertex|vertices|midpoint|pairs?)\b", re.IGNORECASE)
_RANGE = re.compile(r"\binterval|\binequalit|\bdomain\b|\brange\b|\bvalues\b", re.IGNORECASE)
_ANGLES = tuple(
    re.compile(rf"\b(?:in|expressed in|measured in|to|into) (?:terms of )?{unit}s?\b(?! per\b)", re.IGNORECASE)
    for unit in ("radian", "degree")
)
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
    is_bare = is_list(reference) and not named and not any(part.variable for part in reference.parts)
    if (reference.kind != "tuple" or reference.brackets != "()") and len(named) < 2 and not is_bare:
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
    if is_bare and len({*map(question.names, names)}) > 1:  # x = 2, y = 3 for two values of x
        return True
    if {*named} == {*names}:
        order, wanted = [*named], [*named.values()]
    else:
        order, wanted = order_of(question, names, by_alphabet=not is_bare), [*reference.parts]
    numbers = [part for part in (*values, *wanted) if part.kind == "scalar" and part.node and not names_of(part.node)]
    if order is None or len(named) == 1 or len(numbers) < 2 * len(values):
        return False
    pairs = ((values[names.index(name)], part) for name, part in zip(order, wanted, strict=True))
    return any(same_value(part.node or ZERO, value.node or ZERO, [MOST_WORK]) is False for value, part in pairs)


def order_of(question: Question, names: list[str], by_alphabet: bool = False) -> list[str] | None:
    """These names as a tuple or the last request of the question has them; otherwise by the alphabet, or None."""
    written = [[each.strip() for each in match[1].split(",")] for match in _TUPLE.finditer(question.text)]
    if order := next((each for each in written if {*each} == {*names}), None):
        return order
    places = [_place(question.last_sentence, name) for name in names]
    if not by_alphabet and all(place >= 0 for place in places) and len({*places}) == len(names):
        return [name for _, name in sorted(zip(places, names, strict=True))]
    return sorted(names) if by_alphabet and all(len(name) == 1 for name in names) else None


def _place(sentence: str, name: str) -> int:
    """Where the sentence has the name `e ( 18 )`, or for `N _ \\max` the largest; -1 if it has neither."""
    spelled = r"[\s{}]*".join(map(re.escape, name.split()))
    found = re.search(rf"(?<![A-Za-z\\]){spelled}(?![A-Za-z])", sentence)
    for end, extreme in _EXTREMES.items():
        if found is None and end in name:
            found = extreme.search(sentence)
    return found.start() if found else -1


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


def _other_symbol(question: Question, reference: Answer, answer: Answer) -> bool:
    r"""`x_1 = 8` where x_2 is asked for, BC for AB, P(A^c) for P(A), \angle ABC for \angle BCD, f(x) for x."""
    if answer.kind != "equation" or answer.words or reference.kind == "equation" or len(answer.parts) != 2:
        return False
    asked, left = (_bare(tokens) for tokens in (question.symbol, answer.parts[0].tokens))
    if not asked:  # an event that the question asks for without words
        asked = question.formulas[-1] if question.formulas and question.formulas[-1][0].text == "P" else ()
    said, wanted = (_SQUARE.sub(_round, spelled(tokens)) for tokens in (left, asked))
    said, wanted = (text.replace(" ", "") if _SEGMENT.fullmatch(text) else text for text in (said, wanted))
    if not left or not asked or said == wanted or any(len(words.word(token)) > 1 for token in left if token.upright):
        return False
    if len(asked) == 1 and asked[0].kind == "name":
        is_written = any(spelled(formula) == said for formula in question.formulas)
        return not is_written and _is_decorated(left, asked[0].text)
    if all(map(_SEGMENT.fullmatch, (said, wanted))):
        return {*said} != {*wanted}
    if asked[0].isa("\\angle") and left[0].isa("\\angle"):
        return _vertex(said) != _vertex(wanted)
    both = [token.text for side in (left, asked) for token in side[1:2]]
    if left[0].text != asked[0].text or len(both) < 2:
        return False
    is_argument = both[0] in ("(", "[") and both[1] in ("(", "[")
    is_number = all(len(side) == 4 and side[2].kind == "number" for side in (left, asked))
    return both == ["_", "_"] or (is_argument and (is_number or left[0].text in _STATISTICS))


def _bare(tokens: Tokens) -> Tokens:
    """Tokens without words around them, and an angle without the m of its measure."""
    while tokens and len(words.word(tokens[0])) > 1 and not _SEGMENT.fullmatch(tokens[0].text):
        tokens = tokens[1:]
    return tokens[1:] if len(tokens) > 1 and tokens[0].text == "m" and tokens[1].isa("\\angle") else tokens


def _is_decorated(tokens: Tokens, name: str) -> bool:
    """True for \\sin x, f(x), x', \\bar x and x^2, which are not x, and for any inverse."""
    if tokens[-1].isa("}") and "^" in [token.text for token in tokens]:
        return True
    if tokens[0].text == name:
        return len(tokens) > 1 and tokens[1].isa("'", "''", "%", "^")
    return not tokens[0].isa("\\angle") and any(token.text.split()[-1] == name for token in tokens)


def _vertex(angle: str) -> str:
    """B of \\angle ABC."""
    letters = [letter for letter in angle.replace("\\angle", "") if letter.isalpha()]
    return letters[len(letters) // 2] if len(letters) in (1, 3) else angle


def _round(match: re.Match[str]) -> str:
    return {"[": "(", "]": ")"}[match[0]]


def _metric(question: Question, reference: Answer, answer: Answer) -> bool:
    """`5 meters` for 5m, where m is a letter of the question."""
    letters = names_of(reference.node or ZERO) if reference.unit is None else frozenset[str]()
    is_letter = len(letters) == 1 and any(spelled(formula) in letters for formula in question.formulas)
    return is_letter and answer.unit is not None and answer.node is not None and not names_of(answer.node)


def _between(question: Question, reference: Answer, answer: Answer) -> bool:
    """`1 < x < 2` and a union of intervals, where points are asked for."""
    points = reference.parts if reference.kind == "collection" else (reference,)
    if not all(each.kind == "tuple" and each.brackets == "()" for each in points) or question.says(_RANGE):
        return False
    signs = ("<", ">", "\\le", "\\ge", "\\cup")
    return any(token.isa(*signs) for token in answer.tokens) and bool(_POINTS.search(question.last_sentence))


def _other_integer(question: Question, reference: Answer, answer: Answer) -> bool:
    """`m\\pi` for `n\\pi`, where the question has both."""
    ours, theirs = (names_of(each.stated.node or ZERO) for each in (reference, answer))
    is_integer = len(ours) == len(theirs) == 1 and ours != theirs and ours | theirs <= INTEGERS
    is_angle = "\\pi" in kinds_of(reference.stated.node or ZERO, names=True)
    return is_integer and is_angle and all(map(question.names, ours | theirs))


def _other_angle(question: Question, reference: Answer, answer: Answer) -> bool:
    r"""`45^\\circ` where the question asks for radians, \\pi/4 where it asks for degrees."""
    units = {part.unit for part in (answer, answer.stated, *answer.parts, *(each.stated for each in answer.parts))}
    in_radians, in_degrees = (question.says(pattern) for pattern in _ANGLES)
    if in_radians == in_degrees:
        return False
    return DEGREE in units if in_radians else RADIAN in units


_DIFFERENCES = (
    _unknown, _other_size, _other_person, _other_side, _other_order, _restricted, _listed, _odds, _misnamed,
    _extremes_swapped, _negative_change, _two_truths, _respectively, _other_symbol, _metric, _between,
    _other_integer, _other_angle,
)  # fmt: skip
