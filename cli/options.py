"""Arguments and options that several commands share, with their shell completion."""

import functools
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from ratchet.cli.stopped import say_where_it_stopped
from ratchet.cli.terminal import errors, output
from ratchet.infra.settings import load_settings


def _recipes(context: typer.Context, incomplete: str) -> list[str]:
    """Shipped recipes and recipe files."""
    from ratchet.infra.recipe.load import shipped_recipes

    files = [str(file) for file in Path().glob(f"{incomplete}*") if file.suffix in (".yaml", ".yml")]
    return [*shipped_recipes(), *files]


def _artifacts(context: typer.Context, incomplete: str) -> list[str]:
    """Finished artifacts by the names of their directories; no file is read."""
    store = load_settings(context.params.get("home")).artifacts
    return ["/".join(manifest.parts[-3:-1]) for manifest in sorted(store.glob("*/*/manifest.json"))]


def _benchmarks(context: typer.Context, incomplete: str) -> Iterable[str]:
    from ratchet.infra.recipe.evaluation import CATALOG

    return CATALOG


def _curation_steps(context: typer.Context, incomplete: str) -> Iterable[str]:
    from ratchet.data_curation.settings.curation import CURATION_STEPS

    return CURATION_STEPS


def _completed(candidates: Callable[[typer.Context, str], Iterable[str]]) -> Callable[..., Any]:
    """Build arguments, or with `names` options, with shell completion."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        return [name for name in candidates(context, incomplete) if name.startswith(incomplete)]

    def make(help_: str, *names: str, **settings: Any) -> Any:
        kind = typer.Option if names else typer.Argument
        return kind(*names, help=help_, autocompletion=complete, **settings)

    return make


artifact, recipe = _completed(_artifacts), _completed(_recipes)
benchmark, step = _completed(_benchmarks), _completed(_curation_steps)


def _say_what_is_hidden(name: str) -> str:
    from ratchet.infra.recipe.load import hidden_recipe

    if file := hidden_recipe(name):
        errors.print(f"[yellow]![/] {file} is used, not the shipped recipe of that name.", soft_wrap=True)
    return name


Recipe = Annotated[str, recipe("A recipe file, or the name of a shipped recipe.", callback=_say_what_is_hidden)]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override one field of the recipe; repeatable.")
]
Seed = Annotated[int | None, typer.Option("--seed", min=0, max=2**63 - 1, help="Override the recipe's seed.")]
Approve = Annotated[bool, typer.Option("--approve", help="Approve the results that the run waits for, and continue.")]
Reject = Annotated[
    str, typer.Option("--reject", metavar="REASON", help="Reject the results that the run waits for, and end it.")
]
Home = Annotated[Path | None, typer.Option("--home", help="Directory of all outputs.", show_default="./.ratchet")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="List the steps that would run and those that are cached.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout, everything else on stderr.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the result: no progress, no hints.")]


TYPES = {"<bool>": "", "<str>": "TEXT", "<list[str]>": "TEXT", "<int range>": "INTEGER", "<float range>": "NUMBER"}
"""The names of types in `--help`, as in Click's: a flag has none."""


class _NamedTypes:
    def get_params(self, ctx: Any) -> list[Any]:
        params = super().get_params(ctx)  # type: ignore
        for param in params:
            if isinstance(param, TyperOption) and param.metavar is None and hasattr(param, "display_type"):
                shown = param.display_type(ctx)
                param.metavar = TYPES.get(shown, shown.strip("<>") if "|" in shown else shown.strip("<>").upper())
        return params


class PlainCommand(_NamedTypes, TyperCommand):
    """A command whose `--help` names types as Click does."""


class PlainGroup(_NamedTypes, TyperGroup):
    """A group of commands whose `--help` names types as Click does."""


def _expanded(value: Any) -> Any:
    """Paths with a home directory for `~`, which a shell leaves in `--output=~/kept`."""
    if isinstance(value, list):
        return [_expanded(each) for each in value]
    return value.expanduser() if isinstance(value, Path) else value


INTERRUPTED = 130
"""Exit code of a command that a signal ended."""


def with_output(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options `--json` and `--quiet` to a command; their values are in `terminal.output`."""

    @functools.wraps(command)
    def run(*, as_json: bool, quiet: bool, **arguments: Any) -> None:
        output.use(as_json, quiet)
        try:
            command(**{name: _expanded(value) for name, value in arguments.items()})
        except KeyboardInterrupt:
            say_where_it_stopped()
            raise typer.Exit(INTERRUPTED) from None

    own = inspect.signature(command, eval_str=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    added = [
        inspect.Parameter(name, keyword, default=False, annotation=kind)
        for name, kind in (("as_json", AsJson), ("quiet", Quiet))
    ]
    shown = [parameter.replace(kind=keyword) for parameter in own.parameters.values()]
    run.__signature__ = own.replace(parameters=[*shown, *added])  # type: ignore
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in [*shown, *added]}
    return run
