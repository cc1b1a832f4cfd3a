"""Python values as JSON and back, exactly: types, keys, cycles, and which containers are the same one.

Only data is encoded: decoding runs no code of the text's author. `Wire.reference` and `Wire.dereference`, which
`objects` overrides, are for everything else: functions, objects of the program's classes.

Immutable values are written in place. A mutable value has a number, under which both ends of a connection hold one
object each as long as both use it. A message has the content of mutable values that are new or have changed since the
last one, in either direction, so that a change is seen where the object is, as in one process.
"""

import enum
import json
import math
import sys
from collections import Counter, deque
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from ratchet.verifiers.sandbox.data_types import (
    CONTENT,
    IMMUTABLE,
    KINDS,
    LATER,
    MADE,
    MAKERS,
    NAMED,
    NAMES,
    PLAIN,
    RAW,
    SEQUENCES,
    Encoded,
    is_array,
    is_numpy_data,
    later_name,
    load,
    make_array,
    named_tuple,
    nested,
    state,
)

PRELUDE, CHECK = "prelude", "check"
"""Values of `__module__` for classes that a prelude or a check defines."""

_OF_OBJECTS = {*dir(object), "__dict__", "__weakref__"}
NotData = TypeError
Graph = dict[str, Any]
Body = list[Any]
"""The kind of an object, and its content as JSON."""


