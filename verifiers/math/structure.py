"""Parse the shape of an answer: number, text, tuple or interval, collection, matrix, equation, quantity."""

import functools
import itertools
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from ratchet.verifiers.math import (
    integers,
    labels,
    numerals,
    options,
    permutations,
    ratios,
    regions,
    sentences,
    statements,
    vectors,
    words,
)
from ratchet.verifiers.math.answer import Answer, Parse, flattened
from ratchet.verifiers.math.domains import DECORATED, qualified
from ratchet.verifiers.math.framing import unframed
from ratchet.verifiers.math.matching import GROUP
from ratchet.verifiers.math.numerals import number, plain
from ratchet.verifiers.math.parts import closing, grouped, listed, split, top_level, trimmed
from ratchet.verifiers.math.propositions import set_table, truth_table
from ratchet.verifiers.math.quantities import prose, quantity
from ratchet.verifiers.math.relations import relation, unequal
from ratchet.verifiers.math.sentences import claim, quantified
from ratchet.verifiers.math.tokens import Token, Tokens, Unreadable, spelled, tokenize
from ratchet.verifiers.math.vocabulary import VOCABULARY

Shape = Callable[[Tokens, int], Answer | None]
_MAX_PARTS, _MAX_DEPTH = 64, 12
_OF_ALL, _TENDING, _CLOSED, _OPEN = (
    frozenset(VOCABULARY["described"][each].split()) for each in ("all", "tending", "closed", "open")
)
_COMPARED = [(tuple(phrase.split()), sign) for phrase, sign in VOCABULARY["described"]["compared"].items()]
_SIGNS = {"positive": ">", "negative": "<", "nonnegative": "\\ge", "nonpositive": "\\le", "nonzero": "\\ne"}
_MARKS = {"+": ">", "-": "<", **dict.fromkeys(("*", "\\cdot", "\\ast"), "\\ne")}
_MARKS |= {f"{sign} 0": sign for sign in (">", "<", "\\ge", "\\le", "\\ne")}
_EMPTY, _ALL_REALS = (set(VOCABULARY[section].split(", ")) for section in ("no_solution", "all_reals"))


@functools.lru_cache(maxsize=16_384)
def parse_answer(text: str) -> Answer:
    """Parse any text. An answer of unknown shape is a scalar without an expression."""
    try:
        return parse_tokens(tokenize(text))
    except Unreadable:
        return Answer("scalar", spelling=text)


def read_tokens(text: str) -> Tokens:
    """The tokens of a text; none for a text that cannot be read."""
    try:
        return trimmed(tokenize(text))
    except Unreadable:
        return ()


def parse_tokens(tokens: Tokens) -> Answer:
    """Parse the tokens of an answer, with number words as numbers and without framing."""
    tokens = words.numbered(trimmed(tokens))
    bare = words.without_order(unframed(tokens))
    answer = _parse(bare, 0)
    ordered = answer.ordered or (len(bare) < len(unframed(tokens)) and is_list(answer))
    return replace(answer, spelling=spelled(tokens), ordered=ordered, tokens=answer.tokens or bare)


def is_list(answer: Answer) -> bool:
    """True if an answer lists values, not the members of a set or the cases of a function."""
    return answer.kind == "collection" and not answer.brackets and len(answer.parts) > 1


def _parse(tokens: Tokens, depth: int) -> Answer:
    if tokens and (tokens[0].isa("\\boxed") or (tokens[0].isa("\\approx") and tokens[1:] and tokens[1].isa("(", "["))):
        tokens = tokens[1:]
    while tokens and tokens[0].isa("{") and closing(tokens) == len(tokens) - 1:
        tokens = trimmed(tokens[1:-1])
    if len(tokens) == 1 and tokens[0].kind == "number":
        return number(tokens)
    for shape in _SHAPES if depth <= _MAX_DEPTH and tokens else ():
        if (answer := shape(tokens, depth + 1)) is not None:
            return answer
    return Answer("scalar", tokens)


