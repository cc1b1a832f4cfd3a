"""Tests of code problems for verl's own reward functions: JSON `{"inputs", "outputs", "fn_name"?}`, the arguments of a
call one JSON value per line."""

import ast
import json
from collections.abc import Mapping
from typing import Any

from ratchet.infra.problems import Problem
from ratchet.verifiers.domain import NotExpressible


def inputs_and_outputs(problem: Problem) -> str:
    tests = problem.code_tests()
    if not tests:
        raise NotExpressible("it has no tests")
    if any(test.check is not None for test in tests):
        raise NotExpressible("a test is a program that checks, not an input and an output")
    if problem.entry_point is None:
        return json.dumps({"inputs": [t.input for t in tests], "outputs": [t.output for t in tests]})
    names = _parameters(problem)
    inputs = ["\n".join(json.dumps(value) for value in _positional(test.call or {}, names)) for test in tests]
    outputs = [json.dumps(test.output) for test in tests]
    return json.dumps({"inputs": inputs, "outputs": outputs, "fn_name": problem.entry_point.split(".")[-1]})


def _positional(call: Mapping[str, Any], names: list[str]) -> list[Any]:
    """All arguments in the order of the parameters."""
    arguments, by_name = list(call.get("args") or []), dict(call.get("kwargs") or {})
    for name in names[len(arguments) : len(arguments) + len(by_name)]:
        if name in by_name:
            arguments.append(by_name.pop(name))
    if by_name:
        raise NotExpressible(f"the position of the argument {next(iter(by_name))!r} is not known")
    return arguments


def _parameters(problem: Problem) -> list[str]:
    """The names of the entry point's parameters, from the starter code or a solution, which are parsed, never run."""
    name = (problem.entry_point or "").split(".")[-1]
    for source in (problem.starter_code, *(problem.golden_solutions or [])):
        try:
            tree = ast.parse(_with_body(source or ""))
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
                return [argument.arg for argument in node.args.args if argument.arg != "self"]
    return []


def _with_body(source: str) -> str:
    """Starter code often ends with a bare header, which is not valid Python."""
    lines = source.rstrip().split("\n")
    indent = len(lines[-1]) - len(lines[-1].lstrip())
    return source.rstrip() + f"\n{' ' * (indent + 4)}pass\n" if lines[-1].rstrip().endswith(":") else source
