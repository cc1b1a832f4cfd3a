"""Tests of a code problem as text for its prompt: assertions, or an input and its output."""

import ast
from collections.abc import Sequence

from ratchet.verifiers.problem import CodeTest, Problem


def tests_as_text(problem: Problem, tests: Sequence[CodeTest]) -> str:
    """These tests as published prompts show them. A call becomes `assert name(...) == value`, a check the statements in
    it, and a test of a whole program its input and output."""
    name = problem.entry_point or "solution"
    inputs = [test for test in tests if test.call is None and test.check is None]
    if inputs:
        return "\n\n".join(f"Input:\n{_text(test.input)}\n\nOutput:\n{_text(test.output)}" for test in inputs)
    return "\n".join(_statements(test.check, name) if test.check else _call(test, name) for test in tests)


def _text(value: object) -> str:
    return str(value or "").rstrip("\n")


def _call(test: CodeTest, name: str) -> str:
    call = test.call or {}
    arguments = [*map(repr, call.get("args") or ()), *(f"{k}={v!r}" for k, v in (call.get("kwargs") or {}).items())]
    return f"assert {name}({', '.join(arguments)}) == {test.output!r}"


def _statements(check: str, name: str) -> str:
    """The body of `check(candidate)` with the solution's own name, after what stands above it."""
    body = ast.parse(check).body
    above = [ast.unparse(node) for node in body if not _is_check(node)]
    inside = [node for outer in body if isinstance(outer, ast.FunctionDef) and _is_check(outer) for node in outer.body]
    lines = [ast.unparse(_Named(name).visit(node)) for node in inside]
    return "\n".join([*above, *lines])


def _is_check(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == "check"


class _Named(ast.NodeTransformer):
    """Replaces `candidate` by the solution's name, which may be dotted."""

    def __init__(self, name: str) -> None:
        self.name = name

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.parse(self.name, mode="eval").body if node.id == "candidate" else node
