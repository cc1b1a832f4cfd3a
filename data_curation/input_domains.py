"""What the examples of an input say about all inputs: types, ranges, lengths, alphabets, order; and small changes that
keep to it. See `input_generation` for careful and bold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import isfinite
from random import Random
from typing import Any

MOST_EDITS = 3
MOST_DIGITS = 6


class _Domain(ABC):
    """The values that some place of an input may have, as far as the samples seen there say."""

    samples: Sequence[Any]

    @abstractmethod
    def edited(self, rng: Random, value: Any) -> Any:
        """Another value, made by a small change; it may break a rule."""

    def drawn(self, rng: Random) -> Any:
        """A value made from nothing in particular; it may break a rule."""
        return self.edited(rng, rng.choice(self.samples))

    @abstractmethod
    def holds(self, value: Any) -> bool:
        """Whether the value keeps to the rules."""


class Space:
    """All inputs like the examples."""

    def __init__(self, examples: list[list[Any]], bold: bool, constants: Sequence[int]) -> None:
        self.domains = [_learn(list(values), bold, constants) for values in zip(*examples, strict=True)]
        self.is_bold = bold
        self.orders = [] if bold else _all_orders(examples)
        self.contained = [] if bold else _contained(examples)

    def varied(self, rng: Random, values: list[Any]) -> list[Any] | None:
        """The input with one to three changes, or, a bold one, an input drawn anew; None when it breaks a rule."""
        values = list(values)
        for _ in range(rng.randint(1, MOST_EDITS)):
            place = rng.randrange(len(values))
            values[place] = self.domains[place].edited(rng, values[place])
        if self.is_bold and rng.random() < 0.5:
            values = [domain.drawn(rng) for domain in self.domains]
        if not all(domain.holds(value) for domain, value in zip(self.domains, values, strict=True)):
            return None
        keeps = _keeps(self.orders, values) and all(values[one] in values[other] for one, other in self.contained)
        return values if keeps else None


def _orders(values: Sequence[Any]) -> list[int]:
    """The order of every two numbers that describe an input: -1, 0 or 1 each. The numbers are those among the
    arguments, their lengths, and the extremes of lists of numbers."""
    numbers: list[float] = []
    for value in values:
        if isinstance(value, int | float):
            numbers.append(value)
        elif isinstance(value, str | list):
            numbers.append(len(value))
            flat = [item for part in value for item in (part if isinstance(part, list) else [part])]
            if isinstance(value, list):
                numbers.append(len(value[0]) if value and isinstance(value[0], str | list) else -1)
                counted = [item for item in flat if isinstance(item, int | float)]
                numbers += [min(counted), max(counted)] if counted else [0, 0]
    return [(one > other) - (one < other) for one, other in combinations(numbers, 2)]


def _all_orders(examples: Sequence[Sequence[Any]]) -> list[set[int]]:
    """The orders seen of each two numbers; none when examples have different numbers to compare."""
    found = [_orders(values) for values in examples]
    return [set(signs) for signs in zip(*found, strict=True)] if len(set(map(len, found))) == 1 else []


def _keeps(orders: list[set[int]], values: Sequence[Any]) -> bool:
    mine = _orders(values) if orders else []
    return len(mine) == len(orders) and all(map(set.__contains__, orders, mine))


def _contained(examples: Sequence[list[Any]]) -> list[tuple[int, int]]:
    """Which arguments are in which others: a word in a list of words, a letter in a word."""

    def is_in(item: Any, whole: Any) -> bool:
        return item in whole if isinstance(whole, list | str) and isinstance(item, str | type(whole)) else False

    places = range(len(examples[0]))
    return [
        (one, other)
        for one in places
        for other in places
        if one != other and all(is_in(values[one], values[other]) for values in examples)
    ]


def _learn(samples: list[Any], bold: bool, constants: Sequence[int], nested: bool = False) -> _Domain:
    kinds = {type(sample) for sample in samples}
    if kinds == {int}:
        return Number.of(samples, bold, constants)
    if kinds and kinds <= {int, float} and all(map(isfinite, samples)):
        digits = max(len(str(x).partition(".")[2]) for x in samples)
        return Number.of(samples, bold, (), digits=min(max(digits, 1), MOST_DIGITS))
    if kinds == {str}:
        return _String(samples, bold)
    if kinds == {list} and any(samples):
        lengths = {len(sample) for sample in samples}
        if nested and len(samples) > 2 and lengths in ({2}, {3}):
            return _Row([_learn(list(column), bold, constants, True) for column in zip(*samples, strict=True)], samples)
        return _List(samples, bold, constants)
    return _Choice([True, False] if bold and kinds == {bool} else samples)


@dataclass(frozen=True)
class _Choice(_Domain):
    """Anything else: one of the samples."""

    samples: list[Any]

    def edited(self, rng: Random, value: Any) -> Any:
        return rng.choice(self.samples)

    def holds(self, value: Any) -> bool:
        return any(type(value) is type(sample) and value == sample for sample in self.samples)


@dataclass(frozen=True)
class Number(_Domain):
    low: float
    high: float
    samples: list[float]
    digits: int = 0
    """After the point; none for integers."""

    @classmethod
    def of(cls, samples: list[Any], bold: bool, constants: Sequence[int], digits: int = 0) -> Number:
        low, high = min(samples), max(samples)
        if bold:
            high = max(2 * high, high + 3, *(constant + 1 for constant in constants if abs(constant) < 1000), 0)
            low = min(low, 1) if low > 0 else 0 if low == 0 else min(2 * low, low - 3, -high)
            samples = [*samples, *(c + step for c in constants for step in (-1, 0, 1) if low <= c + step <= high)]
        return cls(low, high, samples, digits)

    def edited(self, rng: Random, value: Any) -> Any:
        step = 10**-self.digits
        if self.digits:
            anywhere = self.low + step * rng.randint(0, round((self.high - self.low) / step))
        else:
            anywhere = rng.randint(int(self.low), int(self.high))
        ways = (value + step, value - step, rng.choice(self.samples), self.low, self.high, anywhere)
        found = min(max(rng.choice(ways), self.low), self.high)
        return round(found, self.digits) if self.digits else found

    def holds(self, value: Any) -> bool:
        return self.low <= value <= self.high


class _Sequence(_Domain):
    """What strings and lists have in common: lengths, and rules of order."""

    def __init__(self, samples: Sequence[Sequence[Any]], bold: bool) -> None:
        lengths = [len(sample) for sample in samples]
        self.samples = samples
        self.shortest, self.longest = min(lengths), max(lengths)
        if bold:
            self.shortest, self.longest = min(self.shortest, 1), max(2 * self.longest, 8)
        # A short list is sorted by chance; what is only likely binds a careful input, not a bold one.
        telling = [sample for sample in samples if len(sample) > 1]
        if sum(len(sample) - 1 for sample in telling) < (5 if bold else 1):
            telling = []
        self.rules = [rule for rule in RULES if telling and all(map(rule, telling))]
        self.turns = max(map(_turns, samples)) if telling and not bold else self.longest

    def holds(self, value: Any) -> bool:
        fits = self.shortest <= len(value) <= self.longest and _turns(value) <= self.turns
        return fits and all(rule(value) for rule in self.rules)

    def some_length(self, rng: Random) -> int:
        return rng.randint(self.shortest, min(self.longest, self.shortest + 12))

    def settled(self, items: list[Any]) -> list[Any]:
        """The items in the order, and without the repeats, that the rules want."""
        if _is_distinct in self.rules:
            items = list({repr(item): item for item in items}.values())
        if _is_ascending in self.rules or _is_descending in self.rules:
            with suppress(TypeError):
                items = sorted(items, reverse=_is_descending in self.rules)
        return items

    def moved(self, rng: Random, items: list[Any]) -> list[Any]:
        """The items with one left out, repeated, exchanged with another, or a run of them left out or taken from a
        sample."""
        if not items:
            return list(rng.choice(self.samples))
        one, other = sorted((rng.randrange(len(items)), rng.randrange(len(items))))
        match rng.randrange(7):
            case 0:
                return items[:one] + items[one + 1 :]
            case 1:
                return [*items[: other + 1], items[one], *items[other + 1 :]]
            case 2:
                items[one], items[other] = items[other], items[one]
            case 3:
                items[other] = items[one]
            case 4:
                return items[one : other + 1]
            case 5:
                return items[:one] + items[one : other + 1][::-1] + items[other + 1 :]
            case 6:
                return [*items[:one], *list(rng.choice(self.samples))[one:]]
        return items


class _String(_Sequence):
    def __init__(self, samples: list[str], bold: bool) -> None:
        super().__init__(samples, bold)
        self.alphabet = sorted(set("".join(samples)))
        # Signs are syntax: without them a text is no more what it was.
        self.is_free = bold or all(sample.isalnum() for sample in samples if sample)
        self.from_zero = any(sample.startswith("0") for sample in samples) or "0" not in self.alphabet

    def edited(self, rng: Random, value: str) -> str:
        if not (self.is_free and self.alphabet):
            return rng.choice(self.samples)
        items = list(value)
        if items and rng.random() < 0.5:
            items[rng.randrange(len(items))] = rng.choice(self.alphabet)
        else:
            items = self.moved(rng, items)
        return "".join(self.settled(items))

    def drawn(self, rng: Random) -> str:
        return "".join(self.settled([rng.choice(self.alphabet or " ") for _ in range(self.some_length(rng))]))

    def holds(self, value: str) -> bool:
        if not self.is_free:
            return value in self.samples
        return super().holds(value) and (self.from_zero or not value.startswith("0"))


class _List(_Sequence):
    def __init__(self, samples: list[list[Any]], bold: bool, constants: Sequence[int]) -> None:
        super().__init__(samples, bold)
        items = [item for sample in samples for item in sample]
        self.is_even = bool(items) and all(isinstance(item, list) for item in items)
        self.is_even = self.is_even and all(len(set(map(len, sample))) <= 1 for sample in samples)
        self.has_gaps = any(item is None for item in items)  # a tree, by levels: what is moved is another tree
        self.item = _learn([item for item in items if item is not None], bold, constants, nested=True)

    def edited(self, rng: Random, value: list[Any]) -> list[Any]:
        items = list(value)
        filled = [number for number, item in enumerate(items) if item is not None]
        if filled and (self.has_gaps or rng.random() < 0.5):
            place = rng.choice(filled)
            items[place] = self.item.edited(rng, items[place])
        elif not self.has_gaps:
            items = self.moved(rng, items)
            if items and rng.random() < 0.3:
                place = rng.randrange(len(items))
                items[place] = self.item.edited(rng, items[place])
        return items if self.has_gaps else self.settled(items)

    def drawn(self, rng: Random) -> list[Any]:
        if self.has_gaps or self.is_even:
            return super().drawn(rng)
        return self.settled([self.item.drawn(rng) for _ in range(self.some_length(rng))])

    def holds(self, value: list[Any]) -> bool:
        if self.is_even and len(set(map(len, value))) > 1:
            return False
        return super().holds(value) and all(self.item.holds(item) for item in value if item is not None)


class _Row(_Domain):
    """A list with a fixed number of places, each with a meaning: an interval, an edge, a query."""

    def __init__(self, places: list[_Domain], samples: list[list[Any]]) -> None:
        self.places, self.samples = places, samples
        self.orders = _all_orders(samples)

    def edited(self, rng: Random, value: list[Any]) -> list[Any]:
        place = rng.randrange(len(value))
        return [*value[:place], self.places[place].edited(rng, value[place]), *value[place + 1 :]]

    def drawn(self, rng: Random) -> list[Any]:
        return [place.drawn(rng) for place in self.places]

    def holds(self, value: list[Any]) -> bool:
        fits = len(value) == len(self.places) and all(
            place.holds(item) for place, item in zip(self.places, value, strict=True)
        )
        return fits and _keeps(self.orders, value)


def _is_ascending(items: Sequence[Any]) -> bool:
    return _in_order(items, lambda one, other: one <= other)


def _is_descending(items: Sequence[Any]) -> bool:
    return _in_order(items, lambda one, other: one >= other)


def _in_order(items: Sequence[Any], before: Any) -> bool:
    try:
        return all(before(one, other) for one, other in pairwise(items))
    except TypeError:
        return False


def _turns(items: Sequence[Any]) -> int:
    """How often a list of numbers changes from rising to falling or back: few turns have a meaning, as in a sorted list
    that was rotated."""
    if not all(type(item) in (int, float) for item in items):
        return 0
    rises = [one < other for one, other in pairwise(items) if one != other]
    return sum(one != other for one, other in pairwise(rises))


def _is_distinct(items: Sequence[Any]) -> bool:
    return len(set(map(repr, items))) == len(items)


def _has_distinct_parts(items: Sequence[Any]) -> bool:
    """No number twice in a matrix; vacuous for other lists."""
    return not _has_parts(items) or _is_distinct([item for part in items for item in part])


def _has_distinct_sets(items: Sequence[Any]) -> bool:
    """No edge twice, in whichever direction; vacuous for other lists."""
    return not _has_parts(items) or _is_distinct([sorted(map(repr, part)) for part in items])


def _has_ascending_columns(items: Sequence[Any]) -> bool:
    return not _has_parts(items) or all(map(_is_ascending, zip(*items, strict=False)))


def _has_descending_columns(items: Sequence[Any]) -> bool:
    return not _has_parts(items) or all(map(_is_descending, zip(*items, strict=False)))


def _has_parts(items: Sequence[Any]) -> bool:
    return isinstance(items, list) and all(isinstance(item, list) for item in items)


RULES = (
    _is_ascending, _is_descending, _is_distinct, _has_distinct_parts, _has_distinct_sets, _has_ascending_columns,
    _has_descending_columns,
)  # fmt: skip
