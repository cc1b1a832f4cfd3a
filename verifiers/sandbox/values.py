"""Python values as JSON and back, exactly: types, keys, shared objects, cycles.

Data only: decoding runs no code of the text's author. `Wire.reference` and `Wire.dereference`, which `objects`
overrides, are for everything else: functions, objects of the program's classes.
"""

import builtins
import datetime
import functools
import json
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

PRELUDE, CHECK = "prelude", "check"
"""`__module__` of classes that a prelude or a check defines."""

NotData = TypeError
Graph = dict[str, Any]

_PLAIN = frozenset((type(None), bool, int, float, str))
_SEQUENCES = {"tuple": tuple, "set": set, "frozenset": frozenset}
_IMMUTABLE = (int, float, complex, str, bytes, tuple, frozenset)
_NAMED = {name: value for name, value in vars(builtins).items() if isinstance(value, type) and name[0] != "_"}
_NAMED |= {"NotImplemented": NotImplemented, "Ellipsis": Ellipsis, "NoneType": type(None)}
_NAMES = {id(value): name for name, value in _NAMED.items()}

# Name, constructor, and its arguments, by class.
_MADE: dict[type, tuple[str, Callable[..., Any], Callable[[Any], tuple[Any, ...]]]] = {
    bytes: ("bytes", lambda text: text.encode("latin-1"), lambda v: (v.decode("latin-1"),)),
    bytearray: ("bytearray", lambda text: bytearray(text, "latin-1"), lambda v: (v.decode("latin-1"),)),
    complex: ("complex", complex, lambda v: (v.real, v.imag)),
    range: ("range", range, lambda v: (v.start, v.stop, v.step)),
    slice: ("slice", slice, lambda v: (v.start, v.stop, v.step)),
    Fraction: ("Fraction", Fraction, lambda v: (v.numerator, v.denominator)),
    Decimal: ("Decimal", Decimal, lambda v: (str(v),)),
    datetime.timedelta: ("timedelta", datetime.timedelta, lambda v: (v.days, v.seconds, v.microseconds)),
    datetime.timezone: ("timezone", datetime.timezone, lambda v: (v.utcoffset(None),)),
    datetime.date: ("date", datetime.date, lambda v: (v.year, v.month, v.day)),
    datetime.time: ("time", datetime.time, lambda v: (v.hour, v.minute, v.second, v.microsecond, v.tzinfo)),
    datetime.datetime: (
        "datetime", datetime.datetime,
        lambda v: (v.year, v.month, v.day, v.hour, v.minute, v.second, v.microsecond, v.tzinfo),
    ),
    deque: ("deque", deque, lambda v: (list(v), v.maxlen)),
    Counter: ("Counter", Counter, lambda v: (dict(v),)),
    OrderedDict: ("OrderedDict", OrderedDict, lambda v: (dict(v),)),
    defaultdict: ("defaultdict", lambda items: defaultdict(None, items), lambda v: (dict(v),)),
    type({}.keys()): ("keys", lambda items: items.keys(), lambda v: (dict.fromkeys(v),)),
    type({}.items()): ("items", lambda items: items.items(), lambda v: (dict(v),)),
}  # fmt: skip
_NUMPY_KINDS = "biufcUS"
_named_tuple = functools.cache(namedtuple)
_MAKERS = {name: make for name, make, _ in _MADE.values()}


