"""`ratchet decontaminate`: any file of texts against any benchmarks, without a recipe or a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ratchet.cli.terminal import columns, console
from ratchet.infra.errors import RatchetError

GOOD_RECALL = 0.98


def decontaminate(
    input_: Annotated[
        list[Path], typer.Option("--input", help="Rows to judge: Parquet, JSON or JSONL, gzipped or not; repeatable.")
    ],
    benchmarks: Annotated[
        list[str],
        typer.Option("--benchmarks", help="Held-out items: a file, directory, or name on the Hub; repeatable."),
    ],
    output: Annotated[Path, typer.Option("--output", help="A new directory for kept.parquet and rejected.parquet.")],
    preset: Annotated[
        str, typer.Option("--preset", help="`coverage`: a share of one item's text. `paper`: any shared n-gram.")
    ] = "coverage",
    ngram: Annotated[int, typer.Option("--ngram", min=1, help="Tokens of an n-gram: 9 for math, 14 for code.")] = 9,
    coverage: Annotated[
        float | None, typer.Option("--coverage", help="Share from which `coverage` drops (default: the recipes').")
    ] = None,
    text_column: Annotated[
        str | None, typer.Option("--text-column", help="Where the texts are, if not under a usual name.")
    ] = None,
) -> None:
    """Drop rows that share text with benchmark items, and say of each which, where and how much.

    Example: `ratchet decontaminate --input train.parquet --benchmarks math500.json --output clean`
    """
    from pydantic import ValidationError
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from ratchet.data_curation.file_decontamination import decontaminate_files
    from ratchet.data_curation.readers import local_files
    from ratchet.infra.recipe.model import Decontamination

    asked = {"preset": preset, "ngram": ngram, "coverage": coverage}
    try:
        settings = Decontamination.model_validate({name: value for name, value in asked.items() if value is not None})
    except ValidationError as error:
        (problem, *_) = error.errors()
        option = "--" + str(problem["loc"][0]).replace("_", "-")
        raise RatchetError(f"{option} {problem['input']}: {problem['msg']}.") from None

    files = [file for name in benchmarks for file in local_files(name)]
    shown = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*shown, console=console, transient=True) as progress:
        task = progress.add_task("rows", total=None)
        summary = decontaminate_files(
            input_, files, output, settings, text_column,
            progress=lambda done, total: progress.update(task, completed=done, total=total),
        )  # fmt: skip
    _show(summary, output)


def _show(summary: dict[str, Any], output: Path) -> None:
    table = columns("rule", "rows dropped")
    for rule, dropped in summary["dropped"].items():
        table.add_row(rule, f"{dropped:,}")
    console.print(table)
    preset = summary["preset"]
    other = "paper" if preset == "coverage" else "coverage"
    test, empty = summary["self_test"], summary["items_without_text"]
    lines = [
        f"{summary['kept']:,} of {summary['rows_in']:,} rows kept. By n-grams, preset {preset} takes "
        f"{summary[preset + '_hits']:,}; {other} would take {summary[other + '_hits']:,}.",
        *(f"  {rows:,} for item {item} of {benchmark}" for benchmark, item, rows in summary["items_hit_most"]),
        f"Self-test: {test['recall']:.1%} of {test['items']:,} items in {len(test['recall_by_disguise'])} disguises "
        f"found; {len(test['unprotected'])} of {summary['items']:,} items unprotected.",
    ]
    if test["recall"] < GOOD_RECALL or test["unprotected"]:
        lines.append(f"! Not every copy of {', '.join((test['unprotected'] + test['missed'])[:5])} would be found.")
    if empty:
        lines.append(f"! {len(empty)} items have no text and protect nothing: {', '.join(empty[:5])}")
    if summary["columns_as_json"]:
        lines.append(f"Kept as JSON text: {', '.join(summary['columns_as_json'])}.")
    lines += [f"  {output / name}" for name in ("kept.parquet", "rejected.parquet")]
    for line in lines:
        console.print(line, soft_wrap=True, markup=False, style="yellow" if line.startswith("!") else "")
