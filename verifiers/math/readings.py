"""How two expressions read together: which letters are functions and which factors, vectors, matrices or constants.

Equality with a letter as an unknown function implies equality with it as a factor, so a function is the careful
reading. A letter is a factor only where the reference shows it, or both do.
"""

import itertools

from ratchet.verifiers.math.nodes import Node, is_sum, kinds_of, names_of, replaced

_FUNCTION_LETTERS = frozenset("fghuvyEFGHIPTUV") | {"\\phi", "\\psi", "\\Phi", "\\Psi"}
_FUNCTIONS = frozenset({"\\delta", "\\Gamma", "\\zeta", "\\Theta"})
"""Functions wherever they stand before a bracket, unless the reference has them bare."""
_SETS = frozenset("ABCDGSXY")
"""Capital letters whose product with × alone is one of sets."""
_LETTERS = {"name", "applied", "vector", "cross"}
_VARIABLES = frozenset("xyzt")
_INTEGERS, _CONSTANTS = frozenset("kmn"), frozenset("CcK")
_TRANSPOSED = (("name", "T"), ("name", "\\top"))
_INVERSE = (("-", ("number", 0), ("number", 1)), ("number", -1))


def together(reference: Node, answer: Node) -> tuple[Node, Node]:
    """Both trees in one reading."""
    if reference == answer:
        return reference, answer
    kinds = kinds_of(reference) | kinds_of(answer)
    if not kinds & _LETTERS:
        return reference, answer
    if "applied" in kinds:
        factors = {
            name for name in _applied(reference).keys() | _applied(answer).keys() if _is_factor(name, reference, answer)
        }
        reference, answer = (_rewritten(node, factors) for node in (reference, answer))
    crossed = {part for each in _nodes(reference) if each[0] == "cross" for part in each[1:]}
    if len(crossed) > 1 and reference[0] != "cross" and all(map(_is_capital, crossed)):  # E \times B, in a formula
        vectors = {each: ("vector", each[1]) for each in crossed}
        reference, answer = replaced(reference, vectors), replaced(answer, vectors)
    if "vector" in kinds or _has_matrices(reference) or _has_matrices(answer):
        return _linear(reference, answer)
    if reference[0] == "cross" and all(part[0] == "name" and part[1] in _SETS for part in reference[1:]):
        return ("call", "cross", *reference[1:]), answer
    ours, theirs = names_of(reference) - names_of(answer), names_of(answer) - names_of(reference)
    if ours and all(name[:1] in "cC" and "_" in name for name in ours | theirs):  # c_1, C_1
        answer = replaced(
            answer, {("name", name): ("name", name.swapcase()) for name in theirs if name.swapcase() in ours}
        )
    if len(ours) == len(theirs) == 1:
        one, other = *ours, *theirs
        is_index = (
            {one, other} <= _INTEGERS and names_of(reference) == ours and "\\pi" in kinds_of(reference, names=True)
        )
        if is_index or ({one, other} <= _CONSTANTS and _is_added(reference, one) and _is_added(answer, other)):
            answer = replaced(answer, {("name", other): ("name", one)})
    return reference, answer


def _is_added(node: Node, name: str) -> bool:
    """Whether it is a sum with this name, and has it nowhere else: the constant of an integral."""
    if not is_sum(node) or repr(node).count(repr(("name", name))) != 1:
        return False
    return ("name", name) in node[1:] or (node[0] == "+" and _is_added(node[1], name)) or _is_added(node[1], name)


def _applied(node: Node) -> dict[str, list[Node]]:
    """The arguments of each letter before a bracket."""
    calls: dict[str, list[Node]] = {node[1]: [node[2]]} if node[0] == "applied" else {}
    for part in node[1:]:
        for name, arguments in _applied(part).items() if isinstance(part, tuple) else ():
            calls.setdefault(name, []).extend(arguments)
    return calls