def _prose(tokens: Tokens, depth: int) -> Answer | None:
    if any(token.isa(";") for token in tokens):  # it is inconsistent; there is no solution
        parts = split(tokens, ";")
        said = [_prose(part, depth) if part else None for part in parts] if 1 < len(parts) < 4 else [None]
        return said[0] if len({each and (each.kind, each.words) for each in said}) == 1 else None
    text = claim(tokens) or quantified(tokens) or prose(tokens)
    text = "does not exist" if len(tokens) == 1 and tokens[0].isa("\\nexists") else text
    if text in _EMPTY or (len(tokens) == 1 and tokens[0].isa("\\emptyset")):
        return Answer("collection", tokens, brackets="{")
    if text in _ALL_REALS or (len(tokens) == 1 and tokens[0].text in ("\\R", "\\Reals")):
        return regions.line()
    if sign := _sign(tokens):
        return regions.of_sign(sign)
    return Answer("text", tokens, words=text) if text else None


def _sign(tokens: Tokens) -> str:
    r"""How the numbers of `all positive real numbers` and \mathbb{R}^+ compare with zero; "" for anything else."""
    if tokens and tokens[0].text in ("\\R", "\\Reals"):
        mark = DECORATED.fullmatch(spelled(tokens[1:]))
        return _MARKS.get(mark[1], "") if mark else ""
    text = " ".join(words.word(token) or token.text for token in tokens)
    text = text.replace("non - 0", "nonzero").replace("non - ", "non")
    said = {each for each in text.split() if len(each) > 1 or not each.isalpha()}
    signs = said & _SIGNS.keys()
    is_set = said - signs <= _OF_ALL and not said.isdisjoint(("real", "reals", "numbers"))
    return _SIGNS[min(signs)] if is_set and len(signs) == 1 else ""


def _except(tokens: Tokens, depth: int) -> Answer | None:
    """`all real numbers except 4`, `all real numbers except x = 1, 2`."""
    spoken = [words.word(token) for token in tokens]
    at = next((i for i, word in enumerate(spoken) if word in ("except", "excluding", "other")), 0)
    whole = (
        regions.line() if at and prose(tokens[:at]) in _ALL_REALS else _described(tokens[:at], depth) if at else None
    )
    if whole is None:
        return None
    while at + 1 < len(tokens) and spoken[at + 1] in ("than", "for", "when", "the", "values", "numbers", "where"):
        at += 1
    left_out = _parse(tokens[at + 1 :], depth)
    points = left_out.parts if left_out.kind == "collection" else (left_out,)
    values = [part.parts[-1] if part.kind == "equation" else part for part in points]
    known = regions.region_of(whole), [regions.region_of(value) for value in values]
    if whole.parts[0].node == regions.MINUS_INFINITY and whole.parts[1].node == regions.INFINITY:
        return regions.without(whole, values)
    if not known[0] or None in known[1]:
        return None
    left_over = regions.complement(regions.union([each for each in known[1] if each]))
    return regions.as_answer(regions.intersection([known[0], left_over]))


def _between(tokens: Tokens, depth: int) -> Answer | None:
    """`x strictly between 1 and 5`, `from 1 to 5 inclusive`, `x lies between 1 and 5` (without its ends)."""
    spoken = [words.word(token) for token in tokens]
    at = next((i for i, word in enumerate(spoken) if word in ("between", "from")), -1)
    middle = ("and" if spoken[at] == "between" else "to") if at >= 0 else ""
    join = next((i for i in range(at + 1, len(tokens)) if spoken[i] == middle), 0) if middle else 0
    if not join:
        return None
    ends = tuple(i for i in range(join + 1, len(tokens)) if spoken[i] in _CLOSED | _OPEN or tokens[i].isa("("))
    stop = min(ends, default=len(tokens))
    said = [word for word in (*spoken[:at], *spoken[stop:]) if word]
    names = [token for token in tokens[:at] if not words.word(token)]
    if not {*said} <= _OF_ALL | _CLOSED | _OPEN or len(names) > 1 or any(name.kind != "name" for name in names):
        return None
    low, high = (_parse(trimmed(part), depth) for part in (tokens[at + 1 : join], tokens[join + 1 : stop]))
    if low.kind != "scalar" or high.kind != "scalar" or low.node is None or high.node is None:
        return None
    is_closed = bool(_CLOSED & {*said}) or (spoken[at] == "from" and not _OPEN & {*said})
    return replace(regions.line(low, high, "[]" if is_closed else "()", names[0].text if names else ""), tokens=tokens)


