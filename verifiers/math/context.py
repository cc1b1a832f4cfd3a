"""Requirements that a question adds to a reference, and parts that it lets an answer omit or say differently: unit,
base, modulus, conditions, names, order."""

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

from ratchet.verifiers.math import families, integers, permutations, reactions, requested, restated, words
from ratchet.verifiers.math.answer import Answer, with_name, with_nodes
from ratchet.verifiers.math.asked import order_of
from ratchet.verifiers.math.enumerated import enumerated
from ratchet.verifiers.math.expression import parse_expression
from ratchet.verifiers.math.nodes import ZERO, Node, names_of, natural, replaced
from ratchet.verifiers.math.numeric import constant_value
from ratchet.verifiers.math.parts import split, trimmed
from ratchet.verifiers.math.quantities import with_letter_unit
from ratchet.verifiers.math.question import Question
from ratchet.verifiers.math.readings import without_constant
from ratchet.verifiers.math.sentence_values import stated_values
from ratchet.verifiers.math.structure import is_list, parse_answer, parse_tokens, read_tokens
from ratchet.verifiers.math.tokens import spelled, tokenize
from ratchet.verifiers.math.units import ARCMINUTE, ARCSECOND, CELSIUS, DEGREE, FAHRENHEIT, parse_unit

_POWER = r"(?:[²³]|\^\{?[23]\}?)?"
_LETTERS = re.compile(rf"\$?(-?\d[\d.,\s]*)\s+(([A-Za-zμΩ]{{1,4}}){_POWER}(?:/[a-z]{{1,3}}{_POWER})?)\.?\$?")
_EXTREMES = (
    (re.compile(r"\b(?:greatest|largest|maximum|maximal|most|highest|longest)\b", re.IGNORECASE), ("at", "most")),
    (re.compile(r"\b(?:least|smallest|minimum|minimal|fewest|lowest|shortest)\b", re.IGNORECASE), ("at", "least")),
)
_ROOTS = re.compile(r"\b(?:roots?|solutions?|zeros?|zeroes)\b", re.IGNORECASE)
_SOLVING = re.compile(r"\bsolv|\bsolutions?\b|\broots?\b", re.IGNORECASE)
_POLYNOMIAL = re.compile(
    r"\b(?:polynomial|quadratic|cubic|quartic|expression|formula|function|equation)\b", re.IGNORECASE
)
_PLACE = re.compile(r"\b(?:lines?|planes?|ax[ei]s|asymptotes?|directri(?:x|ces)|equations?)\b", re.IGNORECASE)
_ONE_WAY = re.compile(
    r"\bpositive (?:\w+ )?multiple|\bdirections?\b.{0,80}?(?:\b(?:in|de)creas|\b(?:as|des)cent|\bsteepest|\bfastest)",
    re.IGNORECASE | re.DOTALL,
)
_IDENTITY = re.compile(r"\bidentity\b|\\(?:mathbf|bm|boldsymbol)\s*\{?\s*I\b|\bI_\{?\d")
_DEFINED = re.compile(r"y|[A-Za-z](?: \^ \{ - 1 \})? \( (?:x|n) \)|[A-Za-z] _ n")
_NUMBERED = re.compile(r"([A-Za-z]|\\[a-z]+) _ (\d)")
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
_IDENTITY_FUNCTION = frozenset(["f", "is", "the", "identity", "function", "map", "mapping", "only", "it", "="])
_EXISTING = re.compile(r"\bdo(?:es)? (?:there )?(?:\w+ )*exist|\b(?:is|are) there\b", re.IGNORECASE)
_COORDINATES = re.compile(r"\b(?:coordinate|point|pair|vert(?:ex|ice)|midpoint|cent(?:er|re))s?\b", re.IGNORECASE)
_IN_ORDER = re.compile(
    r"\bin (?:this|that|the given|(?:in|de)creasing|(?:a|de)scending) order\b|\brespectively\b", re.IGNORECASE
)
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
_CHEMICAL = re.compile(r"\bbalanc|\bchemical|\breaction", re.IGNORECASE)
_POSITIVE_INTEGERS = re.compile(r"\b(?:positive|natural|non-?negative)\b", re.IGNORECASE)
_INTEGERS = re.compile(r"\b(?:positive |negative |non-?negative )?(?:integers?|natural numbers?|whole numbers?)\b")
_LEAST = {"positive": 1, "natural": 1, "nonnegative": 0, "non-negative": 0}
_DEFINITION = re.compile(
    r"\b(?:let|set|put|define|denote|write|where|with)\s+\$\s*([A-Za-z])\s*=\s*([^$,;=<>]{1,60})\$", re.IGNORECASE
)
_IN_TERMS = re.compile(
    r"\bin terms of\b|\bexpress\b|\bas a function of\b|\bsolve\b|\bsubstitut|\bprove\b|\bshow that\b", re.IGNORECASE
)
_ABROAD = r"(?:und|das|wie|sind|les?|une|des|est|sont|sous|dans|avec|los|las|que|por|para|uma|di|jest)"
_DECIMAL_COMMA = re.compile(
    rf"(?<![\d,(\[])\d+(?:,|\{{,\}})\d{{1,2}}(?!\d|,\d|\s*[)\]])|\b{_ABROAD}\b.*[à-ÿ]|[à-ÿ].*\b{_ABROAD}\b",
    re.IGNORECASE | re.DOTALL,
)
_RATIO = re.compile(r"\bratio of\b(?!.*(?:\bform\b|\w\s*:\s*\w|\bintegers\b|\bterms\b))", re.IGNORECASE | re.DOTALL)
_INTERCEPT = re.compile(r"\b\$?([xy])\$?[- ]intercept\b(?!s)", re.IGNORECASE)
_CYCLES = re.compile(r"\bcycles?\b|\bpermutation\b", re.IGNORECASE)
_INFINITE = ("name", "\\infty")
Pair = tuple[Answer, Answer]


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
    for one, other in ((reference, answer), (answer, reference)):
        digits, base = other.text.upper(), one.words.rpartition("_")[2]
        if one.kind == "based" and len(other.tokens) == 1 and digits.isalnum():
            based = replace(one, words=f"{digits}_{base}")
            if int(base) == question.base:
                yield (one, based) if one is reference else (based, one)
    if (bare := _without_condition(question, answer)) is not None:
        yield reference, bare
    yield from _listed(question, reference, answer)
    if (value := _intercept(question, reference, answer)) is not None:
        yield reference, value
    if _bounds_agree(question, reference, answer):
        yield reference, reference
    yield from _defined(question, reference, answer)
    yield from _enumerated(reference, answer)
    yield from _in_question_order(question, reference, answer)
    if reference.kind == answer.kind == "moment" and "year" not in answer.words:
        year = re.search(r" year (\d+)", reference.words)
        if year and re.search(rf"\b{year[1]}\b", question.text):
            yield replace(reference, words=reference.words.replace(year[0], "")), answer
    said = [words.word(token) for token in answer.tokens]
    if "a mixed number" in question.forms and said[1:2] == ["and"]:  # 7 and 5/6
        yield reference, parse_tokens((answer.tokens[0], *answer.tokens[2:]))
    if reference.tokens and reference.tokens[-1].isa(")") and (bare := restated.without_remark(reference.tokens)):
        yield parse_tokens(bare), answer  # -1 (odd)
    if (length := _PRIMES.get(answer.unit) if answer.unit else None) and question.says(length[1]):  # 4'' as 4 inches
        yield reference, replace(answer, unit=length[0])
    if (bare := _without_rate(question, answer)) is not None:
        yield reference, bare
    if (function := _mapped(reference, answer)) is not None:
        yield reference, function
    if reference.unit == DEGREE and answer.unit and answer.unit in _SCALES and question.says(_SCALES[answer.unit]):
        yield reference, replace(answer, unit=DEGREE)
    if (bare := _without_unit(question, answer)) is not None:
        yield reference, bare
    if question.says(_ANTIDERIVATIVE) and answer.node and (node := without_constant(answer.node)):
        yield reference, replace(answer, node=node)
    if question.says(_NATURAL) and not question.says(_COMMON):
        pair = (_with_natural(reference), _with_natural(answer))
        if pair != (reference, answer):
            yield pair
    numbers = [_with_decimal_comma(question, each) for each in (reference, answer)]
    if any(numbers):
        yield numbers[0] or reference, numbers[1] or answer
    if reference.kind == "matrix" and answer.kind == "scalar" and (question.says(_IDENTITY) or not question.names("I")):
        yield reference, _with_identity(answer, len(reference.parts))
    is_share = reference.kind == "ratio" and len(reference.parts) == 2 and reference.parts[1].value == 1
    if is_share and answer.kind == "scalar" and question.says(_RATIO):
        yield reference.parts[0], answer
    is_quotation = question.quotes(text)
    for value in () if is_quotation else restated.values(question, reference, answer):
        yield reference, value
    yield from _of_parts(reference, answer)
    yield from _renamed(question, reference, answer)
    yield from _ordered(question, reference, answer)
    for value in () if is_quotation else stated_values(question, reference, words.numbered(read_tokens(text))):
        yield reference, value


