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

from ratchet.verifiers.sandbox.data_types import IMMUTABLE, state
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
from ratchet.verifiers.sandbox.values import CHECK, PRELUDE, Graph, NotData

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
_CHANGING = {"__next__", "__setitem__", "__delitem__", "__enter__", "__exit__", "__call__"}
"""Special methods after which an object may answer differently, and those whose answer is never the same."""
_ALTERING = {"set", "delete", "await"}
_ENDS_LOOPS = (StopIteration, StopAsyncIteration, GeneratorExit)
STATEMENT = "_ratchet_statement"
"""The name of `CheckEnd.statement` in a check."""
SHOWN = 300


class Unreadable(BaseException):
    """The program's process wrote something invalid. Not an Exception, so that it passes through a check's own
    `except`."""


class Impossible(BaseException):
    """The check does something that cannot be done here: a fault of the check, not of the program."""


class _OfProgram(Exception):
    """A value of the program that is not data."""


class _Given:
    """What the program got for calls whose value the check uses: the numbers of data, and objects of classes that the
    check defines with what they referred to; in a run apart the copies of these, for the last call."""

    def __init__(self, outer: "_Given | None" = None, copies: dict[int, Any] | None = None) -> None:
        self.numbers: set[int] = set()
        self.held: dict[int, tuple[Any, list[Any]]] = {}
        self.outer, self.copies = outer, copies

    def has(self, number: int) -> bool:
        return number in self.numbers or (self.outer is not None and self.outer.has(number))

    def add(self, other: "_Given") -> None:
        self.numbers |= other.numbers
        self.held = other.held | self.held if other.held else self.held
        self.copies = other.copies

    def is_changed(self) -> bool:
        """True if one of the objects now refers to others."""
        return any([*map(id, _parts_of(item) or ())] != [*map(id, parts)] for item, parts in self.held.values())