def _described(tokens: Tokens, depth: int) -> Answer | None:
    """`all real numbers greater than 3`, `all real x \\ge 3`, `diverges to infinity`."""
    if depth > 5 or not any(token.kind in ("word", "run") for token in tokens):
        return None
    spoken = [words.word(token) for token in tokens]
    at = next((i for i, word in enumerate(spoken) if word not in _OF_ALL), len(tokens))
    if at == len(tokens):
        return None
    if tokens[-1].isa("\\infty") and at == 0 and all(word in _TENDING for word in spoken[:-1] if word) and spoken[0]:
        is_negative = "negative" in spoken or tokens[-2].isa("-")
        return plain(tokens[-2:] if tokens[-2].isa("-") else (Token("op", "-"),) * is_negative + tokens[-1:])
    rest = list[Token]()
    i = at
    while i < len(tokens):
        sign, length = next(((s, len(p)) for p, s in _COMPARED if tuple(spoken[i : i + len(p)]) == p), ("", 1))
        rest.append(Token("command" if sign[:1] == "\\" else "op", sign) if sign else tokens[i])
        i += length
    is_bare = at > 0 and rest[0].isa(*regions.RELATIONS)
    if not any(token.isa(*regions.RELATIONS) for token in rest) or len(rest) == len(tokens):
        return None
    answer = _parse((Token("name", "x"), *rest) if is_bare else tuple(rest), depth)
    is_region = answer.kind == "tuple" and answer.variable
    return replace(answer, variable="" if is_bare else answer.variable) if is_region else None


def _qualified(tokens: Tokens, depth: int) -> Answer | None:
    core, domain = qualified(tokens) if depth < 5 and len(tokens) > 3 else ((), "")
    if not core:
        return None
    answer = _parse(core, depth)
    return replace(answer, domain=domain, tokens=tokens if answer.node is None else answer.tokens)


def _moment(tokens: Tokens, depth: int) -> Answer | None:
    when = words.moment(tokens) if 1 < len(tokens) < 20 else ""
    is_day = when.startswith("weekday") and when.count(" ") == 1
    return Answer("moment", tokens, words=when) if when and not is_day else None


def _formula(tokens: Tokens, depth: int) -> Answer | None:
    table = truth_table(tokens) or set_table(tokens)
    return Answer("text", tokens, words=table) if table else None


def _product(tokens: Tokens, depth: int) -> Answer | None:
    r"""`\mathbb{Z}_2 \times \mathbb{Z}_4`, a product of groups, in any order."""
    factors = split(tokens, "\\times", "\\oplus")
    named = any(token.kind == "name" and token.text[0] == "\\" and token.text[1:].isupper() for token in tokens)
    if not named or not 1 < len(factors) < 8 or not all(factors):
        return None
    return Answer("collection", tokens, parts=tuple(_parse(each, depth) for each in factors), brackets="product")


