"""The live display of a run in a terminal."""

import math
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from ratchet.cli.terminal import console, errors, output
from ratchet.tasks import prefect_page
from ratchet.tasks.progress import Progress, duration
from ratchet.tasks.reporter import ProgressReporter


class QuietReporter(ProgressReporter):
    """A reporter that shows only warnings, on stderr."""

    def show(self, text: str, style: str = "") -> None:
        if text.startswith(("! ", "– ")):
            errors.print(Text(text, style=style), soft_wrap=True)

    def step_started(self, title: str) -> None:
        self._progress, self._due_at = Progress(title), math.inf


@contextmanager
def reporting() -> Iterator[ProgressReporter]:
    """The reporter that suits the terminal and the command's options."""
    if output.quiet:
        yield QuietReporter()
    elif console.is_terminal:
        with LiveReporter(console) as live:
            yield live
    else:
        yield ProgressReporter(sys.stderr if output.json else None)  # stdout has the result alone


class LiveReporter(ProgressReporter):
    """A live display: finished steps as lines, the current one with a bar, its latest metrics and the time left."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self.console = console
        self._live = Live(console=console, refresh_per_second=5, get_renderable=self._render, transient=True)

    def __enter__(self) -> "LiveReporter":
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        at_work, self._progress = self._progress, Progress()  # no last frame of it
        self._live.stop()
        self._progress = at_work

    def show(self, text: str, style: str = "") -> None:
        self.console.print(Text(text, style=style), soft_wrap=True)

    def step_started(self, title: str) -> None:
        self._head()
        self._progress = Progress(title)

    def progress(self, done: int, total: int | None, facts: Mapping[str, Any]) -> None:
        self._progress.update(done, total, facts)

    def step_finished(self, title: str, summary: str, seconds: float) -> None:
        took = duration(seconds)
        line = Table.grid(padding=(0, 1))
        line.add_column()
        line.add_column(width=30, no_wrap=True)
        line.add_column(width=8, justify="right")
        line.add_column()
        line.add_row(Text("✓", style="green"), title, Text(took, style="dim"), summary)
        self.console.print(line)
        prefect_page.log(f"✓ {title} ({took}) {summary}")
        self._progress = Progress()

    def _render(self) -> RenderableType:
        now = self._progress
        if not now.title:
            return Text("")
        line = Table.grid(padding=(0, 1))
        elapsed = duration(time.monotonic() - now.started)
        cells: list[RenderableType] = [Spinner("dots"), Text(now.title), Text(elapsed, style="dim")]
        if now.total:
            cells += [ProgressBar(now.total, now.done, width=30), Text(now.count())]
        line.add_row(*cells)
        facts = now.facts()
        return Group(line, Text("   " + facts, style="dim")) if facts else line
