"""Output of all commands."""

import json
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)


def columns(*names: str) -> Table:
    """A table without lines."""
    return Table(*names, box=None, padding=(0, 2, 0, 0))


def print_whole(what: RenderableType) -> None:
    """In a pipe, without folding: names stay whole."""
    wide = console if console.is_terminal else Console(file=console.file, width=100_000, highlight=False)
    wide.print(what)


def print_json(value: Any) -> None:
    console.file.write(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def clean(text: str) -> Text:
    """A text of a model or a data set, without control characters and without markup."""
    shown = text.encode("utf-8", "backslashreplace").decode()
    return Text("".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in shown))
