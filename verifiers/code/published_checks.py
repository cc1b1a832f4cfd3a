"""Read a published test function `check(candidate)` without running it.

A check is run as it is written (`sandbox.checking`). One of assertions alone becomes a test for each that uses the
program, in its order, so that they are counted. Where all of them are `candidate(literals) == literal`, all of it JSON,
the judge decides these exact calls itself: their expected values stay with it, and they need one process. Beside others
they are checks too.
"""

import ast
import functools
import json
from typing import Any

from ratchet.verifiers.code.comparison import Comparison
from ratchet.verifiers.problem import CodeTest
from ratchet.verifiers.sandbox.long_integers import long_integers

NOT_LITERAL = (ValueError, SyntaxError, TypeError, MemoryError, RecursionError)


@functools.lru_cache(maxsize=4096)
def read_check(source: str) -> tuple[dict[str, Any], ...]:
    """The tests in `source`, which defines `check`: `{"call": ..., "output": ...}` or `{"check": source}`, in order.
    The caller must not change them. Raises ValueError if it cannot be read."""
    try:
        tree = ast.parse(source)
    except NOT_LITERAL as error:
        raise ValueError(f"not Python ({error})") from None
    checks = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "check"]
    function = checks[-1] if checks else None  # a later one replaces an earlier one
    if function is None or not function.args.args:
        raise ValueError("it defines no check(candidate)")
    if called := [node for node in tree.body if _calls_check(node)]:  # by the source's own harness; here it runs once
        tree.body = [node for node in tree.body if node not in called]
        source = ast.unparse(tree)
    candidate = function.args.args[0].arg
    statements = [s for s in function.body if not _is_trivial(s)]
    if not all(isinstance(s, ast.Assert) for s in statements) or not _is_divisible(tree, function):
        return ({"check": source},)
    tests = _groups([s for s in statements if isinstance(s, ast.Assert)], candidate)
    calls = [_call_test(each[0], candidate) if len(each) == 1 else None for each in tests]
    return tuple(
        call or {"check": _with_body(tree, function, [*each])} for call, each in zip(calls, tests, strict=True)
    )


def _groups(assertions: list[ast.Assert], candidate: str) -> list[list[ast.Assert]]:
    """One for each that uses the program. The others are with the next that does, or with the last."""
    groups: list[list[ast.Assert]] = [[]]
    for each in assertions:
        groups[-1].append(each)
        if _uses(each.test, candidate):
            groups.append([])
    *groups, left = groups
    return [*groups[:-1], groups[-1] + left] if groups else [left]


def _uses(test: ast.expr, candidate: str) -> bool:
    """True unless it says of the program no more than that it exists."""

    def is_program(node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id == candidate

    nodes = [*ast.walk(test)]
    idle = 0
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id="callable" | "hasattr"), args=[one, *_]) if is_program(one):
                idle += 1
            case ast.Compare(left=one, ops=[ast.Is() | ast.IsNot()]) if is_program(one):
                idle += 1
    return sum(map(is_program, nodes)) > idle + is_program(test)


def _calls_check(node: ast.stmt) -> bool:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Name(id="check"))):
            return True
    return False


def _is_divisible(tree: ast.Module, function: ast.FunctionDef) -> bool:
    """True if its assertions say the same when each is alone: nothing is given a name or changed between them, by a
    helper either."""
    own = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    nodes = [*ast.walk(tree)]
    names = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    changed = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
    arguments = [node.args for node in nodes if isinstance(node, ast.FunctionDef)]
    defaults = [default for each in arguments for default in (*each.defaults, *each.kw_defaults)]
    if not all(isinstance(each, ast.Constant | None) for each in defaults):  # one that is changed is kept
        return False
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            given = {name.id for each in targets for name in ast.walk(each) if isinstance(name, ast.Name)}
            if given & (own | changed) or (given & names and not isinstance(node.value, ast.Constant)):
                return False
        elif not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom) and not _is_trivial(
            node
        ):
            return False
    bound = (node for node in ast.walk(function) if isinstance(node, ast.NamedExpr | ast.Yield | ast.Await))
    return next(bound, None) is None and not function.decorator_list


_WITHIN = """
def _same(value, expected):
    if isinstance(expected, float) and isinstance(value, int | float):
        return value == expected or _within(value, expected)
    if isinstance(expected, list) and isinstance(value, list):
        return len(value) == len(expected) and all(map(_same, value, expected))
    if isinstance(expected, dict) and isinstance(value, dict):
        return value.keys() == expected.keys() and all(_same(value[key], expected[key]) for key in expected)
    return value == expected

def _within(value, expected):
    import math
    return math.isclose(value, expected, rel_tol={relative!r}, abs_tol={absolute!r})

def _untupled(value):
    return list(value) if {untuple} and isinstance(value, tuple) else value

"""


def as_check(test: CodeTest, comparison: Comparison = Comparison()) -> str:
    """An exact call as a check."""
    with long_integers():
        return _as_check(test, comparison)


def _as_check(test: CodeTest, comparison: Comparison) -> str:
    call = test.call or {}
    arguments = [repr(value) for value in call.get("args", [])]
    arguments += [f"{name}={value!r}" for name, value in call.get("kwargs", {}).items()]
    called = f"candidate({', '.join(arguments)})"
    relative, absolute = comparison.floats(exact=True)
    if not (relative or absolute or comparison.by_equality):
        return f"def check(candidate):\n    assert {called} == {test.output!r}"
    within = _WITHIN.format(relative=relative, absolute=absolute, untuple=comparison.by_equality)
    return f"{within}def check(candidate):\n    assert _same(_untupled({called}), {test.output!r})"


def plain(value: Any) -> Any:
    """The value as JSON restores it (a tuple as a list). Raises ValueError for one that JSON cannot hold."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: plain(item) for key, item in value.items()}
    raise ValueError(f"JSON has no {type(value).__name__}")


def _exact(node: ast.expr) -> Any:
    """The literal, if JSON restores it unchanged; raises ValueError otherwise, for a tuple too."""
    value = ast.literal_eval(node)
    if plain(value) != value or json.dumps(value).count("Infinity"):
        raise ValueError("JSON has no such value")
    return value


def call_arguments(node: ast.expr, candidate: str = "candidate") -> dict[str, Any]:
    """The `args` and `kwargs` of a call of `candidate` with JSON literals. Raises ValueError for any other
    expression."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == candidate):
        raise ValueError("not a call of the candidate")
    kwargs = {keyword.arg: _exact(keyword.value) for keyword in node.keywords}
    if None in kwargs:
        raise ValueError("** in a call")
    return {"args": [_exact(argument) for argument in node.args], "kwargs": kwargs}


def _call_test(statement: ast.Assert, candidate: str) -> dict[str, Any] | None:
    """`assert candidate(...) == literal`, else None."""
    try:
        match statement.test:
            case ast.Compare(left=call, ops=[ast.Eq()], comparators=[expected]):
                return {"call": call_arguments(call, candidate), "output": _exact(expected), "exact": True}
    except NOT_LITERAL:
        pass
    return None


def _is_trivial(statement: ast.stmt) -> bool:
    """A docstring, `pass`, `assert True`."""
    match statement:
        case ast.Pass() | ast.Expr(value=ast.Constant() | ast.Name()) | ast.Assert(test=ast.Constant(value=True)):
            return True
    return False


def _with_body(tree: ast.Module, function: ast.FunctionDef, body: list[ast.stmt]) -> str:
    """The source of the module with another body of `check`."""
    other = ast.FunctionDef(function.name, function.args, body, [], lineno=0)
    return ast.unparse(ast.Module([other if node is function else node for node in tree.body], []))
