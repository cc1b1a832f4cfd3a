"""Plans, results and artifacts, as the command line prints them."""

import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.padding import Padding
from rich.text import Text
from rich.tree import Tree

from ratchet.cli.terminal import clean, columns, console, hint, output, print_json, print_rows, print_unwrapped, say
from ratchet.infra.keys import flat
from ratchet.infra.settings import Settings
from ratchet.infra.store.artifacts import GIVEN_KINDS, Artifact, ArtifactStore
from ratchet.infra.store.lineage import Lineage
from ratchet.infra.store.manifest import DatasetManifest, ReportManifest
from ratchet.infra.tracking.events import not_received
from ratchet.verifiers.errors import RatchetError

if TYPE_CHECKING:
    from ratchet.tasks.run_context import PlannedStep, RunContext


ACTIONS = {
    "run": ("run", "bold green"), "run_if_inputs_differ": ("run if inputs changed", "green"),
    "cached": ("cached", "cyan"), "not_run": ("not run", "yellow"),
}  # fmt: skip
"""The words and the style for each action of `step_facts`."""
LONGEST = 800
"""Most characters shown of a dropped row's statement, and of the reason."""


def show_steps(plan: "Sequence[PlannedStep]") -> None:
    """Print every step in order, with its inputs, and whether it would run."""
    table, rows = columns("step", "action", "key", "made from"), step_facts(plan)
    for step, row in zip(plan, rows, strict=True):
        if row["action"] == "skipped":
            table.add_row(step.title, "skipped", "exists" if step.cached else "missing", style="dim")
            continue
        key = "" if step.not_done else (row["key"] or "?")[:12]
        made_from = Text(step.not_done or ", ".join(row["made_from"]))
        table.add_row(step.title, Text(*ACTIONS[row["action"]]), key, made_from)
    print_unwrapped(table)
    runnable = [step for step in plan if not step.not_done and not step.left_out]
    for step in runnable:
        if step.same_as:
            say(f"{step.title}: same content as {step.same_as.ref}")
    for step in runnable:
        if step.estimate and not step.cached and all(artifact.path.exists() for artifact in step.inputs):
            say(f"\n{step.title}: {step.estimate()}")
    unsure = sum(row["action"] == "run_if_inputs_differ" for row in rows)
    only = f", {unsure} of them only if their inputs differ from before" if unsure else ""
    console.print(f"\n{sum(not s.cached for s in runnable)} of {len(runnable)} steps would run{only}.")
    if not all(step.output.key_known for step in runnable):
        hint("A key ? is known once the inputs of its step exist.")


def step_facts(plan: "Sequence[PlannedStep]") -> list[dict[str, Any]]:
    """The planned steps as data. `action` is run, run_if_inputs_differ, cached, skipped, or not_run with a reason."""
    titles = {step.output.key: step.title for step in plan if not step.not_done}

    return [
        {
            "step": step.title, "action": _action(step), "key": step.output.key if step.output.key_known else None,
            "made_from": list(dict.fromkeys(titles.get(a.key, str(a.path)) for a in step.inputs)),
            **({"reason": step.not_done} if step.not_done else {}),
        }
        for step in plan
    ]  # fmt: skip


def _action(step: "PlannedStep") -> str:
    if step.not_done or step.left_out:
        return "not_run" if step.not_done else "skipped"
    earlier = not step.output.key_known and any(step.output.path.parent.glob(f"{step.output.name}-*"))
    return "cached" if step.cached else "run_if_inputs_differ" if earlier else "run"


def show_result(run: "RunContext", result: Any) -> None:
    """Print the result of a run, and where to look."""
    artifact = run.outcome(result)
    console.print()
    print_rows(_summary_table(artifact))
    if artifact.kind == "problems":
        console.print(Text.assemble("  ", (str(artifact.kept), "underline")), soft_wrap=True)
    for shown in artifact.manifest.shown:
        if shown.endswith((".html", ".md")) and "/" not in shown:  # pages in folders are linked from these
            console.print(Text.assemble("  ", (str(artifact.path / shown), "underline")), soft_wrap=True)
    say(f"  artifact {artifact.ref}")
    opens = "`ratchet ui` opens MLflow and Prefect on this run; `ratchet show` lists artifacts."
    line = (not run.tracked and not_received(run.settings, run.root)) or opens
    hint(f"  {line}")


def result_facts(run: "RunContext", result: Any) -> dict[str, Any]:
    """The result of a run as data."""
    artifact = run.outcome(result)
    pages = [str(artifact.path / page) for page in artifact.manifest.shown]
    table = _summary_table(artifact)
    return {**_facts(artifact), "directory": str(artifact.path), "pages": pages, "table": table}


def _summary_table(artifact: Artifact) -> list[dict[str, Any]]:
    return ReportManifest.of(artifact).summary_table if artifact.kind == "report" else []


def list_artifacts(settings: Settings, artifacts: Sequence[Artifact], kind: str) -> None:
    """List artifacts, all or of one kind."""
    if not artifacts:
        raise RatchetError(f"There are no artifacts in {settings.home} yet. Start with `ratchet run tiny`.")
    listed = [artifact for artifact in artifacts if kind in ("", artifact.kind)]
    if not listed:
        raise RatchetError(f"No run in {settings.home} has made {kind} yet. `ratchet show` lists the artifacts.")
    if output.json:
        print_json([_facts(artifact) for artifact in listed])
        return
    print_rows(
        {
            "artifact": artifact.ref,
            "made": time.strftime("%Y-%m-%d %H:%M", time.localtime(artifact.manifest.finished_at)),
            "took": f"{artifact.manifest.seconds:.1f} s",
            "result": ", ".join(f"{name} {count:,}" for name, count in artifact.manifest.counts.items())
            or artifact.summary,
        }
        for artifact in listed
    )


