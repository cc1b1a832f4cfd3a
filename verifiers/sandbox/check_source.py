"""Prepare published checks on the judge's side, once for all programs of a problem: guards and code objects.

A program may define a class instead of a function, with a `==` that accepts anything. So an instance is believed only
if the check shows that it wants one: it reads an attribute that no data has, or uses the name as a class.
"""

import ast
import builtins
import datetime
import functools
import marshal
import re
import warnings
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from types import CodeType

from ratchet.verifiers.sandbox.check_end import STATEMENT
from ratchet.verifiers.sandbox.vacuous import NUMBER


@dataclass(frozen=True)
class PreparedChecks:
    """Checks ready to run: `codes` are marshaled code objects, for this interpreter only. `classes`: names that they
    use as classes. `needs_numpy`: numpy's comparisons must be guarded."""

    codes: tuple[bytes, ...]
    classes: frozenset[str]
    needs_numpy: bool


@functools.lru_cache(maxsize=64)
def prepare_checks(sources: tuple[str, ...], prelude: str | None, is_apart: bool) -> PreparedChecks:
    """Compile checks and guard them. Raises ValueError for a check that cannot be compiled."""
    warnings.filterwarnings("ignore", module="<check>")  # such as `x is 5`: the data set's, and nobody here can act
    try:
        codes = tuple(marshal.dumps(_compiled(source, is_apart)) for source in sources)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None
    needs_numpy = any("numpy" in text or "allclose" in text for text in (prelude or "", *sources))
    return PreparedChecks(codes, frozenset(classes_named(sources, prelude)), needs_numpy)


def _compiled(source: str, is_apart: bool) -> CodeType:
    tree = ast.parse(source)
    guard_operands(tree)
    if is_apart:
        _Observations().visit(tree)
    return compile(_Statements().visit(tree), "<check>", "exec", dont_inherit=True)


_ORDERING = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
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


def guard_operands(check: ast.AST) -> None:
    """Make `Guard.number` look at the operands of orderings in a check, except of those whose False fails the check."""
    safe: set[ast.AST] = set()
    for node in ast.walk(check):
        if isinstance(node, ast.Assert):
            safe.update(_positive(node.test))
    for node in ast.walk(check):
        if isinstance(node, ast.Compare) and node not in safe and any(isinstance(op, _ORDERING) for op in node.ops):
            node.left, *node.comparators = map(_looked_at, (node.left, *node.comparators))


def _looked_at(operand: ast.expr) -> ast.expr:
    if isinstance(operand, ast.Constant):
        return operand
    return ast.copy_location(ast.Call(ast.copy_location(ast.Name(NUMBER, ast.Load()), operand), [operand], []), operand)


def _positive(test: ast.expr) -> Iterable[ast.AST]:
    """The comparisons that must hold for a test to hold."""
    match test:
        case ast.Compare():
            yield test
        case ast.BoolOp(values=values):
            for value in values:
                yield from _positive(value)
        case ast.Call(func=ast.Name(id="all" | "any"), args=[ast.GeneratorExp(elt=each) | ast.ListComp(elt=each)]):
            yield from _positive(each)


