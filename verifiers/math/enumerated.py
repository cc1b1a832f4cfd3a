r"""Lists that are written by a rule: `(1, 2, 3) and all permutations`, `2e^{2\pi ik/3}, k = 0, 1, 2`,
`1 \text{ (multiplicity 2)}, -2`.
"""

import itertools
import re
from dataclasses import replace
from fractions import Fraction

from ratchet.verifiers.math import words
from ratchet.verifiers.math.answer import Answer, with_nodes
from ratchet.verifiers.math.evaluated import has_arithmetic_left
from ratchet.verifiers.math.nodes import ZERO, Node, names_of, rational_value
from ratchet.verifiers.math.parts import closing, trimmed
from ratchet.verifiers.math.structure import is_list, parse_answer, parse_tokens
from ratchet.verifiers.math.tokens import Tokens

_PERMUTATIONS = re.compile(r"[ ,]*(?:and )?(?:all )?(?:of )?(?:(?:its|their|the) )?permutations?(?: thereof)?\Z")
_PERMUTATIONS_OF = re.compile(
    r"(?:\A\( [a-z](?: , [a-z])+ \) (?:is|are|=|\\in) )?[ ,]*(?:and )?(?:all |any )?(?:the )?permutations? of "
    r"(?:the (?:triple|pair)s? )?(?=\()"
)
_VALUES = re.compile(
    r"[ ,;(]*(?:(?:for|where|with|and) )?([jklmn]) (?:=|\\in \\\{) (-? ?\d+(?: , -? ?\d+)*)( , \.\.\. , (-? ?\d+))?"
    r"(?: \\\})?(?: \))?\Z"
)
_MOST_VALUES = 64
_TIMES = {"simple": 1, "double": 2, "twice": 2, "triple": 3, "thrice": 3, "repeated": 2}


def enumerated(answer: Answer) -> Answer | None:
    """All members of the list; None for an answer that lists nothing by a rule."""
    return _permuted(answer) or _family(answer) or _with_multiplicities(answer)


def _family(answer: Answer) -> Answer | None:
    """The members of `E, k = 0, 1, 2` and of `E, k = 0, 1, ..., 5`."""
    match = _VALUES.search(answer.spelling)
    if not match or not match.start():
        return None
    name: Node = ("name", match[1])
    values = [int(text.replace(" ", "")) for text in match[2].split(",")]
    if match[4]:
        last, step = int(match[4].replace(" ", "")), values[1] - values[0] if values[1:] else 1
        if step < 1 or values != [*range(values[0], values[-1] + 1, step)] or (last - values[0]) % step:
            return None
        values = [*range(values[0], last + 1, step)]
    core = parse_answer(answer.spelling[: match.start()])
    value = core.stated
    if not 1 < len(values) <= _MOST_VALUES or value.kind not in ("scalar", "tuple") or core.words:
        return None
    nodes = [part.node for part in (value, *value.parts) if part.node]
    if match[1] not in frozenset().union(*map(names_of, nodes)):
        return None
    if any(map(has_arithmetic_left, nodes)):
        return None
    members = (with_nodes(value, lambda node, at=at: _at(node, name, at)) for at in values)
    return Answer("collection", answer.tokens, parts=tuple(map(_with_value, members)))


def _at(node: Node, name: Node, value: int) -> Node:
    """The node at a value of the name, without the factors that become zero: e^0 is 1."""
    if node == name:
        return ("number", Fraction(value))
    node = tuple(_at(part, name, value) if isinstance(part, tuple) else part for part in node)
    if node[0] in ("*", "/") and ZERO in node[1 : 3 if node[0] == "*" else 2]:
        return ZERO
    return ("number", Fraction(1)) if node[0] == "^" and node[2] == ZERO else node


def _with_value(member: Answer) -> Answer:
    """The member with its exact value, where it has one."""
    value = rational_value(member.node) if member.node else None
    node = member.node if value is None else ("number", value)
    return replace(member, parts=tuple(map(_with_value, member.parts)), value=value, node=node)


def _with_multiplicities(answer: Answer) -> Answer | None:
    """Each member as often as `(multiplicity 2)` or `(double root)` behind it says."""
    if not {"multiplicity", *_TIMES}.intersection(map(words.word, answer.tokens)):
        return None
    parts = answer.parts if is_list(answer) else (answer,)
    found = [_repeated(part.tokens) for part in parts]
    if not any(core for core, _ in found):
        return None
    members = (parse_tokens(core) if core else part for part, (core, _) in zip(parts, found, strict=True))
    repeated = ([member] * times for member, (_, times) in zip(members, found, strict=True))
    return Answer("collection", answer.tokens, parts=tuple(itertools.chain(*repeated)))


def _repeated(tokens: Tokens) -> tuple[Tokens, int]:
    """A member without the remark that says how often it counts, and that number; no tokens if it has none."""
    at = next((i for i, token in enumerate(tokens) if i and token.isa("(")), 0)
    if not at or closing(tokens[at:]) != len(tokens) - 1 - at:
        return (), 1
    spoken = [words.word(token) or token.text for token in tokens[at + 1 : -1]]
    said = [word for word in spoken if word not in ("root", "with", "of", "zero", "solution", "algebraic", "=", "a")]
    if len(said) == 2 and said[0] == "multiplicity" and said[1].isdigit() and 0 < int(said[1]) < 10:
        return trimmed(tokens[:at]), int(said[1])
    return (trimmed(tokens[:at]), _TIMES[said[0]]) if len(said) == 1 and said[0] in _TIMES else ((), 1)


def _permuted(answer: Answer) -> Answer | None:
    """The tuples of `(1, 2, 3) and all permutations` in every order, and of `(1, 1, 1) and all permutations of
    (1, 2, 3)` the others as they are; None for anything else."""
    text = answer.spelling
    if match := _PERMUTATIONS.search(text):
        kept, core = "", text[: match.start()]
    elif match := _PERMUTATIONS_OF.search(text):
        kept, core = text[: match.start()], text[match.end() :]
    else:
        return None
    listed = [parse_answer(each).stated for each in (core, kept or core)]
    members, others = (each.parts if is_list(each) else (each,) for each in listed)
    if any(part.kind != "tuple" or part.brackets != "()" or len(part.parts) > 4 for part in (*members, *others)):
        return None
    ordered = [order for part in members for order in itertools.permutations(part.parts)]
    ordered += [part.parts for part in others]
    orders = {tuple(entry.text for entry in order): replace(members[0], parts=order) for order in ordered}
    return Answer("collection", answer.tokens, parts=tuple(orders.values()))
