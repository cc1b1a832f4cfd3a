"""Start the process group of a step: on this machine, on several allocated machines, or through a scheduler.

Nothing else differs between a laptop and a cluster, and none of it is in an artifact's key.
"""

import shlex
import shutil
import socket
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from ratchet.infra.launching.fork_server import ForkServer
from ratchet.infra.launching.group import ON_EACH_NODE, ProcessGroup, Running, begin, environment_of_groups
from ratchet.infra.launching.slurm import Slurm
from ratchet.infra.settings import Settings
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.processes import core_count, free_port, process_group


def launcher_of(settings: Settings, fork_server: ForkServer | None = None) -> "Local | Slurm":
    """The launcher that the settings choose: SLURM, or this machine and a launching command."""
    if settings.slurm:
        return Slurm(settings)
    return Local(settings.launcher, fork_server or ForkServer(), settings.home)


@dataclass(frozen=True)
class Local:
    """Processes on this machine, which die with us; or on several, through a command that starts them there."""

    on_each: str
    fork_server: ForkServer
    home: Path | None = None

    def check(self, machines: int) -> None:
        """Raises RatchetError if a group on that many machines could not be started."""
        on_each_machine(self.on_each, [], machines)

    def launch(self, group: ProcessGroup, say: Callable[[str], None]) -> AbstractContextManager[Running]:
        """Start a group, or find it running; it ends with the block. `say` gets a message for each wait. Deletes the
        status of an earlier group."""
        begin(group)
        threads = str(max(1, core_count() // group.processes))
        environment = {**environment_of_groups(self.home), "OMP_NUM_THREADS": threads}
        if group.forkable and group.machines == 1:
            return self.fork_server.run(group.argv, group.log, environment)
        argv = on_each_machine(self.on_each, group.argv, 1 if group.on_one_machine else group.machines)
        return process_group(argv, group.log, environment)


def on_each_machine(launcher: str, argv: Sequence[str], machines: int) -> list[str]:
    """The command line that runs `argv` on each machine by `launcher` (RATCHET_LAUNCHER); with several machines it ends
    in HOST:PORT, at which they meet. Raises RatchetError if no launcher is set."""
    if machines == 1:
        return list(argv)
    command = shlex.split(launcher)
    if not command:
        raise RatchetError(
            f"training.hardware.machines is {machines}, but it is not set how to start a process on each: set "
            "RATCHET_SLURM to submit jobs, or, in a SLURM allocation, RATCHET_LAUNCHER to "
            f"'{ON_EACH_NODE}' (docs/howto/slurm.md), or use one machine with --set training.hardware.machines=1."
        )
    if shutil.which(command[0]) is None:
        raise RatchetError(f"RATCHET_LAUNCHER is {launcher!r}, but there is no program {command[0]!r} here.")
    return [*command, *argv, f"{socket.gethostname()}:{free_port('')}"]
