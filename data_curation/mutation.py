"""Small faults put into a program: tests that do not notice them do not tell right from wrong.

Each mutant differs in one place: a comparison, an operator, `min` for `max`, a constant by one, a dropped negation, a
dropped condition, `and` for `or`. The program is only parsed here, never run.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from random import Random

_SWAPPED_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_SWAPPED_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_SWAPPED_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "sum": "max", "len": "sum"}


def mutants(source: str, most: int, seed: int) -> list[str]:
    """Up to `most` distinct mutants of a program, a seeded choice among all; none when it cannot be parsed."""
    try:
        tree = ast.parse(source)
        written = ast.unparse(tree)
        sites = [(index, change) for index, node in enumerate(ast.walk(tree)) for change in range(len(_changes(node)))]
        Random(seed).shuffle(sites)
        found: dict[str, None] = {}
        for index, change in sites:
            mutant = _mutate(tree, index, change)
            if mutant != written:
                found[mutant] = None
            if len(found) == most:
                break
        return list(found)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _mutate(tree: ast.Module, index: int, change: int) -> str:
    changed = copy.deepcopy(tree)
    node = next(node for position, node in enumerate(ast.walk(changed)) if position == index)
    for name, value in _changes(node)[change].items():
        setattr(node, name, value)
    return ast.unparse(ast.fix_missing_locations(changed))


def _changes(node: ast.AST) -> list[dict[str, object]]:
    """The faults this node can have, each as the fields to set."""
    return list(_faults(node))


def _faults(node: ast.AST) -> Iterator[dict[str, object]]:
    if isinstance(node, ast.Compare):
        for position, operator in enumerate(node.ops):
            swapped = _SWAPPED_COMPARISONS.get(type(operator))
            if swapped:
                yield {"ops": [*node.ops[:position], swapped(), *node.ops[position + 1 :]]}
    elif isinstance(node, ast.BinOp | ast.AugAssign):
        swapped_operator = _SWAPPED_OPERATORS.get(type(node.op))
        if swapped_operator:
            yield {"op": swapped_operator()}
    elif isinstance(node, ast.BoolOp):
        yield {"op": ast.Or() if isinstance(node.op, ast.And) else ast.And()}
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield {"value": node.value + 1}
    elif isinstance(node, ast.Name) and node.id in _SWAPPED_NAMES and isinstance(node.ctx, ast.Load):
        yield {"id": _SWAPPED_NAMES[node.id]}
    elif isinstance(node, ast.comprehension) and node.ifs:
        yield {"ifs": []}
    elif isinstance(node, ast.If | ast.IfExp | ast.While) and isinstance(node.test, ast.UnaryOp):
        yield {"test": node.test.operand}
    elif isinstance(node, ast.Return) and node.value is not None:
        yield {"value": None}
