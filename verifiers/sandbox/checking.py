"""Published checks, `check(candidate)`, run as plain Python in a process apart from the program.

`candidate` and every name that neither the check nor the prelude defines are proxies of objects in the program's
process (`objects`). They return data or further proxies. The values that a check expects stay here:

- what the program returned is compared here, by Python's own `==` of data; no `__eq__` of the program is called;
- an object that the check did not create, from a class it names, is never compared with a value of the check;
- two objects of the program are equal if their `==` says so *and* their classes and attributes are the same.
"""

import ast
import sys
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from ratchet.verifiers.sandbox.evidence import classes_named
from ratchet.verifiers.sandbox.objects import ANSWERING, COMPARING, NATIVE, Gone, Peer, become, describe, prelude_class
from ratchet.verifiers.sandbox.values import CHECK, NotData

_READABLE = ANSWERING | COMPARING | {
    "__annotations__", "__bases__", "__cause__", "__code__", "__context__", "__defaults__", "__dict__", "__doc__",
    "__eq__", "__func__", "__init__", "__module__", "__mro__", "__name__", "__ne__", "__qualname__", "__self__",
    "__slots__",
}  # fmt: skip
"""Names between underscores that a check may read on the program's objects. Others are protocols of libraries, which
trust what they get: numpy reads memory of this process, where the expected values are, at the address in
`__array_interface__`, and ctypes passes on `_as_parameter_`."""

_SHOWN = 300
_CONTAINERS = (list, dict, set, bytearray, deque)
_OURS = 3  # references: in the tuple, by name, and the argument
_UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError, RecursionError)
# Methods of data that compare with an argument: an object returned instead of data must not answer them.
_QUESTIONS = {
    "count", "index", "find", "rfind", "rindex", "startswith", "endswith", "issubset", "issuperset", "isdisjoint",
}  # fmt: skip


class Unreadable(BaseException):
    """The program's process wrote something invalid. No Exception: passes through a check's own `except`."""


class Impossible(BaseException):
    """The check does something that cannot be done here: its own fault, not the program's."""


def run_checks(job: Mapping[str, Any], peer: "CheckEnd", write: Callable[[dict[str, Any]], object]) -> None:
    """Run each of `job["checks"]` and `write` its record: `status` (`held`; `failed`, by the check; `raised`, by the
    program; `gone`, the program's process; `invalid`, the check itself), `name` and `detail` of the exception, and
    `got`, the last value from the program. `peer.note_use` is called before a check first uses the program. With
    `job["to_first_failure"]` it stops after the first that does not hold."""
    peer.classes = classes_named(job["checks"], job["prelude"])
    if any("allclose" in source for source in job["checks"]):
        _compare_shapes()
    for source in job["checks"]:
        peer.begin()
        record = _run_check(source, job["entry_point"], peer)
        write(record | {"got": peer.shown})
        if job["to_first_failure"] and record["status"] != "held":
            break


def _compare_shapes() -> None:
    """Make an empty array close to empty ones only. By numpy's rules all of no pairs are close."""
    import numpy as np  # only here: it is large

    close = np.allclose

    def allclose(a: Any, b: Any, *args: Any, **kwargs: Any) -> bool:
        return bool(np.size(a)) == bool(np.size(b)) and close(a, b, *args, **kwargs)

    np.allclose = allclose


def _run_check(source: str, entry_point: str, peer: "CheckEnd") -> dict[str, Any]:
    namespace: dict[str, Any] = {"__builtins__": _Names(peer), "__name__": CHECK}
    try:
        candidate = peer.do("candidate", None, asks=False)
        if entry_point.isidentifier():
            namespace[entry_point] = peer.named(entry_point, candidate)
        namespace["__builtins__"][_STATEMENT] = peer.statement
        exec(compile(_Statements().visit(ast.parse(source)), "<check>", "exec", dont_inherit=True), namespace)
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
    return {"status": status, "name": name, "detail": detail[:_SHOWN]}


_STATEMENT = "_ratchet_statement"


class _Statements(ast.NodeTransformer):
    """Marks calls that are whole statements, `f(x)`: their value is unused, so only changes of arguments count."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        self.generic_visit(node)
        call = node.value
        if isinstance(call, ast.Call) and not (isinstance(call.func, ast.Name) and call.func.id in ("exec", "eval")):
            name = ast.copy_location(ast.Name(_STATEMENT, ast.Load()), call.func)
            call.func, call.args = name, [call.func, *call.args]
        return node


class _Names(dict):
    """A check's built-in names: the builtins, the prelude's, then the program's."""

    def __init__(self, peer: "CheckEnd") -> None:
        super().__init__(peer.names)
        self._peer = peer

    def __missing__(self, name: str) -> Any:
        try:
            return self._peer.named(name, self._peer.do("global", name))
        except NameError:
            raise KeyError(name) from None