def _facts(artifact: Artifact) -> dict[str, Any]:
    manifest = artifact.manifest
    shown = {name: getattr(manifest, name) for name in ("step", "counts", "started_at", "finished_at", "seconds")}
    return {"artifact": artifact.ref, **artifact.facts, "summary": artifact.summary, **shown}


def show_artifact(store: ArtifactStore, artifact: Artifact) -> None:
    """Print an artifact: its summary, manifest and lineage."""
    store.check(artifact)
    manifest = artifact.manifest
    if output.json:
        ancestors = [each.facts for each in store.ancestors([artifact])[:-1]]
        print_json({**_facts(artifact), "manifest": manifest.as_json(), "ancestors": ancestors})
        return
    say(f"{artifact.ref}\n{artifact.summary}".rstrip())
    names = ", ".join(sorted(path.name for path in artifact.path.iterdir()))
    say(f"{artifact.path}\nfiles {names}\ncode {manifest.code}\n")
    print_rows(_summary_table(artifact))
    parameters = flat(manifest.parameters | manifest.own_code)
    print_rows({"parameter": name, "value": str(value)} for name, value in parameters.items())
    if artifact.rejected.is_file():
        _show_curation(artifact)
    print_unwrapped(lineage_tree(Lineage(store), [artifact], down=False))


def _show_curation(artifact: Artifact) -> None:
    """Print the funnel of a data set, and up to ten rows that each rule dropped."""
    import pyarrow.parquet as pq

    from ratchet.data_curation.funnel import funnel, reason, samples, shortened

    manifest = artifact.manifest
    if (artifact.path / "funnel.parquet").is_file():
        rules = pq.read_table(artifact.path / "funnel.parquet")
    elif isinstance(manifest, DatasetManifest) and "dropped" in (manifest.summary or {}):
        rules = funnel([manifest.summary or {}])
    else:
        return
    console.print()
    print_rows(rules.to_pylist())
    for (step, rule), rows in samples(pq.read_table(artifact.rejected)).items():
        console.print(f"\n[bold]{step}: {rule}[/]")
        for row in rows:
            texts = (row["prompt"] or "", reason(json.loads(row["evidence"]), ("span", "item_span")))
            statement, why = (shortened(" ".join(text.split()), LONGEST) for text in texts)
            place = f"{row['source']}:{row['source_id']}  {statement or '(no statement)'}"
            console.print(clean(place), no_wrap=True, overflow="ellipsis")
            print_unwrapped(Padding(clean(why), (0, 0, 0, 4), style="dim", expand=False))
    if page := next((name for name in manifest.shown if name.endswith(".html")), None):
        say(f"\nWith figures: {artifact.path / page}")
    hint("One row and what it was compared with: `ratchet show SOURCE:ROW`")


def lineage_tree(lineage: Lineage, artifacts: Sequence[Artifact], down: bool) -> Tree:
    """A tree of everything that these were made from, up to the raw files; or, `down` to the scores, of everything made
    from them. Each artifact appears once, below its nearest relative."""
    following = lineage.used_by if down else lineage.made_from
    tree, shown = Tree("\n[bold]used by[/]" if down else "\n[bold]made from[/]"), set[str]()

    def grow(branch: Tree, artifact: Artifact) -> None:
        shown.add(artifact.key)
        near = following(artifact)
        beyond = {far.key for each in near for far in (lineage.ahead if down else lineage.behind)(each)}
        for each in near if down else reversed(near):
            if each.key in beyond and artifact.key not in beyond:
                continue
            again = each.key in shown
            label = Text.assemble(each.ref, (" (above)", "dim")) if again else _label(each, lineage)
            if (each.key, artifact.key) in lineage.changed:
                label.append(" (made again since, with other content)", style="yellow")
            below = branch.add(label)
            if not again:
                grow(below, each)

    for artifact in artifacts:
        grow(tree.add(_label(artifact, lineage)), artifact)
    return tree


def _label(artifact: Artifact, lineage: Lineage) -> Text:
    if artifact.kind in GIVEN_KINDS:
        return Text.assemble(str(artifact.path), (f"  sha256 {artifact.key}", "dim"))
    if artifact.key not in lineage.known:
        return Text.assemble(artifact.ref, (" (no longer in the store)", "yellow"))
    style = "green" if artifact.kind == "evaluation" else "dim"
    return Text.assemble(artifact.ref, (f"  {artifact.summary}", style))


def show_previews(sources: Sequence[str], domain: str, columns: Mapping[str, str]) -> None:
    """Print how the rows of each source are read."""
    from ratchet.data_curation.preview import preview_sources

    previews = [preview for source in sources for preview in preview_sources(source, domain, columns)]
    if output.json:
        print_json([preview.as_json() for preview in previews])
        return
    for preview in previews:
        for line in preview.lines():
            text = clean(line)
            text.stylize("yellow" if line.startswith("!") else "dim" if line.startswith("      ") else "")
            console.print(text, soft_wrap=True)
