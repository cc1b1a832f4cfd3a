"""Run published checks, `check(candidate)`, as plain Python in a process apart from the program: once, as written.

`candidate` and every name that neither the check nor the prelude defines are proxies of objects in the program's
process (`proxies`, `check_end`). They return data or further proxies. Without a prelude of the problem's own, functions
of the default one (`merge`, `factorial`) are the program's too: its check means those. The values that a check expects
stay here:

- a value from the program is compared here, by Python's own `==` of data; no `__eq__` of the program is called;
- an object that the check did not create, from a class it names, is never compared with a value of the check, and
  gives one answer to one question, attributes included, until the program is called again;
- two objects of the program are equal if their `==` says so *and* their classes and attributes are the same, as far as
  its process says: of objects that a check creates itself it knows nothing else;
- a statement that would hold of every number does not hold of NaN or of empty arrays (`vacuous`).
"""

import bisect
import builtins
import functools
import heapq
import itertools
import marshal
import operator
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

from ratchet.verifiers.sandbox.check_end import SHOWN, CheckEnd, Impossible
from ratchet.verifiers.sandbox.objects import describe
from ratchet.verifiers.sandbox.values import CHECK


def run_checks(job: Mapping[str, Any], peer: CheckEnd, write: Callable[[dict[str, Any]], object]) -> None:
    """Run each of `job["codes"]` (`check_source.PreparedChecks`) and `write` its record: `status` (`held`; `failed`,
    by the check; `raised`, by the program; `gone`, the program's process; `invalid`, the check itself), `name` and
    `detail` of the exception, `got`, the last value from the program, and whether the program `changed` arguments of a
    call whose value was used. `peer.note_use` says when a check begins to use the program. With
    `job["to_first_failure"]` it stops after the first that does not hold."""
    for code in job["codes"]:
        peer.begin()
        record = _run_check(code, job, peer)
        write(record | {"got": peer.shown, "changed": peer.has_changed})
        if job["to_first_failure"] and record["status"] != "held":
            break


def _run_check(code: bytes, job: Mapping[str, Any], peer: CheckEnd) -> dict[str, Any]:
    entry_point = job["entry_point"]
    sys.modules[CHECK] = module = types.ModuleType(CHECK)  # where dataclasses look for annotations
    namespace = vars(module)
    namespace["__builtins__"] = _Names(peer, frozenset() if job["prelude"] is not None else _OF_PROGRAMS)
    try:
        candidate = peer.candidate()
        if entry_point.isidentifier():
            namespace[entry_point] = peer.named(entry_point, candidate)
        exec(marshal.loads(code), namespace)
        check = namespace["check"]
        check(peer.named(check.__code__.co_varnames[0], candidate))
        status, name, detail = "held", "", ""
    except BaseException as error:
        name, detail = type(error).__name__, describe(error)
        status = "invalid" if isinstance(error, ImportError) else "failed"
        if error is peer.raised or isinstance(error, NameError):  # a name that the program should define
            status = "raised"
    if peer.broken is not None:  # even if the check caught it
        invalid = isinstance(peer.broken, Impossible)
        status, name, detail = "invalid" if invalid else "gone", type(peer.broken).__name__, str(peer.broken)
    if not peer.asked and status in ("held", "failed"):
        status, detail = "invalid", f"it decides before it uses the program{': ' if detail else ''}{detail}"
    return {"status": status, "name": name, "detail": detail[:SHOWN]}


_COMPARE = "eq ge gt is_ is_not le lt ne not_ truth"
_OF_PROGRAMS = frozenset(
    name
    for module in (bisect, functools, heapq, itertools, operator)
    for name, value in vars(module).items()
    if str(getattr(value, "__module__", "")).removeprefix("_") == module.__name__
    and name not in {*_COMPARE.split(), *vars(builtins)}
).union(["comb", "factorial", "gcd", "isqrt", "lcm", "perm", "prod"])
"""Functions of the default prelude that a program may define for itself, and a check then means the program's. Those by
which a check compares are its own."""


class _Names(dict):
    """A check's built-in names: those of its guards, the builtins and the prelude's, then the program's, and those
    `of_program`. Filled as it asks: a copy of all would touch, and so copy, much of the server's memory."""

    def __init__(self, peer: CheckEnd, of_program: frozenset[str]) -> None:
        super().__init__(peer.guards, __import__=__import__, __build_class__=__build_class__)
        self._peer, self._of_program = peer, of_program

    def __missing__(self, name: str) -> Any:
        if name in self._peer.names and name not in self._of_program:
            value = self[name] = self._peer.names[name]
            return value
        try:
            return self._peer.named(name, self._peer.do("global", name))
        except NameError:
            raise KeyError(name) from None
