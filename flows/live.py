"""What a person watches in the terminal while a run works."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

FORMATS = {
    "loss": "{:.3f}",
    "reward": "{:.2f}",
    "pass_rate": "{:.2f}",
    "response_tokens": "{:.0f} tok",
    "truncated": "{:.1%}",
    "entropy": "{:.2f}",
    "tokens_per_second": "{:,.0f}/s",
}
LABELS = {"response_tokens": "response length", "tokens_per_second": "tokens", "pass_rate": "pass rate"}


class LiveWatcher:
    """Finished steps scroll up as lines; the step at work has a bar, its latest metrics, and the time left."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._title = ""
        self._started = 0.0
        self._done, self._total = 0, None  # type: int, int | None
        self._first: tuple[float, int] | None = None
        self._facts: Mapping[str, Any] = {}
        # Last: it renders at once.
        self._live = Live(console=console, refresh_per_second=5, get_renderable=self._render, transient=True)

    def __enter__(self) -> LiveWatcher:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._title = ""
        self._live.stop()

    def phase(self, title: str) -> None:
        self.console.print(Text(f"\n{title}", style="bold"))

    def step_started(self, title: str) -> None:
        self._title, self._started = title, time.monotonic()
        self._done, self._total, self._first, self._facts = 0, None, None, {}

    def progress(self, done: int, total: int | None, facts: Mapping[str, Any]) -> None:
        self._done, self._total, self._facts = done, total, facts
        self._first = self._first or (time.monotonic(), done)

    def step_finished(self, title: str, summary: str, seconds: float, cached: bool) -> None:
        took = Text("cached", style="cyan") if cached else Text(_duration(seconds), style="dim")
        self._line(Text("✓", style="green"), title, summary, took)
        self._title = ""

    def not_done(self, title: str, reason: str) -> None:
        self._line(Text("–", style="yellow"), title, Text(f"not done: {reason}", style="yellow"), Text(""))

    def warning(self, text: str) -> None:
        self.console.print(Text.assemble(("  ! ", "bold yellow"), (text, "yellow")), soft_wrap=True)

    def _line(self, mark: Text, title: str, summary: str | Text, took: Text) -> None:
        line = Table.grid(padding=(0, 1))
        line.add_column(width=2, justify="right")
        line.add_column(width=30, no_wrap=True)
        line.add_column(width=8, justify="right")
        line.add_column()
        line.add_row(mark, title, took, summary)
        self.console.print(line)

    def _render(self) -> RenderableType:
        if not self._title:
            return Text("")
        line = Table.grid(padding=(0, 1))
        elapsed = _duration(time.monotonic() - self._started)
        cells: list[RenderableType] = [Spinner("dots"), Text(self._title), Text(elapsed, style="dim")]
        if self._total:
            cells += [ProgressBar(self._total, self._done, width=30), Text(f"{self._done}/{self._total}{self._left()}")]
        line.add_row(*cells)
        facts = [
            f"{LABELS.get(name, name)} {text.format(self._facts[name])}"
            for name, text in FORMATS.items()
            if name in self._facts
        ]
        return Group(line, Text("   " + "   ".join(facts), style="dim")) if facts else line

    def _left(self) -> str:
        if not self._first or self._done <= self._first[1] or not self._total:
            return ""
        rate = (time.monotonic() - self._first[0]) / (self._done - self._first[1])
        return f", {_duration((self._total - self._done) * rate)} left"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60}m {int(seconds) % 60:02d}s" if seconds < 3600 else f"{seconds / 3600:.1f} h"
