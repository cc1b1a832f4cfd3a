"""A problem's own checker or interactor, in its metadata under `checker`: it says which outputs are right, or is the
other end of a conversation.

    {"protocol": "script", "source": "..."}      input answer output: prints 1, or 0 or less than 1
    {"protocol": "kattis", "source": "..."}      input answer feedback/, the output on standard input: exits 42, or 43
    {"protocol": "testlib", "source": "..."}     input output answer: exits 0, or 1, 2, 4 or 8

`arguments` come after these. With `interactive`, its standard input and output are the program's output and input. It
runs in the sandbox, in a process of its own for each test, which no program shares.
"""

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ratchet.verifiers.sandbox.runs import TestRun

_ORDER = {
    "script": ("input", "answer", "output"),
    "kattis": ("input", "answer", "feedback/"),
    "testlib": ("input", "output", "answer"),
}
_ACCEPTED = {"kattis": {42}, "testlib": {0}}
_REJECTED = {"kattis": {43}, "testlib": {1, 2, 4, 8}}  # wrong, malformed, more than asked, less than asked
_EXIT_CODE = re.compile(r"exit code (\d+)\Z")
_EVALUATES = {"eval", "exec", "compile", "__import__"}


@dataclass(frozen=True)
class Checker:
    source: str
    protocol: str
    arguments: tuple[str, ...] = ()
    interactive: bool = False

    def request(self, input_text: str, answer: str, output: bytes = b"") -> dict[str, Any]:
        """Its test for the sandbox."""
        files = {"input": _as_bytes(input_text), "answer": _as_bytes(answer)}
        if not self.interactive:
            files["output"] = output.decode("latin-1")
        standard = "output" if self.protocol == "kattis" else ""
        arguments = [*_ORDER[self.protocol], *self.arguments]
        return {"kind": "checker", "input": standard, "files": files, "arguments": arguments}

    def accepts(self, run: TestRun) -> bool | None:
        """What its run says of the output; None if that is nothing valid."""
        code = _EXIT_CODE.match(run.detail) if run.status == "died" else None
        if run.status not in ("done", "exited") and not code:
            return None
        if self.protocol == "script":
            return _score(run.output)
        number = int(code[1]) if code else 0
        return True if number in _ACCEPTED[self.protocol] else False if number in _REJECTED[self.protocol] else None


def read_checker(facts: Mapping[str, Any]) -> Checker | None:
    """The checker in a problem's metadata, where a column of a data set may have the same name. Raises ValueError."""
    entry = facts.get("checker")
    if not isinstance(entry, dict) or "protocol" not in entry:
        return None
    checker = Checker(
        entry.get("source"), entry["protocol"], tuple(entry.get("arguments") or ()), bool(entry.get("interactive"))
    )
    if checker.protocol not in _ORDER or not isinstance(checker.source, str):
        raise ValueError(f"its checker needs a source and a protocol: {', '.join(_ORDER)}")
    if not all(isinstance(argument, str) for argument in checker.arguments):
        raise ValueError("the arguments of its checker are not text")
    try:
        names = {node.id for node in ast.walk(ast.parse(checker.source)) if isinstance(node, ast.Name)}
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"its checker is not Python ({error})") from None
    if used := sorted(names & _EVALUATES):
        raise ValueError(f"its checker uses {used[0]}, which would run what a program prints")
    return checker


def checker_of(metadata: str | None) -> Checker | None:
    """The checker in a problem's metadata; None if there is none that can be used."""
    try:
        return read_checker(json.loads(metadata or "{}"))
    except (ValueError, AttributeError, RecursionError):
        return None


def _as_bytes(text: str) -> str:
    """One character per byte."""
    return text.encode("utf-8", "surrogatepass").decode("latin-1")


def _score(output: bytes) -> bool | None:
    try:
        score = float(output.split()[-1])
    except (ValueError, IndexError):
        return None
    return score == 1 if 0 <= score <= 1 else None
