"""Read tests in functions of pytest (KodCode), each as a check. Nothing of them is run.

`from solution import f` is removed, because a check finds the solution's names by themselves; `pytest.raises` and
`pytest.approx` become plain Python, and `pytest.mark.parametrize` a check for each of its cases. A test that needs more
of pytest (a fixture, `monkeypatch`) is omitted.
"""

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy

from ratchet.data_curation.readers.malformed import Malformed
from ratchet.verifiers.code.published_checks import NOT_LITERAL, read_check

_APPROX = """
class _Approx:
    def __init__(self, expected, rel=None, abs=None):
        self.expected, self.rel, self.abs = expected, rel, abs
    def __eq__(self, actual):
        if isinstance(self.expected, dict):
            return set(actual) == set(self.expected) and all(
                _Approx(v, self.rel, self.abs) == actual[k] for k, v in self.expected.items())
        if isinstance(self.expected, (list, tuple)):
            return len(actual) == len(self.expected) and all(
                _Approx(e, self.rel, self.abs) == a for e, a in zip(self.expected, actual))
        relative = 0 if self.abs is not None and self.rel is None else self.rel or 1e-6
        allowed = max(1e-12 if self.abs is None else self.abs, relative * max(self.expected, -self.expected))
        return self.expected == actual or -allowed <= actual - self.expected <= allowed
"""
_SOLUTION = frozenset(("solution", "main", "your_module", "your_solution", "module", "submission"))
_Function = ast.FunctionDef


def pytest_checks(code: str, entry_point: str | None) -> tuple[list[dict], str | None, int] | None:
    """The checks, the function that they call most, and the number of omitted tests; None for code without such
    tests."""
    try:
        body = ast.parse(code).body
    except NOT_LITERAL as error:
        raise Malformed("test", f"not Python ({error})") from None
    methods = [m for s in body if isinstance(s, ast.ClassDef) and s.name.startswith("Test") for m in s.body]
    tests = [s for s in [*body, *methods] if isinstance(s, _Function) and s.name.startswith("test")]
    if not tests or any(isinstance(s, ast.ClassDef) and "TestCase" in ast.unparse(s) for s in body):
        return None
    imported = {alias.asname or alias.name: alias.name for s in body for alias in _imported_from_solution(s)}
    helpers = [s for s in body if not _is_left_behind(s, tests)]
    defined = {s.name for s in helpers if isinstance(s, _Function | ast.ClassDef)}
    called = Counter(name for test in tests for name in _called(test) if name not in defined | {*dir(__builtins__)})
    known = [imported[name] for name, _ in called.most_common() if name in imported] or [
        name for name, _ in called.most_common() if name in imported or not imported
    ]
    entry_point = entry_point if entry_point and (entry_point in called or not known) else next(iter(known), None)
    if entry_point is None:
        raise Malformed("test", "its test functions call nothing of the solution")
    checks: list[dict] = []
    left_out = 0
    for test in tests:
        try:
            for statements in _cases(test):
                source = _check(helpers, statements, entry_point, imported)
                checks += read_check(source)
        except (*NOT_LITERAL, NotImplementedError):
            left_out += 1
    if not checks:
        raise Malformed("test", f"none of its {left_out} test functions runs without pytest")
    return checks, entry_point, left_out


def _imported_from_solution(statement: ast.stmt) -> list[ast.alias]:
    if isinstance(statement, ast.ImportFrom) and _is_solution(statement.module):
        return [alias for alias in statement.names if alias.name != "*"]
    return []


def _is_solution(module: str | None) -> bool:
    root = (module or "").partition(".")[0]
    return root in _SOLUTION or (
        root not in sys.stdlib_module_names and root not in ("pytest", "numpy", "pandas", "scipy")
    )


def _is_left_behind(statement: ast.stmt, tests: list[_Function]) -> bool:
    """Tests, imports of pytest and of the solution, and what runs them."""
    match statement:
        case ast.ImportFrom(module=module):
            return module == "pytest" or _is_solution(module)
        case ast.Import(names=names):
            return any(alias.name == "pytest" or _is_solution(alias.name) for alias in names)
        case ast.FunctionDef():
            return statement in tests
        case ast.ClassDef(name=name):
            return name.startswith("Test")
    return not isinstance(statement, ast.Assign | ast.AnnAssign)


