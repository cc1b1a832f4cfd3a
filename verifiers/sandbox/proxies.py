"""The check's end of its connection to the program, and its proxies of the program's objects.

To the check everything from the program is only data. What a check expects never leaves this process, unless the check
itself passes it to the program.
"""

import copy
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from ratchet.verifiers.sandbox.data_types import IMMUTABLE
from ratchet.verifiers.sandbox.objects import (
    ANSWERING,
    COMPARING,
    NATIVE,
    Gone,
    Peer,
    describe,
    description,
    prelude_class,
)
from ratchet.verifiers.sandbox.vacuous import NUMBER, Guard
from ratchet.verifiers.sandbox.values import CHECK, Graph, NotData

_READABLE = ANSWERING | COMPARING | {
    "__annotations__", "__bases__", "__cause__", "__code__", "__context__", "__defaults__", "__dict__", "__doc__",
    "__eq__", "__func__", "__init__", "__module__", "__mro__", "__name__", "__ne__", "__qualname__", "__self__",
    "__slots__",
}  # fmt: skip
"""Names between underscores that a check may read on the program's objects. Others are protocols of libraries, which
trust what they get: numpy reads memory of this process, where the expected values are, at the address in
`__array_interface__`, and ctypes passes on `_as_parameter_`."""

_UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError, RecursionError)
_QUESTIONS = {
    "count", "index", "find", "rfind", "rindex", "startswith", "endswith", "issubset", "issuperset", "isdisjoint",
}  # fmt: skip
"""Methods of data that compare with an argument: an object returned instead of data must not answer them."""
_OF_CONTENT = {"count", "index", "issubset", "issuperset", "isdisjoint", "items", "keys", "values", "get", "copy"}
"""Methods that the content of an object derived from a container answers, not the program's class."""
_CHANGING = {"__next__", "__setitem__", "__delitem__", "__enter__", "__exit__", "__call__"}
"""Special methods after which an object may answer differently, and those whose answer is never the same."""
_ENDS_LOOPS = (StopIteration, StopAsyncIteration, GeneratorExit)
STATEMENT = "_ratchet_statement"
"""The name of `CheckEnd.statement` in a check."""
SHOWN = 300


class Unreadable(BaseException):
    """The program's process wrote something invalid. Not an Exception, so that it passes through a check's own
    `except`."""


class Impossible(BaseException):
    """The check does something that cannot be done here: a fault of the check, not of the program."""


