"""Python values as JSON text and back, exactly: tuples, sets, keys of any type, and instances of the classes that a
problem's prelude defines (list nodes, tree nodes), with whatever they share or go round in.

Data only: reading runs no code of whoever wrote the text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

PRELUDE = "prelude"
"""The module that classes of a prelude say they are of."""

_PLAIN = (type(None), bool, int, float, str)
_CONTAINERS = (tuple, set, frozenset)


def encode(value: Any, names: Mapping[str, Any], objects: list[Any] | None = None) -> str:
    """`names` holds the prelude's classes; `objects` their instances that the reader has too, in its order, and is
    given those it has not. Raises TypeError for what is no data, such as a function; an iterable of another kind
    becomes a list."""
    objects = [] if objects is None else objects
    numbers = {id(item): number for number, item in enumerate(objects)}

    def data(value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is list:
            return [data(item) for item in value]
        for base in _CONTAINERS:
            if isinstance(value, base):
                return {base.__name__: [data(item) for item in value]}
        if isinstance(value, dict):
            return {"dict": [[data(key), data(item)] for key, item in value.items()]}
        if isinstance(value, bytes | bytearray):
            return {"bytes": value.decode("latin-1")}
        if isinstance(value, complex):
            return {"complex": [value.real, value.imag]}
        if kind.__module__ == "numpy":
            return data(value.tolist())
        for base in (int, float, str):
            if isinstance(value, base):
                return base(value)
        if _of_prelude(names.get(kind.__name__)):
            if id(value) not in numbers:
                numbers[id(value)] = len(objects)
                objects.append(value)
            return {"object": numbers[id(value)]}
        if isinstance(value, Iterable):
            return [data(item) for item in value]
        raise TypeError(f"{kind.__name__} is not data")

    root = data(value)
    # `objects` grows while their attributes are read: a chain of a million nodes needs no recursion.
    attributes = [[type(item).__name__, {name: data(of) for name, of in vars(item).items()}] for item in objects]
    return json.dumps({"value": root, "objects": attributes})


def decode(text: str, names: Mapping[str, Any], objects: list[Any] | None = None) -> Any:
    """What `encode` wrote; `objects`, as given there, become what the text says they are. Raises ValueError, TypeError,
    KeyError, IndexError, AttributeError or RecursionError for anything else."""
    graph = json.loads(text)
    objects = [] if objects is None else objects
    for name, _ in graph["objects"][len(objects) :]:
        if not _of_prelude(names.get(name)):
            raise ValueError(f"no class {name!r} in the prelude")
        objects.append(object.__new__(names[name]))

    def value(data: Any) -> Any:
        if isinstance(data, list):
            return [value(item) for item in data]
        if not isinstance(data, dict):
            return data
        ((kind, body),) = data.items()
        match kind:
            case "tuple":
                return tuple(map(value, body))
            case "set" | "frozenset":
                return (set if kind == "set" else frozenset)(map(value, body))
            case "dict":
                return {value(key): value(item) for key, item in body}
            case "bytes":
                return body.encode("latin-1")
            case "complex":
                return complex(*body)
            case "object":
                return objects[body]
        raise ValueError(f"no kind of value {kind!r}")

    for item, (_, attributes) in zip(objects, graph["objects"], strict=True):
        present = {name: value(data) for name, data in attributes.items()}
        vars(item).clear()
        vars(item).update(present)
    return value(graph["value"])


def _of_prelude(candidate: Any) -> bool:
    return isinstance(candidate, type) and candidate.__module__ == PRELUDE
