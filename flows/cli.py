"""The command line: `ratchet`.

Only what every command needs is imported here; flows bring Prefect along and are imported by the commands that run
them, so that `--help`, `show` and a mistyped recipe answer at once.
"""

from __future__ import annotations

import importlib
import os
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from flows.export import export
from flows.judge import judge
from flows.verify import verify
from infra.errors import RatchetError
from infra.recipe import Recipe, load_recipe
from infra.settings import load_settings

app = typer.Typer(
    help="From raw math and code problems to a reasoning model: curate, train in stages, evaluate, trace.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(verify, name="verify")
app.add_typer(judge, name="judge")
app.command()(export)
console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

INTERRUPTED = 130
LEAVE_AFTER_S = 20

RecipeArgument = Annotated[str, typer.Argument(help="A recipe file, or a shipped recipe by name.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override one field of the recipe; repeatable.")
]
SeedOption = Annotated[int | None, typer.Option("--seed", help="Override the recipe's seed.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print the plan: steps, inputs, what is cached.")]
HomeOption = Annotated[str | None, typer.Option("--home", help="Where everything is kept (default: ./.ratchet).")]
InputOption = Annotated[
    list[str] | None, typer.Option("--input", help="A raw file, directory, or name on the Hub; repeatable.")
]
BenchmarkOption = Annotated[
    list[str] | None, typer.Option("--benchmark", help="A held-out file to decontaminate against; repeatable.")
]


@app.callback()
def every_command(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    unsafe: Annotated[
        bool,
        typer.Option(
            "--unsafe",
            help="Judge code even where this machine cannot confine it: a program that a model wrote can then read, "
            "change and send away everything that your user can.",
        ),
    ] = False,
) -> None:
    os.environ["RATCHET_DEBUG"] = "1" if debug else ""
    if unsafe:
        os.environ["RATCHET_UNSAFE"] = "1"


@app.command()
def run(
    recipe: RecipeArgument = "tiny",
    set_: SetOption = None,
    seed: SeedOption = None,
    dry_run: DryRunOption = False,
    home: HomeOption = None,
) -> None:
    """The whole pipeline: curate, train, evaluate, report.

    Killed at any moment, the same command goes on where it was.

    Example: `ratchet run tiny --set training.stages.0.steps=20`
    """
    _run_flow("pipeline", _recipe(recipe, set_, seed), (), dry_run, home)


@app.command()
def curate(
    domain: Annotated[str, typer.Argument(help="`math` or `code`.")],
    recipe: RecipeArgument = "tiny",
    input_: InputOption = None,
    benchmark: BenchmarkOption = None,
    set_: SetOption = None,
    seed: SeedOption = None,
    dry_run: DryRunOption = False,
    home: HomeOption = None,
) -> None:
    """One curation flow: raw rows to problems worth training on, every drop with its reason.

    Example: `ratchet curate math examples/math_files --input math_train.json --benchmark math500.json`
    """
    if domain not in ("math", "code"):
        raise RatchetError(f"There is no curation flow {domain!r}: say `ratchet curate math` or `ratchet curate code`.")
    overrides = list(set_ or [])
    overrides += [f"curation.{domain}.inputs={_yaml_list(input_)}"] if input_ else []
    overrides += [f"curation.{domain}.benchmarks={_yaml_list(benchmark)}"] if benchmark else []
    _run_flow(f"curate_{domain}", _recipe(recipe, overrides, seed), (), dry_run, home)


@app.command()
def train(
    recipe: RecipeArgument = "tiny",
    set_: SetOption = None,
    seed: SeedOption = None,
    dry_run: DryRunOption = False,
    home: HomeOption = None,
) -> None:
    """Warm start and all stages, on the curated problems (curated first where they are not yet).

    Example: `ratchet train tiny --set training.stages.0.learning_rate=2e-4 --dry-run`
    """
    _run_flow("train", _recipe(recipe, set_, seed), (), dry_run, home)


@app.command()
def evaluate(
    recipe: RecipeArgument = "tiny",
    model: Annotated[str, typer.Option("--model", help="A checkpoint (`checkpoint/…`) or a model directory.")] = "",
    set_: SetOption = None,
    dry_run: DryRunOption = False,
    home: HomeOption = None,
) -> None:
    """pass@k of one model on the recipe's benchmarks, with errors, truncation and lengths.

    Example: `ratchet evaluate tiny --model checkpoint/math-60-1a2b3c4d5e6f`
    """
    if not model:
        raise RatchetError(
            "Say which model: --model checkpoint/NAME-KEY (see `ratchet show checkpoint`) or a directory."
        )
    _run_flow("evaluate", _recipe(recipe, set_, None), (model,), dry_run, home)


@app.command()
def show(
    what: Annotated[str, typer.Argument(help="An artifact, a kind of artifact, or nothing for all.")] = "",
    home: HomeOption = None,
) -> None:
    """What has been made: a list, or one artifact with all it was made from, down to the raw files.

    Example: `ratchet show evaluation/math-60-1a2b3c4d5e6f`
    """
    from flows.inspection import show_artifacts

    show_artifacts(console, load_settings(home), what)


@app.command()
def ui(
    mlflow_port: Annotated[int, typer.Option(help="Port of the MLflow UI.")] = 5000,
    prefect_port: Annotated[int, typer.Option(help="Port of the Prefect UI.")] = 4200,
    home: HomeOption = None,
) -> None:
    """Both UIs on loopback, and the addresses of the last run's pages; Ctrl-C stops them.

    Example: `ratchet ui --mlflow-port 5001`
    """
    from flows.ui import serve_uis

    serve_uis(console, load_settings(home), mlflow_port, prefect_port)


@app.command()
def doctor(home: HomeOption = None) -> None:
    """Whether this machine can run the recipes: versions, cores, memory, disk, sandbox, store.

    Example: `ratchet doctor`
    """
    from flows.inspection import check_machine

    if not check_machine(console, load_settings(home)):
        raise typer.Exit(1)


def _recipe(name: str, overrides: list[str] | None, seed: int | None) -> Recipe:
    return load_recipe(name, [*(overrides or []), *([f"seed={seed}"] if seed is not None else [])])


def _yaml_list(paths: list[str]) -> str:
    return "[" + ", ".join(f'"{path}"' for path in paths) + "]"


def _run_flow(name: str, recipe: Recipe, arguments: tuple[Any, ...], dry_run: bool, home: str | None) -> None:
    """Run or plan the flow `name` of the module of the same name."""
    settings = load_settings(home)
    from flows.inspection import show_plan, show_result
    from flows.live import LiveWatcher
    from flows.prefect_server import prefect_server
    from tasks.pipeline_run import LogWatcher, open_run, plan_run

    with _interruptible(), ExitStack() as stack:
        wait_for_server = stack.enter_context(nullcontext() if dry_run else prefect_server(settings))
        flow = getattr(importlib.import_module(f"flows.{name}"), name)  # after: Prefect reads its settings on import
        with plan_run(recipe, settings) as plan:  # also before a run: a mistake is told before anything is made
            flow.fn(recipe, *arguments)
        if dry_run:
            show_plan(console, plan.plan)
            return
        wait_for_server()
        watcher = stack.enter_context(LiveWatcher(console)) if console.is_terminal else LogWatcher()
        run = stack.enter_context(open_run(recipe, flow.name, settings, watcher))
        result = flow(recipe, *arguments)
    show_result(console, run, result)


@contextmanager
def _interruptible() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        _say_how_to_continue()
        raise


def _on_signal(number: int, frame: Any) -> None:
    """Interrupt once; if the way out takes too long (Prefect asks its dead server again and again), leave at once.

    Children die with us either way, and the next mirror ends our runs in MLflow as killed.
    """
    for handled in (signal.SIGINT, signal.SIGTERM):
        signal.signal(handled, signal.SIG_IGN)
    leave = threading.Timer(LEAVE_AFTER_S, _leave)
    leave.daemon = True
    leave.start()
    raise KeyboardInterrupt


def main() -> None:
    """Run a command; a mistake of the user's ends in one message and code 2, an interruption in how to continue."""
    for handled in (signal.SIGINT, signal.SIGTERM):
        signal.signal(handled, _on_signal)
    try:
        app()
    except RatchetError as error:
        if os.environ.get("RATCHET_DEBUG"):
            raise
        errors.print(f"[bold red]Error:[/] {_plain(str(error))}", soft_wrap=True)
        sys.exit(2)


def _leave() -> None:
    _say_how_to_continue()
    os._exit(INTERRUPTED)


def _say_how_to_continue() -> None:
    name = Path(sys.argv[0]).name
    command = shlex.join([name if shutil.which(name) else sys.argv[0], *sys.argv[1:]])
    errors.print(f"\nStopped. Nothing finished is lost; to go on: [bold]{_plain(command)}[/]", soft_wrap=True)


def _plain(text: str) -> str:
    return text.replace("[", "\\[")


if __name__ == "__main__":
    main()
