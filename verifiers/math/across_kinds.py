"""Compare answers of two kinds: a ratio and a number, a tuple and a column, a set of one and its member."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import reduce

from ratchet.verifiers.math.answer import Answer, named_values
from ratchet.verifiers.math.nodes import ZERO, kinds_of, names_of, nodes_of
from ratchet.verifiers.math.units import SECOND
from ratchet.verifiers.math.words import folded, moment


def same_across_kinds(one: Answer, other: Answer, same: Callable[[Answer, Answer], bool | None]) -> bool | None:
    """True if two answers of different kinds are the same, one way round; `same` compares two parts."""
    if one.kind == "collection" and not one.parts and other.kind == "text":
        spoken = any(token.kind in ("word", "run") for token in one.tokens[:1])  # no solution, and not the empty set
        return other.words == "none" and spoken
    if one.kind == "collection" and len(one.parts) == 1:
        node = one.parts[0].node if one.brackets == "{" else None
        if node and names_of(node):  # a fractional part?
            return False
        return same(one.parts[0], other)
    if one.kind == "text" and other.kind == "scalar" and other.value is None:
        ours, theirs = (answer.text.replace(" ", "") for answer in (one, other))
        return ours == theirs or folded(ours) == folded(theirs)
    if one.kind == "ratio" and other.kind == "scalar" and len(one.parts) == 2:
        part, whole = (term.value for term in one.parts)
        if whole in (0, 1) or (part is not None and whole and (part / whole).denominator == 1):  # 20:10 is no 2
            return False
        if part is not None and whole is not None:
            return part / whole == other.value
        return same(replace(one.parts[0], node=("/", *(term.node for term in one.parts)), value=None), other)
    if one.kind == "ratio" and len(one.parts) == 3 and other.kind == "scalar" and other.unit:  # 2:46:40
        terms = [term.value for term in one.parts]
        if None in terms or other.unit.dimension != SECOND.dimension or other.value is None:
            return False
        seconds = sum((term or 0) * size for term, size in zip(terms, (3600, 60, 1), strict=True))
        return seconds == other.value * other.unit.size
    if one.kind == "ratio" and other.kind == "moment":
        return set(moment(one.tokens, bare=True).split() or "?") <= set(other.words.split())
    if one.is_column and other.kind == "collection" and (named := named_values(other)):  # x = 6, y = -17
        return same(replace(one, kind="tuple", brackets="()", parts=one.entries), named)
    if one.is_column and other.kind == "scalar" and "vector" in kinds_of(other.node or ZERO):
        return same(replace(one, kind="tuple", brackets="()", parts=one.entries), other)
    if one.kind == "matrix" and other.kind == "scalar" and other.node and "rows" in kinds_of(other.node):
        cells = [[cell.node for cell in row.parts] for row in one.parts]
        if one.brackets == "|" or None in itertools.chain(*cells):
            return False
        return same(replace(other, node=("rows", *(("row", *row) for row in cells))), other)
    if one.kind == "tuple" and one.brackets == "()" and other.kind == "scalar" and other.node:
        vectors = {part for part in kinds_of(other.node, names=True) if ("vector", part) in nodes_of(other.node)}
        if not vectors or not vectors <= {*"ijk"[: len(one.parts)]} or None in (nodes := [p.node for p in one.parts]):
            return False
        terms = [("*", node, ("vector", unit)) for node, unit in zip(nodes, "ijk", strict=False)]
        return len(nodes) in (2, 3) and same(replace(other, node=reduce(lambda x, y: ("+", x, y), terms)), other)
    if one.kind == "tuple" and one.brackets == "()":
        if other.kind == "matrix" and other.brackets == "(" and len(other.parts) == 1:
            return same(one, replace(one, parts=other.parts[0].parts))
        if other.is_column:
            return same(one, replace(one, parts=other.entries))
        if other.kind == "collection" and (named := named_values(other)):
            return same(one, named)
    return False
