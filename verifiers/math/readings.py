"""Read two expressions together: which letters are functions and which factors, vectors, matrices or constants.

Equality with a letter as an unknown function implies equality with it as a factor, so a function is the careful
reading. A letter is a factor only where the reference shows it, or both do.
"""

import itertools
import re
from collections.abc import Iterator

from ratchet.verifiers.math.nodes import ZERO, Node, factors_of, is_sum, kinds_of, names_of, nodes_of, replaced

_FUNCTION_LETTERS = frozenset("fghuvyEFGHIPTUV") | {"\\phi", "\\psi", "\\Phi", "\\Psi"}
_FUNCTIONS = frozenset({"\\delta", "\\Gamma", "\\zeta", "\\Theta"})
"""Functions wherever they stand before a bracket, unless the reference has them bare."""
_SETS = frozenset("ABCDGPQSXY")
"""Capital letters of sets and matrices: alone, their products keep their order."""
_SUMS = {"name", "vector", "number", "+", "-", "*", "^"}
_FAMILIES = ("\\hat ", "\\sigma_", "S_", "L_", "J_")
"""Names beside another of the same kind that are operators."""
_LETTERS = {"name", "applied", "vector", "cross"}
_VARIABLES = frozenset("xyzt")
_INTEGERS = frozenset("kmn")
_CONSTANTS, _LOOSE_CONSTANTS = re.compile(r"[cCK](?:_\d)?|[A-BD]"), re.compile(r"[cCkKA-BD](?:_\d)?")
_ADDED_CONSTANT = re.compile(r"[CKc](?:_\d)?")
_TRANSPOSED, _DAGGER = (("name", "T"), ("name", "\\top")), ("name", "\\dagger")
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
    crossed = {part for each in nodes_of(reference) if each[0] == "cross" for part in each[1:]}
    if len(crossed) > 1 and reference[0] != "cross" and all(map(_is_capital, crossed)):  # E \times B, in a formula
        vectors = {each: ("vector", each[1]) for each in crossed}
        reference, answer = replaced(reference, vectors), replaced(answer, vectors)
    may_be = len(names_of(reference) | names_of(answer)) > 1 or "call" in kinds
    # Nobody divides by a matrix: in nRT/V, V is a number.
    divisors = frozenset(name for each in nodes_of(reference) if each[0] == "/" for name in factors_of(each[2]))
    operators = _operators(reference, divisors) | _operators(answer, divisors) if may_be else frozenset()
    if "vector" in kinds or operators:
        return _linear(reference, answer, operators)
    if reference[0] == "cross" and all(part[0] == "name" and part[1] in _SETS for part in reference[1:]):
        return ("call", "cross", *reference[1:]), answer
    return reference, answer


def renamed(reference: Node, answer: Node, fixed: frozenset[str]) -> Iterator[Node]:
    """The answer with the reference's names for arbitrary letters: one integer (k\\pi, n\\pi), and constants that the
    expression is linear in (+C, +K; c_1, C_1, A), in any order. `fixed` are letters that are no arbitrary constants."""
    ours, theirs = names_of(reference), names_of(answer)
    if len(ours) == len(theirs) == 1 and ours | theirs <= _INTEGERS and "\\pi" in kinds_of(reference, names=True):
        yield replaced(answer, {("name", min(theirs)): ("name", min(ours))})
    if fixed & (ours | theirs):
        return
    mine, loose = _arbitrary(reference, ours, _CONSTANTS), _arbitrary(answer, theirs, _LOOSE_CONSTANTS)
    if 0 < len(mine) == len(loose) <= 3 and ours - {*mine} == theirs - {*loose} and (mine != loose or "_" in mine[0]):
        for order in itertools.permutations(mine):
            yield replaced(answer, {("name", old): ("name", new) for old, new in zip(loose, order, strict=True)})