def _collection(tokens: Tokens, depth: int) -> Answer | None:
    members = _continued(listed(tokens, in_braces=False))
    if 1 < len(members) <= _MAX_PARTS and all(members):
        if (others := unequal(members, depth, _parse)) is not None:
            return others
        either = any(token.isa("\\vee") or words.word(token) == "or" for token in tokens)
        both = any(token.isa("\\wedge") or words.word(token) == "and" for token in tokens)
        connective = "or" if either else "and" if both else ""
        if either and (groups := _groups(tokens, depth)):
            return Answer("collection", tokens, parts=groups)
        if not either and (linked := _linked(members)):
            return _parse(linked, depth)
        parsed = [_parse(part, depth) for part in members]
        if not either and (solution := regions.joint(parsed, connective)):
            return solution
        flat = flattened(parsed)
        return flat[0] if len(flat) == 1 else Answer("collection", tokens, parts=flat, words=connective)
    unions = split(tokens, "\\cup")
    if 1 < len(unions) <= _MAX_PARTS and all(unions):
        flat = Answer("collection", tokens, parts=flattened([_parse(part, depth) for part in unions], sets=True))
        return regions.as_answer(region) if (region := regions.region_of(flat)) else flat
    both = split(tokens, "\\cap")
    if 1 < len(both) <= _MAX_PARTS and all(both):
        known = [region for part in both if (region := regions.region_of(_parse(part, depth))) is not None]
        return regions.as_answer(regions.intersection(known)) if len(known) == len(both) else None
    if len(tokens) < 2 or not tokens[0].isa("\\{") or closing(tokens) != len(tokens) - 1:
        return None
    inside = tokens[1:-1]
    if (built := _built(inside, depth)) is not None:
        return built
    if bar := _bar(inside):
        described = _parse(inside[bar + 1 :], depth)
        if {part.variable for part in (described, *described.parts)} - {"", tokens[1].text}:
            return None  # y | x > 2
        parts = tuple(replace(part, variable="") for part in described.parts)
        is_known = described.kind in ("tuple", "collection")
        return replace(described, variable="", parts=parts) if is_known else None
    members = _continued(listed(inside, in_braces=True)) if inside else []
    if (endless := integers.continued(members)) is not None:
        return endless
    if len(members) > _MAX_PARTS or not all(members):
        return None
    return Answer("collection", tokens, parts=flattened([_parse(part, depth) for part in members]), brackets="{")


def _groups(tokens: Tokens, depth: int) -> tuple[Answer, ...]:
    """The groups of numbers in a list; empty for any other list."""
    groups = [tuple(_parse(member, depth) for member in group) for group in grouped(tokens)]
    if any(member.kind != "scalar" for group in groups for member in group):
        return ()
    return tuple(Answer("collection", parts=group, brackets=GROUP) for group in groups)


def _continued(members: list[Tokens]) -> list[Tokens]:
    """`-3, -2, ..., 3` with all of its members."""
    if len(members) < 3 or not (len(members[-2]) == 1 and members[-2][0].isa("...")):
        return members
    ends = [plain(member).value for member in (*members[:-2], members[-1])]
    if any(each is None or each.denominator != 1 for each in ends):
        return members
    *first, last = [int(each or 0) for each in ends]
    steps = {two - one for one, two in itertools.pairwise(first)} or {1 if first and last > first[0] else -1}
    step = min(steps)
    if len(steps) > 1 or not step or (last - first[-1]) % step or (abs(step) > 1 and len(first) < 3):
        return members
    numbers = range(first[0], last + (1 if step > 0 else -1), step)
    if not len(first) < len(numbers) <= _MAX_PARTS:
        return members
    signs = ((Token("op", "-"),) * (number < 0) for number in numbers)
    return [(*s, Token("number", str(abs(n)), value=Fraction(abs(n)))) for s, n in zip(signs, numbers, strict=True)]


def _linked(members: list[Tokens]) -> Tokens:
    """`c < a, a < b` as `c < a < b`; empty for anything else."""
    joined = members[0]
    for member in members[1:]:
        ends = [i for i in top_level(joined) if joined[i].isa(*regions.RELATIONS)]
        begins = [i for i in top_level(member) if member[i].isa(*regions.RELATIONS)]
        if not ends or not begins or spelled(joined[ends[-1] + 1 :]) != spelled(member[: begins[0]]):
            return ()
        joined = joined + member[begins[0] :]
    return joined


