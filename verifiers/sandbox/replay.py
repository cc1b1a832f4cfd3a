"""A published `check(candidate)`, run in a process in which the solution is not.

`candidate` is a script of what the solution has answered so far. A call that it has no answer to is noted, and gives a
value nothing can be done with; from then on, assertions that fail are passed over. So one run without answers finds
most calls, the judge has the solution answer them (arguments are all it sees), and a run with all answers decides.

What a solution did reaches the check as data, see `values`: the value it returned, or the name of what it raised, and
what it has made of its arguments.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ratchet.verifiers.sandbox import values

_UNANSWERED, _DECIDES = "__Unanswered", "__decides"


class Unanswered(BaseException):
    """The check needs an answer that is not there yet. No Exception, so that a check's own `except` lets it through."""


class Unreadable(BaseException):
    """What the solution's process wrote is no value: not for a check's own `except` either."""


def replay(check: str, entry_point: str, names: Mapping[str, Any], answers: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Run the source `check` with `answers`, pairs of a call and its value as `values` writes them.

    Returns `used`, how many answers were asked for in this order; `calls`, those that were not among them; and
    `failure`, the name of the exception that ended the check and what it says, or None. Only without `calls` does
    `failure` decide anything.
    """
    candidate = _Script(answers, names)
    namespace = {"__builtins__": names, "__name__": "check", _UNANSWERED: Unanswered}
    namespace[_DECIDES] = lambda: not candidate.calls
    if entry_point.isidentifier():
        namespace[entry_point] = candidate
    failure = None
    try:
        tree = ast.fix_missing_locations(_Patience().visit(ast.parse(check)))
        exec(compile(tree, "<check>", "exec"), namespace)
        namespace["check"](candidate)
    except Unanswered:
        pass
    except BaseException as error:
        failure = [type(error).__name__, str(error)[:300]]
    return {"used": candidate.used, "calls": candidate.calls, "failure": failure}


class _Script:
    def __init__(self, answers: Sequence[Sequence[str]], names: Mapping[str, Any]) -> None:
        self.answers, self.names = answers, names
        self.used = 0
        self.calls: list[str] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        objects: list[Any] = []
        call = values.encode([args, kwargs], self.names, objects)
        if not self.calls and self.used < len(self.answers) and self.answers[self.used][0] == call:
            self.used += 1
            return self._answer(self.answers[self.used - 1][1], args, kwargs, objects)
        self.calls.append(call)
        return _Unknown()

    def _answer(self, text: str, args: tuple[Any, ...], kwargs: dict[str, Any], objects: list[Any]) -> Any:
        try:
            answer = json.loads(text)
            raised = self._exception(answer)
            if raised is None and len(answer["value"]) == 1:
                return values.decode(text, self.names)[0]
            if raised is None:
                value, *changed = values.decode(text, self.names, objects)
                for old, new in zip([*args, *kwargs.values()], changed, strict=True):
                    _become(old, new)
                return value
        except Exception as error:
            raise Unreadable(repr(error)) from None
        raise raised

    def _exception(self, answer: Mapping[str, Any]) -> Exception | None:
        """The first class of the exception's that is here too, made with its message."""
        for name in answer.get("raised", ()):
            kind = self.names.get(name)
            if isinstance(kind, type) and issubclass(kind, Exception):
                try:
                    return kind(answer["message"])
                except TypeError:  # some want more than a message
                    continue
        return None


def _become(old: Any, new: Any) -> None:
    """Change an argument as the candidate has changed it. Instances of the prelude's classes are changed already."""
    if isinstance(old, list | bytearray):
        old[:] = new
    elif isinstance(old, dict | set):
        old.clear()
        old.update(new)


class _Patience(ast.NodeTransformer):
    """Around each assertion: `try: ... except Unanswered: pass` and `except AssertionError: if decides(): raise`."""

    def visit_Assert(self, node: ast.Assert) -> ast.Try:
        decides = ast.Call(ast.Name(_DECIDES, ast.Load()), [], [])
        return ast.Try(
            [node],
            [
                ast.ExceptHandler(ast.Name(_UNANSWERED, ast.Load()), None, [ast.Pass()]),
                ast.ExceptHandler(ast.Name("AssertionError", ast.Load()), None, [ast.If(decides, [ast.Raise()], [])]),
            ],
            [],
            [],
        )


def _refuse(*_: Any, **__: Any) -> Any:
    raise Unanswered


_KEPT = {"__new__", "__init__", "__init_subclass__", "__subclasshook__", "__class__", "__doc__"}
_operations = {name for kind in (int, float, str, list, dict, set) for name in dir(kind) if name.startswith("__")}
_Unknown = type("_Unknown", (), dict.fromkeys({*_operations, "__next__", "__call__"} - _KEPT, _refuse))
"""A value every use of which needs the answer it stands for."""