class CheckEnd(Peer):
    """The check's end of the connection."""

    def __init__(self, channel: Any, names: Mapping[str, Any], note_use: Callable[[], object]) -> None:
        super().__init__(channel)
        self.names = names
        self.note_use = note_use
        self.raised: BaseException | None = None  # the program's last exception
        self.broken: BaseException | None = None  # why nothing more can be sent
        self.classes: set[str] = set()  # names that the checks use as classes
        self.asked = False
        self.shown = ""
        self._known: dict[int, Any] = {}
        self._kinds: dict[int, type] = {}
        self._classes: dict[str, type] = {}  # of the check, by name
        self._callbacks: list[Callable[..., Any]] = []
        self._lent: list[tuple[Remote, str, Any, Any]] = []

    def begin(self) -> None:
        self.raised, self.asked, self.shown = None, False, ""

    def do(self, what: str, *arguments: Any, asks: bool = True) -> Any:
        """Have the program's end do it. Raises the program's exception."""
        reply = self._ask(what, self._given([*arguments]), asks)
        return self._read(lambda: self.decode(reply))

    def named(self, name: str, value: Any) -> Any:
        return _made(value) if name in self.classes and isinstance(value, type) else value

    def attribute(self, remote: "Remote", name: str) -> Any:
        value = self.do("get", remote, name)
        if isinstance(value, type) and isinstance(remote, type) and remote._ratchet_made:
            _made(value)  # a class in a class
        if isinstance(value, _CONTAINERS):
            self._lent.append((remote, name, value, self.encode(value)))
        return value

    def _give_back(self) -> None:
        """Apply the check's changes of its copies of the program's containers to the originals."""
        lent, self._lent = self._lent, []
        for remote, name, value, before in lent:
            now = self._given(value)
            if now != before:
                self.ask("become", self._given([remote, name, value]))
            if sys.getrefcount(value) > _OURS:
                self._lent.append((remote, name, value, now))

    def _given(self, value: Any, objects: list[Any] | None = None) -> dict[str, Any]:
        try:
            return self.encode(value, objects)
        except RecursionError as error:  # no check nests so deep: it is a value of the program
            self.broken = Unreadable(describe(error))
            raise self.broken from None
        except NotData as error:
            self.broken = Impossible(f"it passes the program something that is not data: {error}")
            raise self.broken from None

    def statement(self, function: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(function, Remote):
            self.call(function, args, kwargs, "do")
        else:
            function(*args, **kwargs)

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], what: str = "call") -> Any:
        objects: list[Any] = []
        reply = self._ask(what, self._given([function, args, kwargs], objects), True)

        def read() -> Any:
            if len(reply["value"]) == 1:
                return self.decode(reply)[0]
            value, *changed = self.decode(reply, objects)
            for old, new in zip([*args, *kwargs.values()], changed, strict=True):
                become(old, new)
            return value

        value = self._read(read)
        self.shown = object.__repr__(value) if isinstance(value, Remote) else repr(value)[:_SHOWN]
        return value

    def _ask(self, what: str, graph: dict[str, Any], asks: bool) -> dict[str, Any]:
        if asks and not self.asked:
            self.asked = True
            self.note_use()
        try:
            self._give_back()
            reply = self.ask(what, graph)
        except Gone as error:
            self.broken = error
            raise
        if "raised" not in reply:
            return reply
        error = self.raised = self._read(lambda: self._exception(reply))
        raise error

    def _read(self, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except _UNREADABLE as error:
            self.broken = Unreadable(describe(error))
            raise self.broken from None

    def reply(self, message: dict[str, Any]) -> dict[str, Any]:
        """Answer the program's call of a function of the check that it received."""
        number, args, kwargs = self._read(lambda: self.decode(message))
        try:
            return self.encode(self._callbacks[number](*args, **kwargs))
        except Exception as error:
            name = next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins")
            return {"raised": {"value": {"named": name}, "objects": []}, "message": str(error)}

    def class_of(self, name: str) -> type | None:
        return prelude_class(self.names, name) or self._classes.get(name)

    def shares(self, kind: type) -> bool:
        if kind.__module__ == CHECK and not issubclass(kind, BaseException):
            self._classes[kind.__name__] = kind
        return super().shares(kind)

    def reference(self, value: Any) -> Any:
        if (number := getattr(value, "_ratchet_number", None)) is not None:
            return {"given": number}
        if callable(value):
            if value not in self._callbacks:
                self._callbacks.append(value)
            return {"callback": self._callbacks.index(value)}
        try:
            return {"items": self.encode(list(value))}
        except TypeError:
            raise NotData(f"{type(value).__name__} is not data") from None

    def dereference(self, reference: Any) -> Any:
        if isinstance(reference, dict):
            number, module, name, bases = reference["exception"]
            if number not in self._known:
                parents = [self.decode({"value": base, "objects": []}) for base in bases]
                self._known[number] = self._exception_class(number, module, name, parents)
            return self._known[number]
        number, kind, description = reference
        if description is not None:
            self._kinds[kind] = _class_for(description)
        if number not in self._known:
            proxy = self._known[number] = object.__new__(self._kinds[kind])
            object.__setattr__(proxy, "_ratchet_end", self)
            object.__setattr__(proxy, "_ratchet_number", number)
            object.__setattr__(proxy, "_ratchet_made", False)
        instance = self._known[number]
        return self._awaited(instance) if isinstance(instance, NATIVE["coroutine"]) else instance

    async def _awaited(self, coroutine: Any) -> Any:
        return self.do("await", coroutine)

    def alike(self, value: Any, reference: Any) -> Any:
        """The value of Python's own type, with the object's other attributes."""
        remote, base = self.dereference(reference), type(value)
        attributes = {"__getattr__": lambda _, name: getattr(remote, name), "_ratchet_number": remote._ratchet_number}
        kind: Any = type(type(remote).__name__, (base,), attributes)
        return base.__new__(kind, value)

    def _exception_class(self, number: int, module: str, name: str, bases: list[type]) -> type:
        cls = self.class_of(name)
        if cls is None and module.partition(".")[0] in sys.stdlib_module_names:
            cls = getattr(sys.modules.get(module), name, None)
        if isinstance(cls, type) and issubclass(cls, BaseException):
            return cls
        text = {"__str__": lambda self: vars(self).get("_ratchet_text", ""), "_ratchet_number": number}
        return type(name, tuple(base for base in bases if issubclass(base, BaseException)), text)

    def _exception(self, reply: dict[str, Any]) -> BaseException:
        kinds, args, attributes = self.decode(reply["raised"])
        kind = next(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseException))
        error = kind.__new__(kind, *args)
        error.args = tuple(args)
        vars(error).update(attributes, _ratchet_text=str(reply["message"]))
        return error


