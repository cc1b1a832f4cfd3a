"""Patterns that rules look for in statements, each with an example that it finds and one that it leaves
(`patterns.yaml`)."""

import re
import re._constants as sre  # pyright: ignore[reportMissingImports]  # private: what a pattern needs has no other reader
import re._parser as sre_parser  # pyright: ignore[reportMissingImports]
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from ratchet.verifiers.yaml_files import load_yaml


class AnyOf:
    """One pattern of several alternatives, ignoring case, fast on texts that most of them do not match.

    An alternative is tried only on texts with the strings that each of its matches has, and, where these are known,
    only where the strings are with which one begins. The match is that of `whole`.
    """

    def __init__(self, *alternatives: str) -> None:
        self._alternatives = alternatives

    @cached_property
    def _each(self) -> list[tuple[re.Pattern[str], list[list[str]], set[str]]]:
        """Pattern, needed strings and openings of each alternative, at the first search: most commands need few."""
        return [
            (re.compile(each, re.IGNORECASE), literals(each), _openings(_parsed(each))) for each in self._alternatives
        ]

    @cached_property
    def whole(self) -> re.Pattern[str]:
        return re.compile("|".join(self._alternatives), re.IGNORECASE)

    def search(self, text: str) -> re.Match[str] | None:
        lowered, first = _lowered(text), None
        for pattern, needed, openings in self._each:
            for some in needed:  # plain loops: a generator for each of a hundred alternatives costs more than the look
                for literal in some:
                    if literal in lowered:
                        break
                else:
                    break
            else:
                if openings and len(lowered) == len(text):
                    match = _at_one_of(pattern, text, lowered, openings)
                else:
                    match = pattern.search(text)
                first = match if match and (first is None or match.start() < first.start()) else first
        return first

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        first = self.search(text)
        return self.whole.finditer(text, first.start()) if first else iter(())

    def blanked(self, text: str) -> str:
        """The text with blanks in place of all matches, so that the rest keeps its position."""
        return self.whole.sub(lambda match: " " * len(match[0]), text) if self.search(text) else text


def _at_one_of(pattern: re.Pattern[str], text: str, lowered: str, openings: set[str]) -> re.Match[str] | None:
    """The first match that begins with one of these strings, which are in lower case."""
    places = []
    for opening in openings:
        at = lowered.find(opening)
        while at >= 0:
            places.append(at)
            at = lowered.find(opening, at + 1)
    return next(filter(None, (pattern.match(text, at) for at in sorted(places))), None)


def literals(pattern: str) -> list[list[str]]:
    """Sets of strings: a text that the pattern matches has, in lower case, one string of each set. The two sets of the
    longest strings are enough."""
    sets = _literals(_parsed(pattern))
    return [sorted(some) for some in sorted(sets, key=lambda some: -min(map(len, some)))[:2]]


def _parsed(pattern: str) -> Iterable[tuple[Any, Any]]:
    return sre_parser.parse(pattern, re.IGNORECASE)


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


def _openings(parsed: Iterable[tuple[Any, Any]]) -> set[str]:
    """The strings, in lower case, one of which begins each match; empty if that is not known."""
    start = ""
    for code, value in parsed:
        if code is sre.LITERAL:
            start += chr(value).lower()
        elif start or code not in (sre.AT, sre.ASSERT_NOT, sre.SUBPATTERN, sre.BRANCH):
            break
        elif code is sre.SUBPATTERN:
            return _openings(value[-1])
        elif code is sre.BRANCH:
            branches = [_openings(branch) for branch in value[1]]
            return set().union(*branches) if all(branches) else set()
    return {start} if len(start) > 1 else set()


@lru_cache(maxsize=4)
def _lowered(text: str) -> str:
    return text.lower()


def read_patterns() -> dict[str, dict[str, dict[str, str]]]:
    """The name, pattern and examples of each alternative, by the sign that it belongs to; fragments are filled in."""
    table = load_yaml(Path(__file__).with_name("patterns.yaml"))
    fragments = table.pop("fragments")
    for sign in table.values():
        for alternative in sign.values():
            while "(?&" in alternative["find"]:
                alternative["find"] = re.sub(r"\(\?&(\w+)\)", lambda name: fragments[name[1]], alternative["find"])
    return table


PATTERNS = {sign: AnyOf(*(each["find"] for each in some.values())) for sign, some in read_patterns().items()}


def find(sign: str, text: str) -> re.Match[str] | None:
    """The first match in a text of a pattern of `sign`, a key of `patterns.yaml`."""
    return PATTERNS[sign].search(text)
