"""Standard input as lines of tokens, and small changes that keep its layout. Careful, bold: see `input_generation`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from ratchet.data_curation.input_domains import MOST_EDITS, RULES, Number


@dataclass(frozen=True)
class Text:
    """Standard input as lines of tokens."""

    lines: tuple[tuple[str, ...], ...]

    @classmethod
    def read(cls, text: str) -> Text:
        return cls(tuple(tuple(tokens_of(line)) for line in text.rstrip("\n").split("\n")))

    def written(self) -> str:
        return "\n".join(" ".join(line) for line in self.lines) + "\n"

    def free(self) -> list[tuple[int, int]]:
        """Places of tokens that count nothing of what follows: lines, tokens of a line, letters of a word."""
        return [
            (row, column)
            for row, line in enumerate(self.lines)
            for column, token in enumerate(line)
            if not (is_number(token) and int(token) in self._counts(row, int(token)))
        ]

    def _counts(self, row: int, number: int) -> set[int]:
        """What a number in this line may stand for, if it counts. Two numbers may share the lines that follow."""
        line, after = self.lines[row], self.lines[row + 1 :]
        words = {len(token) for later in after for token in later if not is_number(token)}
        shared = {len(after) - int(token) for token in line if is_number(token)}
        return {len(after), *map(len, after)} | words | (shared if number != len(after) - number else set())


@dataclass(frozen=True)
class Layouts:
    """All texts laid out like an example: numbers and words change within what their line, or their place in other
    examples, has."""

    samples: list[Text]
    bold: bool
    constants: Sequence[int]

    def varied(self, rng: Random, value: Text) -> Text | None:
        """The text with one to three changes, or None when they break a rule."""
        for _ in range(rng.randint(1, MOST_EDITS)):
            value = self._edited(rng, value)
        return value if self._holds(value) else None

    def _edited(self, rng: Random, value: Text) -> Text:
        places = value.free()
        if not places:
            return value
        row, column = rng.choice(places)
        line = list(value.lines[row])
        near = [token for number, token in enumerate(line) if (row, number) in places]
        if len(near) > 1 and rng.random() < 0.3:
            other = rng.choice([number for number in range(len(line)) if (row, number) in places])
            line[column], line[other] = line[other], line[column]
        elif is_number(line[column]):
            numbers = [int(token) for token in self._alike(value, row, column, near) if is_number(token)]
            line[column] = str(Number.of(numbers, self.bold, self.constants).edited(rng, int(line[column])))
        else:
            letters = sorted(set("".join(token for token in near if not is_number(token))))
            word, place = line[column], rng.randrange(len(line[column]))
            line[column] = word[:place] + rng.choice(letters) + word[place + 1 :]
        return replace(value, lines=(*value.lines[:row], tuple(line), *value.lines[row + 1 :]))

    def _alike(self, value: Text, row: int, column: int, near: list[str]) -> list[str]:
        if len(near) > 2:
            return near
        same = [s.lines for s in self.samples if [*map(len, s.lines)] == [*map(len, value.lines)]] or [value.lines]
        return [lines[row][column] for lines in same]

    def _holds(self, value: Text) -> bool:
        """What is sorted or distinct in every line of this layout stays so."""
        for sample in self.samples:
            if [*map(len, sample.lines)] == [*map(len, value.lines)]:
                for old, new in zip(sample.lines, value.lines, strict=True):
                    if len(old) > 2 and any(rule(_read(old)) and not rule(_read(new)) for rule in RULES):
                        return False
        return True


def tokens_of(text: str) -> list[str]:
    return re.findall(r"\S+", text)


def is_number(token: str) -> bool:
    return token.removeprefix("-").isascii() and token.removeprefix("-").isdigit() and len(token) < 19


def _read(line: Sequence[str]) -> list[Any]:
    return [int(token) if is_number(token) else token for token in line]
