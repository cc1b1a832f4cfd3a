"""What a program has got for calls whose value the check uses, and whether it has changed it."""

from collections import deque
from typing import Any

from ratchet.verifiers.sandbox.data_types import state
from ratchet.verifiers.sandbox.values import CHECK, PRELUDE


class Given:
    """What the program got for calls whose value the check uses: the numbers of data, and objects of classes that the
    check defines with what they referred to; in a run apart the copies of these, for the last call."""

    def __init__(self, outer: "Given | None" = None, copies: dict[int, Any] | None = None) -> None:
        self.numbers: set[int] = set()
        self.held: dict[int, tuple[Any, list[Any]]] = {}
        self.outer, self.copies = outer, copies

    def has(self, number: int) -> bool:
        return number in self.numbers or (self.outer is not None and self.outer.has(number))

    def add(self, other: "Given") -> None:
        self.numbers |= other.numbers
        self.held = other.held | self.held if other.held else self.held
        self.copies = other.copies

    def is_changed(self) -> bool:
        """True if one of the objects now refers to others."""
        return any([*map(id, parts_of(item) or ())] != [*map(id, parts)] for item, parts in self.held.values())


def parts_of(item: Any) -> list[Any] | None:
    """What a container, or an object of a class of the check or its prelude, refers to; None for any other value."""
    kind = type(item)  # a proxy's `__class__` is not
    if issubclass(kind, dict):
        return [*dict.values(item), *dict.keys(item)]
    if issubclass(kind, list | tuple | set | frozenset | deque):
        return [*item]
    return [*state(item).values()] if kind.__module__ in (CHECK, PRELUDE) else None


def plain(data: Any, is_ours: bool) -> Any:
    """A body with each reference as the owner and the number of what it refers to."""
    match data:
        case {"like": [value, reference]}:
            return ["like", plain(value, is_ours), plain({"reference": reference}, is_ours)]
        case {"reference": dict(own)}:
            return ["check's", own.get("own")]
        case {"reference": [number, *_]}:
            return ["check's" if is_ours else "program's", number]
        case {"reference": number}:
            return ["program's", number]
        case dict():
            return {key: plain(item, is_ours) for key, item in data.items()}
        case list():
            return [plain(item, is_ours) for item in data]
    return data
