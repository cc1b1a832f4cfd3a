r"""Letters that an answer may choose: a variable that the question does not name, the argument of a function, the
numbers of unordered roots, and letters that the question defines."""

import re
from collections.abc import Iterator
from dataclasses import replace

from ratchet.verifiers.math import families, permutations, reactions, words
from ratchet.verifiers.math.answer import Answer, Pair, with_name
from ratchet.verifiers.math.expression import parse_expression
from ratchet.verifiers.math.nodes import ZERO, Node, names_of, replaced
from ratchet.verifiers.math.question import Question
from ratchet.verifiers.math.structure import parse_tokens
from ratchet.verifiers.math.tokens import spelled, tokenize

_ROOTS = re.compile(r"\b(?:roots?|solutions?|zeros?|zeroes)\b", re.IGNORECASE)
_POLYNOMIAL = re.compile(
    r"\b(?:polynomial|quadratic|cubic|quartic|expression|formula|function|equation)\b", re.IGNORECASE
)
_PLACE = re.compile(r"\b(?:lines?|planes?|ax[ei]s|asymptotes?|directri(?:x|ces)|equations?)\b", re.IGNORECASE)
_ONE_WAY = re.compile(
    r"\bpositive (?:\w+ )?multiple|\bdirections?\b.{0,80}?(?:\b(?:in|de)creas|\b(?:as|des)cent|\bsteepest|\bfastest)",
    re.IGNORECASE | re.DOTALL,
)
_DEFINED = re.compile(r"y|[A-Za-z](?: \^ \{ - 1 \})? \( (?:x|n) \)|[A-Za-z] _ n")
_NUMBERED = re.compile(r"([A-Za-z]|\\[a-z]+) _ (\d)")
_IDENTITY_FUNCTION = frozenset(["f", "is", "the", "identity", "function", "map", "mapping", "only", "it", "="])
_CHEMICAL = re.compile(r"\bbalanc|\bchemical|\breaction", re.IGNORECASE)
_DEFINITION = re.compile(
    r"\b(?:let|set|put|define|denote|write|where|with)\s+\$\s*([A-Za-z])\s*=\s*([^$,;=<>]{1,60})\$", re.IGNORECASE
)
_IN_TERMS = re.compile(
    r"\bin terms of\b|\bexpress\b|\bas a function of\b|\bsolve\b|\bsubstitut|\bprove\b|\bshow that\b", re.IGNORECASE
)
_CYCLES = re.compile(r"\bcycles?\b|\bpermutation\b", re.IGNORECASE)


def readings(question: Question, reference: Answer, answer: Answer) -> Iterator[Pair]:
    """Pairs of reference and answer with the same letters, where the question leaves them free."""
    yield from _defined(question, reference, answer)
    if (function := _mapped(reference, answer)) is not None:
        yield reference, function
    yield from _renamed(question, reference, answer)


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
