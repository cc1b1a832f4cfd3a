"""The check's proxies of objects in the program's process."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ratchet.verifiers.sandbox.objects import ANSWERING, COMPARING, NATIVE

_READABLE = ANSWERING | COMPARING | {
    "__annotations__", "__bases__", "__cause__", "__code__", "__context__", "__defaults__", "__dict__", "__doc__",
    "__eq__", "__func__", "__init__", "__module__", "__mro__", "__name__", "__ne__", "__qualname__", "__self__",
    "__slots__",
}  # fmt: skip
"""Names between underscores that a check may read on the program's objects. Others are protocols of libraries, which
trust what they get: numpy reads memory of this process, where the expected values are, at the address in
`__array_interface__`, and ctypes passes on `_as_parameter_`."""

_QUESTIONS = {
    "count", "index", "find", "rfind", "rindex", "startswith", "endswith", "issubset", "issuperset", "isdisjoint",
}  # fmt: skip
"""Methods of data that compare with an argument: an object returned instead of data must not answer them."""
_OF_CONTENT = {"count", "index", "issubset", "issuperset", "isdisjoint", "items", "keys", "values", "get", "copy"}
"""Methods that the content of an object derived from a container answers, not the program's class."""


class Replayed:
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
    _ratchet_native: type | None = None

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


def is_class(value: Any) -> bool:
    return isinstance(value, Remote) and value._ratchet_native is type


def mark_made(value: Any) -> Any:
    """The value, marked as an object that the check created itself if it is a proxy."""
    if isinstance(value, Remote):
        object.__setattr__(value, "_ratchet_made", True)
    return value


def class_for(described: Mapping[str, Any]) -> type:
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
        shown = methods["_ratchet_native"] = native
        if methods["_ratchet_contains"] and not described["is_native"]:
            shown = type(str(described["name"]), (native,), {})  # as for `isinstance`, and not the type itself
        methods["__class__"] = property(lambda self: (self._ratchet_end.looked_at(), shown)[1])
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
        return mark_made(value) if exists else value

    return method


def answered(remote: Remote, name: str) -> Callable[..., Any]:
    return lambda _, *args: remote._ratchet_end.answer(remote, name, args)
