"""`ratchet show`: artifacts, runs, files, rows of raw data, recipes, and approvals."""

import os.path
import re
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.text import Text

from ratchet.cli.options import Home, Overrides, artifact
from ratchet.cli.options import recipe as recipe_named
from ratchet.cli.terminal import columns, console, hint, output, print_json, print_unwrapped
from ratchet.infra.settings import Settings, load_settings
from ratchet.tasks.progress import duration
from ratchet.verifiers.errors import RatchetError

PLAIN = type("Plain", (yaml.SafeDumper,), {"ignore_aliases": lambda *_: True})
"""A YAML dumper without anchors, so that each section can be edited alone."""
RUN_HERE = ("tiny", "tiny-prorl", "word-problems-smollm2", "gsm8k-smollm2", "acereason-0.5b", "own-data")
"""Recipes that run on two cores, listed first."""
ABLATIONS = "ablations/"
KINDS = (
    "raw", "problems", "attempts", "contamination", "traces", "checkpoint", "pass_rates", "evaluation", "report", "gate"
)  # fmt: skip
"""Kinds of artifacts that steps make."""
ROW = re.compile(r".+:\d+|[0-9a-f]{6,16}|.*\s.*", re.DOTALL)
"""Text that names a row: `SOURCE:ROW`, the beginning of a problem_id, or words of a statement."""


def show(
    what: Annotated[
        str,
        artifact(
            "An artifact, by its name or key or the beginning of one; a kind of artifact; a run; a file; a recipe; "
            "`runs`; `recipes`; `schema` (of recipe files); `approvals`; or a row: `problem_id`, SOURCE:ROW, or some "
            "of its text."
        ),
    ] = "",
    used_by: Annotated[bool, typer.Option("--used-by", help="Show what was made from it, down to the scores.")] = False,
    run: Annotated[
        str | None, typer.Option("--run", help="For a row: in this run (default: the last of each domain).")
    ] = None,
    recipe: Annotated[str | None, recipe_named("For a row: in the last run of this recipe.", "--recipe")] = None,
    full: Annotated[
        bool,
        typer.Option("--full", help="For a recipe: show every field, defaults included. For `recipes`: ablations too."),
    ] = False,
    price: Annotated[
        float | None, typer.Option("--price", min=0, max=1e9, help="For a run: price per GPU-hour.")
    ] = None,
    set_: Overrides = None,
    home: Home = None,
) -> None:
    """Show an artifact and its lineage, the progress of a run, the history of a row, or a recipe.

    Example, after `ratchet run tiny`: `ratchet show evaluation/math-60`

    Example, after `ratchet run tiny`: `ratchet show 'How many balls are there?'`

    Example: `ratchet show tiny > mine.yaml`
    """
    from ratchet.infra.recipe.load import load_recipe, read_recipe, shipped_recipes
    from ratchet.infra.recipe.schema import recipe_schema

    settings = load_settings(home)
    if what == "recipes":
        _list_recipes(full)
    elif what == "approvals":
        _list_approvals(settings)
    elif what == "runs":
        _list_runs(settings)
    elif what == "schema":
        print_json(recipe_schema())
    elif run or recipe:
        if not what:
            raise RatchetError("--run and --recipe are for a row: name one. A run is shown by ratchet show RUN.")
        _row(settings, what, run, load_recipe(recipe).name if recipe and _is_recipe_file(recipe) else recipe)
    elif what in shipped_recipes() or _is_recipe_file(what):
        data = load_recipe(what, set_ or ()).model_dump(mode="json") if full else read_recipe(what, set_ or ())
        if output.json:
            print_json(data)
            return
        console.file.write(yaml.dump(data, Dumper=PLAIN, sort_keys=False, allow_unicode=True, width=110))
    else:
        _show(settings, what, used_by, price)


def _is_recipe_file(name: str) -> bool:
    return Path(name).suffix in (".yaml", ".yml") or os.path.isfile(f"{name}.yaml")


