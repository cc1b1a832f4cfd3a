"""Two processes that use each other's objects: one runs a program, the other the check of its problem.

The check calls the program's functions, and creates and uses its objects; the program uses what it gets from the
check. Values are sent as data (`values`), everything else as a number, for which the other end has a proxy. Here are
the connection and the program's end; `check_end` has the check's. To the check everything from the program is only
data.
"""

import json
import socket
import struct
import types
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from ratchet.verifiers.sandbox.data_types import NAMES, RAW, state
from ratchet.verifiers.sandbox.values import PRELUDE, Graph, NotData, Wire

LONGEST_MESSAGE = 64 << 20
_RECEIVED = 64 << 10


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is not how a float is encoded")


_DECODE = json.JSONDecoder(parse_constant=_refused).decode
_ANSWERING = """call iter next len bool getitem setitem delitem str repr int float complex index abs neg pos invert
round trunc floor ceil enter exit reversed hash format bytes instancecheck subclasscheck length_hint"""
ANSWERING = frozenset(f"__{name}__" for name in _ANSWERING.split())
"""Special methods of one object alone, for which the program's method is called."""
_ARITHMETIC = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift divmod"
COMPARING = frozenset(f"__{prefix}{name}__" for name in _ARITHMETIC.split() for prefix in ("", "r", "i")) | {
    "__contains__", "__lt__", "__le__", "__gt__", "__ge__",
}  # fmt: skip
"""Special methods that take another value, which may be an expected one."""
NATIVE: dict[Any, Any] = {
    kind.__name__: kind
    for kind in (
        types.GeneratorType, types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.CoroutineType,
        type, list, dict, set, deque, map, filter, zip, enumerate, type(reversed([])), type(iter([])), type(iter(())),
        type(iter({})), type(iter(set())), type(iter("")), type(iter(range(0))),
    )
}  # fmt: skip
"""Python's types whose instances, including those of derived classes, are not data: for `isinstance`."""
CONTAINERS = (list, dict, set, deque)


class Gone(BaseException):
    """The other end has closed. Not an Exception, so that it passes through a check's own `except`."""