def _built(inside: Tokens, depth: int) -> Answer | None:
    r"""`7k + 2 : k \in \mathbb{Z}` and `2k \mid k = 1, 2, 3` as what is said without braces; the integers in
    `x \in \mathbb{Z} : 1 \le x < 5`."""
    top = [i for i in top_level(inside) if i and inside[i].isa("|", ":")]
    at = next((i for i in top if i < len(inside) - 1), 0)
    if not at or len(top) > 2:
        return None
    left, right = inside[:at], inside[at + 1 :]
    if len(left) == 3 and left[1].isa("\\in") and left[2].text == "\\Z":
        region = _parse(right, depth)
        is_range = region.kind == "tuple" and region.variable == left[0].text
        return (integers.integers_in(region) or replace(region, domain="Z", words="integers")) if is_range else None
    if len(left) < 2:
        return None
    answer = _parse((*left, Token("op", ","), *right), depth)
    is_enumerated = answer.kind == "collection" and any(token.isa("=") for token in right) and not answer.words
    if answer.domain and answer.kind == "scalar":
        return replace(answer, words="set")
    return answer if answer.domain or (is_enumerated and len(answer.parts) > 2) else None


def _bar(tokens: Tokens) -> int:
    r"""The position of `|` in `x | …` or `x \in \mathbb{R} : …`, the inside of a set; 0 for anything else."""
    at = 3 if any(token.isa("\\in") for token in tokens[1:2]) else 1
    is_builder = all(token.kind == "name" for token in tokens[:1]) and any(t.isa("|", ":") for t in tokens[at : at + 1])
    if at == 3 and tokens[2].text != "\\R":
        return 0  # of whole numbers, say
    return at if is_builder and any(token.isa("=", "\\ne", *regions.RELATIONS) for token in tokens[at:]) else 0


def _bracketed(tokens: Tokens, depth: int) -> Answer | None:
    tokens, name = regions.usual_brackets(tokens), ""
    is_transposed = len(tokens) > 4 and tokens[-1].text in ("T", "\\top") and tokens[-2].isa("^")
    if is_transposed:
        tokens = tokens[:-2]  # a transposed row is a vector all the same
    if len(tokens) > 5 and tokens[0].text.isupper() and tokens[1].isa("'", "''") and tokens[2].isa("("):
        tokens = (tokens[0], *tokens[2:])  # P'(2, 5)
    if (
        len(tokens) > 8
        and tokens[0].text.isupper()
        and tokens[1].isa("_")
        and tokens[2].isa("{")
        and tokens[4].isa("}")
    ):
        tokens = (tokens[0], *tokens[5:])  # F_1(2, 5)
    if len(tokens) > 4 and tokens[0].kind == "name" and tokens[0].text.isupper() and tokens[1].isa("("):
        if tokens[0].text == "C" and {"n", "k", "r"} & {token.text for token in tokens}:
            return None  # C(n, k)
        name, tokens = tokens[0].text, tokens[1:]
    if len(tokens) < 3 or not tokens[0].isa("(", "[") or closing(tokens) != len(tokens) - 1:
        return None
    parts = split(tokens[1:-1], ",", ";")
    if (
        name
        and len(parts) == 1
        and all(0 < len(part) < 3 and part[-1].kind == "number" for part in split(parts[0], "|"))
    ):
        parts = split(parts[0], "|")  # P(3|8)
    brackets = tokens[0].text + tokens[-1].text
    if len(parts) > _MAX_PARTS or not all(parts) or not tokens[-1].isa(")", "]"):
        return None
    if brackets == "[]" and all(part[0].isa("[") and part[-1].isa("]") for part in parts):  # of Python
        rows = [_bracketed(part, depth) for part in parts]
        is_matrix = (
            all(row and row.kind == "tuple" for row in rows) and len({len(row.parts) for row in rows if row}) == 1
        )
        return (
            Answer("matrix", tokens, parts=tuple(replace(row, brackets="") for row in rows if row), brackets="(")
            if is_matrix
            else None
        )
    if brackets == "()" and len(parts) > 1 and (points := _signed(tokens, depth)):
        return points
    if brackets == "[]" and len(parts) > 2:
        brackets = "()"  # no interval
    if len(parts) == 1:
        is_whole = brackets == "()" and not name and not is_transposed
        return _parse(parts[0], depth) if is_whole else None
    return Answer("tuple", tokens, parts=tuple(_parse(part, depth) for part in parts), brackets=brackets, variable=name)