def _without_rate(question: Question, answer: Answer) -> Answer | None:
    """`\\$33 \\text{ per day}` without the rate, where the question asks for one `per day`."""
    at = next((i for i, token in enumerate(answer.tokens) if i and words.word(token) in ("per", "each", "a", "an")), 0)
    rate = answer.tokens[at:] if at else ()
    noun = " ".join(map(words.word, rate[1:]))
    asked = re.compile(rf"\b(?:per|each|every|an?) {re.escape(noun)}\b", re.IGNORECASE)
    return parse_tokens(answer.tokens[:at]) if noun and asked.search(question.last_sentence) else None


def _mapped(reference: Answer, answer: Answer) -> Answer | None:
    r"""The function `x \mapsto 2x` or "the identity function", where the reference is an equation for one."""
    left = reference.parts[0].node if reference.kind == "equation" and not reference.words else None
    if not left or left[0] not in ("applied", "call") or len(left) != 3 or left[2][0] != "name":
        return None
    name, value = left[2][1], reference.parts[-1]
    at = next((i for i, token in enumerate(answer.tokens) if token.isa("\\mapsto")), 0)
    if at and answer.tokens[at - 1].kind == "name" and (at == 1 or answer.tokens[at - 2].isa(":")):
        value = with_name(parse_tokens(answer.tokens[at + 1 :]), answer.tokens[at - 1].text, name)
        return replace(reference, parts=(reference.parts[0], value)) if name in names_of(value.node or ZERO) else None
    spoken = [words.word(token) or token.text for token in answer.tokens]
    is_identity = "identity" in spoken and {*spoken} <= _IDENTITY_FUNCTION | {left[1]}
    return replace(reference, parts=(reference.parts[0], replace(value, node=left[2]))) if is_identity else None


