"""The command line: `ratchet`.

Only what every command needs is imported here; flows bring Prefect along and are imported by the commands that run
them, so that `--help`, `show` and a mistyped recipe answer at once.
"""

import importlib
import json
import os
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from ratchet.cli.approve import approve
from ratchet.cli.decontaminate import decontaminate
from ratchet.cli.deploy import deploy
from ratchet.cli.export import export, push
from ratchet.cli.judge import judge
from ratchet.cli.lineage import diff, lineage
from ratchet.cli.plan import plan, show_short
from ratchet.cli.preflight import preflight
from ratchet.cli.recipes import recipes
from ratchet.cli.terminal import console, errors
from ratchet.cli.verify import verify
from ratchet.cli.why import why
from ratchet.infra.errors import NotGiven, RatchetError, Waiting, in_words
from ratchet.infra.recipe import Recipe, load_recipe
from ratchet.infra.recipe.curation import Steps
from ratchet.infra.settings import load_settings

app = typer.Typer(
    help="From raw math and code problems to a reasoning model: curate, train in stages, evaluate, trace.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    add_completion=False,
)

INTERRUPTED, WAITING = 130, 3
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
    list[str] | None,
    typer.Option("--benchmark", help="Decontaminate against this: a held-out file, or a known name (math500)."),
]


def _version(asked: bool) -> None:
    if asked:
        console.print(f"ratchet {metadata.version('ratchet-rl')}")
        raise typer.Exit


@app.callback()
def every_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
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
    overrides = _overrides(set_, seed)
    _run_flow("pipeline", load_recipe(recipe, overrides), (), dry_run, home, overrides)


@app.command()
def curate(
    domain: Annotated[str, typer.Argument(help="A domain of the recipe, such as `math` or `code`.")],
    recipe: RecipeArgument = "tiny",
    input_: InputOption = None,
    benchmark: BenchmarkOption = None,
    only: Annotated[str | None, typer.Option(metavar="STEP", help="Take this step and no other.")] = None,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="STEP", help="Take this step and what follows.")
    ] = None,
    refresh: Annotated[
        list[str] | None, typer.Option(metavar="STEP", help="Make this step again though it is there; repeatable.")
    ] = None,
    set_: SetOption = None,
    seed: SeedOption = None,
    dry_run: DryRunOption = False,
    home: HomeOption = None,
) -> None:
    """One curation flow: raw rows to problems worth training on, every drop with its reason.

    STEP: normalise, rules, decontaminate, paraphrases, deduplicate, validate_tests, teacher_attempts, majority_vote,
    difficulty, length, curated.

    Example: `ratchet curate math examples/math_files --input math_train.json --benchmark math500.json`
    """
    overrides = _overrides(set_, seed)
    overrides += [f"curation.{domain}.inputs={json.dumps(input_)}"] if input_ else []
    overrides += [f"curation.{domain}.benchmarks={json.dumps(benchmark)}"] if benchmark else []
    if only and from_:
        raise RatchetError("Say --only or --from, not both.")
    steps = Steps(only=only, start=from_, refresh=tuple(refresh or ()))
    resolved = load_recipe(recipe, overrides)
    _run_flow("curate", resolved, (domain, steps), dry_run, home, overrides, steps, f"curate-{domain}")


@app.command()
def train(
    recipe: RecipeArgument = "tiny",
    stage: Annotated[str, typer.Option("--stage", help="Train this stage only, from the checkpoint before it.")] = "",
    from_: Annotated[
        str, typer.Option("--from", metavar="CHECKPOINT", help="Train from this checkpoint or model directory.")
    ] = "",
    machine: Annotated[
        str,
        typer.Option(
            "--machine", metavar="MxNxGPU", help="With --dry-run: estimate for this hardware, e.g. 16x8xH100."
        ),
    ] = "",
    set_: SetOption = None,
    seed: SeedOption = None,
    dry_run: DryRunOption = False,
    home: HomeOption = None,
) -> None:
    """Warm start and all stages, on the curated problems (curated first where they are not yet).

    With `--dry-run` also what each stage needs of memory and time, on this machine or the one you name.

    Example: `ratchet train tiny --stage math-44 --from checkpoint/math-36-1a2b3c4d5e6f --dry-run`
    """
    overrides = _overrides(set_, seed)
    resolved = load_recipe(recipe, overrides)
    estimated = False
    if dry_run:
        estimated = show_short(resolved, stage, from_, machine, load_settings(home))
    try:
        _run_flow("train", resolved, (None, stage, from_), dry_run, home, overrides)
    except NotGiven as error:
        if not estimated:
            raise
        console.print(f"[yellow]There is no plan yet:[/] {escape(str(error))}", soft_wrap=True)