def _is_factor(name: str, reference: Node, answer: Node) -> bool:
    ours, theirs = _applied(reference).get(name, []), _applied(answer).get(name, [])
    in_wanted, in_got = (name in names_of(node) for node in (reference, answer))
    if not ours or name in _FUNCTIONS:
        return in_wanted
    if any(not is_sum(node) for node in ours):  # I(0), f(x): but n(n)
        return all(name in names_of(node) for node in ours)
    if in_wanted:
        return True
    plain = all(names_of(node) <= _VARIABLES for node in ours)
    if name in _FUNCTION_LETTERS and plain and any(map(names_of, ours)):  # f(2x + 2)
        return False
    if any(not is_sum(node) for node in theirs) or len(set(ours)) > 1:
        return False
    return in_got or name not in _FUNCTION_LETTERS


def _rewritten(node: Node, factors: set[str]) -> Node:
    """With products for the letters that are factors: of f(x)^2 the argument alone is squared."""
    if node[0] in ("^", "factorial") and node[1][0] == "applied" and node[1][1] in factors:
        _, name, inside = node[1]
        return ("*", ("name", name), _rewritten((node[0], inside, *node[2:]), factors))
    parts = tuple(_rewritten(part, factors) if isinstance(part, tuple) else part for part in node)
    return ("*", ("name", parts[1]), parts[2]) if node[0] == "applied" and node[1] in factors else parts


def _has_matrices(node: Node) -> bool:
    """Whether capital letters do not commute here: `A^T`, `PDP^{-1}`, `AB - BA`, `(AB)^{-1}`."""
    if not any(name[-1].isupper() or name == "\\top" for name in kinds_of(node, names=True)):
        return False
    products = [_factors(each) for each in _nodes(node) if each[0] == "*"]
    pairs = {(one, two) for each in products for one, two in itertools.pairwise(each)}
    if any((two, one) in pairs for one, two in pairs if one != two):
        return True
    powers = [each for each in _nodes(node) if each[0] == "^"]
    if any(each[2] in _TRANSPOSED and (each[1][0] != "number") and each[1] != ("name", "e") for each in powers):
        return True
    inverted = [each[1] for each in powers if each[2] in _INVERSE]
    capitals = {each[1] for each in _nodes(node) if _is_capital(each)}
    return any(_is_capital(each) or sum(map(_is_capital, _nodes(each))) > 1 for each in inverted) and (
        len(capitals) > 1 or any(name for name in names_of(node) if name not in capitals)
    )


def _factors(node: Node) -> list[str]:
    """The capital letters of a product, in order."""
    if node[0] == "*":
        return _factors(node[1]) + _factors(node[2])
    node = node[1] if node[0] == "^" else node
    return [node[1]] if _is_capital(node) else []


def _is_capital(node: Node) -> bool:
    return node[0] in ("name", "vector") and len(node[1]) == 1 and node[1].isupper()


def _nodes(node: Node) -> list[Node]:
    return [node] + [each for part in node[1:] if isinstance(part, tuple) for each in _nodes(part)]


def _linear(reference: Node, answer: Node) -> tuple[Node, Node]:
    """With vectors and matrices as such, if either expression shows that they are."""
    nodes = [*_nodes(reference), *_nodes(answer)]
    changes: dict[Node, Node] = {("name", each[1]): each for each in nodes if each[0] == "vector"}
    if _has_matrices(reference) or _has_matrices(answer):
        for each in nodes:
            if _is_capital(each) and each not in _TRANSPOSED:
                changes[each] = ("matrix", each[1])
            elif each[0] == "^" and each[2] in _TRANSPOSED:
                changes[each[2]] = ("name", "\\top")
                if each[1][0] == "name" and each[1][1].islower():
                    changes[each[1]] = ("vector", each[1][1])
            elif each[0] == "*" and each[2][0] == "name" and each[2][1].islower() and _factors(each[1])[-1:]:
                changes[each[2]] = ("vector", each[2][1])
    return replaced(reference, changes), replaced(answer, changes)
