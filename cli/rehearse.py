"""`ratchet rehearse`: run the whole recipe, small, on this machine."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

from ratchet.cli.options import Home, Overrides
from ratchet.cli.options import Recipe as RecipeName
from ratchet.cli.terminal import columns, console, hint, output, print_json, print_unwrapped, say
from ratchet.infra.settings import load_settings

if TYPE_CHECKING:
    from ratchet.rehearsal.rehearse import Rehearsal


def rehearse(
    recipe: RecipeName,
    engine: Annotated[
        Literal["transformers", "recipe"],
        typer.Option("--engine", help="Engine to sample with: transformers, or the recipe's own."),
    ] = "transformers",
    rows: Annotated[
        Path | None,
        typer.Option("--rows", metavar="DIR", help="Directory of your own rows, as DIR/datasets/OWNER/NAME/FILE."),
    ] = None,
    data: Annotated[
        Literal["bundled", "published"],
        typer.Option("--data", help="Bundled rows in the layouts of the data sets, or the first rows of your copies."),
    ] = "bundled",
    set_: Overrides = None,
    home: Home = None,
) -> None:
    """Run a miniature of the whole recipe on this machine, to see that each mechanism works.

    The data are a few rows in the published layout of each data set, read through a local Hub; the model is a small one
    of the same architecture, which has learned a few answers; the teacher is a local OpenAI-compatible server. Lengths,
    prompts, rollouts and steps shrink by rules that are printed; nothing is skipped. The table at the end names every
    mechanism that the recipe asks for, and the artifact that shows it. The exit code is 1 if one was not seen.

    Example: `ratchet rehearse acereason-7b`
    """
    from ratchet.infra.recipe import load_recipe
    from ratchet.rehearsal.rehearse import rehearse as rehearsed

    wanted = load_recipe(recipe, set_ or ())
    place = load_settings(home).home / "rehearsals" / wanted.name  # a directory of its own: it is cleared
    done = rehearsed(
        wanted,
        place.resolve(),
        rows,
        data == "published",
        {"kind": "transformers"} if engine == "transformers" else None,
        hint,
    )
    if output.json:
        print_json({
            "changes": [asdict(change) for change in done.changes],
            "mechanisms": [
                {"mechanism": row.name, "seen": row.seen, "evidence": row.evidence, "artifact": row.ref}
                for row in done.rows
            ],
            "seconds": done.seconds, "directory": str(place), "exit_code": done.exit_code,
        })  # fmt: skip
    else:
        _show(done, place)
    if done.unseen or done.exit_code or not done.rows:
        raise typer.Exit(1)


def _show(done: "Rehearsal", place: Path) -> None:
    console.print("\nWhat was made smaller", style="bold")
    for rule in dict.fromkeys(change.rule for change in done.changes):
        own = [change for change in done.changes if change.rule == rule]
        first = f"{own[0].field}: {own[0].before} → {own[0].after}"
        more = f", and {len(own) - 1} more" if len(own) > 1 else ""
        say(f"  {rule}  ({first}{more})")
    console.print("\nMechanisms", style="bold")
    table = columns("", "mechanism", "evidence", "artifact")
    for row in done.rows:
        mark = Text("✓", style="green") if row.seen else Text("✗", style="bold red")
        table.add_row(mark, row.name, row.evidence, row.ref)
    print_unwrapped(table)
    seen = len(done.rows) - len(done.unseen)
    say(f"\n{seen} of {len(done.rows)} mechanisms seen in {done.seconds:.0f} s; {place}")
    if done.exit_code:
        console.print(f"The run itself ended with code {done.exit_code}: see its message above.", style="red")
