"""Reads a published test function `check(candidate)`, without running it: which assertions the judge can decide itself.

`candidate(literals) == literal`, if all of it is JSON, becomes an exact call whose expected value never leaves the
judge. Any other assertion stays a check, its own if it needs no other statement, which runs apart from the solution
(`sandbox.checking`).
"""

import ast
import functools
import json
from typing import Any

from ratchet.verifiers.problem import CodeTest

NOT_LITERAL = (ValueError, SyntaxError, TypeError, MemoryError, RecursionError)


@functools.lru_cache(maxsize=4096)
def read_check(source: str) -> tuple[dict[str, Any], ...]:
    """The tests in `source`, which defines `check`: `{"call": ..., "output": ...}` or `{"check": source}`, in order.
    The caller must not change them. Raises ValueError if it cannot be read."""
    try:
        tree = ast.parse(source)
    except NOT_LITERAL as error:
        raise ValueError(f"not Python ({error})") from None
    function = next((n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "check"), None)
    if function is None or not function.args.args:
        raise ValueError("it defines no check(candidate)")
    candidate = function.args.args[0].arg
    stored = (n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    if candidate in stored or any(isinstance(node, ast.Assert) for node in tree.body):  # the function may be empty
        return ({"check": source},)
    asserted = (s for s in function.body if isinstance(s, ast.Assert))
    calls: dict[ast.stmt, dict[str, Any]] = {s: call for s in asserted if (call := _call_test(s, candidate))}
    rest = [s for s in function.body if s not in calls and not _is_trivial(s)]
    if all(isinstance(statement, ast.Assert) for statement in rest):
        every = [s for s in function.body if s in calls or s in rest]
        return tuple(calls.get(s) or {"check": _with_body(tree, function, [s])} for s in every)
    decides = any(isinstance(node, ast.Assert | ast.Raise | ast.Call) for s in rest for node in ast.walk(s))
    together = [{"check": _with_body(tree, function, rest)}] if decides else []
    return (*calls.values(), *together)


def as_check(test: CodeTest) -> str:
    """An exact call as a check."""
    call = test.call or {}
    arguments = [repr(value) for value in call.get("args", [])]
    arguments += [f"{name}={value!r}" for name, value in call.get("kwargs", {}).items()]
    return f"def check(candidate):\n    assert candidate({', '.join(arguments)}) == {test.output!r}"


def plain(value: Any) -> Any:
    """The value as JSON restores it (a tuple as a list); raises ValueError for one that JSON cannot hold."""
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
    """`args` and `kwargs` of a call of `candidate` with JSON literals; raises ValueError for any other expression."""
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
