"""`ratchet decontaminate`: compare files of texts with benchmarks, without a recipe or a run."""

from pathlib import Path
from typing import Annotated

import typer

from ratchet.cli.options import benchmark
from ratchet.cli.terminal import output as output_options
from ratchet.cli.terminal import print_json, print_rows, say
from ratchet.verifiers.errors import RatchetError


def decontaminate(
    input_: Annotated[
        list[str],
        typer.Option("--input", help="Rows to judge: a file, directory, glob or Hub data set; repeatable."),
    ],
    benchmarks: Annotated[
        list[str],
        benchmark(
            "Held-out items: a file, directory, Hub data set, or known name (math500); repeatable.", "--benchmark"
        ),
    ],
    output: Annotated[Path, typer.Option("--output", help="A new directory for kept.parquet and rejected.parquet.")],
    preset: Annotated[
        str, typer.Option("--preset", help="`coverage`: a share of one item's text. `paper`: any shared n-gram.")
    ] = "coverage",
    ngram: Annotated[
        int, typer.Option("--ngram", min=1, max=100, help="Tokens of an n-gram: 9 for math, 14 for code.")
    ] = 9,
    coverage: Annotated[
        float | None,
        typer.Option(
            "--coverage",
            min=0,
            max=1,
            help="Share of an item at which `coverage` drops a row (default: as in recipes).",
        ),
    ] = None,
    variants: Annotated[
        str,
        typer.Option(
            "--variants", help="Rows that repeat an item with other numbers: `drop` or `keep`; counted apart."
        ),
    ] = "drop",
    text_column: Annotated[
        str | None, typer.Option("--text-column", help="Name of the text column, if it is unusual.")
    ] = None,
) -> None:
    """Drop rows that share text with benchmark items, recording which item, where and how much.

    Example, with your files: `ratchet decontaminate --input train.parquet --benchmark test.json --output clean`
    """
    from pydantic import ValidationError

    from ratchet.cli.live import reporting
    from ratchet.data_curation.decontamination.files import decontaminate_files
    from ratchet.data_curation.settings.curation import Decontamination
    from ratchet.infra.pages import render
    from ratchet.infra.recipe.evaluation import named_path

    asked = {"preset": preset, "ngram": ngram, "coverage": coverage, "variants": variants}
    try:
        settings = Decontamination.model_validate({name: value for name, value in asked.items() if value is not None})
    except ValidationError as error:
        (problem, *_) = error.errors()
        option = "--" + str(problem["loc"][0]).replace("_", "-")
        raise RatchetError(f"{option} {problem['input']}: {problem['msg']}.") from None

    with reporting() as reporter:
        reporter.step_started("rows")
        summary = decontaminate_files(
            input_,
            [*map(named_path, benchmarks)],
            output,
            settings,
            text_column,
            lambda done, total: reporter.progress(done, total, {}),
        )
    if output_options.json:
        print_json({**summary, "output": str(output)})
        return
    print_rows({"rule": rule, "rows dropped": dropped} for rule, dropped in summary["dropped"].items())
    hits = {name: summary[f"{name}_hits"] for name in ("coverage", "paper")}
    for line in render(Path(__file__).with_name("decontaminated.md"), **summary, hits=hits, output=output).splitlines():
        say(line, style="yellow" if line.startswith("!") else "")
