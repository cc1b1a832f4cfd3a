"""`ratchet verify`: is a response right? One explained, or a file of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ratchet.infra.errors import RatchetError

verify = typer.Typer(
    help="Is a response right? One of them explained, or a file of them.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
console = Console(highlight=False)


@verify.command("math")
def verify_math_command(
    gold: Annotated[str | None, typer.Option("--gold", help="The reference answer.")] = None,
    response: Annotated[str | None, typer.Option("--response", help="A whole response, its answer boxed.")] = None,
    pred: Annotated[str | None, typer.Option("--pred", help="A bare answer, instead of a response.")] = None,
    question: Annotated[
        str | None, typer.Option("--question", help="The question, which may ask for a percentage.")
    ] = None,
    input_: Annotated[
        str | None, typer.Option("--input", help="JSONL: `gold`, `pred` or `response`, perhaps `question`.")
    ] = None,
    output: Annotated[str | None, typer.Option("--output", help="Where the judged rows go, in order.")] = None,
) -> None:
    """Compare an answer with its reference: what was extracted, which tier decided, why.

    Code 0 says that the answer passes; for a file, that all rows could be judged.

    Example: `ratchet verify math --gold '1/2' --response 'So \\boxed{0.5}'`
    """
    from ratchet.cli.verify_math import verify_math

    pair = {"gold": gold, "response": response, "pred": pred, "question": question}
    if not verify_math(console, pair, input=input_, output=output):
        raise typer.Exit(1)


@verify.command("code")
def verify_code(
    problems: Annotated[Path, typer.Option("--problems", help="Problems, JSONL or Parquet, as curation writes them.")],
    solutions: Annotated[
        Path | None, typer.Option("--solutions", help="Rows `problem_id`, and `code` or `response`.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", help="Where the rows go, with their verdicts.")] = None,
    solution: Annotated[Path | None, typer.Option("--solution", help="One program to explain instead.")] = None,
    problem: Annotated[str | None, typer.Option("--problem", help="The `problem_id` of that program.")] = None,
    workers: Annotated[int | None, typer.Option("--workers", min=1, help="Default: one for each core.")] = None,
) -> None:
    """Judge programs in the sandbox, each on all tests of its problem.

    Code 0 says that all could be judged; for one program, that it passes.

    Example: `ratchet verify code --problems kept.parquet --solutions answers.jsonl --output judged.jsonl`
    """
    from ratchet.cli.verify_code import explain_code, verify_code_files

    if solution is not None and solutions is None and output is None:
        good = explain_code(console, problems, problem, solution)
    elif solutions is not None and output is not None and solution is None and problem is None:
        good = verify_code_files(console, problems, solutions, output, workers)
    else:
        raise RatchetError(
            "Say --solutions FILE and --output FILE for many, or --solution FILE (--problem ID) for one."
        )
    if not good:
        raise typer.Exit(1)
