"""Output of all commands."""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from ratchet.data_curation.base.slow_calls import say_if_slow
from ratchet.tasks.progress import printable


class Terminal(Console):
    """A console. `soft_wrap` keeps lines whole in pipes and files; a terminal wraps them at words."""

    def print(self, *objects: Any, soft_wrap: bool | None = None, **settings: Any) -> None:
        if soft_wrap and self.is_terminal and all(isinstance(each, str | Text) for each in objects):
            texts = [
                each
                if isinstance(each, Text)
                else self.render_str(each, markup=settings.get("markup"), highlight=False)
                for each in objects
            ]
            lines = Text(" ").join(texts).split("\n", allow_blank=True)
            objects = (Text("\n").join(part for line in lines for part in _at_words(line, self.width)),)
        super().print(*objects, soft_wrap=soft_wrap, **settings)


def _at_words(line: Text, width: int) -> list[Text]:
    """The line in parts of at most `width` cells. A longer word is one part, which can be copied as a whole."""
    begin, breaks, text = 0, list[int](), line.plain
    for word in re.finditer(r"\S+", text):
        if cell_len(text[begin : word.end()]) > width and text[begin : word.start()].strip():
            begin = word.start()
            breaks.append(begin)
    parts = list(line.divide(breaks))
    for part in parts:
        part.rstrip()
    return parts


console = Terminal(highlight=False)
errors = Terminal(stderr=True, highlight=False)


@dataclass
class Output:
    """The values of the current command's `--json` and `--quiet`."""

    json: bool = False
    quiet: bool = False

    def use(self, json: bool, quiet: bool) -> None:
        """Print to stderr under `--json`, where stdout has only the result."""
        self.json, self.quiet = json, quiet
        console.file = sys.stderr if json else None  # pyright: ignore[reportAttributeAccessIssue] - None: stdout


output = Output()


@contextmanager
def spinner(text: str, where: Console = console) -> Iterator[None]:
    """Show `text` with a spinner while the block runs; in a log, as one line if that takes longer than five seconds."""
    if output.quiet:
        yield
        return
    with where.status(text) if where.is_terminal else say_if_slow(text):
        yield


def say(text: str, style: str = "") -> None:
    """Print text without markup: in a terminal wrapped at words, elsewhere whole."""
    console.print(text, style=style, soft_wrap=True, markup=False)


def hint(text: str, style: str = "") -> None:
    """Print advice, such as what to do next; not with `--quiet`."""
    if not output.quiet:
        say(text, style)


def print_command(command: str, where: Console = console) -> None:
    """Print a command on a line of its own, which a terminal may break anywhere, so that it can be copied."""
    Console.print(where, f"  {command}", style="bold", markup=False, soft_wrap=True)


def columns(*names: str) -> Table:
    """A table without lines, with these columns."""
    return Table(*names, box=None, padding=(0, 2, 0, 0))


def print_unwrapped(what: RenderableType) -> None:
    """Print without folding lines in a pipe, so that names stay whole."""
    wide = console if console.is_terminal else Console(file=console.file, width=100_000, highlight=False)
    wide.print(what)


def print_rows(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print a table of rows with the same names, numbers on the right; nothing for no rows."""
    if not (rows := list(rows)):
        return
    table = columns()
    for name, value in rows[0].items():
        table.add_column(name.replace("_", " "), justify="left" if isinstance(value, str) else "right")
    for row in rows:
        table.add_row(*(f"{value:,}" if isinstance(value, int) else Text(str(value)) for value in row.values()))
    print_unwrapped(table)


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n")


def clean(text: str) -> Text:
    """A text of a model or a data set without control characters and markup."""
    shown = text.encode("utf-8", "backslashreplace").decode()
    return Text(printable(shown))