def _arbitrary(node: Node, names: frozenset[str], pattern: re.Pattern[str]) -> list[str]:
    """The constants that this is linear in, each once, with coefficients in small letters; or the one it adds."""
    constants = sorted(filter(pattern.fullmatch, names))
    text, linear = (repr(node), {*_linear_names(node)}) if constants else ("", set[str]())
    constants = [name for name in constants if name in linear and text.count(repr(("name", name))) == 1]
    if len(constants) == 1 and constants[0][0] in "cCK" and _is_added(node, constants[0]):
        return constants
    is_plain = names > {*constants} and all(name.islower() and not {*"_("} & {*name} for name in names - {*constants})
    is_arbitrary = pattern is _LOOSE_CONSTANTS or ("c" not in constants and "".join(constants) not in ("A", "B", "D"))
    return constants if is_plain and is_arbitrary else []


def _linear_names(node: Node) -> Iterator[str]:
    """The names outside of denominators, powers and functions."""
    if node[0] == "name":
        yield node[1]
    for part in node[1 : 2 if node[0] == "/" else 3] if node[0] in "+-*/" else ():
        yield from _linear_names(part)


def without_constant(node: Node) -> Node | None:
    """An integral without the constant that it adds; None if it adds none."""
    names = names_of(node)
    constants = [*filter(_ADDED_CONSTANT.fullmatch, names)]
    variables = names.difference(constants)
    if len(constants) != 1 or not _is_added(node, constants[0]) or not all(each.islower() for each in variables):
        return None
    return replaced(node, {("name", constants[0]): ZERO})


def _is_added(node: Node, name: str) -> bool:
    """True if it is a sum with this name, and has it nowhere else: the constant of an integral."""
    if not is_sum(node) or repr(node).count(repr(("name", name))) != 1:
        return False
    return ("name", name) in node[1:] or _is_added(node[1], name)


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
    """The expression with products for the letters that are factors: of f(x)^2 the argument alone is squared."""
    if node[0] in ("^", "factorial") and node[1][0] == "applied" and node[1][1] in factors:
        _, name, inside = node[1]
        return ("*", ("name", name), _rewritten((node[0], inside, *node[2:]), factors))
    parts = tuple(_rewritten(part, factors) if isinstance(part, tuple) else part for part in node)
    return ("*", ("name", parts[1]), parts[2]) if node[0] == "applied" and node[1] in factors else parts


def _operators(node: Node, divisors: frozenset[Node]) -> frozenset[Node]:
    """The names that do not commute here, by evidence: `A^T`, `PDP^{-1}`, `AB - BA`, `(AB)^{-1}`, `AB + AC` (letters of
    matrices alone), `\\det A`; `\\hat A\\hat B`, `a^\\dagger`, `\\sigma_x\\sigma_y`; what would cancel (`ghg^{-1}`)."""
    nodes = nodes_of(node)
    names = {each for each in nodes if each[0] in ("name", "vector") and each[1] not in ("e", "i")}
    capitals = {*filter(_is_capital, names)}
    within = {id(part) for each in nodes if each[0] == "*" for part in each[1:]}
    chains = [factors_of(each) for each in nodes if each[0] == "*" and id(each) not in within]
    pairs = {(_base(one), _base(two)) for chain in chains for one, two in itertools.pairwise(chain)}
    pairs = {(one, two) for one, two in pairs if one != two and {one, two} <= names}
    powers = [each for each in nodes if each[0] == "^"]
    inverted = [nodes_of(each[1]) for each in powers if each[2] in _INVERSE and each[1] not in divisors]
    alone = names == capitals and all(each[1] in _SETS or each[1] == "I" for each in names) and kinds_of(node) <= _SUMS
    if (
        any((two, one) in pairs and {one, two} <= capitals for one, two in pairs)
        or any(each[2] in _TRANSPOSED and each[1][0] != "number" and each[1] != ("name", "e") for each in powers)
        or any(each[:2] in (("call", "\\det"), ("call", "\\tr")) for each in nodes)
        or any(one in capitals and one[0] == two[0] == "vector" for one, two in pairs)  # bold ones
        or (alone and pairs and kinds_of(node) & {"+", "-", "^"})
        or (alone and ("name", "I") in names and len(names) > 1)
        or (len(names) > 1 and any(_is_capital(each[0]) or sum(map(_is_capital, each)) > 1 for each in inverted))
    ):
        return frozenset(capitals)
    operators = {each for chain in chains for each in _cancelling(chain, names)}
    if any(each[2] == _DAGGER for each in powers):
        bases = {inner for each in powers if each[2] == _DAGGER for inner in nodes_of(each[1])}
        operators |= {name for name in names if name in bases or name[1].startswith("\\hat ")}
    beneath = {
        each for part in nodes if part[0] in ("root", "/") for each in nodes_of(part[1 if part[0] == "root" else 2])
    }
    for one, two in pairs:
        family = next((each for each in _FAMILIES if one[1].startswith(each) and two[1].startswith(each)), None)
        if family and not beneath & {one, two}:
            operators |= {name for name in names if name[1].startswith(family)}
    return frozenset(operators)


