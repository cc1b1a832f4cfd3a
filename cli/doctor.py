"""`ratchet doctor`: can this machine, or a recipe's machines, run the recipes, and what may be deleted?"""

import platform
import shutil
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from ratchet.cli.options import Home, Overrides
from ratchet.cli.options import recipe as recipe_named
from ratchet.cli.terminal import console, print_rows, say
from ratchet.infra.recipe import Recipe, load_recipe
from ratchet.infra.settings import Settings, load_settings
from ratchet.infra.store.versions import library_versions
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.processes import core_count, memory_bytes

GIB = 2**30
Check = tuple[bool, str, str]


STYLES = {"OK": "green", "FAIL": "bold red", "SKIP": "yellow"}


def doctor(
    recipe: Annotated[str, recipe_named("Check this recipe's machines instead, in minutes.")] = "",
    unused: Annotated[
        bool, typer.Option("--unused", help="List what no kept run refers to: unfinished directories, artifacts.")
    ] = False,
    older_than: Annotated[
        float | None,
        typer.Option("--older-than", min=0, metavar="DAYS", help="Unused is also what only older runs refer to."),
    ] = None,
    forget: Annotated[
        list[str] | None,
        typer.Option("--forget", metavar="RUN", help="Unused is also what only this run refers to; repeatable."),
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete what is unused.")] = False,
    contents: Annotated[
        bool, typer.Option("--contents", help="Read every file of the home: name those that changed since.")
    ] = False,
    set_: Overrides = None,
    home: Home = None,
) -> None:
    """Check this machine: versions, cores, memory, disk, sandbox, store. The exit code is 1 if a check fails.

    With `--contents`: read all that the home holds (1 GB a second and core), and name each file that is not what was
    written: artifacts by their hashes, stored generations, answers of teachers.

    With a recipe: test on its machines, started as for training, everything its stages need: links, versions, disk,
    endpoints, the judge, the longest step of each stage, sampling, a checkpoint, a killed rank. `ratchet plan` then
    uses the measured rates.

    With `--unused`: whatever a kept run made or read stays, with everything behind it. Every run is kept unless
    `--forget` or `--older-than` names it, and any that MLflow has not received. Nothing is deleted while a run is at
    work in the home.

    Example: `ratchet doctor`

    Example: `ratchet doctor --contents`

    Example: `ratchet doctor acereason-14b --home /shared/acereason`

    Example: `ratchet doctor --unused --older-than 30 --delete`
    """
    settings = load_settings(home)
    if unused or forget or older_than is not None or delete:
        _unused(settings, forget or (), older_than, delete)
    elif not (_preflight(load_recipe(recipe, set_ or ()), settings) if recipe else _this_machine(settings, contents)):
        raise typer.Exit(1)


def _this_machine(settings: Settings, contents: bool) -> bool:
    all_good = True
    checks = (
        (_store(settings, contents),) if contents else (_machine(settings), _sandbox(), _compiler(), _store(settings))
    )
    for check in checks:
        for good, name, detail in check:
            mark = Text("✓", style="green") if good else Text("✗", style="bold red")
            console.print(Text.assemble(mark, f" {name:<14}", detail), soft_wrap=True)
            all_good &= good
    return all_good


def _preflight(recipe: Recipe, settings: Settings) -> bool:
    from ratchet.flows.preflight import preflight

    states = []
    for name, state, message in preflight(recipe, settings, lambda note: console.print(note, style="dim")):
        console.print(Text.assemble((f"{state:<5}", STYLES[state]), f"{name:<18} ", message), soft_wrap=True)
        states.append(state)
    failed = states.count("FAIL")
    console.print(f"\n{states.count('OK')} of {len(states)} OK" + (f", {failed} FAIL" if failed else ""))
    return not failed


def _unused(settings: Settings, forget: Sequence[str], older_than: float | None, delete: bool) -> None:
    from ratchet.infra.tracking import garbage

    unused = garbage.find_garbage(settings, forget, older_than)
    places = [*unused.directories, *unused.pages]
    rows = [{"directory": str(place), "bytes": garbage.size_of(place)} for place in places]
    print_rows(rows)
    for run in unused.runs:
        say(f"run {run.run_id} {run.name}")
    for line in unused.unsent:
        say(line)
    if delete:
        garbage.delete(settings, unused)
    done = "deleted" if delete else "would be deleted; --delete does it"
    total = sum(row["bytes"] for row in rows)
    console.print(f"{len(rows)} directories, {len(unused.runs)} runs, {total:,} bytes: {done}")


def _machine(settings: Settings) -> Iterator[Check]:
    cores, memory = core_count(), memory_bytes() / GIB
    existing = next(p for p in [settings.home, *settings.home.parents] if p.exists())
    free = shutil.disk_usage(existing).free / GIB
    yield True, "versions", ", ".join(f"{package} {number}" for package, number in library_versions().items())
    for name, amount, least, detail, advice in (
        ("cores", cores, 2, f"{cores}: as many verifiers", "the tiny recipe needs two"),
        ("memory", memory, 3.5, f"{memory:.1f} GiB", "the tiny recipe needs 4"),
        ("disk", free, 1, f"{free:.1f} GiB free at {existing}", "free some: `ratchet doctor --unused`"),
    ):
        yield amount >= least, name, detail if amount >= least else f"{detail} ({advice})"


def _sandbox() -> Iterator[Check]:
    """The level of the isolation ladder on which code is judged, and the attacks tried on it."""
    from ratchet.verifiers.sandbox.linux import landlock_abi
    from ratchet.verifiers.sandbox.server import LEVELS, demand

    try:
        machine = demand()
    except RatchetError as error:
        yield False, "code sandbox", str(error)
        return
    lacking = f"; {', '.join(machine.lacking)}" if machine.lacking else ""
    attacks = len(machine.stopped) + len(machine.escaped)
    escaped = f"; not: {', '.join(machine.escaped)}" if machine.escaped else ""
    kernel = f"Linux {platform.release()}, landlock ABI {landlock_abi() or 'none'}"
    yield True, "code sandbox", f"level {machine.level} ({LEVELS[machine.level]}){lacking}"
    yield True, "  layers", f"{', '.join(machine.layers)} ({kernel})"
    yield True, "  attacks", f"{len(machine.stopped)} of {attacks} stopped: {', '.join(machine.stopped)}{escaped}"


def _compiler() -> Iterator[Check]:
    """What builds programs in C++, if this machine can; only problems that ask for them need it."""
    from ratchet.verifiers.code.compiled import Workshop, toolchain
    from ratchet.verifiers.sandbox.server import SandboxFault

    try:
        with warnings.catch_warnings(action="ignore"), Workshop() as shop:
            shop.start()
    except (RatchetError, SandboxFault) as error:
        yield True, "C++ compiler", f"none: {error}"
    else:
        yield True, "C++ compiler", toolchain().version


def _store(settings: Settings, contents: bool = False) -> Iterator[Check]:
    from ratchet.infra.store.artifacts import ArtifactStore

    store = ArtifactStore(settings.artifacts)
    for damage in store.damage(contents):
        yield False, "artifact", damage
    if contents:
        yield from _beside_artifacts(settings.home)
    yield True, "store", f"{len(list(store.all()))} artifacts in {settings.artifacts}"


def _beside_artifacts(home: Path) -> Iterator[Check]:
    """Damage to what a run keeps outside of its artifacts."""
    from ratchet.data_curation.base.journal import read_lines
    from ratchet.evaluation.generation_store import read_part

    for name, pattern, read in (
        ("generations", "generations/*/*.parquet", read_part),
        ("generations", "generations/*/*.jsonl", lambda file: list(read_lines(file))),
        ("teacher", "teacher/*.jsonl", lambda file: list(read_lines(file))),
        ("journal", "tracking/*.jsonl", lambda file: list(read_lines(file))),
    ):
        for file in sorted(home.glob(pattern)):
            try:
                read(file)
            except RatchetError as error:
                yield False, name, str(error)