class Wire:
    """An encoder and decoder of values for one end of a connection; one of the two ends is `first`."""

    sends_errors = False
    """True if exceptions of built-in types are data here."""

    def __init__(self, first: bool = True) -> None:
        self._objects: dict[int, Any] = {}  # by number
        self._numbers: dict[int, int] = {}  # by identity
        self._synced: dict[int, Body] = {}
        self._next = 0 if first else 1

    def class_of(self, name: str) -> type | None:
        """The prelude's class whose instances are sent by attributes under this name."""
        return None

    def reference(self, value: Any) -> Any:
        """JSON for a value that is not data. Raises NotData."""
        raise NotData(f"{type(value).__name__} is not data")

    def dereference(self, reference: Any) -> Any:
        """The value of the other end's `reference`. Raises ValueError."""
        raise ValueError("no references here")

    def array(self, array: Any) -> Any:
        """The array that stands here for one that the other end has sent."""
        return array

    def encode(self, value: Any, reached: set[int] | None = None) -> Graph:
        """Encode a value; `reached` gets the numbers of all objects that it refers to. Raises NotData and
        RecursionError; then nothing counts as sent."""
        fresh: dict[int, Any] = {}
        numbers, known, begin = self._numbers, [*self._objects], self._next
        order: list[int] = []
        seen: set[int] = set()

        def numbered(value: Any) -> Any:
            number = numbers.get(id(value))
            if number is None:
                number, self._next = self._next, self._next + 2
                numbers[id(value)], fresh[number] = number, value
            if number not in seen:
                seen.add(number)
                order.append(number)
            return {"object": number}

        def data(value: Any) -> Any:
            kind = type(value)
            if kind in PLAIN:
                return value
            if kind is float:
                return value if math.isfinite(value) else {"float": repr(value)}
            if kind in CONTENT:
                return numbered(value)
            if kind in SEQUENCES.values():
                return {kind.__name__: [data(item) for item in value]}
            if kind in MADE:
                name, _, arguments = MADE[kind]
                return {"made": [name, [data(argument) for argument in arguments(value)]]}
            if id(value) in NAMES:
                return {"named": NAMES[id(value)]}
            if self.sends_errors and issubclass(kind, BaseException) and id(kind) in NAMES:
                return {"error": [NAMES[id(kind)], [data(argument) for argument in value.args]]}
            if (later := later_name(kind)) is not None:
                return {"later": [later, [data(argument) for argument in LATER[later][2](value)]]}
            if is_array(value):
                return numbered(value)
            if kind.__module__ == "numpy" and is_numpy_data(value):
                return {"scalar": [value.dtype.str, data(value.tolist())]}
            if issubclass(kind, enum.Enum) and (member := self._member(value)):
                return {"member": member}
            if issubclass(kind, tuple) and (fields := getattr(kind, "_fields", None)):
                return {"namedtuple": [kind.__name__, list(fields), [data(item) for item in RAW[tuple](value)]]}
            if self.class_of(kind.__name__) is not None and not issubclass(kind, enum.Enum):
                return numbered(value)
            reference = self.reference(value)
            base = next((base for base in IMMUTABLE if issubclass(kind, base)), None)
            return {"like": [data(RAW[base](value)), reference]} if base else {"reference": reference}

        bodies: dict[int, Body] = {}
        try:
            root = data(value)
            # `order` grows while contents are read: a chain of a million nodes needs no recursion.
            for number in order:
                bodies[number] = self._content(self._objects.get(number, fresh.get(number)), data)
            if reached is not None:
                reached |= seen
            order = [number for number in known if number not in seen]
            seen.update(order)
            for number in order:
                bodies[number] = self._content(self._objects.get(number, fresh.get(number)), data)
        except BaseException:
            for item in fresh.values():
                del numbers[id(item)]
            self._next = begin
            raise
        self._objects |= fresh
        changed = [[number, *body] for number, body in bodies.items() if self._synced.get(number) != body]
        self._synced |= bodies
        return {"value": root, "objects": changed}

    def _content(self, item: Any, data: Encoded) -> Body:
        kind = type(item)
        if kind in CONTENT:
            name, content = CONTENT[kind]
            return [name, content(item, data)]
        if kind.__module__ == "array":
            return ["array", [item.typecode, [data(each) for each in item.tolist()]]]
        if is_array(item):
            return ["numpy", [item.dtype.str, [*item.shape], nested(item.tolist(), data)]]
        return [f"of {kind.__name__}", {name: data(of) for name, of in state(item).items()}]

    def _member(self, value: enum.Enum) -> list[str] | None:
        """Module, class and name of a member of a class that both ends have."""
        kind = type(value)
        module = sys.modules.get(kind.__module__) if kind.__module__ in sys.stdlib_module_names else None
        known = self.class_of(kind.__name__) if module is None else getattr(module, kind.__name__, None)
        name = value.name
        return [kind.__module__, kind.__name__, name] if known is kind and name in kind.__members__ else None

    def decode(self, graph: Graph) -> Any:
        """Decode a message; `forget` has the numbers of objects that the other end no longer uses. Raises ValueError,
        TypeError, KeyError, IndexError, AttributeError, ArithmeticError, RecursionError or MemoryError for anything
        that `encode` did not write."""

        def value(data: Any) -> Any:
            if isinstance(data, list):
                return [value(item) for item in data]
            if isinstance(data, float):
                return data
            if not isinstance(data, dict):
                return data
            ((kind, body),) = data.items()
            match kind:
                case "object":
                    return self._objects[body]
                case "float":
                    return float(body)
                case "tuple" | "frozenset":
                    return SEQUENCES[kind](map(value, body))
                case "made":
                    made = MAKERS[body[0]](*map(value, body[1]))
                    if MADE.get(type(made), ("",))[0] != body[0]:
                        raise ValueError(f"it is no {body[0]}")
                    return made
                case "named":
                    return NAMED[body]
                case "error":
                    kind = NAMED[body[0]]
                    if not (isinstance(kind, type) and issubclass(kind, BaseException)):
                        raise ValueError(f"{body[0]} is no exception")
                    return kind(*map(value, body[1]))
                case "later":
                    return load(body[0], [*map(value, body[1])])
                case "scalar":
                    return make_array(body[0], [], value(body[1]))[()]
                case "member":
                    return self._enumerated(*body)
                case "namedtuple":
                    return named_tuple(body[0], tuple(body[1]))(*map(value, body[2]))
                case "reference":
                    return self.dereference(body)
                case "like":
                    return self.alike(value(body[0]), body[1])
            raise ValueError(f"no kind of value {kind!r}")

        fresh = [entry for entry in graph["objects"] if entry[0] not in self._objects]
        for number, kind, body in fresh:
            if not isinstance(number, int):
                raise ValueError("no number")
            self._objects[number] = item = self._empty(kind, body, value)
            self._numbers[id(item)] = number
        # What a container refers to is filled before it: a key's hash may depend on it.
        for number, kind, body in reversed(graph["objects"]):
            self._fill(self._objects[number], kind, body, value)
            self._synced[number] = [kind, body]
        root = value(graph["value"])
        self.drop(graph.get("forget", ()))
        return root

    def _empty(self, kind: str, body: Any, value: Encoded) -> Any:
        if kind == "array":
            import array

            return array.array(body[0])
        if kind == "numpy":
            return self.array(make_array(body[0], body[1], value(body[2])))
        if kind.startswith("of "):
            cls = self.class_of(kind[3:])
            if cls is None:
                raise ValueError(f"no class {kind[3:]!r} here")
            return object.__new__(cls)
        if kind == "deque":
            return deque(maxlen=body[0])
        return KINDS[kind]()

    def _fill(self, item: Any, kind: str, body: Any, value: Encoded) -> None:
        """Give an object the content of the other end's."""
        if type(item) is not KINDS.get(kind, type(item)):
            raise ValueError(f"it is no {kind}")
        match kind:
            case "list":
                item[:] = map(value, body)
            case "bytearray":
                item[:] = body.encode("latin-1")
            case "array":
                item[:] = type(item)(item.typecode, [value(each) for each in body[1]])
            case "dict" | "Counter" | "OrderedDict":
                item.clear()
                dict.update(item, [(value(key), value(of)) for key, of in body])
            case "defaultdict":
                item.clear()
                item.default_factory = value(body[0])
                dict.update(item, [(value(key), value(of)) for key, of in body[1]])
            case "set":
                item.clear()
                item.update(map(value, body))
            case "deque":
                item.clear()
                item.extend(map(value, body[1]))
            case "UserList" | "UserDict":
                item.data = value(body)
            case "ChainMap":
                item.maps = value(body)
            case "SimpleNamespace":
                vars(item).clear()
                vars(item).update((value(key), value(of)) for key, of in body)
            case "numpy":
                if item.size:
                    item[...] = make_array(body[0], body[1], value(body[2]))
            case _:
                if self.class_of(kind.removeprefix("of ")) is not type(item):
                    raise ValueError(f"it is no {kind}")
                if not _OF_OBJECTS.isdisjoint(body):
                    raise ValueError("it would have another class")
                new = {name: value(data) for name, data in body.items()}
                getattr(item, "__dict__", {}).clear()
                for name, of in new.items():
                    object.__setattr__(item, name, of)

    def _enumerated(self, module: str, kind: str, name: str) -> Any:
        home = sys.modules.get(module) if module in sys.stdlib_module_names else None
        cls = self.class_of(kind) if home is None else getattr(home, kind, None)
        if not (isinstance(cls, type) and issubclass(cls, enum.Enum)):
            raise ValueError(f"no class {kind!r} here")
        return cls[name]

    def alike(self, value: Any, reference: Any) -> Any:
        """An instance of the other end's class that derives from a built-in type: by default the plain value."""
        return value

    def drop(self, numbers: Iterable[int]) -> None:
        """Stop sharing these objects."""
        for number in numbers:
            if number in self._objects:
                del self._numbers[id(self._objects.pop(number))]
                self._synced.pop(number, None)

    def prune(self) -> list[int]:
        """Drop the objects that nothing at this end refers to anymore, and return their numbers."""
        if not self._objects:
            return []
        inner: Counter[int] = Counter()
        held: dict[int, list[int]] = {}
        for number in [*self._objects]:
            held[number] = [
                n for each in _parts(self._objects[number]) if (n := self._numbers.get(id(each))) is not None
            ]
            inner.update(held[number])
        alive = {number for number in held if _references(self._objects, number) > _UNUSED + inner[number]}
        found = [*alive]
        for number in found:
            more = [one for one in held[number] if one not in alive]
            alive |= {*more}
            found += more
        gone = [number for number in held if number not in alive]
        self.drop(gone)
        return gone