class Remote:
    """A proxy of an object in the program's process."""

    __slots__ = ("_ratchet_end", "_ratchet_made", "_ratchet_number")
    __doc__ = None

    def __getattr__(self, name: str) -> Any:
        if name in _QUESTIONS and not self._ratchet_made:
            raise AttributeError(f"an object that the program returned has no {name!r}")
        if name.startswith("_ratchet") or (name[:1] == name[-1:] == "_" and name not in _READABLE):
            raise AttributeError(name)
        return self._ratchet_end.attribute(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._ratchet_end.do("set", self, name, value)

    def __delattr__(self, name: str) -> None:
        self._ratchet_end.do("delete", self, name)

    def __hash__(self) -> int:
        return self._ratchet_number

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        end = self._ratchet_end
        name, base, attributes = end.do("state", self)
        if not isinstance(other, Remote) and not (self._ratchet_made and base is None):
            return NotImplemented if base is None else base == other
        if not hasattr(type(self), "_ratchet_eq") or not end.do("special", self, "__eq__", (other,)):
            return False
        return not isinstance(other, Remote) or [name, base, attributes] == end.do("state", other)


def _made(value: Any) -> Any:
    """The value, marked as an object that the check created itself if it is a proxy."""
    if isinstance(value, Remote):
        object.__setattr__(value, "_ratchet_made", True)
    return value


def _class_for(description: Mapping[str, Any]) -> type:
    """The class of proxies for instances of one class of the program."""
    methods: dict[str, Any] = {"__slots__": ()}
    for name in description["methods"]:
        if name == "__eq__":
            methods["_ratchet_eq"] = True
        elif name in ANSWERING or name in COMPARING:
            methods[name] = _special(name)
    if native := NATIVE.get(description["native"] or ""):
        methods["__class__"] = property(lambda self: native)
    return type(str(description["name"]), (Remote,), methods)


def _special(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        end, exists = self._ratchet_end, self._ratchet_made
        if name == "__call__":
            value = end.call(self, args, kwargs)
        elif name in ANSWERING:  # a traceback is not data
            return end.do("special", self, name, (*args[:2], None) if name == "__exit__" else args)
        elif exists or all(isinstance(arg, Remote) for arg in args):
            value = end.do("special", self, name, args)
        elif (base := end.do("state", self)[1]) is not None:
            return getattr(base, name)(*args)
        elif name == "__contains__":
            return any(item is args[0] or item == args[0] for item in self)
        else:
            raise TypeError(f"an object that the program returned has no {name} for a value of the check")
        return _made(value) if exists else value

    return method
