"""A parsed answer."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from ratchet.verifiers.math.nodes import Node, kinds_of, names_of, nodes_of, replaced
from ratchet.verifiers.math.tokens import Tokens, single_letters, spelled
from ratchet.verifiers.math.units import Unit


@dataclass(frozen=True)
class Answer:
    """A parsed answer. `spelling` is the whole answer in one notation; `tokens`; and by `kind`:

    scalar: `node`, the expression (None: not an expression, equal only to the same spelling); `value` if rational;
    `percent`; `unit`; `places`, the decimals it was rounded to. tuple: `brackets` and ordered `parts`; intervals too,
    of whole numbers if `words` is "integers". collection: `parts` (lists, sets, unions, both signs of ±), in any order
    unless `ordered`; `brackets` for a set. matrix: `parts` are rows, tuples without brackets. equation: `parts` are the
    sides; `words` the sign of an inequality. congruence: residue and modulus. ratio: its terms. text, moment, based:
    `words`. option: `words` is the letter, `parts` its text. `variable`: of an interval or a congruence, or the name of
    a point. `domain`: conditions on the answer's letters that follow it.
    """

    kind: str
    tokens: Tokens = ()
    node: Node | None = None
    value: Fraction | None = None
    parts: "tuple[Answer, ...]" = ()
    brackets: str = ""
    percent: bool = False
    unit: Unit | None = None
    places: int | None = None
    variable: str = ""
    words: str = ""
    spelling: str = ""
    ordered: bool = False
    domain: str = ""

    @functools.cached_property
    def symbols(self) -> frozenset[str]:
        return frozenset(token.text for token in self.tokens)

    @functools.cached_property
    def has_tower(self) -> bool:
        """True if the answer has a power of numbers in an exponent: 2^{2^5}, but not e^{x^2}."""
        nodes = nodes_of(self.node) if self.node else []
        powers = [each[2] for each in nodes if each[0] == "^"]
        return any("^" in kinds_of(each) and not names_of(each) for each in powers) or any(
            part.has_tower for part in self.parts
        )

    @functools.cached_property
    def is_column(self) -> bool:
        """True if the answer is a matrix of one column, in round brackets."""
        return self.kind == "matrix" and self.brackets == "(" and all(len(row.parts) == 1 for row in self.parts)

    @property
    def stated(self) -> "Answer":
        """The value that an equation gives to a name, or the answer itself."""
        return self.parts[-1] if self.kind == "equation" and not self.words else self

    @functools.cached_property
    def entries(self) -> "tuple[Answer, ...]":
        """The coordinates of a point or a vector: the parts of a tuple, or of a matrix of one column."""
        return tuple(row.parts[0] for row in self.parts) if self.is_column else self.parts

    @functools.cached_property
    def text(self) -> str:
        return spelled(self.tokens)

    @functools.cached_property
    def letters(self) -> str:
        """The `text` with runs of letters as products of names."""
        return spelled(single_letters(self.tokens))


Pair = tuple[Answer, Answer]
"""A reference and an answer."""
Parse = Callable[[Tokens, int], Answer]
"""Parses a part of an answer; the number is its depth."""


def flattened(parts: list[Answer], sets: bool = False) -> tuple[Answer, ...]:
    """The members of a list: ±3 is two; a set is one member of a list, but all of its members in a union."""
    flat: list[Answer] = []
    for part in parts:
        value = part.stated
        opened = (part,)
        if value.kind == "collection" and (sets or not value.brackets) and value is part:
            opened = part.parts
        elif value.kind == "collection" and not value.brackets and len(part.parts) == 2:  # x = 1 \\pm i
            opened = tuple(replace(part, parts=(part.parts[0], each)) for each in value.parts)
        flat += (named,) if (named := named_values(part)) else opened
    return tuple(flat)


def named_values(answer: Answer) -> Answer | None:
    """The tuple (2, 3) for `x=2, y=3`, in the order of the names; None for anything else."""
    pairs = {spelled(part.parts[0].tokens): part.parts[1] for part in answer.parts if part.kind == "equation"}
    if (
        answer.kind != "collection"
        or answer.brackets
        or answer.words == "or"
        or not len(pairs) == len(answer.parts) > 1
    ):
        return None
    in_order = sorted(pairs, key=lambda name: (name.startswith("\\"), name))  # (r, \theta)
    return Answer("tuple", parts=tuple(pairs[name] for name in in_order), brackets="()")


def with_nodes(answer: Answer, change: Callable[[Node], Node]) -> Answer:
    """The answer with its expressions changed."""
    if answer.node is not None:
        answer = replace(answer, node=change(answer.node))
    return replace(answer, parts=tuple(with_nodes(part, change) for part in answer.parts))


def with_name(answer: Answer, old: str, new: str) -> Answer:
    """The answer with another name for a variable."""
    return with_nodes(answer, lambda node: replaced(node, {("name", old): ("name", new)}))
