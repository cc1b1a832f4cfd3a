"""The check's end of its connection to the program.

To the check everything from the program is only data. What a check expects never leaves this process, unless the check
itself passes it to the program.
"""

import copy
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from ratchet.verifiers.sandbox.argument_changes import Given, parts_of, plain
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
from ratchet.verifiers.sandbox.proxies import Remote, Replayed, answered, class_for, is_class, mark_made
from ratchet.verifiers.sandbox.vacuous import NUMBER, Guard
from ratchet.verifiers.sandbox.values import CHECK, Graph, NotData

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
        self._given: Given | None = None  # in a statement
        self._lock = threading.RLock()
        self._known: dict[int, Any] = {}
        self._kinds: dict[int, type] = {}
        self._lent: list[Any] = []
        self._lent_numbers: dict[Any, int] = {}
        self._lent_kinds: dict[type, int] = {}
        self._answers: dict[tuple[int, str, str], Any] = {}

    def begin(self) -> None:
        self.raised, self.asked, self.shown = None, False, ""
        self._given = Given()

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
        return mark_made(value) if name in self.classes and is_class(value) else value

    def attribute(self, remote: "Remote", name: str) -> Any:
        """An attribute, which is held as an answer is."""
        with self._lock:
            key = (remote._ratchet_number, "get", name)
            if key not in self._answers or remote._ratchet_made or hasattr(type(remote), "__next__"):
                self._answers[key] = self.do("get", remote, name)
            value = self._answers[key]
        if remote._ratchet_made and is_class(remote) and is_class(value):
            mark_made(value)  # a class in a class
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
            given = self._given = Given(outer, copies) if what == "call" else None
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
        return plain(self._synced.get(number), True) == plain(list(body), False)

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
                self._answers[key] = Replayed(value) if name == "__iter__" else value
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
                if id(item) not in given.held and (parts := parts_of(item)) is not None:
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
            self._kinds[kind] = class_for(described)
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
                attributes[name] = answered(remote, name)
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


def _is_of_check(function: Any) -> bool:
    """True for a class that the check defines, and for a method of its instances."""
    kind = function if isinstance(function, type) else type(getattr(function, "__self__", None))
    return kind.__module__ == CHECK
