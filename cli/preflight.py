"""`ratchet preflight`: test whether a recipe's machines can run it."""

import typer
from rich.text import Text

from ratchet.cli.options import Home, Overrides
from ratchet.cli.options import Recipe as RecipeName
from ratchet.cli.terminal import console, hint, output, print_json
from ratchet.infra.settings import load_settings

STYLES = {"OK": "green", "FAIL": "bold red", "SKIP": "yellow"}


def preflight(recipe: RecipeName, set_: Overrides = None, home: Home = None) -> None:
    """Test in minutes whether a recipe's machines can run it.

    Links, versions, disk, endpoints, the judge, the longest step of each stage, sampling, a checkpoint, a killed rank:
    each gets a line. `ratchet plan` then uses the measured rates. The exit code is 1 if a check fails.

    Example: `ratchet preflight tiny`

    Example, on its cluster: `ratchet preflight acereason-14b --home /shared/acereason`
    """
    from ratchet.flows.preflight import preflight as checks
    from ratchet.infra.recipe import load_recipe

    rows: list[dict[str, str]] = []

    def show(line: tuple[str, str, str]) -> None:
        name, state, message = line
        rows.append({"check": name, "state": state, "message": message})
        if not output.json:
            console.print(Text.assemble((f"{state:<5}", STYLES[state]), f"{name:<18} ", message), soft_wrap=True)

    checks(load_recipe(recipe, set_ or ()), load_settings(home), show, lambda note: hint(note, style="dim"))
    if output.json:
        print_json(rows)
    states = [row["state"] for row in rows]
    failed = states.count("FAIL")
    if not output.json:
        console.print(f"\n{states.count('OK')} of {len(states)} OK" + (f", {failed} FAIL" if failed else ""))
    if failed:
        raise typer.Exit(1)
