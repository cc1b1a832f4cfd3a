"""Equations, memberships and inequalities."""

import itertools
from dataclasses import replace

from ratchet.verifiers.math import regions
from ratchet.verifiers.math.answer import Answer, Parse, flattened
from ratchet.verifiers.math.nodes import minus, names_of, rational_value
from ratchet.verifiers.math.numerals import plain
from ratchet.verifiers.math.parts import split, top_level
from ratchet.verifiers.math.regions import variable_of
from ratchet.verifiers.math.tokens import Token, Tokens, spelled


def unequal(members: list[Tokens], depth: int, parse: Parse) -> Answer | None:
    r"""Parse inequations: `x \ne 1, 2` and `x \ne 1, x \ne 2`."""
    sides = [split(part, "\\ne") for part in members]
    name = spelled(sides[0][0])
    differ = any(len(s) > 2 or (s[1:] and spelled(s[0]) != name) for s in sides)
    if differ or len(sides[0]) != 2 or len(sides[0][0]) != 1:
        return None
    points = flattened([parse(side[-1], depth) for side in sides])
    return regions.without(regions.line(variable=name), [*points])


def relation(tokens: Tokens, depth: int, parse: Parse) -> Answer | None:
    """Parse equations, memberships and inequalities; those in one variable are regions."""
    if any(token.isa("\\equiv") for token in tokens) and any(
        (one.isa(")") or one.text in "fgh") and two.isa("\\equiv") for one, two in itertools.pairwise(tokens)
    ):
        tokens = tuple(Token("op", "=", token.gap) if token.isa("\\equiv") else token for token in tokens)
    symbols = ("=", "\\ne", "\\in", "\\notin", "\\setminus", "\\approx", *regions.RELATIONS)
    relations = [tokens[position].text for position in top_level(tokens) if position and tokens[position].isa(*symbols)]
    minus = next((i for i in range(1, len(tokens) - 1) if tokens[i].isa("-") and tokens[i + 1].isa("\\{")), 0)
    sides = split(tokens, *relations) if relations else [tokens[:minus], tokens[minus + 1 :]]
    if not all(sides) or len(sides) > 8:
        return None
    if not relations or relations == ["\\setminus"]:
        removed = parse(sides[1], depth)
        whole, is_set = parse(sides[0], depth), removed.kind == "collection"
        known = regions.region_of(whole), regions.region_of(removed)
        if known[0] and known[1] and whole.kind in ("tuple", "collection") and removed.kind != "scalar":
            return regions.as_answer(regions.intersection([known[0], regions.complement(known[1])]))
        return regions.without(whole, list(removed.parts)) if is_set else None
    if relations == ["\\notin"]:
        name, region = variable_of(plain(sides[0])), regions.region_of(parse(sides[1], depth))
        left = regions.complement(region) if name and region else []
        return regions.as_answer(left, name) if left else None
    if relations == ["\\in"]:
        if sides[1][0].text in ("\\Theta", "O", "\\Omega"):
            return Answer("equation", tokens, parts=tuple(parse(side, depth) for side in sides))
        name, inner = variable_of(plain(sides[0])), parse(sides[1], depth)
        name = name or (spelled(sides[0]) if sides[0][0].isa("\\angle") else "")
        point = parse(sides[0], depth) if not name else None
        if point and point.kind == "tuple" and all(map(variable_of, point.parts)) and inner.kind == "collection":
            return inner  # (x, y) \\in \\{(1, 2)\\}
        return replace(inner, variable=name) if name and inner.kind in ("tuple", "collection", "congruence") else None
    if relations == ["\\ne"]:
        return unequal([tokens], depth, parse)
    parts = tuple(parse(side, depth) for side in sides)
    if relations == ["="] and (both := _of_absolute_value(*parts)):
        return replace(both, tokens=tokens)
    if set(relations) <= {"=", "\\approx"}:
        # `a \approx b` is a, unless a is only a name.
        exact = relations.index("\\approx") if "\\approx" in relations else len(relations)
        named = parts[0].node is None or bool(names_of(parts[0].node))
        return Answer("equation", tokens, parts=parts[: max(exact, 1) + 1]) if exact or named else parts[0]
    if any(each not in regions.RELATIONS for each in relations):
        return None
    if solution := regions.solved(relations, [*parts]):
        return solution[0] if len(solution) == 1 else Answer("collection", tokens, parts=solution)
    if len(relations) > 1 and not (set(relations) <= {"<", "\\le"} or set(relations) <= {">", "\\ge"}):
        return None
    if len(relations) > 1:
        ascending = relations[0] in ("<", "\\le")
        signs = relations if ascending else [regions.RELATIONS[each] for each in reversed(relations)]
        return Answer("chain", tokens, parts=parts if ascending else parts[::-1], words=" ".join(signs))
    backwards = relations[0] in (">", "\\ge")
    ordered, sign = (parts[::-1], regions.RELATIONS[relations[0]]) if backwards else (parts, relations[0])
    return Answer("equation", tokens, parts=ordered, words=sign)


def _of_absolute_value(left: Answer, right: Answer) -> Answer | None:
    """`|x| = 3` as ±3, of a name that is real."""
    is_real = left.node in (("abs", ("name", "x")), ("abs", ("name", "y")))
    if not is_real or right.node is None or right.unit is not None or names_of(right.node):
        return None
    values = [replace(right, node=node, value=rational_value(node)) for node in (right.node, minus(right.node))]
    return Answer("collection", parts=tuple(values), variable=left.node[1][1] if left.node else "")
