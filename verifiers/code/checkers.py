"""A problem's own checker or interactor, in its metadata under `checker`: it says which outputs are right, or is the
other end of a conversation.

    {"protocol": "script", "source": "..."}      input answer output: prints 1 and nothing else, or 0 or more
    {"protocol": "kattis", "source": "..."}      input answer ./, the output on standard input: exits 42, or 43
    {"protocol": "testlib", "source": "..."}     input output answer: exits 0, or 1, 2, 4 or 8

`arguments` come after these. `language` is `python` or `cpp`, with the headers in `files`. With `interactive`, its
standard input and output are the program's output and input. It runs in the sandbox, in a process of its own for each
test, which no program shares.
"""

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from ratchet.verifiers.code.program_files import check_files
from ratchet.verifiers.sandbox.runs import TestRun

_ORDER = {
    "script": ("input", "answer", "output"),
    "kattis": ("input", "answer", "./"),
    "testlib": ("input", "output", "answer"),
}
_ACCEPTED = {"kattis": {42}, "testlib": {0}}
_REJECTED = {"kattis": {43}, "testlib": {1, 2, 4, 8}}  # wrong, malformed, more than asked, less than asked
_POINTS_CODE, _POINTS = 7, re.compile(rb"points (\d{1,15}(?:\.\d{1,15})?)(?:\s|\Z)")
"""The exit code of testlib's `quitp`, and the beginning of its message."""
_EXIT_CODE = re.compile(r"exit code (\d+)\Z")
MOST_ARGUMENTS = 6000
"""Longest arguments of a checker, and of a test, as JSON: both are in one message to the sandbox's server."""
_EVALUATES = {"eval", "exec", "compile", "__import__"}


@dataclass(frozen=True)
class Checker:
    """A problem's checker or interactor."""

    source: str
    protocol: str
    arguments: tuple[str, ...] = ()
    interactive: bool = False
    language: str = "python"
    files: tuple[tuple[str, str], ...] = ()

    @property
    def reads_output(self) -> bool:
        """True if standard input has the program's output too."""
        return self.protocol == "kattis"

    def parameters(self, more: Sequence[str] = ()) -> list[str]:
        """The command line's arguments; `more` are those of one test."""
        return [*_ORDER[self.protocol], *self.arguments, *more]

    @property
    def accepting(self) -> set[int]:
        """The exit codes that accept an output."""
        return _ACCEPTED[self.protocol]

    def points(self, run: TestRun) -> float | None:
        """The points that the checker gives instead of a verdict (testlib's `quitp`); None if it gives none."""
        points = _POINTS.match(run.output) if run.detail == f"exit code {_POINTS_CODE}" else None
        return float(points[1]) if points and self.protocol == "testlib" and run.status == "died" else None

    def accepts(self, run: TestRun) -> bool | None:
        """The verdict of the checker's run on an output; None if the run gave no valid verdict."""
        code = _EXIT_CODE.match(run.detail) if run.status == "died" else None
        if run.status not in ("done", "exited") and not code:
            return None
        if self.protocol == "script":  # as its publisher's harness: nothing but 1 is yes
            return True if run.output.strip() == b"1" else None if _score(run.output) is None else False
        number = int(code[1]) if code else 0
        return True if number in _ACCEPTED[self.protocol] else False if number in _REJECTED[self.protocol] else None


def read_checker(facts: Mapping[str, Any]) -> Checker | None:
    """The checker in a problem's metadata; None if there is none: a data set may have a column of that name. Raises
    ValueError for an invalid one."""
    entry = facts.get("checker")
    if not isinstance(entry, dict) or "protocol" not in entry:
        return None
    try:
        arguments, files = tuple(entry.get("arguments") or ()), tuple(dict(entry.get("files") or {}).items())
        language, is_interactive = entry.get("language") or "python", bool(entry.get("interactive"))
        checker = Checker(entry.get("source") or "", entry["protocol"], arguments, is_interactive, language, files)
        is_known = checker.protocol in _ORDER and language in ("python", "cpp") and bool(checker.source)
    except (TypeError, ValueError) as error:
        raise ValueError(f"its checker cannot be read: {error}") from None
    if not is_known or (is_interactive and checker.protocol == "script"):
        raise ValueError(f"its checker needs a source, python or cpp, and a protocol: {', '.join(_ORDER)}")
    if not all(isinstance(text, str) for text in (checker.source, *arguments, *chain(*files))):
        raise ValueError("the source of its checker, its arguments or its files are not text")
    if len(json.dumps(arguments)) > MOST_ARGUMENTS:
        raise ValueError(f"the arguments of its checker are longer than {MOST_ARGUMENTS} characters")
    check_files(dict(files), "its checker")
    if checker.language == "cpp":
        return checker
    try:
        names = {node.id for node in ast.walk(ast.parse(checker.source)) if isinstance(node, ast.Name)}
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"its checker is not Python ({error})") from None
    if evaluators := sorted(names & _EVALUATES):
        raise ValueError(f"its checker uses {evaluators[0]}, which would run what a program prints")
    return checker


def checker_of(metadata: str | None) -> Checker | None:
    """The checker in a problem's metadata; None if there is no usable one."""
    try:
        return read_checker(json.loads(metadata or "{}"))
    except (ValueError, AttributeError, RecursionError):
        return None


def _score(output: bytes) -> float | None:
    """The number from 0 to 1 that it begins with; None if that is no verdict."""
    try:
        score = float(output.split()[0])
    except (ValueError, IndexError):
        return None
    return score if 0 <= score <= 1 else None