def _references(objects: dict[Any, Any], key: Any) -> int:
    item = objects[key]
    return sys.getrefcount(item)


_UNUSED = _references({0: []}, 0)


def _parts(item: Any) -> Iterable[Any]:
    """The objects that one refers to directly, apart from immutable values."""
    if isinstance(item, dict):
        return [*dict.values(item), *dict.keys(item)]
    if isinstance(item, list | set | deque):
        return item
    return state(item).values() if hasattr(item, "__dict__") or hasattr(item, "__slots__") else ()


def plain_text(value: Any) -> str | None:
    """The JSON text of a value if the value can be restored from it; otherwise None. A numpy number counts as the equal
    number."""
    try:
        text = ENCODER.encode(value)
        return text if json.loads(text) == value else None
    except Exception:  # the program's value may do anything
        return None


def with_numbers(value: Any) -> list[Any]:
    """A value of lists, dictionaries and numbers for JSON, each part in a list that begins with its kind. Raises
    TypeError."""
    if isinstance(value, list | tuple):
        return ["list", [with_numbers(item) for item in value]]
    if isinstance(value, dict):
        return ["dict", [[str(key), with_numbers(item)] for key, item in value.items()]]
    if isinstance(value, complex):
        return ["complex", repr(value.real), repr(value.imag)]
    if isinstance(value, Decimal):
        return ["Decimal", str(value)]
    if isinstance(value, Fraction):
        return ["Fraction", value.numerator, value.denominator]
    return ["plain", value]


def _scalar(value: Any) -> Any:
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return value.item()
    raise NotData


ENCODER = json.JSONEncoder(default=_scalar)