@app.command()
def evaluate(
    recipe: RecipeArgument = "tiny",
    model: Annotated[
        str,
        typer.Option("--model", help="A checkpoint (`checkpoint/…`), a model directory, or URL#NAME of an endpoint."),
    ] = "",
    generations: Annotated[
        str, typer.Option("--generations", help="Instead of a model: a file of stored responses to score.")
    ] = "",
    benchmarks: Annotated[
        list[str] | None, typer.Option("--benchmarks", help="Names, of the recipe or known ones; repeatable.")
    ] = None,
    samples: Annotated[int | None, typer.Option("--samples", min=1, help="Responses to each question.")] = None,
    set_: SetOption = None,
    dry_run: DryRunOption = False,
    home: HomeOption = None,
) -> None:
    """Every score of one model on benchmarks, with errors, truncation and lengths.

    What was sampled before with the same settings is not sampled again.

    Example: `ratchet evaluate tiny --model checkpoint/math-60-1a2b3c4d5e6f --samples 64`
    """
    if bool(model) == bool(generations):
        raise RatchetError(
            "Say which model: --model checkpoint/NAME-KEY (see `ratchet show checkpoint`), a directory, or URL#NAME; "
            "or which stored responses: --generations FILE."
        )
    from ratchet.tasks.evaluation import select_benchmarks

    names = [name for part in benchmarks or () for name in part.split(",") if name]
    overrides = _overrides(set_, None)
    chosen = select_benchmarks(load_recipe(recipe, overrides), names, samples)
    _run_flow("evaluate", chosen, (model, generations), dry_run, home, overrides)


@app.command()
def compare(
    evaluations: Annotated[list[str], typer.Argument(help="Two evaluations or more, first to last: `evaluation/…`.")],
    despite_settings: Annotated[
        bool, typer.Option("--despite-settings", help="Also where they were not asked the same; the report says so.")
    ] = False,
    home: HomeOption = None,
) -> None:
    """One model against another on the same questions: paired, with a test, and what each newly solves or loses.

    Example: `ratchet compare evaluation/start-1a2b3c4d5e6f evaluation/math-60-6f5e4d3c2b1a`
    """
    if len(evaluations) < 2:
        raise RatchetError("Say which: two evaluations or more. `ratchet show evaluation` lists them.")
    arguments = (evaluations, (), not despite_settings)
    _run_flow("report", Recipe(name="comparisons"), arguments, False, home, title="compare")


@app.command()
def report(
    evaluations: Annotated[
        list[str] | None,
        typer.Argument(help="`evaluation/…` in order, or a `report/…` for all of its; none means the newest."),
    ] = None,
    corpus: Annotated[
        list[str] | None, typer.Option("--corpus", help="Texts that responses may quote, for the creativity index.")
    ] = None,
    home: HomeOption = None,
) -> None:
    """The page of stored evaluations: what training gained, every score with its error, the query behind each number.

    Example: `ratchet report report/tiny-1a2b3c4d5e6f --corpus traces.parquet`
    """
    _run_flow("report", Recipe(name="reports"), (evaluations or [], corpus or []), False, home)


@app.command()
def show(
    what: Annotated[str, typer.Argument(help="An artifact, a kind of artifact, or nothing for all.")] = "",
    home: HomeOption = None,
) -> None:
    """What has been made: a list, or one artifact with all it was made from, down to the raw files.

    Example: `ratchet show evaluation/math-60-1a2b3c4d5e6f`
    """
    from ratchet.cli.inspection import show_artifacts

    show_artifacts(load_settings(home), what)


