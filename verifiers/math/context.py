"""What the question lets an answer leave out or say in another way: its unit, base, modulus, conditions and names."""

import functools
import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from ratchet.verifiers.math import words
from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.nodes import Node, is_prime, kinds_of, names_of, nodes_of, replaced
from ratchet.verifiers.math.numeric import constant_value
from ratchet.verifiers.math.parts import split, trimmed
from ratchet.verifiers.math.requirements import required
from ratchet.verifiers.math.structure import parse_answer
from ratchet.verifiers.math.tokens import Tokens, Unreadable, spelled, tokenize
from ratchet.verifiers.math.units import Unit, parse_unit

_FORMULA = re.compile(r"\$+([^$]+)\$+|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_ARITHMETIC = re.compile(r"(?<![\w$])[\d(][\d\s()+\-*/^!×·.,]*[+\-*/^!×·][\d\s()+\-*/^!×·.,]*[\d)!]?")
_UNIT = re.compile(
    r"\b(?:in|to|as|[Hh]ow many)\s+(?:(?:more|fewer|additional|extra|whole|full|US) )*(?:degrees (?=[CFcf]))?\$?"
    r"((?:(?:square|cubic|sq\.?)\s+)?[A-Za-zµμ°£€¢][A-Za-z/^{}\d²³·°⁻¹]*"
    r"(?:\s+(?:per|squared|cubed)(?:\s+(?:square|cubic))?\s+[a-z]+|\s+(?:squared|cubed))*)(?![A-Za-z])"
)
_PLURAL = re.compile(r"[ -](?!(?:is|was|does|has|as|less|plus|minus)\b)[a-z]+s\b")  # of `gallon jugs`
_POWER = r"(?:[²³]|\^\{?[23]\}?)?"
_LETTERS = re.compile(rf"\$?(-?\d[\d.,\s]*)\s+(([A-Za-zμΩ]{{1,4}}){_POWER}(?:/[a-z]{{1,3}}{_POWER})?)\.?\$?")
_MODULUS = re.compile(r"(?:\bmod(?:ulo)?|\\p?mod|\bdivided by)\s*\$?\{?\s*(\d+)")
_EXTREMES = (
    (re.compile(r"\b(?:greatest|largest|maximum|maximal|most|highest|longest)\b", re.IGNORECASE), ("at", "most")),
    (re.compile(r"\b(?:least|smallest|minimum|minimal|fewest|lowest|shortest)\b", re.IGNORECASE), ("at", "least")),
)
_ASCENDING = re.compile(
    r"(?:small|low|least|short|young|light|slow)\w*\b.{0,40}\bto\b|\bincreasing|\bascending", re.IGNORECASE
)
_DESCENDING = re.compile(
    r"(?:large|great|high|long|old|heav|fast|tall)\w*\b.{0,40}\bto\b|\bdecreasing|\bdescending", re.I
)
_REPEATING = re.compile(
    r"(?P<sign>-?)(?P<whole>\d+)\.(?P<first>\d{0,3}?)(?P<block>\d{2,6}?|(?P<digit>\d)(?=(?P=digit){2}))(?P=block)+\.\.\."
)
_ROOTS = re.compile(r"\b(?:roots?|solutions?|zeros?|zeroes)\b", re.IGNORECASE)
_SOLVING = re.compile(r"\bsolv|\bsolutions?\b|\broots?\b", re.IGNORECASE)
_POLYNOMIAL = re.compile(
    r"\b(?:polynomial|quadratic|cubic|quartic|expression|formula|function|equation)\b", re.IGNORECASE
)
_NUMBERED = re.compile(r"([A-Za-z]) _ (\d)")
_COUNTS = re.compile(r"\bhow many\b|\bnumber of\b", re.IGNORECASE)
_NO_CLOSED_FORM = re.compile(
    r"\bsimplif|\bas an? (?:integer|decimal|whole|number)|\bdecimal\b|\bdigits?\b"
    r"|\bpower\b|\bfactorial\b|\bsquared\b|\bcubed\b|\bremainder\b|\bscientific\b|\bnearest\b|\bround|\bexpand|\bexponent",
    re.IGNORECASE,
)
_MOST_NUMBERS = 6
_CLOSED = {"^", "binomial", "factorial"}
Pair = tuple[Answer, Answer]


def other_readings(question: str, reference: Answer, answer: Answer) -> Iterator[Pair]:
    """Reference and answer as the question lets them be read; the pair that is the same makes the answer right."""
    yield from _words(question, reference, answer)
    if answer.kind == "congruence" and str(answer.parts[1].value) in _MODULUS.findall(question):
        yield reference, answer.parts[0]
    for one, other in ((reference, answer), (answer, reference)):
        digits, base = other.text.upper(), one.words.rpartition("_")[2]
        if one.kind == "based" and len(other.tokens) == 1 and digits.isalnum():
            based = replace(one, words=f"{digits}_{base}")
            if int(base) == required(question).base:
                yield (one, based) if one is reference else (based, one)
    if (bare := _without_condition(question, answer)) is not None:
        yield reference, bare
    if (bare := _without_unit(question, answer)) is not None:
        yield reference, bare
    if (kept := _without_rejected(answer)) is not None:
        yield reference, kept
    if (value := _repeating(answer)) is not None:
        yield reference, value
    yield from _of_parts(reference, answer)
    yield from _renamed(question, reference, answer)
    yield from _ordered(question, reference, answer)


def _words(question: str, reference: Answer, answer: Answer) -> Iterator[Pair]:
    infinite = ("name", "\\infty")
    if reference.kind == "text" and reference.words == "infinite" and answer.node == infinite:
        yield reference, reference
    if answer.kind == "text" and answer.words == "infinite" and reference.node == infinite and _COUNTS.search(question):
        yield reference, reference
    is_empty = reference.kind == "collection" and not reference.parts
    if is_empty and answer.words == "does not exist" and _SOLVING.search(question):
        yield reference, reference
    for one, other in ((reference, answer), (answer, reference)):
        says_none = other.words == "none" or (other.kind == "collection" and not other.parts)
        if one.value == 0 and says_none and _COUNTS.search(question):
            yield reference, reference
    if reference.kind == answer.kind == "text":
        ours, theirs = (_without_place(question, each.words.split()) for each in (reference, answer))
        if ours == theirs:
            yield reference, reference
        for more, less in ((ours, theirs), (theirs, ours)):  # the green cup, of cups: red, green or blue
            if len(more) == len(less) + 1 and more[:-1] == less and less and _asks_noun(question, more[-1], less):
                yield reference, reference
        asked = re.search(r"\bwho\s+([a-z ]+)\?\s*\Z", question, re.IGNORECASE)  # Who finished third? Cleo did
        if asked and " ".join([*ours, *asked[1].lower().split()]) == " ".join(theirs):
            yield reference, reference
    for pattern, said in _EXTREMES if len(answer.tokens) > 2 else ():
        if tuple(map(words.word, answer.tokens[:2])) == said and pattern.search(question):
            yield reference, parse_tokens(answer.tokens[2:])
    for one, other in ((reference, answer), (answer, reference)):
        is_change = one.words in ("fall", "rise") and one.value is not None and not other.words
        if is_change and required(question).direction == (-1 if one.words == "fall" else 1):
            size = abs(one.value or 0)
            positive = replace(one, value=size, node=("number", size), words="")
            yield (positive, other) if one is reference else (other, positive)


def rounded(question: str, answer: Answer) -> Answer:
    """`9.4` of `\\sqrt{89} \\approx 9.4`, which is true, where the question asks to round; else the answer."""
    left, sign, right = answer.spelling.partition("\\approx")
    if not sign or "\\approx" in right or "rounded" not in required(question).forms:
        return answer
    exact, value = parse_answer(left.rpartition("=")[2]), parse_answer(right)
    number = next((token.text for token in value.tokens if token.kind == "number"), "")
    exactly = constant_value(exact.node) if exact.node and exact.value is None else exact.value
    if exactly is None or value.value is None or value.kind != "scalar" or left.count("=") > 1:
        return answer
    is_near = abs(exactly - value.value) <= Fraction(1, 2 * 10 ** len(number.partition(".")[2]))
    return value if is_near and exact.unit in (None, value.unit) else answer


def _without_rejected(answer: Answer) -> Answer | None:
    """`x = 8` of `x = 8 (x = -2 is extraneous)`."""
    at = next((i for i, token in enumerate(answer.tokens) if i and token.isa("(")), 0)
    inside = answer.tokens[at + 1 : -1]
    if not at or len(inside) < 4 or not answer.tokens[-1].isa(")"):
        return None
    if words.word(inside[-1]) not in ("extraneous", "rejected"):
        return None
    inside = inside[: -2 if words.word(inside[-2]) == "is" else -1]
    kept, rejected = parse_tokens(answer.tokens[:at]), parse_tokens(inside)
    if rejected.kind != "equation" or rejected.words or len(rejected.parts) != 2:
        return None
    values = [each.parts[-1].value if each.kind == "equation" else each.value for each in (kept, rejected)]
    is_other = None not in values and values[0] != values[1]
    return kept if is_other else None


def _repeating(answer: Answer) -> Answer | None:
    """`0.4545...` as the fraction whose digits repeat: those that end it twice, or one digit three times."""
    spelling = answer.spelling.replace("\\ldots", "...").replace("\\dots", "...").replace(" ", "")
    match = _REPEATING.fullmatch(spelling)
    if match is None:
        return None
    sign, whole, first, block = match["sign"], match["whole"], match["first"], match["block"]
    digits = int(whole + first + block) - int(whole + first)
    return parse_answer(f"{sign}\\frac{{{digits}}}{{{(10 ** len(block) - 1) * 10 ** len(first)}}}")


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


def _without_place(question: str, said: list[str]) -> list[str]:
    """`under the green cup` without `under`, where the question asks under which."""
    if len(said) > 1 and re.search(rf"\b{re.escape(said[0])} (?:which|what)\b", question, re.IGNORECASE):
        said = said[1 + (said[1] in ("the", "a", "an")) :]
    return said


def _asks_noun(question: str, noun: str, kind: list[str]) -> bool:
    """Whether the question speaks of these things, and names the kind."""
    lowered = question.lower()
    return all(re.search(rf"\b{re.escape(word)}s?\b", lowered) for word in (noun, *kind))


@functools.lru_cache(maxsize=1024)
def _formulas(question: str) -> tuple[Tokens, ...]:
    found = []
    written = [next(filter(None, match.groups())) for match in _FORMULA.finditer(question)]
    for text in written + _ARITHMETIC.findall(question):
        try:
            found.append(trimmed(tokenize(text)))
        except Unreadable:
            continue
    return tuple(found)


def _without_condition(question: str, answer: Answer) -> Answer | None:
    """`x - 3, x \\ne -3` without what the question says itself."""
    conditions = {spelled(formula) for formula in _formulas(question) if _is_condition(formula)}
    for at in range(len(answer.tokens) - 1, 1, -1) if conditions else ():
        tail = answer.tokens[at:]
        tail = tail[1:-1] if tail[0].isa("(") and tail[-1].isa(")") else tail
        if spelled(tail) in conditions:
            core = trimmed(answer.tokens[:at])
            while core and (core[-1].isa("(") or words.word(core[-1]) in ("for", "where", "with", "if", "when", "and")):
                core = trimmed(core[:-1])
            return parse_tokens(core) if core else None
    return None


def _is_condition(formula: Tokens) -> bool:
    return any(token.isa("\\ne", "<", ">", "\\le", "\\ge", "\\in") for token in formula)


def parse_tokens(tokens: Tokens) -> Answer:
    return parse_answer("".join(" " * token.gap + _written(token.text, token.upright) for token in tokens))


def _written(text: str, upright: bool) -> str:
    return f"\\text{{{text}}}" if upright and text.isalpha() else text + " " * text.startswith("\\")


@functools.lru_cache(maxsize=4096)
def unit_asked(question: str) -> tuple[str, Unit] | None:
    """The unit that a question asks for, `in kilometers per hour`; None if it names none, or several."""
    found: dict[Unit, str] = {}
    for match in _UNIT.finditer(question):
        pieces = match[1].split()
        text, unit = next(
            ((text, unit) for end in range(len(pieces), 0, -1) if (unit := parse_unit(text := " ".join(pieces[:end])))),
            ("", None),
        )
        is_adjunct = match[0][0] in "hH" and not text.endswith("s") and _PLURAL.match(question, match.end())
        if unit is not None and not is_adjunct and (len(text) > 1 or match[0].startswith("in")):
            found[unit._replace(words=())] = text
    return next(iter((text, unit) for unit, text in found.items())) if len(found) == 1 else None


def with_unit(text: str, reference: Answer, question: str) -> str:
    """A reference with the unit that the question asks for, and `7 m` as `7 \\text{ m}` where the question has that
    unit; "" if there is nothing to say."""
    if reference.kind != "scalar" or reference.unit is not None or reference.percent:
        return ""
    asked = unit_asked(question)
    match = _LETTERS.fullmatch(text)
    if match and (unit := parse_unit(match[2].replace("²", "^2").replace("³", "^3"))):
        shown = re.search(rf"(?<![\w\\])\d[\d.,]*\s*{re.escape(match[3])}(?!\w)", question)
        is_unit = shown or (asked and asked[1].dimension == unit.dimension)
        return f"{match[1]} \\text{{ {match[2]}}}" if is_unit and not _is_variable(question, match[3]) else ""
    if not asked or reference.node is None or names_of(reference.node):
        return ""
    written = f"{text.rstrip('.')} \\text{{ {asked[0]}}}"
    parsed = parse_answer(written)
    return written if parsed.unit is not None and parsed.value == reference.value else ""


def _is_variable(question: str, name: str) -> bool:
    return any(spelled(formula) == name for formula in _formulas(question))


def repeats(question: str, answer: Answer) -> bool:
    """Whether a quantity of the question is given in its own unit although another one is asked for."""
    asked = unit_asked(question)
    if not asked or answer.unit is None or answer.unit.size == asked[1].size or answer.kind != "scalar":
        return False
    number = next((token.text for token in answer.tokens if token.kind == "number"), "")
    return bool(re.search(rf"(?<![\d.]){re.escape(number)}(?![\d.])", question))


def _without_unit(question: str, answer: Answer) -> Answer | None:
    """`\\frac{a}{b} \\text{ m/s}` without the unit that the question asks for."""
    asked = unit_asked(question)
    at = next((i for i, token in enumerate(answer.tokens) if i and token.upright and token.text.isalpha()), 0)
    if not asked or not at or answer.unit is not None:
        return None
    text = "".join(" " * token.gap + token.text for token in answer.tokens[at:])
    unit = parse_unit(text.replace("{", "").replace("}", ""))
    bare = parse_tokens(answer.tokens[:at])
    return bare if unit and unit[:2] == asked[1][:2] and bare.node and names_of(bare.node) else None


def _renamed(question: str, reference: Answer, answer: Answer) -> Iterator[Pair]:
    """With the reference's name for a variable that the question does not name, and its numbers of unordered roots."""
    ours, theirs = _names(reference), _names(answer)
    if len(ours) == len(theirs) == 1 and ours != theirs and _POLYNOMIAL.search(question):
        [own], [other] = ours, theirs
        if len(own) == len(other) == 1 and not any(_is_named(question, name) for name in (own, other)):
            yield reference, _with_name(answer, other, own)
    if reference.kind == answer.kind == "equation" and not (reference.words or answer.words):
        name, *sides = (each.parts[0].text for each in (reference, answer))
        if name.endswith("( x )") and sides == ["y"] and not _is_named(question, "y"):  # y for f(x)
            yield reference.parts[-1], answer.parts[-1]
    numbers = [_NUMBERED.fullmatch(part.parts[0].text) for part in reference.parts if part.kind == "equation"]
    if len(numbers) == len(reference.parts) > 1 and all(numbers) and _ROOTS.search(question):
        is_ranked = any(
            sum(token.isa("_") for token in formula) > 1
            and any(token.isa("<", ">", "\\le", "\\ge") for token in formula)
            for formula in _formulas(question)
        )
        same = {part.parts[0].text for part in reference.parts} == {
            part.parts[0].text for part in answer.parts if part.kind == "equation"
        }
        if len({match[1] for match in numbers if match}) == 1 and same and not is_ranked:
            yield _right_sides(reference), _right_sides(answer)


def _right_sides(answer: Answer) -> Answer:
    """The values of its equations, as a set."""
    return replace(answer, parts=tuple(part.parts[-1] for part in answer.parts), ordered=False)


def _names(answer: Answer) -> frozenset[str]:
    nodes = [part.node for part in answer.parts] if answer.kind == "equation" else [answer.node]
    return frozenset().union(*(names_of(node) for node in nodes if node)) if None not in nodes else frozenset()


def _with_name(answer: Answer, old: str, new: str) -> Answer:
    change: dict[Node, Node] = {("name", old): ("name", new)}
    if answer.node is not None:
        answer = replace(answer, node=replaced(answer.node, change))
    return replace(answer, parts=tuple(_with_name(part, old, new) for part in answer.parts))


def _is_named(question: str, name: str) -> bool:
    return bool(re.search(rf"(?<![A-Za-z\\]){re.escape(name)}(?![A-Za-z])", question))


def _ordered(question: str, reference: Answer, answer: Answer) -> Iterator[Pair]:
    """ADBC, and A < D < B < C in the direction that is asked for, as A, D, B, C."""
    rising, falling = (bool(pattern.search(question)) for pattern in (_ASCENDING, _DESCENDING))
    for sign, is_asked in (("<", rising and not falling), (">", falling and not rising)):
        members = split(answer.tokens, sign) if is_asked and answer.kind in ("chain", "scalar") else []
        if len(members) == len(reference.parts) > 2 and reference.kind == "collection" and all(members):
            parts = tuple(map(parse_tokens, members))
            yield replace(reference, ordered=True), Answer("collection", answer.tokens, parts=parts, ordered=True)
    members = [part.words if part.kind == "option" else part.text for part in reference.parts]
    if len(members) < 2 or not all(len(each) == 1 and each.isalpha() for each in members):
        return
    texts = answer.spelling.split()
    if len(texts) == 1 and [*texts[0]] == members:
        yield reference, reference
    signs = {*texts[1::2]}
    if texts[::2] == members and (
        (signs == {"<"} and rising and not falling) or (signs == {">"} and falling and not rising)
    ):
        yield reference, reference


def allows_closed_form(question: str, answer: Answer) -> bool:
    """Whether powers, factorials, binomials or a product of primes answer for the number that they are: nobody asks to
    compute them, and they are not the question's own arithmetic."""
    value = answer.parts[-1] if answer.kind == "equation" and not answer.words else answer
    if value.kind != "scalar" or not value.node or names_of(value.node) or _NO_CLOSED_FORM.search(question):
        return False
    kinds, numbers = kinds_of(value.node), [each[1] for each in nodes_of(value.node) if each[0] == "number"]
    if len(numbers) > _MOST_NUMBERS or kinds - _CLOSED - {"+", "-", "*", "/", "number"}:
        return False
    given = {*re.findall(r"\d+", question)}
    if not kinds & _CLOSED:
        return kinds <= {"*", "number"} and all(map(is_prime, numbers)) and not given & {str(each) for each in numbers}
    own = sorted(abs(number) for number in numbers if number)
    formulas = (sorted(token.value for token in formula if token.value) for formula in _formulas(question))
    primes = {node[1] for node in nodes_of(value.node) if node[0] == "*" for node in node[1:] if node[0] == "number"}
    is_factored = _is_factored(value.node) and not given & {str(each) for each in primes}
    return (is_factored or not _is_padded(value.node)) and not any(_holds(formula, own) for formula in formulas)


def _is_factored(node: Node) -> bool:
    """Whether it is a product of powers of primes, each prime once: `2^3 \\cdot 3^2 \\cdot 5`."""
    factors = [node]
    while any(each[0] == "*" for each in factors):
        factors = [part for each in factors for part in (each[1:] if each[0] == "*" else (each,))]
    bases = [each[1] if each[0] == "^" else each for each in factors]
    plain = all(each[0] == "number" and is_prime(each[1]) for each in bases)
    return plain and len({*bases}) == len(bases) and all(each[2][0] == "number" for each in factors if each[0] == "^")


def _is_padded(node: Node) -> bool:
    """Whether it has a sum with zero, a product with one, or products of plain numbers beside its powers."""
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


def _holds(more: list[Fraction], less: list[Fraction]) -> bool:
    """Whether a list of numbers has all of another, each as often."""
    counts = {value: len([*group]) for value, group in itertools.groupby(more)}
    return all(counts.get(value, 0) >= len([*group]) for value, group in itertools.groupby(less))