class CheckEnd(Peer):
    """The check's end of the connection. Threads of a check use it one after the other.

    With `is_apart` the check does not see what a call whose value it uses changes: the program works on copies."""

    sends_errors = True

    def __init__(
        self, channel: Any, names: Mapping[str, Any], note_use: Callable[[bool], object], is_apart: bool = False,
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
        self._given: _Given | None = None  # in a statement
        self._lock = threading.RLock()
        self._known: dict[int, Any] = {}
        self._kinds: dict[int, type] = {}
        self._lent: list[Any] = []
        self._lent_numbers: dict[Any, int] = {}
        self._lent_kinds: dict[type, int] = {}
        self._answers: dict[tuple[int, str, str], Any] = {}

    def begin(self) -> None:
        self.raised, self.asked, self.shown = None, False, ""
        self._given = _Given()

    @property
    def has_changed(self) -> bool:
        """True if the program has changed what it got for a call whose value the check used."""
        return self.changed or (self._given is not None and self._given.is_changed())

    def candidate(self) -> "Remote":
        """The program's function. What its process answers is its own fault, though the check has not asked yet."""
        self.note_use(True)
        reply = self._ask("candidate", (None,), False)
        value = self._read(lambda: self.decode(reply))
        if not isinstance(value, Remote) or not callable(value):
            self.broken = Unreadable("the program is no function")
            raise self.broken
        self.note_use(False)
        return value

    def do(self, what: str, *arguments: Any) -> Any:
        """Make the program's end do something. Raises the program's exception."""
        with self._lock:
            if what in _ALTERING:
                self._answers.clear()
            reply = self._ask(what, arguments)
            return self._read(lambda: self.decode(reply))

    def looked_at(self) -> None:
        """Note that the check has asked about the program."""
        if not self.asked:
            self.asked = True
            self.note_use(True)

    def named(self, name: str, value: Any) -> Any:
        return _made(value) if name in self.classes and _is_class(value) else value

    def attribute(self, remote: "Remote", name: str) -> Any:
        """An attribute, which is held as an answer is."""
        with self._lock:
            key = (remote._ratchet_number, "get", name)
            if key not in self._answers or remote._ratchet_made or hasattr(type(remote), "__next__"):
                self._answers[key] = self.do("get", remote, name)
            value = self._answers[key]
        if remote._ratchet_made and _is_class(remote) and _is_class(value):
            _made(value)  # a class in a class
        return value

    def statement(self, function: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(function, Remote):
            self.call(function, args, kwargs, "do")
        else:
            function(*args, **kwargs)

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], what: str = "call") -> Any:
        with self._lock:
            self._answers.clear()
            before, outer, is_used = self.changed, self._given, False
            copies = {id(each): each for each in self._known.values()} if self.is_apart else None
            given = self._given = _Given(outer, copies) if what == "call" else None
            try:
                reply = self._ask(what, (function, args, tuple(kwargs.items())), reached=given and given.numbers)
                is_used = given is not None and reply.get("value") is not None
                if not is_used:
                    self._given = None
                elif self.is_apart:
                    self.drop([*self._objects])
                value = self._read(lambda: self.decode(reply))
            except _ENDS_LOOPS as error:
                # In map, filter and zip it would end the check's own loop, as if everything had been compared.
                self.raised = RuntimeError(f"the program raised {describe(error)}")
                raise self.raised from None
            finally:
                self._given = outer
                if not is_used:
                    self.changed = before
                elif outer is not None and given is not None:
                    outer.add(given)
            self.shown = object.__repr__(value) if isinstance(value, Remote) else repr(value)[:SHOWN]
        return value

    def decode(self, graph: Graph) -> Any:
        """Decode a message, and note what it changes of all that was given for used calls: a call's reply, a question
        during it, or an answer later, as from a generator."""
        given, entries = self._given, graph["objects"]
        if given is not None and any(given.has(entry[0]) for entry in entries):
            entries = [entry for entry in entries if not (given.has(entry[0]) and self._is_known(*entry))]
            if touched := [entry[0] for entry in entries if given.has(entry[0])]:
                self.changed = True
                self.drop(touched if self.is_apart else ())  # copies from now on
            graph |= {"objects": entries}
        return super().decode(graph)

    def _is_known(self, number: int, *body: Any) -> bool:
        """True if a body that the program sends says what it was sent: it only writes references in another way."""
        return _plain(self._synced.get(number), True) == _plain(list(body), False)

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
        self, what: str, arguments: tuple[Any, ...], asks: bool = True, reached: set[int] | None = None
    ) -> dict[str, Any]:
        if asks:
            self.looked_at()
        graph = self._encoded(arguments, reached)
        if self.is_apart and what == "call":
            graph["apart"] = True
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
        except (RecursionError, _OfProgram) as error:  # no check nests so deep
            self.broken = Unreadable(describe(error))
            raise self.broken from None
        except NotData as error:
            self.broken = Impossible(f"it passes the program something that is not data: {error}")
            raise self.broken from None

    def _read(self, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except Exception as error:  # the program's own bytes, in which anything may be wrong
            self.broken = Unreadable(describe(error))
            raise self.broken from None

    def reply(self, message: dict[str, Any]) -> dict[str, Any]:
        """Answer the program's use of an object of the check that it received."""
        what, arguments = message["ask"], self._read(lambda: self.decode(message))
        given = self._given
        try:
            value = self._used(what, *arguments)
            if what != "callback" or _is_of_check(self._lent[arguments[0]]):
                self._given = None  # the value is a part of what it has got, or its own
            return self.encode(value, self._given and self._given.numbers)
        except Exception as error:
            name = next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins")
            return {"raised": {"value": {"named": name}, "objects": []}, "message": str(error)}
        finally:
            self._given = given

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
        if kind is NATIVE["coroutine"] and value.cr_code is CheckEnd._awaited.__code__:
            raise _OfProgram("it returned a coroutine, which the check passes on")
        is_function = callable(value) and kind.__module__ != CHECK
        if not (is_function or kind.__module__ == CHECK or hasattr(kind, "__next__")):
            raise NotData(f"{kind.__name__} is not data")
        if not is_function or _is_of_check(value):
            value = self._handed(value)
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

    def _handed(self, value: Any) -> Any:
        """An object of a class of the check, or a method of one, as the program gets it: in a run apart as a copy."""
        given = self._given
        if given is not None and given.copies is not None:
            try:
                value = copy.deepcopy(value, given.copies)
            except (TypeError, ValueError, AttributeError):  # it holds what cannot be copied
                return value
            given.copies |= {id(each): each for key, each in given.copies.items() if key != id(given.copies)}
        elif given is not None:
            found = [getattr(value, "__self__", value)]
            for item in found:
                if id(item) not in given.held and (parts := _parts_of(item)) is not None:
                    given.held[id(item)] = item, parts
                    found += parts
        return value

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
        return self._awaited(instance) if instance._ratchet_native is NATIVE["coroutine"] else instance

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


def _parts_of(item: Any) -> list[Any] | None:
    """What a container, or an object of a class of the check or its prelude, refers to; None for any other value."""
    kind = type(item)  # a proxy's `__class__` is not
    if issubclass(kind, dict):
        return [*dict.values(item), *dict.keys(item)]
    if issubclass(kind, list | tuple | set | frozenset | deque):
        return [*item]
    return [*state(item).values()] if kind.__module__ in (CHECK, PRELUDE) else None


def _is_of_check(function: Any) -> bool:
    """True for a class that the check defines, and for a method of its instances."""
    kind = function if isinstance(function, type) else type(getattr(function, "__self__", None))
    return kind.__module__ == CHECK


def _plain(data: Any, is_ours: bool) -> Any:
    """A body with each reference as the owner and the number of what it refers to."""
    match data:
        case {"like": [value, reference]}:
            return ["like", _plain(value, is_ours), _plain({"reference": reference}, is_ours)]
        case {"reference": dict(own)}:
            return ["check's", own.get("own")]
        case {"reference": [number, *_]}:
            return ["check's" if is_ours else "program's", number]
        case {"reference": number}:
            return ["program's", number]
        case dict():
            return {key: _plain(item, is_ours) for key, item in data.items()}
        case list():
            return [_plain(item, is_ours) for item in data]
    return data


def _is_class(value: Any) -> bool:
    return isinstance(value, Remote) and value._ratchet_native is type


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
        return _made(value) if exists else value

    return method


def _answered(remote: Remote, name: str) -> Callable[..., Any]:
    return lambda _, *args: remote._ratchet_end.answer(remote, name, args)