def _intercept(question: Question, reference: Answer, answer: Answer) -> Answer | None:
    """The intercept of `(0, 3)`, where the question asks for that on one axis."""
    axes = {axis.lower() for axis in _INTERCEPT.findall(question.text)}
    is_point = reference.kind == "scalar" and answer.kind == "tuple" and answer.brackets == "()" and not answer.variable
    if len(axes) != 1 or not is_point or len(answer.parts) != 2:
        return None
    zero, value = answer.parts[:: 1 if axes == {"y"} else -1]
    return value if zero.value == 0 else None


def _listed(question: Question, reference: Answer, answer: Answer) -> Iterator[Pair]:
    """`(6, 1260)` for 6 and 1260 where their order is given, `2, -1` for a point."""
    if (named := _named_list(question, reference, answer)) is not None:
        yield replace(reference, ordered=True), named
    pair, values = (reference, answer) if reference.kind == "tuple" else (answer, reference)
    if pair.kind != "tuple" or pair.brackets != "()" or pair.variable or not is_list(values):
        return
    is_asked = question.says(_COORDINATES) if pair is reference else values.ordered and question.says(_IN_ORDER)
    if is_asked:
        as_list = replace(pair, kind="collection", brackets="", ordered=True)
        values = replace(values, ordered=True)
        yield (as_list, values) if pair is reference else (values, as_list)


