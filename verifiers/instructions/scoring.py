"""Judge which of a problem's instructions a response follows, strictly and loosely (IFEval, arXiv 2311.07911, section
2.2).

They are in `Problem.tests`, a JSON list of `{"id": "punctuation:no_comma", "kwargs": {}}`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from ratchet.verifiers.instructions.ifbench import IFBENCH
from ratchet.verifiers.instructions.ifeval import IFEVAL

KINDS = IFEVAL | IFBENCH


class Instruction(NamedTuple):
    """An instruction of a problem: its id and arguments."""

    id: str
    arguments: Mapping[str, Any]

    def followed(self, text: str) -> bool:
        return bool(text.strip()) and KINDS[self.id].follows(text, **self.arguments)


def instruction(identifier: Any, arguments: Any) -> Instruction:
    """Read one instruction. Raises ValueError for an unknown id, and for arguments that its kind does not take."""
    if not isinstance(identifier, str) or identifier not in KINDS:
        raise ValueError(f"unknown instruction {identifier!r}")
    if not isinstance(arguments, dict | None):
        raise ValueError(f"{identifier}: the arguments are {type(arguments).__name__} instead of an object")
    try:
        return Instruction(identifier, KINDS[identifier].read(arguments or {}))
    except ValueError as error:
        raise ValueError(f"{identifier}: {error}") from None


def to_tests(instructions: Iterable[Instruction]) -> str:
    """The instructions as JSON for `Problem.tests`."""
    return json.dumps([{"id": each.id, "kwargs": dict(each.arguments)} for each in instructions], ensure_ascii=False)


@lru_cache(maxsize=4096)
def read_tests(tests: str) -> tuple[Instruction, ...]:
    """The instructions of a problem. Raises ValueError if there are none, or one is invalid."""
    rows = json.loads(tests)
    if not isinstance(rows, list) or not rows:
        raise ValueError("it has no list of instructions")
    for row in rows:
        if not isinstance(row, dict) or row.keys() - {"id", "kwargs"}:
            raise ValueError(f"{row!r} is not an instruction with id and kwargs")
    return tuple(instruction(row.get("id"), row.get("kwargs")) for row in rows)


def strict(instructions: Iterable[Instruction], text: str) -> list[bool]:
    """True for each instruction that the unchanged text follows."""
    return [each.followed(text) for each in instructions]


def loose(instructions: Iterable[Instruction], text: str) -> list[bool]:
    """True for each instruction that one of eight variants follows: the text with or without its asterisks, and
    without its first line (an introduction), its last (a closing remark), both, or neither."""
    lines = text.split("\n")
    parts = [text, *("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1]))]
    variants = list(dict.fromkeys([*parts, *(part.replace("*", "") for part in parts)]))
    return [any(map(each.followed, variants)) for each in instructions]


def accuracies(judged: Sequence[tuple[list[bool], list[bool]]]) -> dict[str, float]:
    """The paper's four numbers, from the strict and loose results of each response: the share of prompts with all
    instructions followed, and the share of all instructions."""
    accuracy = {}
    for name, results in zip(("strict", "loose"), zip(*judged, strict=True), strict=True):
        accuracy[f"prompt_{name}"] = sum(map(all, results)) / len(results)
        accuracy[f"instruction_{name}"] = sum(map(sum, results)) / sum(map(len, results))
    return accuracy
