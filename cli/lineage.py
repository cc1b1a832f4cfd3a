"""`ratchet lineage` and `ratchet diff`: where something comes from, what came of it, and what two runs differ in."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from ratchet.cli.terminal import columns, console, print_whole
from ratchet.infra.errors import RatchetError
from ratchet.infra.recipe.keys import flat
from ratchet.infra.settings import Settings, load_settings

if TYPE_CHECKING:
    from ratchet.infra.artifacts import Artifact
    from ratchet.infra.run_record import RunRecord, RunStep

HomeOption = Annotated[str | None, typer.Option("--home", help="Where everything is kept (default: ./.ratchet).")]


def lineage(
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help="An artifact or a beginning of its name or key, a file, or a run.")
    ],
    down: Annotated[bool, typer.Option("--down", help="What was made from it, down to the scores.")] = False,
    home: HomeOption = None,
) -> None:
    """What something was made from, up to the raw files and their hashes, or what was made from it.

    Example: `ratchet lineage math_train.json --down`
    """
    from ratchet.cli.inspection import lineage_tree
    from ratchet.infra.artifacts import GIVEN_KINDS, ArtifactStore
    from ratchet.infra.lineage import Lineage, scores
    from ratchet.infra.run_record import find_run

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
    one: Annotated[str, typer.Argument(metavar="RUN", help="By its id, its name (the newest), or its id in MLflow.")],
    other: Annotated[str, typer.Argument(metavar="RUN", help="Another.")],
    home: HomeOption = None,
) -> None:
    """What two runs differ in, where they first did, and what they reached.

    Example: `ratchet diff tiny-seed0-pipeline tiny-seed1-pipeline`
    """
    settings = load_settings(home)
    runs = (_run(settings, one), _run(settings, other))
    for run, mark in zip(runs, "AB", strict=True):
        said = run.tags.get("ratchet.overrides")
        console.print(Text.assemble((f"{mark}  ", "bold"), f"{run.name} {run.run_id}", f"  {said}" if said else ""))
    different = _different(flat(dict(runs[0].recipe)), flat(dict(runs[1].recipe)))
    _show("Recipes", different)
    steps = [{step.title: step for step in run.steps} for run in runs]
    shared = [(steps[0][title], steps[1][title]) for title in steps[0] if title in steps[1]]
    changed = [_Change(a, b) for a, b in shared if a.output.key != b.output.key]
    own = [change for change in changed if change.facts]
    for number, change in enumerate(own):
        _show(f"{'First' if number == 0 else 'And by itself'}: {change.title}", change.facts)
    followed = [change.title for change in changed if not change.facts]
    console.print(f"\n[bold]Only because of what they read[/]: {', '.join(followed) or 'nothing'}", soft_wrap=True)
    if same := [change.title for change in changed if change.same_content]:
        console.print(f"[bold]With the same content in the end[/]: {', '.join(same)}", soft_wrap=True)
    for mark, mine, its in (("A", *steps), ("B", *reversed(steps))):
        if only := [title for title in mine if title not in its]:
            console.print(f"[bold]Only in {mark}[/]: {', '.join(only)}", soft_wrap=True)
    console.print(f"{len(shared) - len(changed)} of {len(shared)} steps are the same.")
    _show_scores(shared)


@dataclass(frozen=True)
class _Change:
    """A step of both runs that is not the same."""

    a: "RunStep"
    b: "RunStep"

    @property
    def title(self) -> str:
        return self.a.title

    @property
    def finished(self) -> bool:
        return self.a.output.finished and self.b.output.finished

    @property
    def same_content(self) -> bool:
        return self.finished and self.a.output.content() == self.b.output.content()

    @property
    def facts(self) -> list[tuple[str, Any, Any]]:
        """What differs in the step itself: its settings, its version, the files it was given; else nothing."""
        if not self.finished:
            return [("finished", self.a.output.finished, self.b.output.finished)]
        return _different(dict(_own(self.a.output)), dict(_own(self.b.output)))


def _own(artifact: "Artifact") -> Iterator[tuple[str, Any]]:
    from ratchet.infra.artifacts import FILE_KIND, GIVEN_KINDS

    manifest = artifact.manifest
    yield from flat(manifest["parameters"]).items()
    yield "version of the step", manifest["step_version"]
    for facts in manifest["inputs"]:
        if facts["kind"] in GIVEN_KINDS:
            yield f"{'sha256 of ' if facts['kind'] == FILE_KIND else ''}{facts['name']}", facts["key"]


def _different(one: dict[str, Any], other: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    names = dict.fromkeys([*one, *other])
    return [(name, one.get(name), other.get(name)) for name in names if one.get(name) != other.get(name)]


def _run(settings: Settings, what: str) -> "RunRecord":
    from ratchet.infra.run_record import find_run

    found = find_run(settings, what)
    if found is None:
        newest = [journal.stem for journal in sorted(settings.journals.glob("*.jsonl"))[-5:]]
        raise RatchetError(f"No run {what!r} in {settings.home}. The newest: {', '.join(newest) or 'none yet'}.")
    return found


def _show(title: str, facts: list[tuple[str, Any, Any]]) -> None:
    console.print(f"\n[bold]{title}[/]" + ("" if facts else ": the same"))
    if facts:
        table = columns("", "A", "B")
        for name, a, b in facts:
            table.add_row(Text(name), *(Text("–" if value is None else str(value)) for value in (a, b)))
        print_whole(table)


def _show_scores(shared: "list[tuple[RunStep, RunStep]]") -> None:
    table = columns("score", "A", "B")
    compared = [(a, b) for a, b in shared if a.output.kind == "evaluation" and _Change(a, b).finished]
    for a, b in compared:
        metrics = [step.output.manifest["metrics"] for step in (a, b)]
        for name in metrics[0]:
            if name.endswith("/pass_at_1") and name in metrics[1]:
                told = f"{a.output.name} {name.removesuffix('/pass_at_1')} pass@1"
                table.add_row(told, *(f"{each[name]:.3f} ± {each[f'{name}_standard_error']:.3f}" for each in metrics))
    if table.row_count:
        console.print()
        print_whole(table)
        a, b = compared[-1]
        if a.output.key != b.output.key:
            console.print(f"Paired, with a test: ratchet compare {a.output.ref} {b.output.ref}", soft_wrap=True)
