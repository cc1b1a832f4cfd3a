"""What the command line prints about plans, results, artifacts and the machine."""

from __future__ import annotations

import os
import platform
import re
import shutil
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from ratchet.infra.artifacts import GIVEN_KINDS, Artifact, ArtifactStore
from ratchet.infra.errors import RatchetError
from ratchet.infra.recipe import Recipe
from ratchet.infra.settings import Settings
from ratchet.infra.tracking import read_state
from ratchet.tasks.lineage import parents
from ratchet.tasks.pipeline_run import PipelineRun, PlannedStep

TESTED_WITH = {
    "torch": "2.13", "transformers": "5.19", "deepspeed": "0.19", "prefect": "3.7", "mlflow": "3.17",
    "math-verify": "0.9", "sympy": "1.14",
}  # fmt: skip


def show_plan(console: Console, plan: Sequence[PlannedStep]) -> None:
    """Every step in order, with what it reads, and whether it would run."""
    titles = {step.output.key: step.title for step in plan if not step.not_done}
    table = Table("step", "would", "key", "made from", box=None, padding=(0, 2, 0, 0))
    for step in plan:
        if step.not_done:
            table.add_row(step.title, Text("not be done", style="yellow"), step.not_done, "")
            continue
        if step.left_out:
            there = "is there" if step.cached else "is not there"
            table.add_row(Text(step.title, style="dim"), Text("be left out", style="dim"), Text(there, style="dim"), "")
            continue
        would = Text("be cached", style="cyan") if step.cached else Text("run", style="bold green")
        made_from = dict.fromkeys(titles.get(a.key, str(a.path)) for a in step.inputs)
        table.add_row(step.title, would, step.output.key[:12], ", ".join(made_from))
    known = [step for step in plan if not step.not_done and not step.left_out]
    console.print(table)
    for step in known:
        if step.estimate and not step.cached and all(artifact.path.exists() for artifact in step.inputs):
            console.print(f"\n{step.title}: {step.estimate()}", soft_wrap=True)
    console.print(f"\n{sum(not s.cached for s in known)} of {len(known)} steps would run.")


def show_estimate(console: Console, recipe: Recipe, only: str, start: str, machine: str, settings: Settings) -> None:
    """What each stage needs of memory and time, on the machine told or found."""
    from ratchet.training.estimate import GIB, estimate, found_machine, told_machine

    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    given = told_machine(machine) if machine else found_machine(_core_count(), memory)
    try:
        shape = _model_shape(recipe, start, settings)
    except (RatchetError, OSError, ValueError) as error:
        console.print(f"Memory and time are not estimated: {error}\n")
        return
    hardware = recipe.training.hardware
    in_all = hardware.ranks if given.name.startswith("CPU") else 1  # ranks that share one memory
    console.print(f"{shape.parameters:,} parameters on {given}, ZeRO {hardware.zero_stage}, {hardware.dtype}")
    table = Table("stage", "memory", "of", "most of it", "a step", "the stage", box=None, padding=(0, 2, 0, 0))
    short: list[str] = []
    for stage in (s for s in recipe.training.stages if only in ("", s.name)):
        needs = estimate(shape, stage, recipe.training, given)
        peak = needs.peak * in_all
        phase = max(needs.sampling, needs.updating, key=lambda held: sum(held.values()))
        largest = sorted(phase, key=phase.__getitem__, reverse=True)[:3]
        parts = ", ".join(f"{name} {phase[name] * in_all / GIB:.2g}" for name in largest)
        fits = Text(f"{peak / GIB:.3g} GiB", style="green" if peak < 0.9 * given.memory else "bold red")
        seconds = needs.step_seconds
        table.add_row(
            stage.name, fits, f"{given.memory / GIB:.0f}", parts, _seconds(seconds), _seconds(seconds * stage.steps)
        )
        if needs.room < needs.longest:
            short.append(
                f"{stage.name}: a response may need {needs.longest:,} tokens of cache, and vLLM has room for "
                f"{needs.room:,.0f}: raise training.engine.memory_share, or sample on more GPUs (placement: service)."
            )
    console.print(table)
    for line in short:
        console.print(line, style="bold red")
    console.print(
        "[dim]Memory is what is allocated by design; keep some GB for the framework. Time is rough, and responses are "
        "taken to be half the longest.[/]\n"
    )


def _model_shape(recipe: Recipe, start: str, settings: Settings) -> Any:
    from ratchet.training.estimate import Shape

    path = recipe.model.path
    if start:
        directory = Path(start).expanduser()
        path = str(directory if directory.is_dir() else ArtifactStore(settings.artifacts).open(start).path / "model")
    if path is None:
        grown = recipe.model.grow
        return Shape(
            grown.vocabulary, grown.hidden_size, grown.layers, grown.attention_heads, grown.key_value_heads,
            grown.head_dim, grown.intermediate_size, tied=False,
        )  # fmt: skip
    from transformers import AutoConfig  # a hub name is looked up in the cache, then on the hub

    return Shape.of(AutoConfig.from_pretrained(path).to_dict())


def _seconds(seconds: float) -> str:
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


def show_result(console: Console, run: PipelineRun, result: Any) -> None:
    """After a run: what came out, and where to look."""
    artifact = getattr(result, "problems", None) or getattr(result, "checkpoint", None) or result
    if artifact not in run.taken:  # only some steps were taken
        artifact = run.taken[-1]
    console.print()
    manifest = artifact.manifest
    if manifest.get("summary_table"):
        _print_table(console, manifest["summary_table"])
    for shown in manifest.get("shown", []):
        if shown.endswith((".html", ".md")) and "/" not in shown:  # further down are pages that these link to
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

    from ratchet.data_curation.funnel import funnel, samples

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
        if parent.kind in GIVEN_KINDS:
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


def _core_count() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cores() -> Check:
    cores = _core_count()
    return cores >= 2, "cores", f"{cores}: so many verifiers" + ("" if cores >= 2 else " (the tiny recipe wants two)")


def _memory() -> Check:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return total >= 3.5, "memory", f"{total:.1f} GiB" + ("" if total >= 3.5 else " (the tiny recipe wants 4)")


def _disk(settings: Settings) -> Check:
    existing = next(p for p in [settings.home, *settings.home.parents] if p.exists())
    free = shutil.disk_usage(existing).free / 2**30
    return free >= 1, "disk", f"{free:.1f} GiB free at {existing}" + ("" if free >= 1 else ": free some space")


def _sandbox() -> list[Check]:
    """Which rung of the isolation ladder code is judged on, and what it was attacked with."""
    from ratchet.verifiers.sandbox.linux import landlock_abi
    from ratchet.verifiers.sandbox.server import RUNGS, demand

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
