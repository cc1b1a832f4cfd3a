"""`ratchet decontaminate`: any file of texts against any benchmarks, without a recipe or a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from ratchet.infra.errors import RatchetError

console = Console(highlight=False)
BENCHMARK_ENDINGS = (".json", ".jsonl", ".json.gz", ".jsonl.gz", ".parquet")
GOOD_RECALL = 0.98


def decontaminate(
    input_: Annotated[
        list[Path], typer.Option("--input", help="Rows to judge: Parquet, JSON or JSONL, gzipped or not; repeatable.")
    ],
    benchmarks: Annotated[
        list[Path], typer.Option("--benchmarks", help="Held-out items: a file, or a directory of them; repeatable.")
    ],
    output: Annotated[Path, typer.Option("--output", help="A new directory for kept.parquet and rejected.parquet.")],
    preset: Annotated[
        str, typer.Option("--preset", help="`coverage`: a share of one item's text. `paper`: any shared n-gram.")
    ] = "coverage",
    ngram: Annotated[int, typer.Option("--ngram", min=1, help="Tokens of an n-gram: 9 for math, 14 for code.")] = 9,
    coverage: Annotated[
        float | None, typer.Option("--coverage", help="Share from which `coverage` drops (default: the recipes').")
    ] = None,
    released_after: Annotated[
        str | None, typer.Option("--released-after", metavar="DATE", help="Also drop rows released after this day.")
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
    from ratchet.infra.recipe.model import Decontamination

    asked = {"preset": preset, "ngram": ngram, "coverage": coverage, "released_after": released_after}
    try:
        settings = Decontamination.model_validate({name: value for name, value in asked.items() if value is not None})
    except ValidationError as error:
        (problem, *_) = error.errors()
        option = "--" + str(problem["loc"][0]).replace("_", "-")
        raise RatchetError(f"{option} {problem['input']}: {problem['msg']}.") from None

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("rows", total=None)
        summary = decontaminate_files(
            input_, _files(benchmarks), output, settings, text_column,
            progress=lambda done, total: progress.update(task, completed=done, total=total),
        )  # fmt: skip
    _show(summary, output)


def _files(benchmarks: list[Path]) -> list[Path]:
    files = []
    for path in benchmarks:
        inside = sorted(p for p in path.iterdir() if p.name.endswith(BENCHMARK_ENDINGS)) if path.is_dir() else [path]
        if not inside:
            raise RatchetError(f"{path}: there is no file in it that ends in {', '.join(BENCHMARK_ENDINGS)}.")
        files += inside
    return files


def _show(summary: dict[str, Any], output: Path) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("rule")
    table.add_column("rows dropped", justify="right")
    for rule, dropped in summary["dropped"].items():
        table.add_row(rule, f"{dropped:,}")
    console.print(table)
    other = "paper" if summary["preset"] == "coverage" else "coverage"
    console.print(
        f"\n[bold]{summary['kept']:,}[/] of {summary['rows_in']:,} rows kept. By n-grams, preset {summary['preset']} "
        f"takes {summary[summary['preset'] + '_hits']:,}; {other} would take {summary[other + '_hits']:,}."
    )
    for benchmark, item, rows in summary["items_hit_most"]:
        console.print(f"  {rows:,} for item {item} of {benchmark}", markup=False)
    test = summary["self_test"]
    console.print(
        f"Self-test: {test['recall']:.1%} of {test['items']:,} items in {len(test['recall_by_disguise'])} disguises "
        f"found; {len(test['unprotected'])} of {summary['items']:,} items unprotected."
    )
    if test["recall"] < GOOD_RECALL or test["unprotected"]:
        names = ", ".join((test["unprotected"] + test["missed"])[:5])
        console.print(f"[yellow]Not every copy of an item would be found, e.g. of {names}.[/]", soft_wrap=True)
    if summary["items_without_text"]:
        console.print(
            f"[yellow]{len(summary['items_without_text'])} items have no text and protect nothing:[/] "
            + ", ".join(summary["items_without_text"][:5]), soft_wrap=True,
        )  # fmt: skip
    if summary["columns_as_json"]:
        console.print(f"Kept as JSON text: {', '.join(summary['columns_as_json'])}.", markup=False)
    for name in ("kept.parquet", "rejected.parquet"):
        console.print(f"  {output / name}", soft_wrap=True, markup=False)
