"""`ratchet gc`: delete what no kept run refers to."""

from typing import Annotated

import typer

from ratchet.cli.options import Home
from ratchet.cli.terminal import columns, console, print_whole
from ratchet.infra.settings import load_settings


def gc(
    run: Annotated[
        list[str] | None, typer.Option("--run", help="Forget this run, by its id or name; repeatable.")
    ] = None,
    older_than: Annotated[
        float | None, typer.Option("--older-than", min=0, metavar="DAYS", help="Forget runs older than this.")
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete what is listed.")] = False,
    home: Home = None,
) -> None:
    """List, and with `--delete` remove, what no kept run refers to: unfinished directories and artifacts of forgotten
    runs.

    Every run is kept unless `--run` or `--older-than` names it. Whatever a kept run made or read stays, with everything
    behind it. Nothing is deleted while a run is at work in the home, and no run that MLflow has not received.

    Example: `ratchet gc --older-than 30 --delete`
    """
    from ratchet.infra.tracking import garbage

    settings = load_settings(home)
    found = garbage.find_garbage(settings, run or (), older_than)
    table, total = columns("directory", "bytes"), 0
    for directory in found.directories:
        total += (size := garbage.size_of(directory))
        table.add_row(str(directory), f"{size:,}")
    if found.directories:
        print_whole(table)
    for each in found.runs:
        console.print(f"run {each.run_id} {each.name}", soft_wrap=True, markup=False)
    for line in found.unsent:
        console.print(line, soft_wrap=True, markup=False)
    if delete:
        garbage.delete(settings, found)
    done = "deleted" if delete else "would be deleted; --delete does it"
    console.print(f"{len(found.directories)} directories, {len(found.runs)} runs, {total:,} bytes: {done}")
