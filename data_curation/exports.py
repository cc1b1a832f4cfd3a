"""Curated problems in the formats other trainers read: rows of `PROBLEM_SCHEMA` in, rows of theirs out.

verl: `data_source`, `prompt` (a chat), `ability`, `reward_model` {style, ground_truth} and `extra_info`. Its own reward
functions are chosen by `data_source`; tests of code are JSON `{"inputs", "outputs", "fn_name"?}`, arguments one JSON
value a line. TRL: a prompt-only data set, `prompt` as a chat, and columns that reward functions get by name.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ratchet.infra.inference.prompts import user_message
from ratchet.infra.problems import PROBLEM_SCHEMA, Problem, as_row
from ratchet.infra.recipe.model import PromptFormat

Row = dict[str, Any]
_CHAT = pa.list_(pa.struct([("role", pa.string()), ("content", pa.large_string())]))
_SHARED = [
    ("problem_id", pa.string()),
    ("source", pa.string()),
    ("source_url", pa.string()),
    ("difficulty", pa.int32()),
    ("entry_point", pa.string()),
    ("starter_code", pa.large_string()),
]
VERL_SCHEMA = pa.schema(
    [
        ("data_source", pa.string()),
        ("prompt", _CHAT),
        ("ability", pa.string()),
        ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.large_string())])),
        ("extra_info", pa.struct([("split", pa.string()), ("index", pa.int64()), *_SHARED])),
    ]
)
TRL_SCHEMA = pa.schema([("prompt", _CHAT), ("answer", pa.large_string()), ("tests", pa.large_string()), *_SHARED])

REWARD_FUNCTIONS = {"math": "lighteval/MATH", "code": "taco"}
"""The `data_source` under which verl compares a boxed answer, and runs tests."""


class NotExpressible(Exception):
    """The format has no place for something that this problem cannot do without."""


@dataclass(frozen=True)
class Export:
    schema: pa.Schema
    convert: Callable[[Problem, int, PromptFormat, Mapping[str, str]], Row]
    """(problem, its number, prompt, names of reward functions by domain) to a row. Raises NotExpressible."""


def to_verl(problem: Problem, index: int, prompt: PromptFormat, data_source: Mapping[str, str]) -> Row:
    truth = _answer(problem) if problem.domain == "math" else _inputs_and_outputs(problem)
    return {
        "data_source": data_source[problem.domain],
        "prompt": [{"role": "user", "content": user_message(problem, prompt)}],
        "ability": problem.domain,
        "reward_model": {"style": "rule", "ground_truth": truth},
        "extra_info": {"split": "train", "index": index} | _shared(problem),
    }


def to_trl(problem: Problem, index: int, prompt: PromptFormat, data_source: Mapping[str, str]) -> Row:
    answer = _answer(problem) if problem.domain == "math" else None
    chat = [{"role": "user", "content": user_message(problem, prompt)}]
    return {"prompt": chat, "answer": answer, "tests": problem.tests} | _shared(problem)


def to_ratchet(problem: Problem, index: int, prompt: PromptFormat, data_source: Mapping[str, str]) -> Row:
    return as_row(problem)


EXPORTS = {
    "verl": Export(VERL_SCHEMA, to_verl),
    "trl": Export(TRL_SCHEMA, to_trl),
    "ratchet": Export(PROBLEM_SCHEMA, to_ratchet),
}


def _shared(problem: Problem) -> Row:
    return {name: getattr(problem, name) for name, _ in _SHARED}


def _answer(problem: Problem) -> str:
    if not problem.answer:
        raise NotExpressible("it has no answer")
    return problem.answer


def _inputs_and_outputs(problem: Problem) -> str:
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
        raise NotExpressible(f"the place of the argument {next(iter(by_name))!r} is not known")
    return arguments


def _parameters(problem: Problem) -> list[str]:
    """The names of the entry point's parameters, as the starter code or a solution declares them. Read, never run."""
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
    """Starter code often ends with a bare header, which is no Python."""
    lines = source.rstrip().split("\n")
    indent = len(lines[-1]) - len(lines[-1].lstrip())
    return source.rstrip() + f"\n{' ' * (indent + 4)}pass\n" if lines[-1].rstrip().endswith(":") else source
