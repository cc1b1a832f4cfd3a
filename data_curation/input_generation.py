"""New inputs for a program, made from those its tests have: what a published set of tests might have asked and did not.

Nobody says which inputs a problem allows, so that is read off the examples: the type of each value, its range, lengths,
alphabets, and what holds in every example (a list is sorted, its elements are distinct, k is at most the length of the
list). A *careful* input keeps to all of it: it may become a test. A *bold* one keeps types and order only, and reaches
further, also to the constants that the program itself names: it may show that a fault is one, where examples are too
alike, but perhaps no legal input would.

Inputs that a golden solution fails on are for the caller to leave out. Nothing here runs a program.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from ratchet.data_curation.input_domains import Space
from ratchet.data_curation.input_texts import Layouts, Text, is_number, tokens_of
from ratchet.infra.problems import CodeTest

ATTEMPTS = 30
"""Tries for each input wanted: most careful ones break a rule of the examples."""
LONGEST_INPUT = 1_000
"""Characters of an example: longer ones are for speed, and are not varied."""


def generate_inputs(
    tests: Sequence[CodeTest], count: int, seed: str, bold: bool = False, program: str = ""
) -> list[CodeTest]:
    """Up to `count` tests with inputs that none of `tests` has and no outputs, the same for the same `seed`.

    Made for calls with JSON arguments and for standard input; other tests are passed over. Of text, the layout stays:
    lines, tokens in a line, and numbers that count something. `program` is read for its constants.
    """
    try:
        return _generate([test for test in tests if test.check is None], count, Random(seed), bold, program)
    except RecursionError:  # lists in lists in lists
        return []


def _generate(tests: list[CodeTest], count: int, rng: Random, bold: bool, program: str) -> list[CodeTest]:
    examples = [test for test in tests if len(_key(test)) <= LONGEST_INPUT]
    values = [Text.read(test.input or "") if test.call is None else _arguments(test.call) for test in examples]
    shapes = {_shape(test) for test in examples}
    if not all(values) or len(shapes) != 1:
        return []
    space = (Layouts if shapes == {"stdin"} else Space)(values, bold, _constants(program) if bold else ())
    seen = {_key(test) for test in tests}
    made: list[CodeTest] = []
    for _ in range(ATTEMPTS * count):
        if len(made) >= count:
            break
        number = rng.randrange(len(examples))
        varied = space.varied(rng, values[number])
        if varied is None:
            continue
        call = examples[number].call
        test = CodeTest(input=varied.written()) if call is None else CodeTest(call=_with_arguments(call, varied))
        if (key := _key(test)) not in seen:
            seen.add(key)
            made.append(test)
    return made


def _key(test: CodeTest) -> str:
    return json.dumps(test.call, sort_keys=True) if test.call is not None else test.input or ""


def _shape(test: CodeTest) -> Any:
    """What all examples must share: number and names of the arguments."""
    if test.call is None:
        return "stdin"
    return len(test.call.get("args", [])), tuple(sorted(test.call.get("kwargs", {})))


def _arguments(call: dict[str, Any]) -> list[Any]:
    kwargs = call.get("kwargs", {})
    return [*call.get("args", []), *(kwargs[name] for name in sorted(kwargs))]


def _with_arguments(call: dict[str, Any], values: list[Any]) -> dict[str, Any]:
    positional, kwargs = len(call.get("args", [])), call.get("kwargs", {})
    named = dict(zip(sorted(kwargs), values[positional:], strict=True))
    return {"args": values[:positional], "kwargs": {name: named[name] for name in kwargs}}


def _constants(program: str) -> Sequence[int]:
    """The integers a program names."""
    try:
        nodes: Iterator[ast.AST] = ast.walk(ast.parse(program))
        return sorted({n.value for n in nodes if isinstance(n, ast.Constant) and type(n.value) is int})
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


def is_like(output: Any, others: Sequence[Any]) -> bool:
    """Whether an output is of a kind that other outputs of the same problem have: no null or empty list where there
    was none, no word among numbers."""
    return _kinds(output) <= set().union(*map(_kinds, others))


def _kinds(output: Any, depth: int = 0) -> set[str]:
    if isinstance(output, str) and depth == 0 and tokens_of(output):
        return {"number" if is_number(token) else "word" for token in tokens_of(output)}
    if isinstance(output, list):
        return {f"{depth} list of {len(output) and 'some'}"}.union(*(_kinds(item, depth + 1) for item in output))
    kind = "number" if type(output) in (int, float) else type(output).__name__
    return {f"{depth} {kind}"}
