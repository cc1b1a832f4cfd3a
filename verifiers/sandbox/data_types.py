"""Python's types of data: the encoding of each, and how it is made again.

These are types of the standard library, numpy and pandas. Only names and constructors listed here are used, whatever a
text says.
"""

import builtins
import datetime
import functools
import re
import time
import types
import uuid
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, UserString, defaultdict, deque, namedtuple
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

PLAIN = frozenset((type(None), bool, int, str))
SEQUENCES = {"tuple": tuple, "frozenset": frozenset}
RAW: dict[type, Callable[[Any], Any]] = {
    int: int.__int__, float: float.__float__, complex: complex.__pos__, str: str.__str__,
    bytes: lambda v: bytes.__getitem__(v, slice(None)), tuple: lambda v: tuple.__getitem__(v, slice(None)),
    frozenset: frozenset.copy, list: lambda v: list.__getitem__(v, slice(None)), dict: lambda v: dict(dict.items(v)),
    set: set.copy,
}  # fmt: skip
"""The built-in value of an instance of a derived class, whatever that class answers."""
IMMUTABLE = (int, float, complex, str, bytes, tuple, frozenset)
NAMED = {name: value for name, value in vars(builtins).items() if isinstance(value, type) and name[0] != "_"}
NAMED |= {"NotImplemented": NotImplemented, "Ellipsis": Ellipsis, "NoneType": type(None)}
NAMES = {id(value): name for name, value in NAMED.items()}

_Made = tuple[str, Callable[..., Any], Callable[[Any], tuple[Any, ...]]]
MADE: dict[type, _Made] = {
    bytes: ("bytes", lambda text: str.encode(text, "latin-1"), lambda v: (v.decode("latin-1"),)),
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
    time.struct_time: ("struct_time", time.struct_time, lambda v: (tuple(v),)),
    type({}.keys()): ("keys", dict.keys, lambda v: (dict.fromkeys(v),)),
    type({}.items()): ("items", dict.items, lambda v: (dict(v),)),
    type({}.values()): ("values", dict.values, lambda v: (dict(enumerate(v)),)),
    types.MappingProxyType: ("mappingproxy", types.MappingProxyType, lambda v: (dict(v),)),
    memoryview: (
        "memoryview", lambda raw, kind: memoryview(raw).cast("B").cast(kind), lambda v: (v.tobytes(), v.format)
    ),
    UserString: ("UserString", UserString, lambda v: (v.data,)),
    uuid.UUID: ("UUID", lambda number: uuid.UUID(int=number), lambda v: (v.int,)),
    re.Pattern: ("Pattern", re.compile, lambda v: (v.pattern, v.flags)),
}  # fmt: skip
"""Immutable values: name, constructor, and its arguments, by class."""
LATER: dict[str, tuple[str, str, Callable[[Any], tuple[Any, ...]]]] = {
    **{f"pathlib.{name}": ("pathlib", name, lambda v: (str(v),))
       for name in ("PosixPath", "PurePosixPath", "PureWindowsPath")},
    **{f"ipaddress.{name}": ("ipaddress", name, lambda v: (str(v),))
       for name in ("IPv4Address", "IPv6Address", "IPv4Network", "IPv6Network", "IPv4Interface", "IPv6Interface")},
    "zoneinfo.ZoneInfo": ("zoneinfo", "ZoneInfo", lambda v: (v.key,)),
    "Timestamp": ("pandas", "Timestamp", lambda v: (v.isoformat(),)),
    "Timedelta": ("pandas", "Timedelta", lambda v: (v.isoformat(),)),
    "Index": ("pandas", "Index", lambda v: (v.tolist(), str(v.dtype), False, v.name)),
    "RangeIndex": ("pandas", "RangeIndex", lambda v: (v.start, v.stop, v.step, None, False, v.name)),
    "Series": ("pandas", "Series", lambda v: (v.tolist(), v.index, str(v.dtype), v.name)),
    "DataFrame": ("pandas", "DataFrame", lambda v: (dict(enumerate(v.iloc[:, n] for n in range(v.shape[1]))), v.index)),
}  # fmt: skip
"""Immutable values by name, for classes of modules that are loaded when they are needed: module, class, arguments."""
_PANDAS = ("Timestamp", "Timedelta", "Index", "RangeIndex", "Series", "DataFrame")
_NUMPY_KINDS = "biufcUS"
named_tuple = functools.cache(namedtuple)
MAKERS = {name: make for name, make, _ in MADE.values()}

