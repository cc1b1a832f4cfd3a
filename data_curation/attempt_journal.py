"""The journal of teacher answers: what is paid for is never lost, and never paid for twice.

Texts stay in the file; memory holds their places.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from ratchet.infra.errors import RatchetError
from ratchet.infra.journal import Journal, read_lines


class AttemptJournal(Journal):
    """The answers under `wanted` keys, and the place where new ones are written. A context manager.

    One process writes at a time; a second one that opens the file waits for the first to end. Raises RatchetError for
    a line in the middle that is no answer.
    """

    def __init__(self, path: Path, wanted: Collection[str], durable: bool) -> None:
        super().__init__(path, durable, alone=True)
        self._places: dict[str, int] = {}
        self.facts: dict[str, dict[str, Any]] = {}
        """What is known of each wanted answer but its text."""
        for place, key, facts in read_answers(path):
            if key in wanted:
                self._places[key], self.facts[key] = place, facts

    def add(self, key: str, response: str, **facts: Any) -> None:
        self._places[key] = self.append({"key": key, **facts, "response": response})
        self.facts[key] = facts

    def response(self, key: str) -> str:
        return self.record_at(self._places[key])["response"]


def read_answers(path: Path) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """(place, key, facts) of each answer in the file. Takes no lock and changes nothing."""
    place = 0
    for number, (end, facts) in enumerate(read_lines(path), start=1):
        if not {"key", "response"} <= facts.keys():
            raise RatchetError(f"{path}, line {number}: not an answer. Remove that line and run again.")
        facts.pop("response")
        yield place, facts.pop("key"), facts
        place = end
