"""State of a journal in a tracker, and a run that each mirror sends from its beginning until it is whole."""

import json
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from ratchet.data_curation.base.files import is_locked, write_atomically
from ratchet.data_curation.base.journal import read_lines

KILLED_AFTER_S = 10
TABLE_ROWS, READ_FIRST = 200, ("step", "outcome", "reward", "response", "prompt")


class Unusable(Exception):
    """Nothing can be sent to this tracker; the message says why, and what to do."""


class Mirrored(ABC):
    """One journal in one tracker."""

    path: Path
    complete: bool
    problem: str
    """Why it is incomplete, for people."""

    @property
    def place(self) -> Any:
        """Position up to which events have arrived, where a failed `replay` keeps what it sent before."""
        return None

    @abstractmethod
    def replay(self) -> int:
        """Send new events; returns how many. Raises the error of the tracker's client."""

    @abstractmethod
    def save(self) -> None: ...

    def reason(self, error: Exception) -> str:
        """The failure in one line, with the remedy if there is one."""
        return next(iter(str(error).splitlines()), type(error).__name__)[:200]


def state_file(journal: Path, tracker: str) -> Path:
    return journal.with_suffix(".state.json" if tracker == "mlflow" else f".{tracker}.json")


def state_in(file: Path) -> dict[str, Any]:
    """Read a mirror's state; empty for a missing or damaged file: sending everything again changes nothing."""
    try:
        state = json.loads(file.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def abandoned(journal: Path, offset: int) -> bool:
    """True if the writer is gone. It locks its journal before its first event: an empty one may be new."""
    begun = offset > 0 or time.time() - journal.stat().st_mtime > KILLED_AFTER_S
    return begun and not is_locked(journal)


class WholeRun(Mirrored):
    """A mirror for trackers whose client keeps what it was given in files of its own: nothing but the end is worth a
    position, and a mirror that was killed leaves nothing that the next one does not send again."""

    tracker: str

    def __init__(self, path: Path) -> None:
        self.path = path
        self._state = state_file(path, self.tracker)
        state = state_in(self._state)
        self.complete: bool = state.get("complete", False)
        self.problem: str = state.get("problem", "")
        self.begin()

    def begin(self) -> None:
        """Nothing has been sent."""
        self.offset, self._status = 0, "KILLED"

    def save(self) -> None:
        write_atomically(self._state, json.dumps({"complete": self.complete, "problem": self.problem}))

    def replay(self) -> int:
        try:
            return self._replay()
        except Exception:
            self.begin()
            raise

    def _replay(self) -> int:
        sent, closed = 0, False
        for end, event in read_lines(self.path, self.offset):
            if event["event"] == "end" and event["run"] == self.path.stem:
                self._status = event["status"]
            closed = event["event"] == "close"
            self.send(event)
            self.offset, sent = end, sent + 1
        if closed or (not sent and abandoned(self.path, self.offset)):
            self.finish(self._status)
            self.complete = True
        if self.complete or (sent and self.problem):
            self.problem = ""
            self.save()
        return sent

    @abstractmethod
    def send(self, event: dict[str, Any]) -> None: ...

    @abstractmethod
    def finish(self, status: str) -> None:
        """Everything was sent: return once the tracker has it."""


def last_rows(path: Path) -> list[dict[str, Any]]:
    """The newest of a stage's rollouts, what is read first before the rest; none where the file has moved since."""
    rows = [row for _, row in read_lines(path)][-TABLE_ROWS:] if path.is_file() else []
    return [{**{name: row[name] for name in READ_FIRST if name in row}, **row} for row in rows]
