r"""Matrices, cases, and lines and planes: answers made of rows and entries."""

import itertools
from dataclasses import replace
from fractions import Fraction

from ratchet.verifiers.math import families, regions, words
from ratchet.verifiers.math.answer import Answer, Parse
from ratchet.verifiers.math.expression import parse_expression
from ratchet.verifiers.math.nodes import names_of
from ratchet.verifiers.math.parts import closing, split, top_level, trimmed
from ratchet.verifiers.math.tokens import Tokens

_MATRICES = {*(kind + "matrix" for kind in ("", "p", "b", "B", "v", "V", "small")), "array"}


def matrix(tokens: Tokens, depth: int, parse: Parse, inside: str = "") -> Answer | None:
    """Parse a matrix, cases, or a system of equations; `inside` is the bracket around the tokens."""
    begin = next((i for i, token in enumerate(tokens) if token.isa("\\begin")), -1)
    if begin < 0 or len(tokens) < begin + 8:
        return None
    if transposed := _without_transpose(tokens):
        if (inner := parse(transposed, depth)).kind != "matrix":
            return None
        columns = zip(*(row.parts for row in inner.parts), strict=False)
        return replace(inner, tokens=tokens, parts=tuple(Answer("tuple", parts=column) for column in columns))
    if begin == 1 and tokens[0].isa("|") and tokens[-1].isa("|"):
        inner = matrix(tokens[1:-1], depth, parse, "|")
        return replace(inner, tokens=tokens, brackets="|") if inner and inner.kind == "matrix" else None
    if begin and tokens[begin - 1].isa("(", "[") and closing(tokens[begin - 1 :]) == len(tokens) - begin:
        return matrix(tokens[: begin - 1] + tokens[begin:-1], depth, parse, tokens[begin - 1].text)
    if begin == 1 and tokens[0].isa("\\{") and trimmed(tokens)[-4].isa("\\end"):
        return matrix(trimmed(tokens[1:]), depth, parse, "\\{")
    if begin > 0:
        before = tokens[:begin]
        factor = parse_expression(before[:-1] if before[-1].isa("\\cdot", "\\times") else before)
        inner = parse(tokens[begin:], depth)
        if inner.kind != "matrix" or factor is None or any(not cell.node for row in inner.parts for cell in row.parts):
            return None
        scaled = (tuple(regions.expression(("*", factor, cell.node)) for cell in row.parts) for row in inner.parts)
        return replace(inner, tokens=tokens, parts=tuple(Answer("tuple", parts=row) for row in scaled))
    kind, content = tokens[2].text, tokens[4:-4]
    if not tokens[-4].isa("\\end") or sum(token.isa("\\begin") for token in tokens) > 1:
        return None
    if kind == "array" and content and content[0].isa("{"):
        content = content[closing(content) + 1 :]
    rows = [split(row, "&") for row in split(content, "\\\\") if row]
    if kind not in _MATRICES or (kind in ("array", "matrix") and _is_layout(rows, inside)):
        if kind in ("cases", "array", "matrix") and all(map(_is_case, rows)):
            cases = tuple(Answer("tuple", parts=tuple(parse(_case(cell), depth) for cell in row)) for row in rows)
            return Answer("collection", tokens, parts=cases, brackets="cases")
        cases = tuple(parse(trimmed(tuple(itertools.chain(*row))), depth) for row in rows)  # aligned
        return cases[0] if len(cases) == 1 else Answer("collection", tokens, parts=cases)
    parsed = tuple(Answer("tuple", parts=tuple(parse(cell, depth) for cell in row)) for row in rows)
    # Round and square brackets mean the same; bars mean a determinant.
    return Answer("matrix", tokens, parts=parsed, brackets="|" if kind[0] in "vV" else "(")


def _is_case(row: list[Tokens]) -> bool:
    """True for a value and a condition, and not for `x &= 2`."""
    return len(row) == 2 and not any(token.isa("=", *regions.RELATIONS) for token in row[1][:1])


def _is_layout(rows: list[list[Tokens]], inside: str) -> bool:
    """True for an array behind a brace, of one cell, or of equations below each other, without brackets: no matrix."""
    cells = list(itertools.chain(*rows))
    is_column = all(len(row) == 1 for row in rows)
    are_equations = all(any(cell[i].isa("=", *regions.RELATIONS) for i in top_level(cell)) for cell in cells)
    return inside == "\\{" or (not inside and (len(cells) == 1 or (is_column and are_equations)))


def _without_transpose(tokens: Tokens) -> Tokens:
    """The matrix of `M^T` and `M^{\\top}`; empty for anything else."""
    at = -4 if tokens[-1].isa("}") else -2
    sign = tokens[at:][1:] if len(tokens) > 8 and tokens[at].isa("^") else ()
    letters = [token for token in sign if not token.isa("{", "}")]
    return tokens[:at] if len(letters) == 1 and letters[0].text in ("T", "\\top") else ()


def _case(cell: Tokens) -> Tokens:
    """A condition without `if` and punctuation."""
    while cell and (cell[0].isa(",") or words.word(cell[0]) in ("if", "for", "when")):
        cell = cell[1:]
    return trimmed(cell)


def line(tokens: Tokens, depth: int, parse: Parse) -> Answer | None:
    """Parse `(1,0,2) + t(3,-1,1)` as the tuple of its entries, with `words` "line"; also of columns, and `2(3,-1)`."""
    signs = [i for i in top_level(tokens) if i and tokens[i].isa("+", "-")]
    if len(signs) > 3 or not any(token.isa("(", "\\begin", "[") for token in tokens) or depth > 5:
        return None
    terms = []
    for begin, end in itertools.pairwise([0, *signs, len(tokens)]):
        sign, term = (-1 if tokens[begin].isa("-") else 1), tokens[begin + tokens[begin].isa("+", "-") : end]
        at = next((i for i, token in enumerate(term) if token.isa("(", "\\begin", "[")), None)
        if at is None:
            return None
        close = closing(term[at:]) + at + (3 if term[at].isa("\\begin") else 0)
        vector, before, behind = parse(term[at : close + 1], depth), term[:at], term[close + 1 :]
        factor = before[:-1] if before and before[-1].isa("\\cdot") else before or behind
        node = parse_expression(factor) if factor else ("number", Fraction(1))
        entries = [entry.node for entry in vector.entries]
        is_vector = vector.is_column or (vector.kind == "tuple" and vector.brackets in ("()", "[]"))
        if not is_vector or node is None or None in entries or (before and behind):
            return None
        terms.append((sign, node, [entry for entry in entries if entry]))
    is_line = any(names_of(factor) for _, factor, _ in terms)
    if is_line and not all(families.is_factor(factor) for _, factor, _ in terms):
        return None
    if is_line == (len(terms) == 1) or (entries := families.combined(terms)) is None:
        return None
    return Answer("tuple", tokens, parts=tuple(map(regions.expression, entries)), brackets="()", words="line" * is_line)
