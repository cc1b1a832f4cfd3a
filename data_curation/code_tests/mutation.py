"""Mutants of a program, with one small fault each, which a set of tests should detect. Nothing here runs a program."""

import ast
from collections.abc import Iterator
from random import Random
from typing import Any

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd,
}  # fmt: skip
_FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list", "set": "list", "abs": "int"}
_LEFT_ALONE = (ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)  # their faults are not subtle: nothing runs

Fault = tuple[str, str, Any]
"""The kind of a fault, the changed field of a syntax tree's node, and the field's new value."""


def mutants(source: str, limit: int) -> list[str]:
    """Up to `limit` programs that differ from `source` by one small fault, spread over all kinds of fault.
    The same source gives the same mutants; source that cannot be parsed has none.

    Faults inside a `while` come last: such mutants may loop forever, which costs a test its whole time limit.
    """
    try:
        tree = ast.parse(source)
        by_kind: dict[str, list[tuple[ast.AST, bool, Fault]]] = {}
        for node, in_while in _working_nodes(tree):
            for fault in _faults(node):
                by_kind.setdefault(fault[0], []).append((node, in_while, fault))
        rng = Random(source)
        queues = [rng.sample(candidates, len(candidates)) for _, candidates in sorted(by_kind.items())]
        chosen: dict[str, bool] = {}
        while len(chosen) < limit and any(queues):  # one of each kind in turn, as most faults are constants
            for queue in queues:
                if queue and len(chosen) < limit:
                    node, in_while, fault = queue.pop()
                    chosen[_with_fault(tree, node, fault)] = in_while
        chosen.pop(ast.unparse(tree), None)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return sorted(chosen, key=chosen.__getitem__)


def _with_fault(tree: ast.Module, node: ast.AST, fault: Fault) -> str:
    _, field, value = fault
    kept = getattr(node, field)
    setattr(node, field, value)
    mutant = ast.unparse(ast.fix_missing_locations(tree))
    setattr(node, field, kept)
    return mutant


def _working_nodes(node: ast.AST, in_while: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """The nodes that affect what a program does, and whether they are in a `while`."""
    if isinstance(node, _LEFT_ALONE):
        return
    in_while = in_while or isinstance(node, ast.While)
    yield node, in_while
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            is_text_alone = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            if isinstance(child, ast.AST) and not is_text_alone:
                yield from _working_nodes(child, in_while)


def _faults(node: ast.AST) -> Iterator[Fault]:
    match node:
        case ast.Compare(ops=ops):
            for i, op in enumerate(ops):
                if changed := _COMPARISONS.get(type(op)):
                    yield "comparison", "ops", [*ops[:i], changed(), *ops[i + 1 :]]
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in _OPERATORS:
            yield "operator", "op", _OPERATORS[type(op)]()
        case ast.BoolOp(op=op):
            yield "logic", "op", ast.Or() if isinstance(op, ast.And) else ast.And()
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield "condition", "test", ast.UnaryOp(ast.Not(), test)
        case ast.comprehension(ifs=ifs) if ifs:
            yield "condition", "ifs", ifs[:-1]
        case ast.Constant(value=bool() as value):
            yield "constant", "value", not value
        case ast.Constant(value=int() | float() as value):
            yield "constant", "value", value + 1
            yield "constant", "value", value - 1
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            if name in _FUNCTIONS:
                yield "function", "func", ast.Name(_FUNCTIONS[name], ast.Load())
            if name == "range" and args:
                at = min(1, len(args) - 1)
                for op in (ast.Add(), ast.Sub()):
                    yield "range", "args", [*args[:at], ast.BinOp(args[at], op, ast.Constant(1)), *args[at + 1 :]]
            for i in range(len(keywords)):
                yield "keyword", "keywords", [*keywords[:i], *keywords[i + 1 :]]
    for field in ("body", "orelse"):
        statements = getattr(node, field, None)
        if isinstance(statements, list):
            yield from _without_one(field, statements)


def _without_one(field: str, statements: list[ast.stmt]) -> Iterator[Fault]:
    """Deletions of statements without which the others still run."""
    for i, statement in enumerate(statements):
        match statement:
            case ast.AugAssign() | ast.Continue() | ast.Break() | ast.Expr(value=ast.Call()):
                spare = True
            case ast.Assign(targets=targets, value=value):  # x = f(x): without it, x still has a value
                spare = bool(_names(targets) & _names([value]))
            case _:
                spare = False
        if spare:
            yield "statement", field, [*statements[:i], *statements[i + 1 :]] or [ast.Pass()]


def _names(expressions: list[ast.expr]) -> set[str]:
    return {node.id for outer in expressions for node in ast.walk(outer) if isinstance(node, ast.Name)}
