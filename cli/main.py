"""The command line: `ratchet`.

Only modules that every command needs are imported here. Recipes import pydantic's models and flows import Prefect, so
commands import them when they run: then `--help`, `show` and a misspelled recipe answer at once.
"""

import json
import locale
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from ratchet.cli import options
from ratchet.cli.decontaminate import decontaminate
from ratchet.cli.deploy import deploy
from ratchet.cli.doctor import doctor
from ratchet.cli.export import export
from ratchet.cli.gc import gc
from ratchet.cli.new import new
from ratchet.cli.options import PlainCommand, PlainGroup, with_output
from ratchet.cli.plan import plan
from ratchet.cli.preflight import preflight
from ratchet.cli.rehearse import rehearse
from ratchet.cli.renamed import answer_old_names
from ratchet.cli.rollouts import rollouts
from ratchet.cli.run_flow import load_with_overrides, run_flow
from ratchet.cli.show import show
from ratchet.cli.stopped import say_where_it_stopped
from ratchet.cli.terminal import console, errors
from ratchet.cli.ui import ui
from ratchet.cli.verify import verify
from ratchet.infra.settings import load_settings
from ratchet.verifiers.errors import RatchetError, Waiting, in_words

app = typer.Typer(
    help="From raw math and code problems to a reasoning model: curate, train in stages, evaluate, trace.\n\n"
    "First: `ratchet run tiny` trains a small model from scratch on this machine, in minutes and without a GPU. "
    "Then `ratchet show recipes` lists what to start from.",
    cls=PlainGroup,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)

RUN, LOOK, DATA, MACHINES = "Run", "Inspect", "Data", "Machines"
WAITING = 3
LEAVE_AFTER_S = 20
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def _version(wanted: bool) -> None:
    if wanted:
        console.print(f"ratchet {metadata.version('ratchet-rl')}")
        raise typer.Exit


