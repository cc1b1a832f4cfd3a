"""Tell a number from arithmetic that is left to do.

Where the reference is a number, `74-28-29` is no answer for 17: a policy that is paid for it learns to copy the
question's numbers instead of computing. Evaluated are integers, decimals, mixed numbers, scientific notation, and
fractions of integers whose value is no integer (`4/6` for 2/3, but not `6/3` for 2). Where the reference is no such
number itself (`2^{10}`, `5!`, `\\sqrt{8}`), it asks for no more, and its answer may be written in any way.
"""

from fractions import Fraction

from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.nodes import ZERO, Node, names_of, nodes_of, rational_value
from ratchet.verifiers.math.tokens import Tokens

_I = ("name", "i")
_NO_I = ("*", ZERO, _I)
_POWER_OF_TEN = ("^", ("number", Fraction(10)))


def arithmetic_left(answer: Node | None, reference: Node | None) -> bool:
    """True if the answer is not evaluated although the reference is."""
    if reference is None or answer is None:
        return False
    node: Node = answer[1] if answer[0] == "+" and answer[2] == _NO_I else answer  # 2 + 0i
    left = _is_number(reference) and not _is_number(node)
    return left or (_uses_of_i(reference) == 1 < _uses_of_i(node) and not names_of(node))


def is_left_to_do(node: Node) -> bool:
    """True if an expression is more than a number or a name."""
    inner = node[2] if node[0] == "-" and node[1] == ZERO else node
    return inner[0] not in ("name", "vector", "call", "applied") and not _is_number(node)


def has_arithmetic_left(node: Node) -> bool:
    """True if any part of an expression is arithmetic of rational numbers: 17 * 23 + k."""
    return any(rational_value(each) is not None and is_left_to_do(each) for each in nodes_of(node))


def _uses_of_i(node: Node) -> int:
    """1 for a complex number as people write it; more where sums, products or powers of such are left to do."""
    nodes = nodes_of(node)
    return nodes.count(_I) + sum(each[0] == "^" and _I in nodes_of(each[1]) for each in nodes)


def matrices_left(answer: Answer) -> bool:
    """True if sums, products or powers of matrices of numbers are left to do; a number times one matrix is not."""
    nodes = nodes_of(answer.node) if answer.kind == "scalar" and answer.node else []
    matrices = sum(each[0] == "rows" for each in nodes)
    is_power = any(each[0] == "^" and each[1][0] == "rows" for each in nodes)
    return (matrices > 1 or is_power) and not names_of(nodes[0])


def is_size(tokens: Tokens) -> bool:
    """True for the size of a matrix or a grid: `2\\times 3` is not `3\\times 2`, and not 6."""
    return len(tokens) == 3 and tokens[1].isa("\\times") and all(token.text.isdigit() for token in tokens[::2])


def _is_number(node: Node) -> bool:
    """True for a rational number as people write it."""
    if node[0] == "-" and node[1] == ZERO:
        node = node[2]
    if node[0] == "*" and node[1][0] == "number":
        node = node[2]
        return node[:2] == _POWER_OF_TEN and _is_integer(node[2])
    if node[0] == "/":
        one, other = node[1:]
        if one[0] == "number" and other[:2] == _POWER_OF_TEN:  # 1/10^9
            return _is_integer(other[2])
        integers = one[0] == other[0] == "number" and one[1].denominator == other[1].denominator == 1
        return integers and other[1] != 0 and one[1] % other[1] != 0
    return node[0] == "number" or (node[:2] == _POWER_OF_TEN and _is_integer(node[2]))


def _is_integer(node: Node) -> bool:
    node = node[2] if node[0] == "-" and node[1] == ZERO else node
    return node[0] == "number" and node[1].denominator == 1
