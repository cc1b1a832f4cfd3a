"""Run published checks, `check(candidate)`, as plain Python in a process apart from the program: once, as written.

`candidate` and every name that neither the check nor the prelude defines are proxies of objects in the program's
process (`proxies`, `check_end`). They return data or further proxies. The values that a check expects stay here:

- a value from the program is compared here, by Python's own `==` of data; no `__eq__` of the program is called;
- an object that the check did not create, from a class it names, is never compared with a value of the check, and
  gives one answer to one question, attributes included, until the program is called again;
- two objects of the program are equal if their `==` says so *and* their classes and attributes are the same, as far as
  its process says: of objects that a check creates itself it knows nothing else;
- a statement that would hold of every number does not hold of NaN or of empty arrays (`vacuous`).
"""

import marshal
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
        record = _run_check(code, job["entry_point"], peer)
        write(record | {"got": peer.shown, "changed": peer.has_changed})
        if job["to_first_failure"] and record["status"] != "held":
            break


def _run_check(code: bytes, entry_point: str, peer: CheckEnd) -> dict[str, Any]:
    sys.modules[CHECK] = module = types.ModuleType(CHECK)  # where dataclasses look for annotations
    namespace = vars(module)
    namespace["__builtins__"] = _Names(peer)
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


class _Names(dict):
    """A check's built-in names: those of its guards, the builtins and the prelude's, then the program's. Filled as it
    asks: a copy of all would touch, and so copy, much of the server's memory."""

    def __init__(self, peer: CheckEnd) -> None:
        super().__init__(peer.guards, __import__=__import__, __build_class__=__build_class__)
        self._peer = peer

    def __missing__(self, name: str) -> Any:
        if name in self._peer.names:
            value = self[name] = self._peer.names[name]
            return value
        try:
            return self._peer.named(name, self._peer.do("global", name))
        except NameError:
            raise KeyError(name) from None