def command(panel: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a command, with `--json` and `--quiet`, to a panel of `ratchet --help`."""

    def add(function: Callable[..., None]) -> Callable[..., None]:
        app.command(rich_help_panel=panel, cls=PlainCommand)(with_output(function))
        return function

    return add


@app.callback()
def every_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    unsafe: Annotated[
        bool,
        typer.Option(
            "--unsafe",
            help="Run models' code even where this machine cannot sandbox it: it can then read, change and send "
            "anything that your user can.",
        ),
    ] = False,
) -> None:
    os.environ["RATCHET_DEBUG"] = "1" if debug else ""
    if unsafe:
        os.environ["RATCHET_UNSAFE"] = "1"


@command(RUN)
def run(
    recipe: options.Recipe = "tiny",
    approve: options.Approve = False,
    reject: options.Reject = "",
    set_: options.Overrides = None,
    seed: options.Seed = None,
    dry_run: options.DryRun = False,
    home: options.Home = None,
) -> None:
    """Run the whole pipeline: curate, train, evaluate, report.

    After an interruption, the same command continues where it stopped. `--dry-run` shows what would run. A run that
    waits at a gate (`approve` in its recipe) continues with `--approve`; results are approved once, whatever run makes
    them again.

    Example: `ratchet run tiny --set training.stages.math-36.steps=20`
    """
    loaded, overrides = load_with_overrides(recipe, set_, seed)
    run_flow("pipeline", loaded, (), dry_run, home, overrides, decision=(approve, reject))


@command(RUN)
def curate(
    domain: Annotated[str, typer.Argument(help="A domain of the recipe, such as `math` or `code`.")],
    recipe: options.Recipe = "tiny",
    input_: Annotated[
        list[str] | None, typer.Option("--input", help="A raw file, a directory or a data set on the Hub; repeatable.")
    ] = None,
    benchmarks: Annotated[
        list[str] | None,
        options.benchmark("Decontaminate against this file or benchmark, such as math500; repeatable.", "--benchmark"),
    ] = None,
    only: Annotated[str | None, options.step("Run this step only.", "--only", metavar="STEP")] = None,
    from_: Annotated[str | None, options.step("Run this step and all later ones.", "--from", metavar="STEP")] = None,
    refresh: Annotated[
        list[str] | None, options.step("Rerun this step even if cached; repeatable.", "--refresh", metavar="STEP")
    ] = None,
    check: Annotated[
        list[str] | None,
        typer.Option("--check", metavar="FILE", help="Only show how this file's rows are read; repeatable."),
    ] = None,
    set_: options.Overrides = None,
    seed: options.Seed = None,
    dry_run: options.DryRun = False,
    home: options.Home = None,
) -> None:
    """Curate one domain: from raw rows to training problems, with a reason for every dropped row.

    `--check FILE` runs nothing: it shows three rows beside their published fields, and counts what looks wrong.
    `--dry-run` checks the recipe's inputs and steps.

    STEP: normalize, rules, decontaminate, deduplicate, validate_tests, teacher_attempts, majority_vote, difficulty,
    length, curated.

    Example: `ratchet curate math tiny`

    Example, with your files: `ratchet curate math examples/math_files --input train.json --benchmark test.json`
    """
    from ratchet.data_curation.settings.curation import Steps
    from ratchet.infra.recipe.load import shipped_recipes

    if Path(domain).suffix in (".yaml", ".yml") or domain in shipped_recipes():
        raise RatchetError(f"curate takes the domain first: ratchet curate math {domain}")
    if only and from_:
        raise RatchetError("Give --only or --from, not both.")
    files = {"inputs": input_, "benchmarks": benchmarks}
    lists = {name: json.dumps(paths, ensure_ascii=False) for name, paths in files.items() if paths}
    given = [f"curation.{domain}.{name}={paths}" for name, paths in lists.items()]
    loaded, overrides = load_with_overrides(recipe, set_, seed, *given)
    if check:
        from ratchet.cli.inspection import show_previews

        show_previews(check, domain, loaded.curation_of(domain).columns)
        return
    steps = Steps(only=only, start=from_, refresh=tuple(refresh or ()))
    run_flow("curate", loaded, (domain,), dry_run, home, overrides, steps, f"{only or 'curate'}-{domain}")


@command(RUN)
def train(
    recipe: options.Recipe = "tiny",
    stage: Annotated[str, typer.Option("--stage", help="Train this stage only.")] = "",
    model: Annotated[
        str,
        options.artifact("Start from this checkpoint (`checkpoint/…`), model directory or Hub model.", "--model"),
    ] = "",
    approve: options.Approve = False,
    reject: options.Reject = "",
    set_: options.Overrides = None,
    seed: options.Seed = None,
    dry_run: options.DryRun = False,
    home: options.Home = None,
) -> None:
    """Train a model: the warm start, then all stages. Domains that are not curated yet are curated first.

    A single stage starts from the checkpoint before it, or from `--model`. `ratchet plan` estimates the time and memory
    of each stage.

    Example, after `ratchet run tiny`: `ratchet train tiny --stage math-44 --model checkpoint/math-36 --dry-run`
    """
    loaded, overrides = load_with_overrides(recipe, set_, seed)
    run_flow("train", loaded, (None, stage, model), dry_run, home, overrides, decision=(approve, reject))


@command(RUN)
def evaluate(
    recipe: options.Recipe = "tiny",
    model: Annotated[
        str,
        options.artifact(
            "A checkpoint (`checkpoint/…`), a model's directory or name on the Hub, or URL#NAME of an endpoint.",
            "--model",
        ),
    ] = "",
    benchmarks: Annotated[
        list[str] | None,
        options.benchmark(
            "A benchmark of the recipe, or a known one; repeatable, or separated by commas.", "--benchmark"
        ),
    ] = None,
    samples: Annotated[int | None, typer.Option("--samples", min=1, max=65536, help="Responses per question.")] = None,
    set_: options.Overrides = None,
    dry_run: options.DryRun = False,
    home: options.Home = None,
) -> None:
    """Evaluate a model on benchmarks: scores with error bars, truncation rates, response lengths.

    Responses sampled before with the same settings are reused.

    Example, after `ratchet run tiny`: `ratchet evaluate tiny --model checkpoint/math-44 --samples 64`
    """
    from ratchet.tasks.evaluation import select_benchmarks

    names = [name for part in benchmarks or () for name in part.split(",") if name]
    loaded, overrides = load_with_overrides(recipe, set_)
    if not (model := model or loaded.model.path or ""):
        raise RatchetError(
            "Give a model: --model checkpoint/NAME-KEY (see `ratchet show checkpoint`), a directory, a name on the "
            "Hub, or URL#NAME. By default it is the recipe's model.path."
        )
    run_flow("evaluate", select_benchmarks(loaded, names, samples), (model,), dry_run, home, overrides)


command(LOOK)(show)
command(LOOK)(rollouts)


@command(LOOK)
def compare(
    what: Annotated[
        list[str], options.artifact("Two or more evaluations, first to last (`evaluation/…`); or two runs.")
    ],
    allow_mismatch: Annotated[
        bool, typer.Option("--allow-mismatch", help="Compare despite different settings; the report names them.")
    ] = False,
    home: options.Home = None,
) -> None:
    """Compare models on the same questions, or two runs.

    Models: paired difference with a test, and the questions gained and lost. Runs: what differs in their recipes,
    steps and scores.

    A run is named by its id, its name (the newest of that name), or its id in MLflow.

    Example, after `ratchet run tiny`: `ratchet compare evaluation/start evaluation/math-60`

    Example, also after `ratchet run tiny --seed 1`: `ratchet compare tiny-seed0-pipeline tiny-seed1-pipeline`
    """
    if len(what) < 2:
        raise RatchetError("Name two or more evaluations (`ratchet show evaluation` lists them), or two runs.")
    from ratchet.infra.tracking.run_record import find_run, get_run

    settings = load_settings(home)
    if any(find_run(settings, name) for name in what):
        if len(what) > 2 or allow_mismatch:
            raise RatchetError("Runs are compared two at a time, whatever differs: ratchet compare RUN RUN.")
        from ratchet.cli.show_differences import show_differences

        show_differences(*(get_run(settings, name) for name in what))
        return
    from ratchet.infra.recipe import Recipe

    arguments = (what, not allow_mismatch)
    run_flow("report", Recipe(name="comparisons"), arguments, False, home, title="compare")


@command(LOOK)
def report(
    evaluations: Annotated[
        list[str] | None,
        options.artifact("`evaluation/…` in order, or the evaluations of a `report/…` (default: the newest)."),
    ] = None,
    home: options.Home = None,
) -> None:
    """Write the report of stored evaluations: gains, and every score with its error bar and its query.

    Example, after `ratchet run tiny`: `ratchet report evaluation/start evaluation/math-60`
    """
    from ratchet.infra.recipe import Recipe

    run_flow("report", Recipe(name="reports"), (evaluations or [],), False, home)


for panel, functions in (
    (DATA, (verify, decontaminate, new)), (MACHINES, (doctor, preflight, plan, rehearse, gc, deploy))
):  # fmt: skip
    for function in functions:
        command(panel)(function)
app.command(rich_help_panel=LOOK, cls=PlainCommand)(ui)
app.add_typer(export, name="export", rich_help_panel=DATA)


def _ending() -> list[signal.Signals]:
    """The signals that end a command; a closed terminal (SIGHUP) does not under `nohup`."""
    hung_up = [] if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGINT, signal.SIGTERM, *hung_up]


def _on_signal(number: int, frame: Any) -> None:
    """Interrupt once; exit at once if cleaning up takes too long (Prefect retries a dead server).

    Child processes end either way, and the next mirror ends the runs in MLflow as KILLED.
    """
    for handled in _ending():
        signal.signal(handled, signal.SIG_IGN)
    leave = threading.Timer(LEAVE_AFTER_S, _leave)
    leave.daemon = True
    leave.start()
    raise KeyboardInterrupt


def read_text_as_utf8() -> None:
    """Start again in Python's UTF-8 mode if the locale has another encoding, so that this process and its children read
    and write files and names as UTF-8."""
    if not sys.flags.utf8_mode and locale.getencoding().lower().replace("-", "") != "utf8":
        os.environ["PYTHONUTF8"] = "1"
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def require_folder() -> None:
    """Raises RatchetError if the working directory has been deleted: every relative path would fail in its own way."""
    try:
        os.getcwd()
    except FileNotFoundError as error:
        raise RatchetError("The folder of this terminal has been deleted: change to another with cd.") from error


def disable_telemetry() -> None:
    """Keep libraries from sending usage statistics: where nothing answers, each process would wait for it in
    silence."""
    os.environ.setdefault("DO_NOT_TRACK", "1")


def keep_loopback_off_proxies() -> None:
    """Reach Prefect's server, MLflow, reward servers and engines of this machine without the environment's proxy."""
    for name in ("no_proxy", "NO_PROXY"):
        hosts = [host for host in os.environ.get(name, "").split(",") if host]
        os.environ[name] = ",".join([*hosts, *(host for host in LOOPBACK if host not in hosts)])


def main() -> None:
    """Run a command. Exit codes: 2 with one message for a user's mistake, 3 for a run that waits for approval, 130 with
    the command to continue after an interruption."""
    read_text_as_utf8()
    keep_loopback_off_proxies()
    disable_telemetry()
    for handled in _ending():
        signal.signal(handled, _on_signal)
    try:
        require_folder()
        answer_old_names(sys.argv[1:])
        app()
    except Exception as error:
        message = in_words(error)
        if os.environ.get("RATCHET_DEBUG") or not message:
            raise
        waits = isinstance(error, Waiting)
        label = "[bold yellow]Waiting:[/]" if waits else "[bold red]Error:[/]"
        errors.print(f"{label} {escape(message)}", soft_wrap=True)
        sys.exit(WAITING if waits else 2)


def _leave() -> None:
    with suppress(OSError):  # the terminal may be gone
        say_where_it_stopped()
    os._exit(options.INTERRUPTED)


if __name__ == "__main__":
    main()
