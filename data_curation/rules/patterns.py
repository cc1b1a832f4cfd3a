"""Patterns of several alternatives, which rules look for in statements."""

import re
import re._constants as sre  # pyright: ignore[reportMissingImports]  # private: what a pattern needs has no other reader
import re._parser as sre_parser  # pyright: ignore[reportMissingImports]
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any


def any_of(*alternatives: str, flags: re.RegexFlag = re.IGNORECASE) -> re.Pattern[str]:
    """One pattern of several alternatives."""
    return re.compile("|".join(alternatives), flags)


class AnyOf:
    """The pattern of several alternatives, fast on texts that most of them do not match.

    An alternative is tried only on texts with the words that each of its matches has. The match is that of `any_of`.
    """

    def __init__(self, *alternatives: str, flags: re.RegexFlag = re.IGNORECASE) -> None:
        self._whole = any_of(*alternatives, flags=flags)
        self._each = [(re.compile(each, flags), literals(each, flags)) for each in alternatives]

    def search(self, text: str) -> re.Match[str] | None:
        lowered, first = _lowered(text), None
        for pattern, needed in self._each:
            if all(any(literal in lowered for literal in some) for some in needed):
                match = pattern.search(text)
                first = match if match and (first is None or match.start() < first.start()) else first
        return first

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        return self._whole.finditer(text) if self.search(text) else iter(())


def literals(pattern: str, flags: re.RegexFlag) -> list[list[str]]:
    """Sets of strings: a text that the pattern matches has, in lower case, one string of each set. The two sets of the
    longest strings are enough."""
    sets = _literals(sre_parser.parse(pattern, flags))
    return [sorted(some) for some in sorted(sets, key=lambda some: -min(map(len, some)))[:2]]


def _literals(parsed: Iterable[tuple[Any, Any]]) -> list[set[str]]:
    sets, run = [], ""
    for code, value in parsed:
        if code is sre.LITERAL:
            run += chr(value).lower()
            continue
        sets, run = [*sets, {run}], ""
        if code is sre.SUBPATTERN or (code in (sre.MAX_REPEAT, sre.MIN_REPEAT) and value[0] >= 1):
            sets += _literals(value[-1])
        elif code is sre.BRANCH:
            branches = [
                max(_literals(branch), key=lambda some: min(map(len, some)), default={""}) for branch in value[1]
            ]
            sets.append(set().union(*branches))
    return [some for some in [*sets, {run}] if "" not in some]


@lru_cache(maxsize=4)
def _lowered(text: str) -> str:
    return text.lower()
