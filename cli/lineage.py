"""`ratchet show`, `ratchet lineage` and `ratchet diff`: artifacts, what they were made from, and how runs differ."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from ratchet.cli.options import AsJson, Home, artifact
from ratchet.cli.terminal import columns, console, print_whole
from ratchet.infra.keys import flat
from ratchet.infra.settings import load_settings

if TYPE_CHECKING:
    from ratchet.infra.store.artifacts import Artifact
    from ratchet.infra.tracking.run_record import RunStep

Facts = list[tuple[str, Any, Any]]
"""Name, and what it is in each of two runs."""


def show(
    what: Annotated[str, artifact("An artifact or the beginning of its name or key, or a kind (default: all).")] = "",
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """List artifacts, or show one: parameters, counts, dropped rows, and everything it was made from.

    Example: `ratchet show evaluation/math-60-1a2b3c4d5e6f`
    """
    from ratchet.cli.inspection import show_artifacts

    show_artifacts(load_settings(home), what, as_json)


def lineage(
    what: Annotated[str, artifact("An artifact or the beginning of its name or key, a file, or a run.")],
    down: Annotated[bool, typer.Option("--down", help="Show what was made from it, down to the scores.")] = False,
    home: Home = None,
) -> None:
    """Show everything that something was made from, up to the raw files and their hashes; or made from it.

    Example: `ratchet lineage math_train.json --down`
    """
    from ratchet.cli.inspection import lineage_tree
    from ratchet.infra.store.artifacts import GIVEN_KINDS, ArtifactStore
    from ratchet.infra.store.lineage import Lineage, scores
    from ratchet.infra.tracking.run_record import find_run

    settings = load_settings(home)
    known = Lineage(ArtifactStore(settings.artifacts))
    if run := find_run(settings, what):
        console.print(f"{run.name} {run.run_id}", markup=False)
        begins = [each for end in run.ends for each in known.behind(end) if each.kind in GIVEN_KINDS]
        artifacts = list({each.key: each for each in begins}.values()) if down else run.ends
    else:
        artifacts = [known.find(what)]
    print_whole(lineage_tree(known, artifacts, down))
    if down:
        reached = {score.key for artifact in artifacts for score in scores([artifact, *known.ahead(artifact)])}
        console.print(f"\n{len(reached)} scores reached.")


def diff(
    one: Annotated[str, typer.Argument(metavar="RUN", help="A run's id, its name (the newest), or its id in MLflow.")],
    other: Annotated[str, typer.Argument(metavar="RUN", help="Another run.")],
    home: Home = None,
) -> None:
    """Show how two runs differ: in their recipes, in their steps, in their scores.

    Example: `ratchet diff tiny-seed0-pipeline tiny-seed1-pipeline`
    """
    from ratchet.infra.tracking.run_record import get_run

    settings = load_settings(home)
    runs = (get_run(settings, one), get_run(settings, other))
    for run, mark in zip(runs, "AB", strict=True):
        overrides = f"  {run.tags['ratchet.overrides']}" if "ratchet.overrides" in run.tags else ""
        console.print(Text.assemble((f"{mark}  ", "bold"), f"{run.name} {run.run_id}{overrides}"))
    _show("Recipes", _different(flat(dict(runs[0].recipe)), flat(dict(runs[1].recipe))))
    steps = [{step.title: step for step in run.steps} for run in runs]
    shared = [(step, steps[1][title]) for title, step in steps[0].items() if title in steps[1]]
    changed = [(a.title, a.output, b.output) for a, b in shared if a.output.key != b.output.key]
    own = {title: _own_changes(a, b) for title, a, b in changed}
    for number, (title, facts) in enumerate((title, facts) for title, facts in own.items() if facts):
        _show(f"{'First' if number == 0 else 'Also changed'}: {title}", facts)
    _list("Changed only by their inputs", [title for title, facts in own.items() if not facts] or ["none"])
    same = [title for title, a, b in changed if a.finished and b.finished and a.content() == b.content()]
    _list("With the same content in the end", same)
    for mark, mine, its in (("A", *steps), ("B", *reversed(steps))):
        _list(f"Only in {mark}", [title for title in mine if title not in its])
    console.print(f"{len(shared) - len(changed)} of {len(shared)} steps are the same.")
    _show_scores(shared)


def _own_changes(a: "Artifact", b: "Artifact") -> Facts:
    """Differences of the step itself: its parameters, its version, the files it was given."""
    if not (a.finished and b.finished):
        return [("finished", a.finished, b.finished)]
    return _different(dict(_own(a)), dict(_own(b)))


def _own(artifact: "Artifact") -> Iterator[tuple[str, Any]]:
    from ratchet.infra.store.artifacts import FILE_KIND, GIVEN_KINDS

    manifest = artifact.manifest
    yield from flat(manifest["parameters"]).items()
    yield "version of the step", manifest["step_version"]
    yield from ((f"code of {module}", digest) for module, digest in manifest.get("own_code", {}).items())
    for facts in manifest["inputs"]:
        if facts["kind"] in GIVEN_KINDS:
            yield f"{'sha256 of ' if facts['kind'] == FILE_KIND else ''}{facts['name']}", facts["key"]


def _different(one: dict[str, Any], other: dict[str, Any]) -> Facts:
    names = dict.fromkeys([*one, *other])
    return [(name, one.get(name), other.get(name)) for name in names if one.get(name) != other.get(name)]


def _list(title: str, names: list[str]) -> None:
    if names:
        console.print(f"\n[bold]{title}[/]: {', '.join(names)}", soft_wrap=True)


def _show(title: str, facts: Facts) -> None:
    console.print(f"\n[bold]{title}[/]" + ("" if facts else ": the same"))
    if facts:
        table = columns("", "A", "B")
        for name, a, b in facts:
            table.add_row(Text(name), *(Text("–" if value is None else str(value)) for value in (a, b)))
        print_whole(table)


def _show_scores(shared: "list[tuple[RunStep, RunStep]]") -> None:
    table = columns("score", "A", "B")
    pairs = [(a.output, b.output) for a, b in shared if a.output.kind == "evaluation"]
    finished = [(a, b) for a, b in pairs if a.finished and b.finished]
    for a, b in finished:
        metrics = [evaluation.manifest["metrics"] for evaluation in (a, b)]
        for name in metrics[0]:
            if name.endswith("/pass_at_1") and name in metrics[1]:
                title = f"{a.name} {name.removesuffix('/pass_at_1')} pass@1"
                table.add_row(title, *(f"{each[name]:.3f} ± {each[f'{name}_standard_error']:.3f}" for each in metrics))
    if table.row_count:
        console.print()
        print_whole(table)
        a, b = finished[-1]
        if a.key != b.key:
            console.print(f"Paired, with a test: ratchet compare {a.ref} {b.ref}", soft_wrap=True)