class Peer(Wire):
    """One end of the connection. Either end sends requests, and answers the other's while it waits."""

    def __init__(self, channel: socket.socket, first: bool) -> None:
        super().__init__(first)
        self._channel, self._incoming = channel, bytearray()

    def ask(self, what: str, graph: Graph) -> dict[str, Any]:
        """Send a request and return the reply: a graph, or one with `raised`. Raises Gone."""
        self._send({"ask": what} | graph)
        while "ask" in (message := self._receive()):
            self._send(self.reply(message))
        return message

    def reply(self, message: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def _send(self, message: dict[str, Any]) -> None:
        text = json.dumps(message).encode()
        try:
            self._channel.sendall(struct.pack("!I", len(text)) + text)
        except OSError as error:
            raise Gone(str(error)) from None

    def _receive(self) -> dict[str, Any]:
        try:
            (size,) = struct.unpack("!I", self._exactly(4))
            if size > LONGEST_MESSAGE:
                raise Gone("too long a message")
            message = _DECODE(self._exactly(size).decode())
        except (OSError, ValueError, RecursionError) as error:
            raise Gone(str(error)) from None
        if not isinstance(message, dict):
            raise Gone("no message")
        return message

    def _exactly(self, size: int) -> bytes:
        while len(self._incoming) < size:
            more = self._channel.recv(_RECEIVED)
            if not more:
                raise Gone("the end")
            self._incoming += more
        data = bytes(self._incoming[:size])
        del self._incoming[:size]
        return data


def prelude_class(names: Mapping[str, Any], name: str) -> type | None:
    """The class of this name that a prelude defines; None if there is none."""
    cls = names.get(name)
    return cls if isinstance(cls, type) and cls.__module__ == PRELUDE else None


class Lent:
    """A proxy, in the program's process, of an object of the check, which answers for itself."""

    _ratchet_end: "ProgramEnd"
    _ratchet_number: int

    def __getattr__(self, name: str) -> Any:
        return self._ratchet_end.use("get", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._ratchet_end.use("set", self, name, value)

    def __hash__(self) -> int:
        return self._ratchet_number

    def __eq__(self, other: object) -> bool:
        return self is other or bool(self._ratchet_end.use("special", self, "__eq__", (other,)))

    def __copy__(self) -> Any:
        return self._ratchet_end.use("copy", self)

    def __deepcopy__(self, memo: object) -> Any:
        return self._ratchet_end.use("deepcopy", self)


class ProgramEnd(Peer):
    """The program's end, with its module's `namespace`. An object that was sent to the check keeps its number."""

    def __init__(
        self, channel: socket.socket, names: Mapping[str, Any], namespace: Mapping[str, Any], candidate: Any
    ) -> None:
        super().__init__(channel, first=False)
        self.names, self.namespace, self.candidate = names, namespace, candidate
        self._given: list[Any] = []
        self._given_numbers: dict[int, int] = {}
        self._kinds: dict[type, int] = {}
        self._lent: dict[int, Any] = {}
        self._lent_numbers: dict[int, int] = {}
        self._lent_kinds: dict[int, type] = {}

    def serve(self) -> None:
        """Answer requests until the check is over."""
        with suppress(Gone):
            while True:
                self.answer()

    def answer(self) -> None:
        """Answer one request. Raises Gone."""
        reply = self.reply(self._receive())
        reply["forget"] = self.prune()
        self._send(reply)

    def use(self, what: str, *arguments: Any) -> Any:
        """Make the check's end use one of its objects."""
        reply = self.ask(what, self.encode(arguments))
        if "raised" in reply:
            raise self.decode(reply["raised"])(reply["message"])
        return self.decode(reply)

    def class_of(self, name: str) -> type | None:
        return prelude_class(self.names, name)

    def reference(self, value: Any) -> Any:
        if (number := self._lent_numbers.get(id(value))) is not None:
            return {"own": number}
        number = self._given_numbers.setdefault(id(value), len(self._given))
        if number == len(self._given):
            self._given.append(value)  # keeps it alive, so that its id stays unique
        if isinstance(value, type) and issubclass(value, BaseException):
            bases = [self._class(base) for base in value.__bases__ if issubclass(base, BaseException)]
            return {"exception": [number, value.__module__, value.__name__, bases]}
        kind = type(value)
        is_new = kind not in self._kinds
        return [number, self._kinds.setdefault(kind, len(self._kinds)), description(kind) if is_new else None]

    def _class(self, kind: type) -> Any:
        return {"named": NAMES[id(kind)]} if id(kind) in NAMES else {"reference": self.reference(kind)}

    def dereference(self, reference: Any) -> Any:
        if isinstance(reference, int):
            return self._given[reference]
        number, kind, described = reference
        if described is not None:
            self._lent_kinds[kind] = _lent_class(described)
        if number not in self._lent:
            lent: Any = self._callback(number) if kind < 0 else object.__new__(self._lent_kinds[kind])
            if kind >= 0:
                vars(lent).update(_ratchet_end=self, _ratchet_number=number)
            self._lent[number] = lent
            self._lent_numbers[id(lent)] = number
        return self._lent[number]

    def _callback(self, number: int) -> Callable[..., Any]:
        """A function of the check."""

        def callback(*args: Any, **kwargs: Any) -> Any:
            return self.use("callback", number, args, tuple(kwargs.items()))

        return callback

    def alike(self, value: Any, reference: Any) -> Any:
        return self.dereference(reference)

    def reply(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            if message["ask"] in ("call", "do"):
                return self._call(message)
            if message["ask"] == "candidate":
                self.decode(message)
                return {"value": {"reference": self.reference(self.candidate)}, "objects": []}
            return self.encode(self._answer(message["ask"], *self.decode(message)))
        except Gone:
            raise
        except BaseException as error:
            return self._raised(error)

    def _call(self, message: dict[str, Any]) -> dict[str, Any]:
        function, args, kwargs = self.decode(message)
        value = function(*args, **dict(kwargs))
        if value is not None and "apart" in message:
            self.drop([*self._objects])  # the check gets copies of everything
        return self.encode(value)

    def encode(self, value: Any, reached: set[int] | None = None) -> Graph:
        count = len(self._kinds)
        try:
            return super().encode(value, reached)
        except BaseException:
            for kind in [*self._kinds][count:]:  # encoded, but not sent
                del self._kinds[kind]
            raise

    def _answer(self, what: str, *arguments: Any) -> Any:
        match what, *arguments:
            case "global", name:
                if name not in self.namespace:
                    raise NameError(f"name {name!r} is not defined")
                return self.namespace[name]
            case "get", value, name:
                return getattr(value, name)
            case "set", value, name, new:
                return setattr(value, name, new)
            case "delete", value, name:
                return delattr(value, name)
            case "special", value, name, args:
                return getattr(type(value), name)(value, *args)
            case "await", value:
                import asyncio  # only here: it is large

                return asyncio.run(value)
            case "state", value:
                base = next((base for base in CONTAINERS if isinstance(value, base)), None)
                content = None if base is None else RAW.get(base, base)(value)
                return type(value).__qualname__, content, state(value)
        raise ValueError(f"no question {what!r}")

    def _raised(self, error: BaseException) -> dict[str, Any]:
        text, kinds = describe(error), type(error).__mro__
        message = text.partition(": ")[2]
        for held in ([list(error.args), vars(error)], [[message], {}]):
            with suppress(NotData, RecursionError, MemoryError):
                return {"raised": self.encode((kinds[:-1], *held)), "message": message}
        raise AssertionError("unreachable")


def _lent_class(described: Mapping[str, Any]) -> type:
    """The class of proxies for instances of one class of the check."""

    def special(name: str) -> Callable[..., Any]:
        def method(self: Any, *args: Any) -> Any:
            return self._ratchet_end.use("special", self, name, args)

        return method

    methods: dict[str, Any] = {
        name: special(name) for name in described["methods"] if name not in ("__eq__", "__hash__")
    }
    if native := NATIVE.get(described["native"] or ""):
        methods["__class__"] = property(lambda self: native)
    return type(str(described["name"]), (Lent,), methods)


def description(kind: type) -> dict[str, Any]:
    """A class as described to the other end: its name, its special methods, and the type of Python's that it is or
    derives from."""
    own = [
        name
        for name in sorted(ANSWERING | COMPARING | {"__eq__"})
        if hasattr(kind, name) and getattr(kind, name) is not getattr(object, name, None)
    ]
    native = next((name for name, of in NATIVE.items() if issubclass(kind, of)), None)
    # Those that a class derived from a type of values has itself: the others answer as that type does.
    base = next((base for base in kind.__mro__ if base in RAW), object)
    other = [name for name in own if getattr(kind, name) is not getattr(base, name, None)]
    return {"name": kind.__name__, "methods": own, "native": native, "is_native": native and kind is NATIVE[native],
            "other": other}  # fmt: skip


def describe(error: BaseException) -> str:
    """An exception's class and text, at most 300 characters."""
    try:
        text = f"{type(error).__name__}: {error}"
    except BaseException:
        text = type(error).__name__
    return text[:300]
