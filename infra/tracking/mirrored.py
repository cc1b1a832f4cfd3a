"""One journal in one tracker, as the mirror process sees it, and the state that it keeps beside the journal."""

import hashlib
import json
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from ratchet.data_curation.base.files import is_locked, write_atomically
from ratchet.data_curation.base.journal import read_lines
from ratchet.infra.settings import own_mlflow

FILES_FOLDER = "mlflow-files"
"""The folder of a home with the files of its own MLflow."""
KILLED_AFTER_S = 10
TABLE_ROWS, READ_FIRST = 200, ("step", "outcome", "reward", "response", "prompt")


class Unusable(Exception):
    """Nothing can be sent to this tracker; the message gives the reason and the remedy."""


class Mirrored(ABC):
    """One journal in one tracker."""

    kept: tuple[str, ...] = ("complete", "problem")
    """Attributes that are kept in the state beside the journal."""

    def __init__(self, path: Path, tracker: str, address: str) -> None:
        self.path, self.tracker = path, tracker
        self._state_file = state_file(path, tracker, address)
        self.state = state_in(self._state_file)
        """The state that an earlier mirror left."""
        self.complete: bool = self.state.get("complete", False)
        self.problem: str = self.state.get("problem", "")
        """The reason why the tracker lacks a part of the journal, for people."""

    @property
    def place(self) -> Any:
        """The position up to which events have arrived; a failed `replay` keeps what it sent before."""
        return None

    @abstractmethod
    def replay(self) -> int:
        """Send new events; returns their number. Raises the error of the tracker's client."""

    def save(self) -> None:
        state = {name: getattr(self, name) for name in self.kept}
        write_atomically(self._state_file, json.dumps(state))

    def reason(self, error: Exception) -> str:
        """The failure in one line, with the remedy if there is one."""
        return next(iter(str(error).splitlines()), type(error).__name__)[:200]


def state_file(journal: Path, tracker: str, address: str) -> Path:
    """The file with a tracker's state of a journal, beside the journal; each address of MLflow has its own, except that
    the home's database, which moves with the home, has the same everywhere."""
    if tracker != "mlflow":
        return journal.with_suffix(f".{tracker}.json")
    is_own = address == own_mlflow(journal.parents[1])
    place = "" if is_own else f".{hashlib.sha256(address.encode()).hexdigest()[:8]}"
    return journal.with_suffix(f"{place}.state.json")


def state_in(file: Path) -> dict[str, Any]:
    """Read a mirror's state. Empty for a missing or damaged file, since sending everything again changes nothing."""
    try:
        state = json.loads(file.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def abandoned(journal: Path, offset: int) -> bool:
    """True if the writer is gone. It locks its journal before its first event, so an empty journal may be new."""
    begun = offset > 0 or time.time() - journal.stat().st_mtime > KILLED_AFTER_S
    return begun and not is_locked(journal)


def last_rows(path: Path) -> list[dict[str, Any]]:
    """The newest rows of a stage's rollouts, with the columns to read first before the rest; none if the file has moved
    since."""
    rows = [row for _, row in read_lines(path)][-TABLE_ROWS:] if path.is_file() else []
    return [{**{name: row[name] for name in READ_FIRST if name in row}, **row} for row in rows]
