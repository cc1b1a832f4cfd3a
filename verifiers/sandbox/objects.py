"""Two processes that use each other's objects: in one a program, in the other the check of its problem.

The check calls the program's functions, and creates and uses its objects. Values are sent as data (`values`),
everything else as a number. Here are the connection and the program's end; `checking` has the check's end. To the check
everything from the program is only data.
"""

import json
import socket
import struct
import types
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from ratchet.verifiers.sandbox.values import PRELUDE, Graph, NotData, Wire, state

LONGEST_MESSAGE = 64 << 20
_ANSWERING = """call iter next len bool getitem setitem delitem str repr int float complex index abs neg pos invert
round trunc floor ceil enter exit reversed hash format bytes instancecheck subclasscheck length_hint"""
ANSWERING = frozenset(f"__{name}__" for name in _ANSWERING.split())
"""Special methods about one object: the program's are called."""
_ARITHMETIC = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift divmod"
COMPARING = frozenset(f"__{prefix}{name}__" for name in _ARITHMETIC.split() for prefix in ("", "r", "i")) | {
    "__contains__", "__lt__", "__le__", "__gt__", "__ge__",
}  # fmt: skip
"""Special methods with another value, which may be an expected one."""
NATIVE: dict[Any, Any] = {
    kind.__name__: kind
    for kind in (
        types.GeneratorType, types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.CoroutineType,
        type, list, dict, set, map, filter, zip, enumerate, type(reversed([])), type(iter([])), type(iter(())),
        type(iter({})), type(iter(set())), type(iter("")), type(iter(range(0))), type({}.values()),
    )
}  # fmt: skip
"""Python's types whose instances, and those of derived classes, are not data: for `isinstance`."""


class Gone(BaseException):
    """The other end has closed. No Exception: passes through a check's own `except`."""


class Peer(Wire):
    """One end of the connection. Either end sends requests, and answers the other's while it waits."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel, self._incoming = channel, channel.makefile("rb")

    def ask(self, what: str, graph: Graph) -> dict[str, Any]:
        """The reply: a graph, or with `raised`. Raises Gone."""
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
            message = json.loads(self._exactly(size))
        except (OSError, ValueError, RecursionError) as error:
            raise Gone(str(error)) from None
        if not isinstance(message, dict):
            raise Gone("no message")
        return message

    def _exactly(self, size: int) -> bytes:
        data = self._incoming.read(size)
        if len(data) < size:
            raise Gone("the end")
        return data


def become(old: Any, new: Any) -> None:
    """Make a container equal to the other end's. Instances that are sent by attributes are up to date already."""
    if isinstance(old, list | bytearray):
        old[:] = new
    elif isinstance(old, deque):
        old.clear()
        old.extend(new)
    elif isinstance(old, dict | set):
        old.clear()
        old.update(new)


def prelude_class(names: Mapping[str, Any], name: str) -> type | None:
    cls = names.get(name)
    return cls if isinstance(cls, type) and cls.__module__ == PRELUDE else None


