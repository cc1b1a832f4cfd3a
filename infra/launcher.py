"""Starts the process group of a step: on this machine, on several allocated machines, or through a scheduler.

Nothing else differs between a laptop and a cluster, and none of it is in an artifact's key.
"""

import os
import shlex
import shutil
import socket
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ratchet.infra.errors import RatchetError
from ratchet.infra.process_group import core_count, free_port, process_group
from ratchet.infra.resident import Resident
from ratchet.infra.settings import Settings

if TYPE_CHECKING:
    from ratchet.infra.slurm import Slurm

ON_EACH_NODE = "srun --ntasks-per-node=1 --kill-on-bad-exit=1"
STOP = "stop"
"""A file of this name in its directory asks a group to save its state and end."""
STATUS = "status.json"
"""A group's result: `state` (finished, failed, or stopped on request) and a `message`."""

OF_THE_FLOW = ("MLFLOW_", "PREFECT_", "PGPASSWORD")


@dataclass(frozen=True)
class Group:
    argv: tuple[str, ...]
    """The same on each machine; with several, HOST:PORT at which they meet is appended."""
    machines: int
    processes: int
    """On each machine, among which its cores are divided."""
    work: Path
    """Its output directory, on a shared file system."""
    log: Path
    once: bool = False
    """Whether `argv` runs on one machine only, which then starts processes on all with `on_each_machine`."""
    resident: bool = False
    """Whether `infra.resident` can run its module."""


class TakenAway(Exception):
    """A group has lost its machines through no fault of its own, and can be launched again."""


class Running(Protocol):
    def poll(self) -> int | None:
        """The group's exit code, None until it has ended. Raises TakenAway."""
        ...


def launcher_of(settings: Settings, resident: Resident | None = None) -> "Local | Slurm":
    if settings.slurm:
        from ratchet.infra.slurm import Slurm

        return Slurm(settings)
    return Local(settings.launcher, resident or Resident())


@dataclass(frozen=True)
class Local:
    """Processes on this machine, which die with us; or on several, through a command that starts them there."""

    on_each: str
    resident: Resident

    def check(self, machines: int) -> None:
        """Raises RatchetError if a group on that many machines could not be started."""
        on_each_machine(self.on_each, [], machines)

    def launch(self, group: Group, say: Callable[[str], None]) -> AbstractContextManager[Running]:
        """Start a group, or find it running; it ends with the block. `say` gets a message for each wait. Deletes the
        status of an earlier group."""
        forget(group)
        threads = str(max(1, core_count() // group.processes))
        environment = {**environment_of_groups(), "OMP_NUM_THREADS": threads}
        if group.resident and group.machines == 1:
            return self.resident.order(group.argv, group.log, environment)
        argv = on_each_machine(self.on_each, group.argv, 1 if group.once else group.machines)
        return process_group(argv, group.log, environment)


def on_each_machine(launcher: str, argv: Sequence[str], machines: int) -> list[str]:
    """The command line that runs `argv` on each machine by `launcher` (RATCHET_LAUNCHER); with several machines ending
    in HOST:PORT at which they meet. Raises RatchetError if no launcher is set."""
    if machines == 1:
        return list(argv)
    command = shlex.split(launcher)
    if not command:
        raise RatchetError(
            f"training.hardware.machines is {machines}, but it is not set how to start a process on each: set "
            "RATCHET_SLURM to submit jobs, or, in a SLURM allocation, RATCHET_LAUNCHER to "
            f"'{ON_EACH_NODE}' (docs/operations.md), or use one machine with --set training.hardware.machines=1."
        )
    if shutil.which(command[0]) is None:
        raise RatchetError(f"RATCHET_LAUNCHER is {launcher!r}, but there is no program {command[0]!r} here.")
    return [*command, *argv, f"{socket.gethostname()}:{free_port('')}"]


def forget(group: Group) -> None:
    for name in (STATUS, STOP):
        (group.work / name).unlink(missing_ok=True)


def environment_of_groups() -> dict[str, str]:
    """The environment of trainers and evaluators: threads do not spin while waiting, and the credentials of services
    that only the flow uses are removed."""
    quiet = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "TOKENIZERS_PARALLELISM": "false"}
    ours = {name: value for name, value in os.environ.items() if not name.startswith(OF_THE_FLOW)}
    return {**ours, **quiet, "PYTHONUNBUFFERED": "1"}