@app.command()
def ui(
    recipes: Annotated[
        list[str] | None, typer.Argument(help="Recipes to start flows with (default: tiny).", show_default=False)
    ] = None,
    mlflow_port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the MLflow UI.")] = 5000,
    prefect_port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the Prefect UI.")] = 4200,
    home: HomeOption = None,
) -> None:
    """Both UIs on loopback, with a form for each flow and the pages of the last run; Ctrl-C stops them.

    Example: `ratchet ui --mlflow-port 5001`
    """
    from ratchet.cli.ui import serve_uis

    serve_uis(load_settings(home), mlflow_port, prefect_port, recipes or ["tiny"])


@app.command()
def doctor(home: HomeOption = None) -> None:
    """Whether this machine can run the recipes: versions, cores, memory, disk, sandbox, store.

    Example: `ratchet doctor`
    """
    from ratchet.cli.doctor import check_machine

    if not check_machine(load_settings(home)):
        raise typer.Exit(1)


for command in (approve, lineage, diff, decontaminate, deploy, plan, preflight, why, export, push, verify, recipes):
    app.command()(command)
app.add_typer(judge, name="judge")


def _overrides(set_: list[str] | None, seed: int | None) -> list[str]:
    return [*(set_ or []), *([f"seed={seed}"] if seed is not None else [])]


def _run_flow(
    name: str,
    recipe: Recipe,
    arguments: tuple[Any, ...],
    dry_run: bool,
    home: str | None,
    overrides: Sequence[str] = (),
    steps: Steps = Steps(),
    title: str = "",
) -> None:
    """Run or plan the flow `name` of the module of the same name, or some steps of it, under its name or `title`."""
    settings = load_settings(home)
    from ratchet.cli.inspection import show_plan, show_result
    from ratchet.cli.live import LiveWatcher
    from ratchet.cli.prefect_server import prefect_server, server_address, without_heartbeats
    from ratchet.tasks.pipeline_run import Caller, Watcher, called_by, missing, plan_run

    with ExitStack() as stack:
        stack.push(_on_interrupt)
        flow = getattr(importlib.import_module(f"ratchet.flows.{name}"), name)
        with plan_run(recipe, settings, steps) as plan:  # also before a run: a mistake is told before anything is made
            flow.fn(recipe, *arguments)
            faults = missing(plan.plan)
        if dry_run:
            show_plan(plan.plan)
            for fault in faults:
                console.print(f"[yellow]![/] {escape(fault)}", soft_wrap=True)
            return
        if faults:
            raise RatchetError("\n".join(faults))
        flow = flow.named(title) if title else flow
        # To find what is made, nobody waits for a server of our own to start; one that is up shows that run too.
        prefect = server_address(settings) is not None or not all(step.done for step in plan.plan)
        suspended: tuple[type[BaseException], ...] = ()
        if prefect:
            stack.enter_context(prefect_server(settings))
            stack.enter_context(without_heartbeats())
            from prefect.exceptions import Pause

            suspended = (Pause,)
        watcher = stack.enter_context(LiveWatcher(console)) if console.is_terminal else Watcher()
        with called_by(Caller(settings, watcher, prefect, overrides)) as caller:
            try:
                result = flow(recipe, *arguments)
            except suspended as waiting:
                raise Waiting(str(waiting)) from None
    show_result(caller.opened, result)


def _on_interrupt(kind: type[BaseException] | None, *_: object) -> None:
    if kind is KeyboardInterrupt:
        _say_how_to_continue()


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
    """Run a command; a mistake of the user's ends in one message and code 2, an interruption in how to continue, a run
    that waits for a person in code 3."""
    for handled in (signal.SIGINT, signal.SIGTERM):
        signal.signal(handled, _on_signal)
    try:
        app()
    except Exception as error:
        told = in_words(error)
        if os.environ.get("RATCHET_DEBUG") or not told:
            raise
        waits = isinstance(error, Waiting)
        said = "[bold yellow]Waiting:[/]" if waits else "[bold red]Error:[/]"
        errors.print(f"{said} {escape(told)}", soft_wrap=True)
        sys.exit(WAITING if waits else 2)


def _leave() -> None:
    _say_how_to_continue()
    os._exit(INTERRUPTED)


def _say_how_to_continue() -> None:
    name = Path(sys.argv[0]).name
    command = shlex.join([name if shutil.which(name) else sys.argv[0], *sys.argv[1:]])
    errors.print(f"\nStopped. Nothing finished is lost; to go on: [bold]{escape(command)}[/]", soft_wrap=True)


if __name__ == "__main__":
    main()