def _named_list(question: Question, reference: Answer, answer: Answer) -> Answer | None:
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


def _defined(question: Question, reference: Answer, answer: Answer) -> Iterator[Pair]:
    """Both with what the question says that a letter stands for: $2^{n-1}$ for N/2 where it sets $N = 2^n$."""
    value = answer.stated
    if question.says(_IN_TERMS) or not reference.stated.node or not value.node or value.node[0] == "name":
        return
    for match in _DEFINITION.finditer(question.text):
        node = parse_expression(tokenize(match[2])) if not question.options else None
        change: dict[Node, Node] = {("name", match[1]): node or ZERO}
        if node and names_of(node) and match[1] not in names_of(node):
            one, other = (
                replace(each.stated, node=replaced(each.stated.node or ZERO, change)) for each in (reference, answer)
            )
            if one.node != reference.stated.node or other.node != value.node:
                yield one, other


def _enumerated(reference: Answer, answer: Answer) -> Iterator[Pair]:
    """Both with all members of what lists them by a rule. Roots of unity are left as powers of e."""
    wanted, got = enumerated(reference), enumerated(answer)
    if wanted or got:
        one, other = wanted or reference, got or answer
        yield one, other
        if got and all(part.places is None for part in (reference, *reference.parts)):
            yield other, one


def _in_question_order(question: Question, reference: Answer, answer: Answer) -> Iterator[Pair]:
    """`4 helicopters and 7 goats` as 7, 4, where the question names goats first."""
    parts = question.in_order(answer.parts) if is_list(reference) and is_list(answer) else None
    if parts is not None:
        yield replace(reference, ordered=True), replace(answer, parts=parts, ordered=True)


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


def _with_identity(answer: Answer, size: int) -> Answer:
    """The answer with the identity matrix of `size` rows for I, as in `6I`, and for I_2 if there are two."""
    rows = [("row", *(("number", Fraction(at == column)) for column in range(size))) for at in range(size)]
    names = {(kind, name): ("rows", *rows) for kind in ("name", "vector") for name in ("I", f"I_{size}")}
    return replace(answer, node=replaced(answer.node or ZERO, names))


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


def _with_natural(answer: Answer) -> Answer:
    r"""\\log as the natural logarithm, unless the answer writes a base itself."""
    has_base = any(
        one.isa("\\lg") or (one.isa("\\log") and two.isa("_")) for one, two in itertools.pairwise(answer.tokens)
    )
    return answer if has_base or "\\log" not in answer.symbols else with_nodes(answer, natural)


def _with_decimal_comma(question: Question, answer: Answer) -> Answer | None:
    """`0,375` and `12,5 m` as numbers, where the question writes numbers so."""
    texts = [token.text for token in answer.tokens]
    is_number = texts[1:2] == [","] and (texts[0] + "".join(texts[2:3])).isdigit() and not answer.tokens[2].gap
    if not is_number or "," in texts[2:] or not question.says(_DECIMAL_COMMA):
        return None
    return parse_tokens((*tokenize(f"{texts[0]}.{texts[2]}"), *answer.tokens[3:]))


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


