"""`ratchet doctor`: can this machine run the recipes?"""

import platform
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

import typer
from rich.text import Text

from ratchet.cli.options import Home
from ratchet.cli.terminal import console
from ratchet.infra.settings import Settings, load_settings
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.processes import core_count, memory_bytes

TESTED_WITH = {
    "torch": "2.13", "transformers": "5.19", "deepspeed": "0.19", "prefect": "3.7", "mlflow": "3.17",
    "python-flint": "0.9",
}  # fmt: skip
GIB = 2**30
Check = tuple[bool, str, str]


def doctor(home: Home = None) -> None:
    """Check this machine: versions, cores, memory, disk, sandbox, store. The exit code is 1 if a check fails.

    Example: `ratchet doctor`
    """
    settings, all_good = load_settings(home), True
    for check in (_versions(), _machine(settings), _sandbox(), _store(settings)):
        for good, name, detail in check:
            mark = Text("✓", style="green") if good else Text("✗", style="bold red")
            console.print(Text.assemble(mark, f" {name:<14}", detail), soft_wrap=True)
            all_good &= good
    if not all_good:
        raise typer.Exit(1)


def _versions() -> Iterator[Check]:
    for package, tested in TESTED_WITH.items():
        try:
            installed = version(package)
            yield True, package, installed + ("" if installed.startswith(tested) else f" (tested with {tested})")
        except PackageNotFoundError:
            yield False, package, "not installed: pip install -e . -c constraints.txt"


def _machine(settings: Settings) -> Iterator[Check]:
    cores, memory = core_count(), memory_bytes() / GIB
    existing = next(p for p in [settings.home, *settings.home.parents] if p.exists())
    free = shutil.disk_usage(existing).free / GIB
    for name, found, least, detail, advice in (
        ("cores", cores, 2, f"{cores}: as many verifiers", "the tiny recipe needs two"),
        ("memory", memory, 3.5, f"{memory:.1f} GiB", "the tiny recipe needs 4"),
        ("disk", free, 1, f"{free:.1f} GiB free at {existing}", "free some space"),
    ):
        yield found >= least, name, detail if found >= least else f"{detail} ({advice})"


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


def _store(settings: Settings) -> Iterator[Check]:
    from ratchet.infra.store.artifacts import ArtifactStore

    store = ArtifactStore(settings.artifacts)
    artifacts = list(store.all())
    for artifact in artifacts:
        try:
            store.check(artifact)
        except RatchetError as error:
            yield False, "artifact", str(error)
    yield True, "store", f"{len(artifacts)} artifacts in {settings.artifacts}"
