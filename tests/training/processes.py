"""Processes of training that tests start, or look at from outside."""

import os
from pathlib import Path

GROUP = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
"""What says that a process is one of a group: the fixture `alone` sets it, and no other process may inherit it."""


def of_no_group() -> dict[str, str]:
    """The environment of a process that joins a group of its own."""
    return {name: value for name, value in os.environ.items() if name not in GROUP}


def alive(work: Path) -> list[int]:
    """Processes whose command line names this work directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(work / "spec.json").encode() in (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except OSError:  # it ended while we looked
            continue
    return found