def _renamed(question: Question, reference: Answer, answer: Answer) -> Iterator[Pair]:
    """The answer with the reference's name for a variable that the question does not name, and with its numbers of
    unordered roots."""
    ours, theirs = _names(reference), _names(answer)
    if len(ours - theirs) == len(theirs - ours) == 1:
        [own], [other] = ours - theirs, theirs - ours
        letters = [name.lstrip("\\") for name in (own, other)]
        is_free = all(len(letter) == 1 or f"\\{letter}" in (own, other) for letter in letters)
        is_free &= not any(question.names(letter) for letter in letters)
        is_free &= own.lower() != other.lower() and (len(ours) == 1 or not {own, other} & {*"xyz"})
        is_defined = reference.kind == "equation" and reference.parts[0].text == own
        both = {own, other}
        is_place = both <= {*"xyz"} or (bool(both & {*"xyz"}) and question.says(_PLACE))  # the line y = -1, not x = -1
        is_free &= not (is_defined and is_place)
        value = (reference.parts[-1] if reference.kind == "equation" else reference).node
        is_multiple = value and (
            value == ("name", own) or (value[0] == "*" and not names_of(value[1]))
        )  # 5m, of meters
        is_formula = value and (len(names_of(value)) > 1 or not is_multiple)
        if is_free and (is_formula or question.says(_POLYNOMIAL)):
            yield reference, with_name(answer, other, own)
    if reference.kind == answer.kind == "equation" and not (reference.words or answer.words):
        sides = [each.parts[0].text for each in (reference, answer)]
        named = ["y"] if "y" in sides else [side[:1] for side in sides]
        is_other = sides[0][:1] != sides[1][:1] and any(map(question.names, named))
        if all(map(_DEFINED.fullmatch, sides)) and not is_other:  # y for f(x), T_n for a_n, a(n)
            values = [replace(each.parts[-1], domain=each.domain) for each in (reference, answer)]
            yield values[0], values[1]
    is_chemical = question.says(_CHEMICAL) and reactions.reaction(reference.tokens)
    if is_chemical and is_chemical == reactions.reaction(answer.tokens):
        yield reference, reference
    if question.says(_CYCLES):
        one, other = (permutations.cycles(each.tokens, 0, loose=True) for each in (reference, answer))
        if one is not None and other is not None:
            yield one, other
    together, one_way = question.vectors, question.says(_ONE_WAY)
    if together is not None and families.same_span(reference, answer, together, one_way):
        yield reference, reference
    numbered = [_NUMBERED.fullmatch(part.parts[0].text) for part in answer.parts if part.kind == "equation"]
    bases = {match[1] for match in numbered if match}
    is_list = 1 < len(numbered) == len(answer.parts) and all(numbered) and len(bases) == 1
    if is_list and not any(map(_NUMBERED.search, map(spelled, question.formulas))):  # x_1 = 2, x_2 = 3
        yield reference, _right_sides(answer)
    numbers = [_NUMBERED.fullmatch(part.parts[0].text) for part in reference.parts if part.kind == "equation"]
    if len(numbers) == len(reference.parts) > 1 and all(numbers) and question.says(_ROOTS):
        is_ranked = any(
            sum(token.isa("_") for token in formula) > 1
            and any(token.isa("<", ">", "\\le", "\\ge") for token in formula)
            for formula in question.formulas
        )
        same = all(part.kind == "equation" for part in answer.parts) and (
            {part.parts[0].text for part in reference.parts} == {part.parts[0].text for part in answer.parts}
        )
        if len({match[1] for match in numbers if match}) == 1 and same and not is_ranked:
            yield _right_sides(reference), _right_sides(answer)


def _right_sides(answer: Answer) -> Answer:
    """The values of its equations, as a set."""
    return replace(answer, parts=tuple(part.parts[-1] for part in answer.parts), ordered=False)


def _names(answer: Answer) -> frozenset[str]:
    nodes = [part.node for part in answer.parts] if answer.kind == "equation" else [answer.node]
    return frozenset().union(*(names_of(node) for node in nodes if node)) if None not in nodes else frozenset()


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