def _show(settings: Settings, what: str, used_by: bool, price: float | None) -> None:
    from ratchet.cli.inspection import lineage_tree, list_artifacts, show_artifact
    from ratchet.cli.show_run import run_facts, show_run
    from ratchet.infra.store.artifacts import GIVEN_KINDS, SHOWN, ArtifactStore, matches, resolve
    from ratchet.infra.store.lineage import Lineage
    from ratchet.infra.tracking.run_record import find_run

    store = ArtifactStore(settings.artifacts)
    artifacts = list(store.all())
    if not what or what in {*KINDS, *(artifact.kind for artifact in artifacts)}:
        list_artifacts(settings, artifacts, what)
        return
    named = matches(what, artifacts)
    if len(named) > 1 and len({(each.kind, each.name) for each in named}) == 1:
        others = ", ".join(each.ref for each in named[-2::-1][:SHOWN])
        hint(f"{what} has {len(named)} versions. This is the newest; before it: {others}")
        what = named[-1].ref
    stored = resolve(what, artifacts, store.root) if named else None
    if stored and not used_by:
        show_artifact(store, stored)
        return
    record, lineage = None if stored else find_run(settings, what), Lineage(store)
    is_known = record or os.path.isfile(what) or matches(what, list(lineage.known.values()))
    if not is_known and ROW.fullmatch(what):
        _row(settings, what, None, None)
        return
    facts: dict[str, Any] = {}
    if record and output.json:
        facts = run_facts(settings, record, price)
    elif record:
        show_run(settings, record, price)
    if record:
        origins = [origin for end in record.ends for origin in lineage.behind(end) if origin.kind in GIVEN_KINDS]
        tops = list({origin.key: origin for origin in origins}.values()) if used_by else record.ends
    else:
        tops = [lineage.find(what)]
    if output.json:
        following = lineage.ahead if used_by else lineage.behind
        near = {each.key: each.facts for top in tops for each in following(top)}
        tree = {"artifacts": [top.facts for top in tops], "used_by" if used_by else "made_from": [*near.values()]}
        print_json({**facts, **tree})
        return
    print_unwrapped(lineage_tree(lineage, tops, down=used_by))
    if used_by:
        made = [each for top in tops for each in (top, *lineage.ahead(top))]
        reached = {each.key for each in made if each.kind == "evaluation" and each.finished}
        console.print(f"\n{len(reached)} scores reached.")


def _row(settings: Settings, what: str, run: str | None, recipe: str | None) -> None:
    from ratchet.cli.show_row import show_row

    show_row(settings, what, run, recipe)


def _list_recipes(ablations: bool) -> None:
    """Recipes to start from, and with `ablations` the one-factor variations of them."""
    from ratchet.infra.recipe.load import read_recipe, shipped_recipes

    others = sorted(set(shipped_recipes()) - {*RUN_HERE}, key=lambda name: (name.startswith(ABLATIONS), name))
    names = [name for name in (*RUN_HERE, *others) if ablations or output.json or not name.startswith(ABLATIONS)]
    if output.json:
        facts = {name: read_recipe(name) for name in names}
        print_json([
            {"recipe": name, "description": facts[name].get("description", ""), "needs": facts[name].get("needs", "")}
            for name in names
        ])  # fmt: skip
        return
    width = max(map(len, names))
    for name in names:
        facts = read_recipe(name)
        console.print(Text.assemble((f"{name:{width}} ", "bold"), facts.get("description", "")), soft_wrap=True)
        console.print(Text(f"{'':{width}} {facts.get('needs', '')}", style="dim"), soft_wrap=True)
    if hidden := len(RUN_HERE) + len(others) - len(names):
        hint(f"And {hidden} ablations, each of one change: `ratchet show recipes --full`")


def _list_runs(settings: Settings) -> None:
    from ratchet.cli.show_run import run_row
    from ratchet.infra.tracking.run_record import all_runs

    rows = [run_row(settings, run) for run in all_runs(settings)]
    if output.json:
        print_json([asdict(row) for row in rows])
        return
    table = columns("run", "name", "began", "state", "steps")
    for row in rows:
        cells = (row.run, row.name, row.began, f"{row.state} {duration(row.seconds)}", str(row.steps))
        table.add_row(*map(Text, cells))
    print_unwrapped(table)


def _list_approvals(settings: Settings) -> None:
    from ratchet.infra.store.approvals import Approvals

    if output.json:
        print_json([
            {"run": each.run, "gate": each.gate, "results": each.summary}
            | each.model_dump(include={"approved", "by", "at", "reason"})
            for each in Approvals(settings).all()
        ])  # fmt: skip
        return
    table = columns("run", "gate", "decision", "results")
    for approval in Approvals(settings).all():
        decision = "waits" if approval.approved is None else str(approval)
        table.add_row(*map(Text, (approval.run, approval.gate, decision, approval.summary)))  # no markup
    print_unwrapped(table)
