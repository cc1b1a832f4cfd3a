"""Published checks, `check(candidate)`, run as plain Python in a process apart from the program: once, as written.

`candidate` and every name that neither the check nor the prelude defines are proxies of objects in the program's
process (`proxies`, `objects`). They return data or further proxies. The values that a check expects stay here:

- what the program returned is compared here, by Python's own `==` of data; no `__eq__` of the program is called;
- an object that the check did not create, from a class it names, is never compared with a value of the check, and
  gives one answer to one question until the program is called again;
- two objects of the program are equal if their `==` says so *and* their classes and attributes are the same;
- of NaN and of empty arrays nothing holds that would hold of every number (`vacuous`).
"""

import ast
import builtins
from collections.abc import Callable, Mapping
from typing import Any

from ratchet.verifiers.sandbox.evidence import classes_named
from ratchet.verifiers.sandbox.objects import describe
from ratchet.verifiers.sandbox.proxies import SHOWN, STATEMENT, CheckEnd, Impossible
from ratchet.verifiers.sandbox.vacuous import NUMBER, guard_operands
from ratchet.verifiers.sandbox.values import CHECK


def run_checks(job: Mapping[str, Any], peer: CheckEnd, write: Callable[[dict[str, Any]], object]) -> None:
    """Run each of `job["checks"]` and `write` its record: `status` (`held`; `failed`, by the check; `raised`, by the
    program; `gone`, the program's process; `invalid`, the check itself), `name` and `detail` of the exception, `got`,
    the last value from the program, and whether the program `changed` arguments of a call whose value was used.
    `peer.note_use` is called before a check first uses the program. With `job["to_first_failure"]` it stops after the
    first that does not hold."""
    peer.classes = classes_named(job["checks"], job["prelude"])
    for source in job["checks"]:
        peer.begin()
        record = _run_check(source, job["entry_point"], peer)
        write(record | {"got": peer.shown, "changed": peer.changed})
        if job["to_first_failure"] and record["status"] != "held":
            break


def _run_check(source: str, entry_point: str, peer: CheckEnd) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__builtins__": _Names(peer), "__name__": CHECK}
    try:
        candidate = peer.do("candidate", None, asks=False)
        if entry_point.isidentifier():
            namespace[entry_point] = peer.named(entry_point, candidate)
        exec(compile(_guarded(source, peer.is_apart), "<check>", "exec", dont_inherit=True), namespace)
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


def _guarded(source: str, is_apart: bool) -> ast.Module:
    """The check as it is run."""
    tree = ast.parse(source)
    guard_operands(tree)
    if is_apart:
        _Observations().visit(tree)
    return _Statements().visit(tree)


class _Statements(ast.NodeTransformer):
    """Marks calls that are whole statements, `f(x)`: their value is unused, so only changes of arguments count."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        self.generic_visit(node)
        call = node.value
        if isinstance(call, ast.Call) and not (isinstance(call.func, ast.Name) and call.func.id in ("exec", "eval")):
            name = ast.copy_location(ast.Name(STATEMENT, ast.Load()), call.func)
            call.func, call.args = name, [call.func, *call.args]
        return node


class _Observations(ast.NodeTransformer):
    """Takes out assertions about arguments alone, which only hold or fail where changes of arguments are seen."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if node.name != "check":
            return node
        own: set[str] = set()
        given = {argument.arg for argument in node.args.args}
        for each in node.body:  # names that are only ever given values in which the program has no part
            if isinstance(each, ast.Assign) and all(isinstance(target, ast.Name) for target in each.targets):
                names = {name.id for name in ast.walk(each.value) if isinstance(name, ast.Name)}
                if names <= own | _BUILTINS and not names & given:
                    own |= {target.id for target in each.targets if isinstance(target, ast.Name)}
        stored = [name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)]
        once = {name for name in own if stored.count(name) == 1}
        node.body = [each for each in node.body if not self._is_observation(each, once)] or [ast.Pass()]
        return ast.fix_missing_locations(node)

    def _is_observation(self, node: ast.stmt, own: set[str]) -> bool:
        if not isinstance(node, ast.Assert):
            return False
        names = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
        return bool(names & own) and names <= own | _BUILTINS


_BUILTINS = {*vars(builtins)} | {NUMBER}


class _Names(dict):
    """A check's built-in names: the builtins, the prelude's, then the program's."""

    def __init__(self, peer: CheckEnd) -> None:
        super().__init__(peer.names)
        self._peer = peer

    def __missing__(self, name: str) -> Any:
        try:
            return self._peer.named(name, self._peer.do("global", name))
        except NameError:
            raise KeyError(name) from None