def _base(node: Node) -> Node:
    return node[1] if node[0] == "^" else node


def _cancelling(chain: list[Node], names: set[Node]) -> set[Node]:
    """The letters in a product `g h g^{-1}` or `e^X h e^{-X}`, which nobody would write if they commuted."""
    for one, two in ((chain[i], chain[j]) for i in range(len(chain)) for j in range(i + 2, len(chain))):
        powers = one[0] == two[0] == "^" and one[1] == two[1] == ("name", "e") and one[2:] != two[2:]
        is_inverse = (_are_inverse(one, two) or _are_inverse(two, one)) and names_of(one)
        if is_inverse or (powers and (("-", ZERO, one[2]) == two[2] or ("-", ZERO, two[2]) == one[2])):
            within = names & {each for part in chain for each in nodes_of(part)}
            return (powers and {each for each in within if each[1][-1].isupper()}) or within
    return set()


def _are_inverse(one: Node, two: Node) -> bool:
    return two[0] == "^" and two[1] == one and two[2] in _INVERSE


def _is_capital(node: Node) -> bool:
    return node[0] in ("name", "vector") and len(node[1]) == 1 and node[1].isupper()


def _linear(reference: Node, answer: Node, operators: frozenset[Node]) -> tuple[Node, Node]:
    """The expression with vectors and matrices as such. A is tall where A^TA is inverted: alone it has no inverse."""
    nodes = [*nodes_of(reference), *nodes_of(answer)]
    changes: dict[Node, Node] = {("name", each[1]): each for each in nodes if each[0] == "vector"}
    inverted = [factors_of(each[1]) for each in nodes if each[0] == "^" and each[2] in _INVERSE]
    tall = {chain[-1] for chain in inverted if any(chain[0] == ("^", chain[-1], sign) for sign in _TRANSPOSED)}
    for each in nodes if operators else ():
        if (each in operators or (_is_capital(each) and any(map(_is_capital, operators)))) and each not in _TRANSPOSED:
            changes[each] = ("matrix", each[1], *(3, 2)[: 2 * (each in tall)])
        elif each[0] == "^" and each[2] in _TRANSPOSED:
            changes[each[2]] = ("name", "\\top")
            if each[1][0] == "name" and each[1][1].islower():
                changes[each[1]] = ("vector", each[1][1])
        elif (
            each[0] == "*"
            and each[2][0] == "name"
            and each[2][1].islower()
            and _is_capital(_base(factors_of(each[1])[-1]))
        ):
            changes.setdefault(each[2], ("vector", each[2][1]))
    for constant in ("e", "i"):
        changes.pop(("name", constant), None)
    ours, theirs = replaced(reference, changes), replaced(answer, changes)
    return (_lifted(ours), _lifted(theirs)) if any(not _is_capital(each) for each in operators) else (ours, theirs)


def _lifted(node: Node) -> Node:
    """The expression with numbers beside operators as multiples of the identity."""
    node = tuple(_lifted(part) if isinstance(part, tuple) else part for part in node)
    if not is_sum(node) or _holds_matrix(node[1]) == _holds_matrix(node[2]):
        return node
    return (node[0], *(part if _holds_matrix(part) else ("*", part, ("matrix", "I")) for part in node[1:]))


def _holds_matrix(node: Node) -> bool:
    return node[0] == "matrix" or (
        node[0] != "call" and any(isinstance(part, tuple) and _holds_matrix(part) for part in node)
    )
