"""Report the progress of a run to a person: one line per step, and its progress."""

import logging
import math
import time
from collections.abc import Mapping
from typing import Any, TextIO

from ratchet.tasks import prefect_page
from ratchet.tasks.progress import Progress, printable

FIRST_PROGRESS_S, PROGRESS_EVERY_S = 10, 60


class ProgressReporter:
    """A reporter of a run: one line per step, one for its progress after `FIRST_PROGRESS_S` seconds, and one every
    `PROGRESS_EVERY_S`. For pipes, files and served flows. `file` is the output, by default stdout."""

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file
        self._progress = Progress()
        self._due_at = math.inf  # of the next progress line
        self._phase = ""
        self._cached: list[str] = []

    def show(self, text: str, style: str = "") -> None:
        """Print one line; `style` is for terminals."""
        print(text, flush=True, file=self._file)

    def say(self, text: str, style: str = "", level: int = logging.INFO) -> None:
        """Print one line, here and in Prefect's log. Control characters in it, which may come from a model or a data
        set, are written out."""
        text = printable(text)
        self.show(text, style)
        prefect_page.log(text.strip(), level)

    def phase(self, title: str) -> None:
        """Begin a part of the run, whose title is printed with its first step that is not cached."""
        self._phase = title

    def step_cached(self, title: str, summary: str) -> None:
        """Count a cached step for the one line that `show_cached` prints; Prefect's log gets each."""
        self._cached.append(title)
        prefect_page.log(f"✓ {title} (cached) {summary}")

    def show_cached(self) -> None:
        """Print one line for the cached steps since the last, if any."""
        if self._cached:
            number = len(self._cached)
            self.show(f"✓ {self._cached[0] if number == 1 else f'{number} steps'} (cached)")
        self._cached = []

    def _head(self) -> None:
        self.show_cached()
        if self._phase:
            self.say(f"\n{self._phase}", "bold")
        self._phase = ""

    def step_started(self, title: str) -> None:
        self._head()
        self.show(f"… {title}")
        self._progress, self._due_at = Progress(title), time.monotonic() + FIRST_PROGRESS_S

    def note(self, text: str) -> None:
        self.say(f"  {text}", "dim")

    def progress(self, done: int, total: int | None, facts: Mapping[str, Any]) -> None:
        self._progress.update(done, total, facts)
        if time.monotonic() >= self._due_at:
            self._due_at = time.monotonic() + PROGRESS_EVERY_S
            self.say(f"  {self._progress.title}: {self._progress.count()}   {self._progress.facts()}")

    def step_finished(self, title: str, summary: str, seconds: float) -> None:
        self.say(f"✓ {title} ({seconds:.1f} s) {summary}")
        self._progress = Progress()

    def not_done(self, title: str, reason: str) -> None:
        self._head()
        self.say(f"– {title}: skipped, {reason}", "yellow")

    @property
    def now(self) -> str:
        """The current step and its progress, "train math-36 (12/40)"; "" between steps."""
        done = f" ({self._progress.done:,}/{self._progress.total:,})" if self._progress.total else ""
        return f"{self._progress.title}{done}" if self._progress.title else ""

    def warning(self, text: str) -> None:
        self.say(f"! {text}", "yellow", logging.WARNING)