class ProgramEnd(Peer):
    """The program's end, with its module's `namespace`. An object that was sent to the check keeps its number."""

    def __init__(
        self, channel: socket.socket, names: Mapping[str, Any], namespace: Mapping[str, Any], candidate: Any
    ) -> None:
        super().__init__(channel)
        self.names, self.namespace, self.candidate = names, namespace, candidate
        self._given: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._kinds: dict[type, int] = {}
        self._classes: dict[str, type] = {}  # of the check
        self._callbacks: dict[int, Callable[..., Any]] = {}

    def serve(self) -> None:
        """Answer until the check is over."""
        with suppress(Gone):
            while True:
                self._send(self.reply(self._receive()))

    def class_of(self, name: str) -> type | None:
        return prelude_class(self.names, name) or self._classes.get(name)

    def new_class(self, name: str) -> type:
        self._classes[name] = type(name, (), {})
        return self._classes[name]

    def reference(self, value: Any) -> Any:
        number = self._numbers.setdefault(id(value), len(self._given))
        if number == len(self._given):
            self._given.append(value)  # keeps it alive, so that its id stays unique
        if isinstance(value, type) and issubclass(value, BaseException):
            bases = [self.encode(base)["value"] for base in value.__bases__ if issubclass(base, BaseException)]
            return {"exception": [number, value.__module__, value.__name__, bases]}
        kind = type(value)
        is_new = kind not in self._kinds
        return [number, self._kinds.setdefault(kind, len(self._kinds)), _description(kind) if is_new else None]

    def dereference(self, reference: Any) -> Any:
        ((kind, body),) = reference.items()
        if kind == "given":
            return self._given[body]
        if kind == "items":
            return iter(self.decode(body))
        return self._callbacks.setdefault(body, self._callback(body))

    def _callback(self, number: int) -> Callable[..., Any]:
        """A function of the check."""

        def callback(*args: Any, **kwargs: Any) -> Any:
            reply = self.ask("callback", self.encode([number, args, kwargs]))
            if "raised" in reply:
                raise self.decode(reply["raised"])(reply["message"])
            return self.decode(reply)

        return callback

    def alike(self, value: Any, reference: Any) -> Any:
        return self.dereference(reference)

    def reply(self, message: dict[str, Any]) -> dict[str, Any]:
        objects: list[Any] = []
        try:
            if message["ask"] in ("call", "do"):
                return self._call(message, objects)
            return self.encode(self._answer(message["ask"], *self.decode(message)))
        except Gone:
            raise
        except BaseException as error:
            return self._raised(error)

    def _call(self, message: dict[str, Any], objects: list[Any]) -> dict[str, Any]:
        """Call a function. If it returns None, or its value is unused (`do`), the reply includes changed arguments.
        Otherwise it does not: a function that empties its argument and returns it would be right wherever a check
        computes the expected value from the argument."""
        function, args, kwargs = self.decode(message, objects)
        value = function(*args, **kwargs)
        if value is None or message["ask"] == "do":
            before, count = {"value": message["value"][1:], "objects": message["objects"]}, len(self._kinds)
            with suppress(NotData, RecursionError):
                now = self.encode([args, kwargs], objects)
                self._forget(count)
                if now != before:
                    return self.encode([value, *args, *kwargs.values()], objects)
        return self.encode([value])

    def encode(self, value: Any, objects: list[Any] | None = None) -> Graph:
        number = len(self._kinds)
        try:
            return super().encode(value, objects)
        except BaseException:
            self._forget(number)
            raise

    def _forget(self, count: int) -> None:
        """Forget classes that were encoded but not sent."""
        for kind in [*self._kinds][count:]:
            del self._kinds[kind]

    def _answer(self, what: str, *arguments: Any) -> Any:
        match what, *arguments:
            case "candidate", _:
                return self.candidate
            case "global", name:
                if name not in self.namespace:
                    raise NameError(f"name {name!r} is not defined")
                return self.namespace[name]
            case "get", value, name:
                return getattr(value, name)
            case "set", value, name, new:
                return setattr(value, name, new)
            case "become", value, name, new:
                return become(getattr(value, name), new)
            case "delete", value, name:
                return delattr(value, name)
            case "special", value, name, args:
                return getattr(type(value), name)(value, *args)
            case "await", value:
                import asyncio  # only here: it is large

                return asyncio.run(value)
            case "state", value:
                base = next((base for base in (list, dict, set) if isinstance(value, base)), None)
                return [type(value).__qualname__, base and base(value), state(value)]
        raise ValueError(f"no question {what!r}")

    def _raised(self, error: BaseException) -> dict[str, Any]:
        text, kinds = describe(error), type(error).__mro__
        message = text.partition(": ")[2]
        for held in ([list(error.args), vars(error)], [[message], {}]):
            with suppress(NotData, RecursionError, MemoryError):
                return {"raised": self.encode([list(kinds[:-1]), *held]), "message": message}
        raise AssertionError("unreachable")


def _description(kind: type) -> dict[str, Any]:
    own = [
        name
        for name in ANSWERING | COMPARING | {"__eq__"}
        if hasattr(kind, name) and getattr(kind, name) is not getattr(object, name, None)
    ]
    native = next((name for name, of in NATIVE.items() if issubclass(kind, of)), None)
    return {"name": kind.__name__, "methods": own, "native": native}


def describe(error: BaseException) -> str:
    """Its class and text, at most 300 characters."""
    try:
        text = f"{type(error).__name__}: {error}"
    except BaseException:
        text = type(error).__name__
    return text[:300]
