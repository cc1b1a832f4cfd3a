"""A published `check(candidate)`, run in a process in which the solution is not.

`candidate` is a script of what the solution has answered so far. A call that it has no answer to is noted, and gives a
value nothing can be done with; an assertion that tries is passed over. So one run without answers finds most calls,
the judge has the solution answer them (arguments are all it sees), and a run with all answers decides. What a solution
returns reaches the assertions as data, see `values`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from verifiers.sandbox import values

_UNANSWERED = "__Unanswered"


class Unanswered(BaseException):
    """The check needs an answer that is not there yet. No Exception, so that a check's own `except` lets it through."""


class Unreadable(BaseException):
    """What the solution's process wrote is no value: not for a check's own `except` either."""


def replay(check: str, entry_point: str, names: dict[str, Any], answers: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Run the source `check` with `answers`, pairs of a call and its value as `values` writes them.

    Returns `used`, how many answers were asked for in this order; `calls`, those that were not among them; and
    `failure`, the name of the exception that ended the check and what it says, or None. Only without `calls` does
    `failure` decide anything.
    """
    candidate = _Script(answers, names)
    namespace = {"__builtins__": names, "__name__": "check", _UNANSWERED: Unanswered}
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
        call = values.encode([args, kwargs], self.names)
        if not self.calls and self.used < len(self.answers) and self.answers[self.used][0] == call:
            self.used += 1
            try:
                return values.decode(self.answers[self.used - 1][1], self.names)
            except Exception as error:
                raise Unreadable(repr(error)) from None
        self.calls.append(call)
        return _Unknown()


class _Patience(ast.NodeTransformer):
    """Around each assertion: `try: ... except Unanswered: pass`."""

    def visit_Assert(self, node: ast.Assert) -> ast.Try:
        handler = ast.ExceptHandler(ast.Name(_UNANSWERED, ast.Load()), None, [ast.Pass()])
        return ast.Try([node], [handler], [], [])


def _refuse(*_: Any, **__: Any) -> Any:
    raise Unanswered


_KEPT = {"__new__", "__init__", "__init_subclass__", "__subclasshook__", "__class__", "__doc__"}
_operations = {name for kind in (int, float, str, list, dict, set) for name in dir(kind) if name.startswith("__")}
_Unknown = type("_Unknown", (), dict.fromkeys({*_operations, "__next__", "__call__"} - _KEPT, _refuse))
"""A value every use of which needs the answer it stands for."""
