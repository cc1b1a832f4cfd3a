"""`ratchet export`: curated problems for another trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

console = Console(highlight=False)


def export(
    problems: Annotated[str, typer.Argument(help="A data set of the store (`problems/…`), or its kept.parquet.")],
    format_: Annotated[str, typer.Option("--format", help="`verl`, `trl`, or `ratchet`.")] = "",
    output: Annotated[Path | None, typer.Option("--output", help="The directory to write train.parquet in.")] = None,
    recipe: Annotated[str, typer.Option(help="Whose prompt format to write (`model.prompt`).")] = "",
    data_source: Annotated[
        str, typer.Option(help="verl: which of its reward functions (default: lighteval/MATH, and taco for code).")
    ] = "",
    home: Annotated[str | None, typer.Option("--home", help="Where the store is (default: ./.ratchet).")] = None,
) -> None:
    """Curated problems as another trainer reads them: verl's Parquet, or TRL's prompt data set.

    What a format has no place for is left out, and said.

    Example: `ratchet export problems/math-curated-1a2b3c4d5e6f --format verl --output data/math`
    """
    from ratchet.cli.export_files import export_files

    export_files(console, problems, format_, output, recipe, data_source, home)
