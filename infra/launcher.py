"""Who starts the process group of a step: this machine, several that are already ours, or a scheduler.

A launcher has two methods, `check` and `launch`; what it launches is polled until it has ended. Nothing else differs
between a laptop and a cluster, and none of it is in an artifact's key.
"""

import os
import shlex
import shutil
import socket
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ratchet.infra.errors import RatchetError
from ratchet.infra.process_group import core_count, free_port, process_group
from ratchet.infra.resident import Resident
from ratchet.infra.settings import Settings

ON_EACH_NODE = "srun --ntasks-per-node=1 --kill-on-bad-exit=1"
STOP = "stop"
"""A file of this name in its directory asks a group to save what it has and end."""
STATUS = "status.json"
"""A group's last word: `state` (finished, failed, or stopped as it was asked to), and a `message`."""

OF_THE_FLOW = ("MLFLOW_", "PREFECT_", "OPENLINEAGE_", "PGPASSWORD")


@dataclass(frozen=True)
class Group:
    """What is to be started."""

    argv: tuple[str, ...]
    """The same on each machine; on several, HOST:PORT at which they meet is added."""
    machines: int
    processes: int
    """On each machine, for whom its cores are divided."""
    work: Path
    """Where it writes; for a step of its own, on one file system with us."""
    log: Path
    once: bool = False
    """Whether `argv` runs on one of the machines only, and by `on_each_machine` starts there what runs on all."""
    resident: bool = False
    """Whether its module is one that `infra.resident` runs."""


class TakenAway(Exception):
    """A group did nothing wrong and has no machines any more: why. It can be launched again."""


class Running(Protocol):
    """A group that was started."""

    def poll(self) -> int | None:
        """The code it has ended with, None until then. Raises TakenAway."""
        ...


class Launcher(Protocol):
    def check(self, machines: int) -> None:
        """Raises RatchetError where a group on so many machines could not be started."""
        ...

    def launch(self, group: Group, say: Callable[[str], None]) -> AbstractContextManager[Running]:
        """Start a group, or find the one that runs already; on the way out it is ended. `say` is told what it waits
        for. What an earlier group left as its status is deleted first."""
        ...


def launcher_of(settings: Settings, resident: Resident | None = None) -> Launcher:
    """`resident`: of the run that launches."""
    if settings.slurm:
        from ratchet.infra.slurm import Slurm

        return Slurm(settings)
    return Local(settings.launcher, resident or Resident())


@dataclass(frozen=True)
class Local:
    """Processes of this machine, which die with us; or of several, behind a command that starts them there."""

    on_each: str
    resident: Resident

    def check(self, machines: int) -> None:
        on_each_machine(self.on_each, [], machines)

    def launch(self, group: Group, say: Callable[[str], None]) -> AbstractContextManager[Running]:
        forget(group)
        threads = str(max(1, core_count() // group.processes))
        environment = {**environment_of_groups(), "OMP_NUM_THREADS": threads}
        if group.resident and group.machines == 1:
            return self.resident.order(group.argv, group.log, environment)
        argv = on_each_machine(self.on_each, group.argv, 1 if group.once else group.machines)
        return process_group(argv, group.log, environment)


def on_each_machine(launcher: str, argv: Sequence[str], machines: int) -> list[str]:
    """The command line that runs `argv` on each machine; where there are several, with HOST:PORT at its end, at which
    they meet. `launcher` runs a command on each of them (RATCHET_LAUNCHER). Raises RatchetError where there is none."""
    if machines == 1:
        return list(argv)
    command = shlex.split(launcher)
    if not command:
        raise RatchetError(
            f"training.hardware.machines is {machines}, and nothing says how to start a process on each: set "
            "RATCHET_SLURM to submit jobs, or, in a SLURM allocation, RATCHET_LAUNCHER to "
            f"'{ON_EACH_NODE}' (docs/operations.md), or stay on this one with --set training.hardware.machines=1."
        )
    if shutil.which(command[0]) is None:
        raise RatchetError(f"RATCHET_LAUNCHER is {launcher!r}, and there is no program {command[0]!r} here.")
    return [*command, *argv, f"{socket.gethostname()}:{free_port('')}"]


def forget(group: Group) -> None:
    """What an earlier group of the same work has left for its reader or its successor."""
    for name in (STATUS, STOP):
        (group.work / name).unlink(missing_ok=True)


def environment_of_groups() -> dict[str, str]:
    """The environment of trainers and evaluators: no threads that spin while waiting, and no logins to what only the
    flow and its mirror talk to."""
    quiet = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "TOKENIZERS_PARALLELISM": "false"}
    ours = {name: value for name, value in os.environ.items() if not name.startswith(OF_THE_FLOW)}
    return {**ours, **quiet, "PYTHONUNBUFFERED": "1"}
