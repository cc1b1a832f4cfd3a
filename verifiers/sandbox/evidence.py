"""Which names a check uses as classes: only instances of those may answer for themselves.

A program may define a class instead of a function, with a `==` that accepts anything. So an instance is believed only
if the check shows that it wants one: it reads an attribute that no data has, or uses the name as a class.
"""

import ast
import datetime
import re
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction

_DATA = (
    None, True, 0, 0.0, 0j, "", b"", (), [], {}, set(), frozenset(), bytearray(), range(0), slice(0), Counter(),
    OrderedDict(), defaultdict(), deque(), Decimal(), Fraction(), (n for n in ()), lambda: 0, {}.keys(), {}.items(),
    datetime.datetime.min, datetime.timedelta(), datetime.UTC,
)  # fmt: skip
_NUMPY = "shape dtype size ndim T tolist item sum mean std min max all any astype"  # of arrays; not imported for this
_OF_DATA = {name for value in _DATA for name in dir(value)} | set(_NUMPY.split())
_TAKE_CLASSES = {"isinstance", "issubclass", "assertIsInstance", "assertRaises", "assertRaisesRegex"}


def classes_named(checks: Iterable[str], prelude: str | None) -> set[str]:
    """The names used as classes in all of a problem's checks together, except those that cannot be parsed."""
    nodes: list[ast.AST] = []
    for source in checks:
        try:
            nodes += ast.walk(ast.parse(source))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    # Attributes of the prelude's and the check's own classes are data, too: their instances travel by attributes.
    own = set(re.findall(r"\w+", prelude or "")) | {
        node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    makers: dict[str, set[str]] = {}  # by the name of a variable or attribute: the functions called for its value
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and (called := _called(node.value)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                makers.setdefault(_name(target), set()).update(called)
        elif isinstance(node, ast.withitem) and node.optional_vars and (called := _called(node.context_expr)):
            makers.setdefault(_name(node.optional_vars), set()).update(called)
    classes: set[str] = set()
    for node in nodes:
        match node:
            case ast.Attribute(value=value, attr=attr) if attr not in _OF_DATA | own:
                classes |= _called(value) | makers.get(_name(value), set())
                classes.add(value.id if isinstance(value, ast.Name) else "")
            case ast.Call(args=[_, kinds]) | ast.Call(args=[kinds]) if _name(node.func) in _TAKE_CLASSES:
                classes |= {_name(kind) for kind in (kinds.elts if isinstance(kinds, ast.Tuple) else [kinds])}
            case (
                ast.BinOp(left=one, right=other)
                | ast.Compare(left=one, comparators=[other])
                | ast.Call(args=[one, other, *_])
            ):  # two values from one callable with the name of a class
                classes |= {name for name in _called(one) & _called(other) if name[:1].isupper()}
            case ast.ClassDef(bases=bases):
                classes |= {_name(base) for base in bases}
    return classes - {""}


def _called(node: ast.AST | None) -> set[str]:
    """The functions called for a value, apart from operators."""
    if isinstance(node, ast.BinOp):
        return _called(node.left) | _called(node.right)
    return {node.func.id} if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else set()


def _name(node: ast.AST) -> str:
    """The name of a variable or attribute."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
