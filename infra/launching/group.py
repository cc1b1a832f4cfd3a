"""A process group to start, and code that all kinds of launchers share."""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

ON_EACH_NODE = "srun --ntasks-per-node=1 --kill-on-bad-exit=1"
STOP = "stop"
"""A file of this name in its directory asks a group to save its state and end."""
STATUS = "status.json"
"""A group's result: `state` (finished, failed, or stopped on request) and a `message`."""

FLOW_ENV_PREFIXES = ("MLFLOW_", "PREFECT_", "PGPASSWORD")
"""Prefixes of environment variables for services that only the flow uses."""


@dataclass(frozen=True)
class ProcessGroup:
    """A process group to start, on one or several machines."""

    argv: tuple[str, ...]
    """Command line, the same on each machine; with several, HOST:PORT at which they meet is appended."""
    machines: int
    processes: int
    """Number of processes on each machine, which share its cores."""
    work: Path
    """Output directory, on a shared file system."""
    log: Path
    on_one_machine: bool = False
    """True if `argv` runs on one machine only, which then starts processes on all with `on_each_machine`."""
    forkable: bool = False
    """True if `infra.launching.fork_server` can run the group's module."""


class JobPreempted(Exception):
    """A group has lost its machines through no fault of its own, and can be launched again."""


class Running(Protocol):
    """A started process group."""

    def poll(self) -> int | None:
        """The group's exit code; None until it has ended. Raises JobPreempted."""
        ...


BEGINS = "---- ratchet starts "
"""The beginning of the line of a log after which the output of another group begins."""


def begin(group: ProcessGroup) -> None:
    """Delete the status of an earlier group, and a request to stop it; mark where in the log this group's output
    begins."""
    for name in (STATUS, STOP):
        (group.work / name).unlink(missing_ok=True)
    group.log.parent.mkdir(parents=True, exist_ok=True)
    with open(group.log, "a") as log:
        log.write(f"{BEGINS}{group.work.name}, {time.strftime('%Y-%m-%d %H:%M:%S')}\n")


ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
"""Variables that set torch's allocator, of which only one counts."""


def environment_of_groups(home: Path | None = None) -> dict[str, str]:
    """The environment of trainers and evaluators: threads do not spin while waiting, a GPU's memory has no holes that a
    longer batch cannot use, and the credentials of services that only the flow uses are removed. vLLM's compiled code
    is kept in the `home`, for all ranks and runs."""
    quiet = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "TOKENIZERS_PARALLELISM": "false"}
    ours = {name: value for name, value in os.environ.items() if not name.startswith(FLOW_ENV_PREFIXES)}
    if not any(name in ours for name in ALLOCATOR):  # vLLM turns it off where its sleep cannot have it
        quiet["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
    if home is not None:
        ours.setdefault("VLLM_CACHE_ROOT", str(home / "compiled"))
    return {**ours, **quiet, "PYTHONUNBUFFERED": "1"}
