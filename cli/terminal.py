"""Output of all commands."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from ratchet.data_curation.base.waiting import saying
from ratchet.tasks.progress import printable

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)


@contextmanager
def spinner(text: str, where: Console = console) -> Iterator[None]:
    """`text` while the block runs; in a log one line, if that takes longer than five seconds."""
    with where.status(text) if where.is_terminal else saying(text):
        yield


def say(text: str, style: str = "") -> None:
    """A text that is not folded and has no markup."""
    console.print(text, style=style, soft_wrap=True, markup=False)


def columns(*names: str) -> Table:
    """A table without lines."""
    return Table(*names, box=None, padding=(0, 2, 0, 0))


def print_whole(what: RenderableType) -> None:
    """In a pipe, without folding: names stay whole."""
    wide = console if console.is_terminal else Console(file=console.file, width=100_000, highlight=False)
    wide.print(what)


def print_rows(rows: Iterable[Mapping[str, Any]]) -> None:
    """A table of rows with the same names, numbers on the right; nothing for no rows."""
    if not (rows := list(rows)):
        return
    table = columns()
    for name, value in rows[0].items():
        table.add_column(name.replace("_", " "), justify="left" if isinstance(value, str) else "right")
    for row in rows:
        table.add_row(*(f"{value:,}" if isinstance(value, int) else Text(str(value)) for value in row.values()))
    print_whole(table)


def print_json(value: Any) -> None:
    console.file.write(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def clean(text: str) -> Text:
    """A text of a model or a data set, without control characters and without markup."""
    shown = text.encode("utf-8", "backslashreplace").decode()
    return Text(printable(shown))
