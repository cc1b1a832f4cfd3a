"""What the command line prints about plans, results, artifacts and the machine."""

from __future__ import annotations

import os
import platform
import re
import shutil
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from infra.artifacts import FILE_KIND, Artifact, ArtifactStore
from infra.errors import RatchetError
from infra.settings import Settings
from infra.tracking import read_state
from tasks.lineage import parents
from tasks.pipeline_run import PipelineRun, PlannedStep

TESTED_WITH = {"torch": "2.13", "transformers": "5.19", "deepspeed": "0.19", "prefect": "3.7", "mlflow": "3.17"}


def show_plan(console: Console, plan: Sequence[PlannedStep]) -> None:
    """Every step in order, with what it reads, and whether it would run."""
    titles = {step.output.key: step.title for step in plan if not step.not_done}
    table = Table("step", "would", "key", "made from", box=None, padding=(0, 2, 0, 0))
    for step in plan:
        if step.not_done:
            table.add_row(step.title, Text("not be done", style="yellow"), step.not_done, "")
            continue
        would = Text("be cached", style="cyan") if step.cached else Text("run", style="bold green")
        made_from = dict.fromkeys(titles.get(a.key, str(a.path)) for a in step.inputs)
        table.add_row(step.title, would, step.output.key[:12], ", ".join(made_from))
    known = [step for step in plan if not step.not_done]
    console.print(table)
    console.print(f"\n{sum(not s.cached for s in known)} of {len(known)} steps would run.")


def show_result(console: Console, run: PipelineRun, result: Any) -> None:
    """After a run: what came out, and where to look."""
    artifact = getattr(result, "problems", None) or getattr(result, "checkpoint", None) or result
    console.print()
    manifest = artifact.manifest
    if manifest.get("summary_table"):
        _print_table(console, manifest["summary_table"])
    for shown in manifest.get("shown", []):
        if shown.endswith((".html", ".md")):
            console.print(Text.assemble(("  ", ""), (str(artifact.path / shown), "underline")), soft_wrap=True)
    console.print(f"  artifact {artifact.ref}", soft_wrap=True)
    if run.tracked:
        console.print(
            "  [dim]ratchet ui[/] opens MLflow and Prefect on this run; [dim]ratchet show[/] lists artifacts."
        )
    else:
        console.print(
            f"  MLflow at {run.settings.tracking_uri} has not received everything yet "
            f"(see {run.settings.logs / 'mlflow-mirror.log'}); the next command sends the rest."
        )


def _print_table(console: Console, rows: Sequence[dict[str, Any]]) -> None:
    table = Table(box=None, padding=(0, 1, 0, 2), header_style="bold")
    for name in rows[0]:
        table.add_column(name)
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    console.print(table)


def show_artifacts(console: Console, settings: Settings, what: str) -> None:
    """All artifacts, those of one kind, or one with its ancestry."""
    store = ArtifactStore(settings.artifacts)
    artifacts = list(store.all())
    if not artifacts:
        raise RatchetError(f"Nothing has been made in {settings.home} yet. Start with `ratchet run tiny`.")
    if what and what not in {a.kind for a in artifacts}:
        _show_one(console, store, store.open(what))
        return
    table = Table("artifact", "made", "took", "counts", box=None, padding=(0, 2, 0, 0))
    for artifact in artifacts:
        if what in ("", artifact.kind):
            manifest = artifact.manifest
            made = time.strftime("%Y-%m-%d %H:%M", time.localtime(manifest["finished_at"]))
            counts = ", ".join(f"{name} {count:,}" for name, count in manifest["counts"].items())
            table.add_row(artifact.ref, made, f"{manifest['seconds']:.1f} s", counts)
    console.print(table)


def _show_one(console: Console, store: ArtifactStore, artifact: Artifact) -> None:
    store.check(artifact)
    manifest = artifact.manifest
    console.print(f"[bold]{artifact.ref}[/]\n{artifact.path}\ncode {manifest['code']}\n", soft_wrap=True)
    if manifest.get("summary_table"):
        _print_table(console, manifest["summary_table"])
    table = Table("parameter", "value", box=None, padding=(0, 2, 0, 0))
    for name, value in manifest["parameters"].items():
        table.add_row(name, Text(str(value)))
    console.print(table)
    if artifact.rejected.is_file():
        _show_curation(console, artifact)
    console.print(_ancestry(store, artifact, Tree("\n[bold]made from[/]"), set()))


def _show_curation(console: Console, artifact: Artifact) -> None:
    """The funnel of a data set, and up to ten rows that each rule dropped."""
    import pyarrow.parquet as pq

    from data_curation.funnel import funnel, samples

    manifest = artifact.manifest
    if (artifact.path / "funnel.parquet").is_file():
        rules = pq.read_table(artifact.path / "funnel.parquet")
    elif "dropped" in manifest.get("summary", {}):
        rules = funnel([manifest["summary"]])
    else:
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in rules.column_names:
        table.add_column(name.replace("_", " "), justify="left" if name in ("step", "rule") else "right")
    for row in rules.to_pylist():
        cells = (f"{value:,}" if isinstance(value, int) else value for value in row.values())
        table.add_row(*cells, style="" if row["dropped"] else "dim")
    console.print()
    console.print(table)
    for (step, rule), rows in samples(pq.read_table(artifact.rejected)).items():
        console.print(f"\n[bold]{step}: {rule}[/]")
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, expand=True)
        for ratio in (None, 3, 2):
            table.add_column(no_wrap=True, overflow="ellipsis", ratio=ratio)
        for row in rows:
            texts = (row["prompt"] or "(no statement)", row["evidence"])
            table.add_row(f"{row['source']}:{row['source_id']}", *(Text(_one_line(text)) for text in texts))
        console.print(table)
    if page := next((name for name in manifest.get("shown", []) if name.endswith(".html")), None):
        console.print(f"\nWith figures: [underline]{artifact.path / page}[/]", soft_wrap=True)
    console.print("One row and what it was compared with: ratchet why SOURCE:ROW", highlight=False)


