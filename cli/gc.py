"""`ratchet gc`: delete the unused parts of a home."""

from typing import Annotated

import typer

from ratchet.cli.options import Home
from ratchet.cli.terminal import console, output, print_json, print_rows, say
from ratchet.infra.settings import load_settings


def gc(
    older_than: Annotated[
        float | None,
        typer.Option(
            "--older-than",
            min=0,
            max=36500,
            metavar="DAYS",
            help="Also treat artifacts used only by older runs as unused.",
        ),
    ] = None,
    forget: Annotated[
        list[str] | None,
        typer.Option("--forget", metavar="RUN", help="Also treat what only this run uses as unused; repeatable."),
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete what is listed.")] = False,
    home: Home = None,
) -> None:
    """List or delete what no run uses anymore.

    Unfinished directories, artifacts and runs are listed; `--delete` removes them, with their logs and what the home's
    own MLflow has of these runs (not what a server has).

    Everything that a kept run made or read is kept, with everything that it was made from; so are the checkpoint and
    the evaluation that a recipe's gate holds for the best. Runs are kept unless
    `--forget` or `--older-than` selects them; those that MLflow has not fully received are kept in any case. Nothing is
    deleted while a run is active.

    Example: `ratchet gc`

    Example: `ratchet gc --older-than 30 --delete`
    """
    from ratchet.infra.tracking import garbage

    settings = load_settings(home)
    unused = garbage.find_garbage(settings, forget or (), older_than)
    places = [*unused.directories, *unused.pages]
    rows = [{"directory": str(place), "bytes": garbage.size_of(place)} for place in places]
    total = sum(row["bytes"] for row in rows)
    if not output.json:
        print_rows(rows)
        for run in unused.runs:
            say(f"run {run.run_id} {run.name}")
        for line in unused.unsent:
            say(line)
    if delete:
        garbage.delete(settings, unused)
    if output.json:
        runs = [{"run": run.run_id, "name": run.name} for run in unused.runs]
        print_json({"directories": rows, "runs": runs, "kept": list(unused.unsent), "bytes": total, "deleted": delete})
        return
    if not rows and not unused.runs:
        console.print("Nothing to delete.")
        return
    done = "deleted" if delete else "dry run; pass --delete to remove them"
    console.print(f"{len(rows)} directories, {len(unused.runs)} runs, {total:,} bytes: {done}")