class _Statements(ast.NodeTransformer):
    """Mark calls that are whole statements, `f(x)`: their value is unused, so only changes of arguments count."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        self.generic_visit(node)
        call = node.value
        if isinstance(call, ast.Call) and not (isinstance(call.func, ast.Name) and call.func.id in ("exec", "eval")):
            name = ast.copy_location(ast.Name(STATEMENT, ast.Load()), call.func)
            call.func, call.args = name, [call.func, *call.args]
        return node


class _Observations(ast.NodeTransformer):
    """Remove what only holds, or fails, where changes of arguments are seen, and which no such change can forge:
    assertions about arguments alone, those that the program returns an argument itself, and those that a call has a
    literal value."""

    def visit_Module(self, node: ast.Module) -> ast.AST:
        imports = [each for each in ast.walk(node) if isinstance(each, ast.Import | ast.ImportFrom)]
        free = {(each.asname or each.name).partition(".")[0] for one in imports for each in one.names}
        # Classes and functions in which the program has no part.
        own = [each for each in ast.walk(node) if isinstance(each, ast.ClassDef)]
        own += [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name != "check"]  # type: ignore[misc]
        names, bound = {each.name for each in own}, set[str]()
        for each in (part for one in own for part in ast.walk(one)):
            match each:
                case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                    bound.add(name)
        self._free = free | (names if _loaded(*own) <= names | bound | _BUILTINS | free else set())
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if node.name != "check":
            return node
        self._given = {argument.arg for argument in node.args.args}
        tainted: set[str] = set()
        while True:
            own = self._own(node.body, set(self._free), tainted)
            if (more := _tainted(node, own | _BUILTINS, self._given)) <= tainted:
                break
            tainted |= more
        stored = [name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)]
        node.body = self._left(node.body, {name for name in own if stored.count(name) <= 1})
        return ast.fix_missing_locations(node)

    def _own(self, body: list[ast.stmt], own: set[str], tainted: set[str]) -> set[str]:
        """The names that are only ever given values in which the program has no part."""
        for each in body:
            value, targets = None, list[ast.expr]()
            if isinstance(each, ast.Assign) and all(isinstance(target, ast.Name) for target in each.targets):
                value, targets = each.value, each.targets
            elif isinstance(each, ast.For):
                value, targets = each.iter, [each.target]
            if value is not None and not (names := _loaded(value)) & self._given and names <= own | _BUILTINS:
                own |= {name.id for one in targets for name in ast.walk(one) if isinstance(name, ast.Name)} - tainted
            if isinstance(each, ast.For):
                own = self._own(each.body, own, tainted)
        return own

    def _left(self, body: list[ast.stmt], own: set[str]) -> list[ast.stmt]:
        left: list[ast.stmt] = []
        for each in body:
            if isinstance(each, ast.For):
                each.body = self._left(each.body, own)
            left += self._without(each, own) if isinstance(each, ast.Assert) else [each]
        return left or [ast.Pass()]

    def _without(self, node: ast.Assert, own: set[str]) -> list[ast.stmt]:
        """What is left of an assertion: the rest of it, and the calls in what is removed, whatever they do."""
        is_all_of = isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And)
        tests = node.test.values if is_all_of else [node.test]  # type: ignore[attr-defined]
        left = [test for test in tests if not (self._is_observation(test, own) or self._is_settled(test, own))]
        if len(left) == len(tests):
            return [node]
        sides = [side for test in tests if test not in left for side in _sides(test)]
        kept = [_tried(side) for side in sides if _calls(side, self._given)]
        if not left:
            return kept
        return [*kept, ast.Assert(ast.BoolOp(ast.And(), left) if len(left) > 1 else left[0], node.msg)]

    def _is_observation(self, test: ast.expr, own: set[str]) -> bool:
        names = _loaded(test)
        return bool(names & own) and names <= own | _BUILTINS

    def _is_settled(self, test: ast.expr, own: set[str]) -> bool:
        """`candidate(x) == 3`, `candidate(x) is x`."""
        sides = _sides(test)
        if not isinstance(test, ast.Compare) or len(sides) != 2 or not any(_calls(side, self._given) for side in sides):
            return False
        if isinstance(test.ops[0], ast.Is):
            return isinstance(sides[1], ast.Name) and sides[1].id in own
        return isinstance(test.ops[0], ast.Eq) and any(map(_is_literal, sides))


def _loaded(*nodes: ast.AST) -> set[str]:
    return {each.id for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name)}


def _sides(test: ast.expr) -> list[ast.expr]:
    return [test.left, *test.comparators] if isinstance(test, ast.Compare) else []


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def _tried(call: ast.expr) -> ast.stmt:
    """The call, whatever it does, with a value that counts as used."""
    return ast.Try([ast.Expr(ast.Tuple([call], ast.Load()))], [ast.ExceptHandler(None, None, [ast.Pass()])], [], [])


def _tainted(function: ast.FunctionDef, own: set[str], given: set[str]) -> set[str]:
    """Names of values into which a statement may have put what came from the program: `found.append(candidate(x))`."""
    names: set[str] = set()
    asserted = {part for each in ast.walk(function) if isinstance(each, ast.Assert) for part in ast.walk(each)}
    for each in ast.walk(function):
        match each:
            case ast.Call() if each not in asserted and not _calls(each, given):
                touched = _beside_calls(each, given)
            case ast.Assign(targets=targets) if not all(isinstance(target, ast.Name) for target in targets):
                touched = _beside_calls(each, given)
            case ast.AugAssign() | ast.AnnAssign():
                touched = _beside_calls(each, given)
            case _:
                continue
        if not touched <= own:
            names |= touched
    return names - given


def _beside_calls(node: ast.AST, given: set[str]) -> set[str]:
    """The names in it, of calls of the program only the program's."""
    if _calls(node, given):
        return given
    own = {node.id} if isinstance(node, ast.Name) else set[str]()
    return own.union(*(_beside_calls(each, given) for each in ast.iter_child_nodes(node)))


def _calls(node: ast.AST, given: set[str]) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in given


_BUILTINS = {*vars(builtins)} | {NUMBER}
