"""Decide whether a published solution is a Python program, not a stub, prose or another language; it is parsed, never
run."""

import ast
import re
import warnings

MAX_CHARACTERS = 200_000
_FENCE = re.compile(r"```(?:python\d?|py)?[^\S\n]*\n(.*?)```", re.DOTALL | re.IGNORECASE)


def does_something(source: str | None) -> bool:
    """True if this parses as Python 3 and has more than imports, constants and stubs."""
    if not source or not source.strip() or len(source) > MAX_CHARACTERS:
        return False
    source = "\n".join(_FENCE.findall(source)) or source
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of invalid escapes such as "\d"
            tree = ast.parse(source.lstrip("\ufeff"))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return any(map(_works, tree.body))


def _works(node: ast.stmt) -> bool:
    """True if this statement, or one in it, does any work."""
    match node:
        case ast.Pass() | ast.Import() | ast.Global() | ast.Nonlocal() | ast.Break() | ast.Continue():
            return False
        case ast.ImportFrom():
            return any(name.asname for name in node.names)  # `from math import gcd as f` defines f
        case ast.Expr(value):
            return any(isinstance(part, ast.Call | ast.Yield | ast.YieldFrom | ast.Await) for part in ast.walk(value))
        case ast.Assign(value=value) | ast.AnnAssign(value=value):
            return value is not None and _made_of_names(value)
        case ast.Return(value):
            return value is not None and not _is_nothing(value)
        case ast.Raise(exc):
            return exc is not None and "NotImplemented" not in ast.unparse(exc)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return any(map(_works, node.body))
        case ast.If() | ast.For() | ast.While() | ast.With() | ast.Try():
            inner = [*node.body, *getattr(node, "orelse", []), *getattr(node, "finalbody", [])]
            return any(map(_works, inner))
    return True


def _made_of_names(value: ast.expr) -> bool:
    """`max`, `lambda …`, `partial(int, base=2)`; not `10**9 + 7` and not `float("inf")`."""
    called = {id(part.func) for part in ast.walk(value) if isinstance(part, ast.Call)}
    return any(
        isinstance(part, ast.Lambda) or (isinstance(part, ast.Name | ast.Attribute) and id(part) not in called)
        for part in ast.walk(value)
    ) or isinstance(value, ast.ListComp)


def _is_nothing(value: ast.expr) -> bool:
    return (isinstance(value, ast.Constant) and value.value in (None, ...)) or (
        isinstance(value, ast.Name) and value.id == "NotImplemented"
    )