Encoded = Callable[[Any], Any]
CONTENT: dict[type, tuple[str, Callable[[Any, Encoded], Any]]] = {
    list: ("list", lambda v, data: v[:] if PLAIN.issuperset(map(type, v)) else [data(item) for item in v]),
    dict: ("dict", lambda v, data: _pairs(v, data)),
    set: ("set", lambda v, data: [data(item) for item in v]),
    bytearray: ("bytearray", lambda v, data: v.decode("latin-1")),
    deque: ("deque", lambda v, data: [v.maxlen, [data(item) for item in v]]),
    Counter: ("Counter", lambda v, data: _pairs(v, data)),
    OrderedDict: ("OrderedDict", lambda v, data: _pairs(v, data)),
    defaultdict: ("defaultdict", lambda v, data: [data(v.default_factory), _pairs(v, data)]),
    UserList: ("UserList", lambda v, data: data(v.data)),
    UserDict: ("UserDict", lambda v, data: data(v.data)),
    ChainMap: ("ChainMap", lambda v, data: data(v.maps)),
    types.SimpleNamespace: ("SimpleNamespace", lambda v, data: _pairs(vars(v), data)),
}  # fmt: skip
"""Mutable values: the name of the kind and the content, by class; `array` and numpy's are below."""
KINDS = {name: kind for kind, (name, _) in CONTENT.items()}


def state(item: Any) -> dict[str, Any]:
    """The attributes of an instance, including slots."""
    declared = [getattr(kind, "__slots__", ()) for kind in type(item).__mro__]
    slots = [name for names in declared for name in ([names] if isinstance(names, str) else names)]
    held = {name: getattr(item, name) for name in slots if hasattr(item, name) and name[:2] != "__"}
    return held | getattr(item, "__dict__", {})


def _pairs(mapping: Any, data: Encoded) -> list[Any]:
    return [[data(key), data(item)] for key, item in mapping.items()]


def later_name(kind: type) -> str | None:
    """The name in `LATER` of a class; None if it is not listed."""
    if kind.__module__.partition(".")[0] == "pandas":
        return kind.__name__ if kind.__name__ in _PANDAS else None
    name = f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
    return name if name in LATER else None


def load(name: str, arguments: list[Any]) -> Any:
    """Make a value of a class in `LATER` from its arguments."""
    import importlib

    module, cls, _ = LATER[name]
    kind = getattr(importlib.import_module(module), cls)
    if cls == "DataFrame":
        frame = kind(arguments[0], index=arguments[1])
        frame.columns = [column.name for column in arguments[0].values()]
        return frame
    return kind(*arguments)


def is_array(value: Any) -> bool:
    """True for an array of `array`, or numpy's of numbers or text."""
    kind = type(value)
    if kind.__name__ == "array" and kind.__module__ == "array":
        return True
    if kind.__name__ == "ndarray" and kind.__module__ == "numpy":
        return is_numpy_data(value)
    return kind.__name__ == "EmptyArray" and kind.__module__ == "ratchet.verifiers.sandbox.vacuous"


def is_numpy_data(value: Any) -> bool:
    kind = getattr(value, "dtype", None)
    return kind is not None and kind.kind in _NUMPY_KINDS


def nested(items: Any, data: Encoded) -> Any:
    return [nested(item, data) for item in items] if isinstance(items, list) else data(items)


def make_array(kind: str, shape: list[int], items: Any) -> Any:
    import numpy as np

    if np.dtype(kind).kind not in _NUMPY_KINDS:
        raise ValueError(f"no data of type {kind!r}")
    return np.array(items, dtype=kind).reshape(shape)