class CheckEnd(Peer):
    """The check's end of the connection. Threads of a check use it one after the other.

    With `is_apart` the check does not see changes to the arguments of a call whose value it uses."""

    sends_errors = True

    def __init__(
        self, channel: Any, names: Mapping[str, Any], note_use: Callable[[], object], is_apart: bool = False,
        classes: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        super().__init__(channel, first=True)
        guard = Guard()
        self.names, self.guards = names, {**guard.names(), NUMBER: guard.number, STATEMENT: self.statement}
        self.array = guard.array  # type: ignore[method-assign]
        self.note_use, self.is_apart = note_use, is_apart
        self.raised: BaseException | None = None  # the program's last exception
        self.broken: BaseException | None = None  # why nothing more can be sent
        self.classes = classes  # names that the checks use as classes
        self.asked = self.changed = False
        self.shown = ""
        self._lock = threading.RLock()
        self._known: dict[int, Any] = {}
        self._kinds: dict[int, type] = {}
        self._lent: list[Any] = []
        self._lent_numbers: dict[Any, int] = {}
        self._lent_kinds: dict[type, int] = {}
        self._answers: dict[tuple[int, str, str], Any] = {}

    def begin(self) -> None:
        self.raised, self.asked, self.shown = None, False, ""
        self._used_arguments, self._watches = set[int](), True

    def do(self, what: str, *arguments: Any, asks: bool = True) -> Any:
        """Make the program's end do something. Raises the program's exception."""
        with self._lock:
            reply = self._ask(what, arguments, asks)
            return self._read(lambda: self.decode(reply))

    def named(self, name: str, value: Any) -> Any:
        return _made(value) if name in self.classes and isinstance(value, type) else value

    def attribute(self, remote: "Remote", name: str) -> Any:
        value = self.do("get", remote, name)
        if isinstance(value, type) and isinstance(remote, type) and remote._ratchet_made:
            _made(value)  # a class in a class
        return value

    def statement(self, function: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(function, Remote):
            self.call(function, args, kwargs, "do")
        else:
            function(*args, **kwargs)

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], what: str = "call") -> Any:
        reached: set[int] = set()
        with self._lock:
            self._answers.clear()
            try:
                reply = self._ask(what, (function, args, tuple(kwargs.items())), True, reached)
            except _ENDS_LOOPS as error:
                # In map, filter and zip it would end the check's own loop, as if everything had been compared.
                self.raised = RuntimeError(f"the program raised {describe(error)}")
                raise self.raised from None
            value = self._read(lambda: self._result(reply, what == "call", reached))
            self.shown = object.__repr__(value) if isinstance(value, Remote) else repr(value)[:SHOWN]
        return value

    def _result(self, reply: dict[str, Any], is_used: bool, reached: set[int]) -> Any:
        is_used = is_used and reply["value"] is not None
        if not is_used:
            self._watches = False
            try:
                return self.decode(reply)
            finally:
                self._watches = True
        self._used_arguments |= reached
        if self.is_apart:
            self.drop(reached)
        return self.decode(reply)

    def decode(self, graph: Graph) -> Any:
        """Decode a message, and note arguments of used calls that it changes: the reply to a call, or a later one, as
        from a generator."""
        if self._watches and not self._used_arguments.isdisjoint(entry[0] for entry in graph["objects"]):
            self.changed = True
        return super().decode(graph)

    def answer(self, remote: "Remote", name: str, args: tuple[Any, ...]) -> Any:
        """An object's answer to a special method. It stays the same until the program is called or the object changes,
        unless the check made the object."""
        with self._lock:
            if remote._ratchet_made or name in _CHANGING or hasattr(type(remote), "__next__"):
                if name != "__next__":
                    self._answers.clear()
                return self.do("special", remote, name, args)
            key = (remote._ratchet_number, name, repr(args))
            if key not in self._answers:
                value = self.do("special", remote, name, args)
                self._answers[key] = _Replayed(value) if name == "__iter__" else value
            value = self._answers[key]
            return iter(value) if name == "__iter__" else value

    def leave(self, remote: "Remote", kind: Any, error: Any, _: Any) -> Any:
        """Call the program's `__exit__` without the traceback, which is not data. It can neither suppress an assertion
        that has failed in the check nor read its message, which may contain an expected value."""
        if not isinstance(error, AssertionError) or error is self.raised:
            return self.answer(remote, "__exit__", (kind, error, None))
        self.answer(remote, "__exit__", (AssertionError, AssertionError(), None))
        return False

    def state(self, remote: "Remote") -> tuple[str, Any, dict[str, Any]]:
        """The name of its class, its content if that derives from a container, and its attributes."""
        with self._lock:
            key = (remote._ratchet_number, "state", "")
            if remote._ratchet_made or key not in self._answers:
                self._answers[key] = self.do("state", remote)
            return self._answers[key]

    def _ask(
        self, what: str, arguments: tuple[Any, ...], asks: bool, reached: set[int] | None = None
    ) -> dict[str, Any]:
        if asks and not self.asked:
            self.asked = True
            self.note_use()
        graph = self._encoded(arguments, reached)
        if self.is_apart and what == "call":
            graph["apart"] = [*(reached or ())]
        try:
            reply = self.ask(what, graph)
        except Gone as error:
            self.broken = error
            raise
        if "raised" not in reply:
            return reply
        error = self.raised = self._read(lambda: self._exception(reply))
        raise error

    def ask(self, what: str, graph: dict[str, Any]) -> dict[str, Any]:
        return super().ask(what, graph | {"forget": self.prune()})

    def _encoded(self, value: Any, reached: set[int] | None) -> dict[str, Any]:
        try:
            return self.encode(value, reached)
        except RecursionError as error:  # no check nests so deep: it is a value of the program
            self.broken = Unreadable(describe(error))
            raise self.broken from None
        except NotData as error:
            self.broken = Impossible(f"it passes the program something that is not data: {error}")
            raise self.broken from None

    def _read(self, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except _UNREADABLE as error:
            self.broken = Unreadable(describe(error))
            raise self.broken from None

    def reply(self, message: dict[str, Any]) -> dict[str, Any]:
        """Answer the program's use of an object of the check that it received."""
        what, arguments = message["ask"], self._read(lambda: self.decode(message))
        try:
            return self.encode(self._used(what, *arguments))
        except Exception as error:
            name = next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins")
            return {"raised": {"value": {"named": name}, "objects": []}, "message": str(error)}

    def _used(self, what: str, item: Any, *arguments: Any) -> Any:
        if what == "callback":
            args, kwargs = arguments
            return self._lent[item](*args, **dict(kwargs))
        if not any(item is lent for lent in self._lent):
            raise ValueError("nothing that the check has lent")
        match what, *arguments:
            case "get", str(name) if name[:1] != "_":
                return getattr(item, name)
            case "set", str(name), value if name[:1] != "_":
                return setattr(item, name, value)
            case "special", "__eq__", [other]:
                return item == other
            case "special", str(name), args if name in ANSWERING | COMPARING:
                return getattr(type(item), name)(item, *args)
            case "copy", *_:
                return copy.copy(item)
            case "deepcopy", *_:
                return copy.deepcopy(item)
        raise AttributeError(f"{type(item).__name__!r} object has no attribute {arguments[:1]!r}")

    def class_of(self, name: str) -> type | None:
        return prelude_class(self.names, name)

    def reference(self, value: Any) -> Any:
        if (number := getattr(value, "_ratchet_number", None)) is not None:
            return number
        kind = type(value)
        is_function = callable(value) and kind.__module__ != CHECK
        if not (is_function or kind.__module__ == CHECK or hasattr(kind, "__next__")):
            raise NotData(f"{kind.__name__} is not data")
        key: Any = id(value)
        if is_function:
            with suppress(TypeError):
                key = hash(value), value  # a bound method is another object each time
        number = self._lent_numbers.setdefault(key, len(self._lent))
        if number == len(self._lent):
            self._lent.append(value)
        if is_function:
            return [number, -1, None]
        is_new = kind not in self._lent_kinds
        return [number, self._lent_kinds.setdefault(kind, len(self._lent_kinds)), description(kind) if is_new else None]

    def dereference(self, reference: Any) -> Any:
        if isinstance(reference, dict) and "own" in reference:
            return self._lent[reference["own"]]
        if isinstance(reference, dict):
            number, module, name, bases = reference["exception"]
            if number not in self._known:
                parents = [self.decode({"value": base, "objects": []}) for base in bases]
                self._known[number] = self._exception_class(number, module, name, parents)
            return self._known[number]
        number, kind, described = reference
        if described is not None:
            self._kinds[kind] = _class_for(described)
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
        """A value of Python's own type, with the object's other attributes and its class's answers about it."""
        remote, base = self.dereference(reference), type(value)
        if not isinstance(remote, Remote) or base not in IMMUTABLE:  # others would be made without their content
            raise ValueError("no object")
        attributes: dict[str, Any] = {
            "__getattr__": lambda _, name: getattr(remote, name), "_ratchet_number": remote._ratchet_number,
        }  # fmt: skip
        for name in remote._ratchet_other:
            if name in ANSWERING - {"__hash__", "__call__"}:
                attributes[name] = _answered(remote, name)
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


class _Replayed:
    """An iteration that is the same each time."""

    def __init__(self, source: Any) -> None:
        self._source, self._items = iter(source), deque[Any]()

    def __iter__(self) -> Iterator[Any]:
        position = 0
        while True:
            if position == len(self._items):
                try:
                    self._items.append(next(self._source))
                except StopIteration:
                    return
            yield self._items[position]
            position += 1


class Remote:
    """A proxy of an object in the program's process."""

    __slots__ = ("_ratchet_end", "_ratchet_made", "_ratchet_number")
    __doc__ = None
    _ratchet_other: tuple[str, ...] = ()
    _ratchet_contains = False

    def __getattr__(self, name: str) -> Any:
        if self._ratchet_contains and not self._ratchet_made and name in _OF_CONTENT:
            content = self._ratchet_end.state(self)[1]
            if hasattr(content, name):
                return getattr(content, name)
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
        name, base, attributes = end.state(self)
        if not isinstance(other, Remote) and not (self._ratchet_made and base is None):
            return NotImplemented if base is None else base == other
        if not hasattr(type(self), "_ratchet_eq") or not end.do("special", self, "__eq__", (other,)):
            return False
        return not isinstance(other, Remote) or (name, base, attributes) == end.state(other)


def _made(value: Any) -> Any:
    """The value, marked as an object that the check created itself if it is a proxy."""
    if isinstance(value, Remote):
        object.__setattr__(value, "_ratchet_made", True)
    return value


def _class_for(described: Mapping[str, Any]) -> type:
    """The class of proxies for instances of one class of the program."""
    native = NATIVE.get(described["native"] or "")
    methods: dict[str, Any] = {"__slots__": (), "_ratchet_other": tuple(described["other"])}
    methods["_ratchet_contains"] = native in (list, dict, set, deque)
    for name in described["methods"]:
        if name == "__eq__":
            methods["_ratchet_eq"] = True
        elif name in ANSWERING or name in COMPARING:
            methods[name] = _special(name)
    if native:
        shown = native
        if methods["_ratchet_contains"] and not described["is_native"]:
            shown = type(str(described["name"]), (native,), {})  # as for `isinstance`, and not the type itself
        methods["__class__"] = property(lambda self: shown)
    return type(str(described["name"]), (Remote,), methods)


def _special(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        end, exists = self._ratchet_end, self._ratchet_made
        if name == "__call__":
            value = end.call(self, args, kwargs)
        elif name == "__exit__":
            value = end.leave(self, *args)
        elif name in ANSWERING:
            if self._ratchet_contains and not exists and name not in {*self._ratchet_other, "__getitem__"}:
                return getattr(end.state(self)[1], name)(*args)
            return end.answer(self, name, args)
        elif exists or all(isinstance(arg, Remote) for arg in args):
            value = end.do("special", self, name, args)
        elif (base := end.state(self)[1]) is not None:
            return getattr(base, name)(*args)
        elif name == "__contains__":
            return any(item is args[0] or item == args[0] for item in self)
        else:
            raise TypeError(f"an object that the program returned has no {name} for a value of the check")
        return _made(value) if exists else value

    return method


def _answered(remote: Remote, name: str) -> Callable[..., Any]:
    return lambda _, *args: remote._ratchet_end.answer(remote, name, args)