def _called(test: _Function) -> Iterator[str]:
    for node in ast.walk(test):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                yield node.func.id
            elif isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) in _SOLUTION:
                yield node.func.attr


def _cases(test: _Function) -> Iterator[list[ast.stmt]]:
    """The statements of a test, once for each case of its parameters. Raises NotImplementedError for a fixture."""
    arguments = [a.arg for a in test.args.args if a.arg != "self"]
    if not test.decorator_list and not arguments:
        yield test.body
        return
    if len(test.decorator_list) != 1 or "parametrize" not in ast.unparse(test.decorator_list[0]):
        raise NotImplementedError
    decorator = test.decorator_list[0]
    if not isinstance(decorator, ast.Call) or len(decorator.args) < 2:
        raise NotImplementedError
    names = ast.literal_eval(decorator.args[0])
    names = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)
    values = decorator.args[1]
    if not isinstance(values, ast.List | ast.Tuple) or {*names} != {*arguments}:
        raise NotImplementedError
    for value in values.elts:
        if len(names) > 1 and not isinstance(value, ast.Tuple | ast.List):
            raise NotImplementedError  # pytest.param
        given = value.elts if len(names) > 1 and isinstance(value, ast.Tuple | ast.List) else [value]
        by_name = dict(zip(names, given, strict=True))
        yield [_Filled(by_name).visit(deepcopy(statement)) for statement in test.body]


class _Filled(ast.NodeTransformer):
    """Put the values of a case in place of its parameters."""

    def __init__(self, values: dict[str, ast.expr]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self.values:
            return node
        if not isinstance(node.ctx, ast.Load):
            raise NotImplementedError
        return deepcopy(self.values[node.id])


def _check(helpers: list[ast.stmt], statements: list[ast.stmt], entry_point: str, imported: dict[str, str]) -> str:
    """The source of `check(candidate)`. Raises NotImplementedError if it needs more of pytest."""
    change = _Plain(entry_point, imported)
    body = [ast.unparse(ast.fix_missing_locations(change.visit(deepcopy(statement)))) for statement in statements]
    before = [ast.unparse(change.visit(deepcopy(helper))) for helper in helpers]
    source = "\n".join(
        before + ["def check(candidate):"] + [f"    {line}" for part in body for line in part.splitlines()]
    )
    if "pytest" in source:
        raise NotImplementedError
    return f"{_APPROX}\n{source}" if "_Approx(" in source else source


class _Plain(ast.NodeTransformer):
    """Call the entry point `candidate`, other names of the solution by their own, and pytest's helpers plainly."""

    def __init__(self, entry_point: str, imported: dict[str, str]) -> None:
        self.entry_point, self.imported = entry_point, imported

    def visit_Name(self, node: ast.Name) -> ast.expr:
        name = self.imported.get(node.id, node.id)
        return ast.Name("candidate" if name == self.entry_point else name, node.ctx)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if ast.unparse(node.value) in _SOLUTION:
            return self.visit_Name(ast.Name(node.attr, node.ctx))
        if ast.unparse(node) == "pytest.approx":
            return ast.Name("_Approx", node.ctx)
        return self.generic_visit(node)

    def visit_With(self, node: ast.With) -> ast.AST:
        call = node.items[0].context_expr
        is_raises = isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.raises"
        if not is_raises or len(node.items) > 1 or node.items[0].optional_vars or not isinstance(call, ast.Call):
            return self.generic_visit(node)
        body = [self.visit(statement) for statement in node.body]
        expected = ast.unparse(self.visit(call.args[0]))
        plain = ast.parse(
            f"try:\n    pass\nexcept {expected}:\n    pass\nelse:\n    raise AssertionError('nothing raised')"
        )
        plain.body[0].body = body  # type: ignore[attr-defined]
        return plain.body[0]