def _one_line(text: str) -> str:
    """On one line, and without characters that would move the cursor: the text is a data set's."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\s]+", " ", text)


def _ancestry(store: ArtifactStore, artifact: Artifact, tree: Tree, told: set[str]) -> Tree:
    """Nearest first; what an artifact was made from is told once."""
    for parent in reversed(parents(artifact, store)):
        if parent.kind == FILE_KIND:
            tree.add(f"{parent.path}  [dim]sha256 {parent.key[:16]}…[/]")
        elif parent.finished and parent.key in told:
            tree.add(f"{parent.ref} [dim](above)[/]")
        elif parent.finished:
            told.add(parent.key)
            _ancestry(store, parent, tree.add(parent.ref), told)
        else:
            tree.add(f"{parent.ref} [yellow](no longer in the store)[/]")
    return tree


def check_machine(console: Console, settings: Settings) -> bool:
    """One line per check; False when something would stop a run."""
    checks = [*_versions(), _cores(), _memory(), _disk(settings), *_sandbox(), *_store(settings)]
    for good, name, detail in checks:
        mark = Text("✓", style="green") if good else Text("✗", style="bold red")
        console.print(Text.assemble(mark, f" {name:<14}", detail), soft_wrap=True)
    return all(good for good, _, _ in checks)


Check = tuple[bool, str, str]


def _versions() -> list[Check]:
    found: list[Check] = []
    for package, tested in TESTED_WITH.items():
        try:
            installed = version(package)
            note = "" if installed.startswith(tested) else f" (tested with {tested})"
            found.append((True, package, installed + note))
        except PackageNotFoundError:
            found.append((False, package, "not installed: pip install -e . -c constraints.txt"))
    return found


def _cores() -> Check:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores >= 2, "cores", f"{cores}" + ("" if cores >= 2 else " (the tiny recipe wants two)")


def _memory() -> Check:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return total >= 3.5, "memory", f"{total:.1f} GiB" + ("" if total >= 3.5 else " (the tiny recipe wants 4)")


def _disk(settings: Settings) -> Check:
    existing = next(p for p in [settings.home, *settings.home.parents] if p.exists())
    free = shutil.disk_usage(existing).free / 2**30
    return free >= 1, "disk", f"{free:.1f} GiB free at {existing}" + ("" if free >= 1 else ": free some space")


def _sandbox() -> list[Check]:
    """Which rung of the isolation ladder code is judged on, and what it was attacked with."""
    from verifiers.sandbox.linux import landlock_abi
    from verifiers.sandbox.server import RUNGS, demand

    try:
        machine = demand()
    except RatchetError as error:
        return [(False, "code sandbox", str(error))]
    lacking = f"; {', '.join(machine.lacking)}" if machine.lacking else ""
    tried = len(machine.stopped) + len(machine.escaped)
    let_through = f"; not: {', '.join(machine.escaped)}" if machine.escaped else ""
    kernel = f"Linux {platform.release()}, landlock ABI {landlock_abi() or 'none'}"
    return [
        (True, "code sandbox", f"rung {machine.rung} ({RUNGS[machine.rung]}){lacking}"),
        (True, "  layers", f"{', '.join(machine.layers)} ({kernel})"),
        (True, "  attacks", f"{len(machine.stopped)} of {tried} stopped: {', '.join(machine.stopped)}{let_through}"),
    ]


def _store(settings: Settings) -> list[Check]:
    store = ArtifactStore(settings.artifacts)
    checks: list[Check] = []
    artifacts = list(store.all())
    for artifact in artifacts:
        try:
            store.check(artifact)
        except RatchetError as error:
            checks.append((False, "artifact", str(error)))
    return [*checks, (True, "store", f"{len(artifacts)} artifacts in {settings.artifacts}")]


def run_pages(settings: Settings, mlflow: str, prefect: str) -> list[tuple[str, str]]:
    """(what, address) of the last run's pages in both UIs."""
    journals = sorted(settings.journals.glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
    if not journals:
        return []
    run_id = journals[-1].stem
    state = read_state(settings, run_id)
    pages = [("Prefect: all runs", f"{prefect}/runs")]
    if run_id in state.get("runs", {}):
        experiment = f"{mlflow}/#/experiments/{state['experiment_id']}"
        # Without this, MLflow opens its view for chat applications, where checkpoints are called agents.
        view = "?workflowType=machine_learning"
        pages = [
            ("MLflow: the last run", f"{experiment}/runs/{state['runs'][run_id]}{view}"),
            ("MLflow: all runs and their steps", f"{experiment}/runs{view}"),
            *pages,
        ]
    return pages