class Wire:
    """Encodes and decodes values for one end of a connection."""

    def class_of(self, name: str) -> type | None:
        """The class, of the prelude or of the check, whose instances are sent by attributes under this name."""
        return None

    def shares(self, kind: type) -> bool:
        """Whether instances of this class are sent by their attributes."""
        return self.class_of(kind.__name__) is not None

    def new_class(self, name: str) -> type:
        """A class for instances of one that only the other end has. Raises ValueError."""
        raise ValueError(f"no class {name!r} here")

    def reference(self, value: Any) -> Any:
        """JSON for a value that is not data. Raises NotData."""
        raise NotData(f"{type(value).__name__} is not data")

    def dereference(self, reference: Any) -> Any:
        """The value of the other end's `reference`. Raises ValueError."""
        raise ValueError("no references here")

    def encode(self, value: Any, objects: list[Any] | None = None) -> Graph:
        """`objects` are instances that the reader has too, in the same order; new ones are appended."""
        objects = [] if objects is None else objects
        numbers = {id(item): number for number, item in enumerate(objects)}

        def data(value: Any) -> Any:
            kind = type(value)
            if kind in _PLAIN:
                return value
            if kind is list:
                return [data(item) for item in value]
            if kind is dict:
                return {"dict": [[data(key), data(item)] for key, item in value.items()]}
            if kind in _SEQUENCES.values():
                return {kind.__name__: [data(item) for item in value]}
            if kind in _MADE:
                name, _, arguments = _MADE[kind]
                return {"made": [name, [data(argument) for argument in arguments(value)]]}
            if id(value) in _NAMES:
                return {"named": _NAMES[id(value)]}
            if kind.__module__ == "numpy" and (array := _numpy(value)):
                return {"numpy": [*array, data(value.tolist())]}
            if issubclass(kind, tuple) and (fields := getattr(kind, "_fields", None)):
                return {"namedtuple": [kind.__name__, list(fields), [data(item) for item in value]]}
            if self.shares(kind):
                if id(value) not in numbers:
                    numbers[id(value)] = len(objects)
                    objects.append(value)
                return {"object": numbers[id(value)]}
            reference = self.reference(value)
            base = next((base for base in _IMMUTABLE if issubclass(kind, base)), None)
            return {"like": [data(base(value)), reference]} if base else {"reference": reference}

        root = data(value)
        # `objects` grows while their attributes are read: a chain of a million nodes needs no recursion.
        attributes = [[type(item).__name__, {name: data(of) for name, of in state(item).items()}] for item in objects]
        return {"value": root, "objects": attributes}

    def decode(self, graph: Graph, objects: list[Any] | None = None) -> Any:
        """The reverse of `encode`; `objects`, as given there, are updated. Raises ValueError, TypeError, KeyError,
        IndexError, AttributeError, ArithmeticError or RecursionError for anything else."""
        objects = [] if objects is None else objects
        for name, _ in graph["objects"][len(objects) :]:
            objects.append(object.__new__(self.class_of(name) or self.new_class(name)))

        def value(data: Any) -> Any:
            if isinstance(data, list):
                return [value(item) for item in data]
            if not isinstance(data, dict):
                return data
            ((kind, body),) = data.items()
            match kind:
                case "tuple" | "set" | "frozenset":
                    return _SEQUENCES[kind](map(value, body))
                case "dict":
                    return {value(key): value(item) for key, item in body}
                case "made":
                    return _MAKERS[body[0]](*map(value, body[1]))
                case "named":
                    return _NAMED[body]
                case "numpy":
                    import numpy as np

                    kind, shape, items = body
                    if np.dtype(kind).kind not in _NUMPY_KINDS:
                        raise ValueError(f"no data of type {kind!r}")
                    return np.array(value(items), dtype=kind).reshape(shape)[() if not shape else ...]
                case "namedtuple":
                    return _named_tuple(body[0], tuple(body[1]))(*map(value, body[2]))
                case "object":
                    return objects[body]
                case "reference":
                    return self.dereference(body)
                case "like":
                    return self.alike(value(body[0]), body[1])
            raise ValueError(f"no kind of value {kind!r}")

        for item, (_, attributes) in zip(objects, graph["objects"], strict=True):
            new = {name: value(data) for name, data in attributes.items()}
            getattr(item, "__dict__", {}).clear()
            for name, of in new.items():
                object.__setattr__(item, name, of)
        return value(graph["value"])

    def alike(self, value: Any, reference: Any) -> Any:
        """An instance of the other end's class that derives from a built-in type: by default the plain value."""
        return value


def state(item: Any) -> dict[str, Any]:
    """The attributes of an instance, including slots."""
    declared = [getattr(kind, "__slots__", ()) for kind in type(item).__mro__]
    slots = [name for names in declared for name in ([names] if isinstance(names, str) else names)]
    held = {name: getattr(item, name) for name in slots if hasattr(item, name) and name[:2] != "__"}
    return held | getattr(item, "__dict__", {})


def _numpy(value: Any) -> tuple[str, list[int]] | None:
    """The type and the shape of an array or a scalar of numbers or text."""
    kind = getattr(value, "dtype", None)
    return (kind.str, list(value.shape)) if kind is not None and kind.kind in _NUMPY_KINDS else None


def plain_text(value: Any) -> str | None:
    """The JSON text of a value if it can be restored from it; else None. A numpy number counts as the equal number."""
    try:
        text = ENCODER.encode(value)
        return text if json.loads(text) == value else None
    except Exception:  # the program's value may do anything
        return None


def _scalar(value: Any) -> Any:
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return value.item()
    raise NotData


ENCODER = json.JSONEncoder(default=_scalar)
