"""`ratchet doctor`: test whether this machine can run the recipes."""

import itertools
import platform
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from ratchet.cli.options import Home
from ratchet.cli.terminal import console, output, print_json
from ratchet.infra.settings import Settings, load_settings
from ratchet.infra.store.versions import library_versions
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.processes import GIB, core_count, memory_bytes

Check = tuple[bool, str, str]


def doctor(
    contents: Annotated[
        bool, typer.Option("--contents", help="Read every file of the home, and name those that have changed.")
    ] = False,
    home: Home = None,
) -> None:
    """Check this machine: versions, cores, memory, disk, sandbox, store.

    The exit code is 1 if a check fails.

    With `--contents`, read everything in the home (1 GB per second and core), and name each file that has changed since
    it was written: artifacts, by their hashes, stored generations, and teachers' answers.

    `ratchet preflight` tests whether machines can run a recipe; `ratchet gc` lists what may be deleted.

    Example: `ratchet doctor`

    Example: `ratchet doctor --contents`
    """
    settings, rows = load_settings(home), []
    checks = (
        (_store(settings, contents),) if contents else (_machine(settings), _sandbox(), _compiler(), _store(settings))
    )
    for good, name, detail in itertools.chain.from_iterable(checks):
        rows.append({"check": name.strip(), "ok": good, "detail": detail})
        if not output.json:
            mark = Text("✓", style="green") if good else Text("✗", style="bold red")
            console.print(Text.assemble(mark, f" {name:<14}", detail), soft_wrap=True)
    if output.json:
        print_json(rows)
    if not all(row["ok"] for row in rows):
        raise typer.Exit(1)


def _machine(settings: Settings) -> Iterator[Check]:
    cores, memory = core_count(), memory_bytes() / GIB
    existing = next(p for p in [settings.home, *settings.home.parents] if p.exists())
    free = shutil.disk_usage(existing).free / GIB
    yield True, "versions", ", ".join(f"{package} {number}" for package, number in library_versions().items())
    for name, amount, least, detail, advice in (
        ("cores", cores, 2, f"{cores}", "the tiny recipe needs two"),
        ("memory", memory, 3.5, f"{memory:.1f} GiB", "the tiny recipe needs 4"),
        ("disk", free, 1, f"{free:.1f} GiB free at {existing}", "free some: `ratchet gc`"),
    ):
        yield amount >= least, name, detail if amount >= least else f"{detail} ({advice})"


def _sandbox() -> Iterator[Check]:
    """The level of the isolation ladder on which code is judged, and the attacks tried on it."""
    from ratchet.verifiers.sandbox.linux import landlock_abi
    from ratchet.verifiers.sandbox.server import LEVELS, require_isolation

    try:
        machine = require_isolation()
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
    """The C++ compiler of this machine, if there is one; only problems in C++ need it."""
    from ratchet.verifiers.code.compiled import CppSandbox, toolchain
    from ratchet.verifiers.sandbox.server import SandboxFault

    try:
        with warnings.catch_warnings(action="ignore"), CppSandbox() as shop:
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
    """Damaged files of a run outside of its artifacts."""
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
