"""`ratchet recipes`: the shipped recipes, or one in full."""

from typing import Annotated

import typer
import yaml
from rich.text import Text

from ratchet.cli.options import Overrides
from ratchet.cli.options import recipe as recipe_named
from ratchet.cli.terminal import console
from ratchet.infra.recipe.load import load_recipe, read_recipe, shipped_recipes

PLAIN = type("Plain", (yaml.SafeDumper,), {"ignore_aliases": lambda *_: True})
"""YAML without anchors, so that each section can be edited alone."""


def recipes(
    name: Annotated[str, recipe_named("A recipe file or shipped recipe (default: list all).")] = "",
    full: Annotated[bool, typer.Option("--full", help="Every field, defaults included.")] = False,
    set_: Overrides = None,
) -> None:
    """List the shipped recipes, or print one as YAML, with `extends` and `set` applied.

    The output is a recipe: save it, change it, and run it.

    Example: `ratchet recipes tiny > mine.yaml`
    """
    if not name:
        names = shipped_recipes()
        width = max(map(len, names))
        for shipped in names:
            facts = read_recipe(shipped)
            console.print(Text.assemble((f"{shipped:{width}} ", "bold"), facts.get("description", "")), soft_wrap=True)
            console.print(Text(f"{'':{width}} {facts.get('needs', '')}", style="dim"), soft_wrap=True)
        return
    recipe = load_recipe(name, set_ or ())
    data = recipe.model_dump(mode="json") if full else read_recipe(name, set_ or ())
    console.file.write(yaml.dump(data, Dumper=PLAIN, sort_keys=False, allow_unicode=True, width=110))