def _signed(tokens: Tokens, depth: int) -> Answer | None:
    r"""(0, \pm 3) as two points, (\pm 1, \pm 2) as four."""
    signs = [i for i, token in enumerate(tokens) if token.isa("\\pm", "\\mp")]
    if not 0 < len(signs) < 4 or depth > 5:
        return None
    if any(token.isa("\\mp") for token in tokens):
        return _plus_minus(tokens, depth)
    drawn = (dict(zip(signs, each, strict=True)) for each in itertools.product("+-", repeat=len(signs)))
    points = ((Token("op", at[i]) if i in at else token for i, token in enumerate(tokens)) for at in drawn)
    return Answer("collection", tokens, parts=tuple(_parse(tuple(point), depth) for point in points))


def _plus_minus(tokens: Tokens, depth: int) -> Answer | None:
    if depth > 5 or not any(token.isa("\\pm", "\\mp") for token in tokens):
        return None
    if any(tokens[i].isa("\\approx", *regions.RELATIONS) for i in top_level(tokens)):
        return None
    both = []
    signs = [i for i, token in enumerate(tokens) if token.isa("\\pm", "\\mp")]
    if not any(token.isa("\\mp") for token in tokens):
        signs = signs[:1]  # those of ±1 ± √2 are independent
    for plus in ("\\pm", "\\mp"):
        signed = (
            t._replace(kind="op", text="+" if t.isa(plus) else "-") if i in signs else t for i, t in enumerate(tokens)
        )
        both.append(_parse(tuple(signed), depth))
    return Answer("collection", tokens, parts=flattened(both))


def _signed_equation(tokens: Tokens, depth: int) -> Answer | None:
    r"""`y = \pm 2x` and `3x \pm y = 0` as two equations."""
    return _plus_minus(tokens, depth) if any(tokens[i].isa("=") for i in top_level(tokens)) else None


def _duration(tokens: Tokens, depth: int) -> Answer | None:
    """`1 hour and 30 minutes`, which is no list."""
    joined = any(words.word(token) == "and" or token.isa(",") for token in tokens[2:-2])
    answer = quantity(tokens, plain) if joined and tokens[0].kind == "number" and len(tokens) < 12 else None
    return answer if answer and answer.unit and answer.value is not None else None


def _change(tokens: Tokens, depth: int) -> Answer | None:
    return sentences.change(tokens, lambda value: _scalar(value, depth) or plain(value)) if len(tokens) > 1 else None


def _scalar(tokens: Tokens, depth: int) -> Answer | None:
    """An expression, or one with a percent sign or a unit."""
    if (answer := quantity(tokens, plain)) is not None:
        return answer
    return answer if (answer := plain(tokens)).node else None


def _nested(shape: Callable[[Tokens, int, Parse], Answer | None]) -> Shape:
    """A shape whose parts are answers again."""
    return lambda tokens, depth: shape(tokens, depth, _parse)


_SHAPES: tuple[Shape, ...] = (
    _moment, _nested(statements.statement), _nested(options.option), _nested(vectors.matrix), _formula, _qualified,
    _nested(integers.described), _nested(integers.congruence), _prose, _except, _between, _described, ratios.share,
    permutations.cycles, _nested(ratios.named_ratio), _duration,
    _nested(labels.labeled), _collection, _signed_equation, _nested(relation), _product, _bracketed,
    _nested(vectors.line), _plus_minus,
    _nested(numerals.based), _nested(ratios.ratio), _change, _nested(sentences.located), _scalar,
    _nested(sentences.phrase),
)  # fmt: skip
