"""A checkpoint's copy in host memory, and the functions that write it during the next steps."""

import subprocess
import sys
from collections.abc import Callable
from copy import copy as shallow_copy
from functools import partial
from pathlib import Path
from typing import Any

import torch
from deepspeed.runtime.checkpoint_engine import TorchCheckpointEngine

from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.processes import core_count

Writes = dict[Path, Callable[[], object]]
"""A function per file or directory, independent of anything that a step changes."""


def has_room(size: float) -> bool:
    """Whether this host, and our container or job, have twice `size` bytes of free memory; True if unknown."""
    file = Path("/proc/meminfo")
    lines = file.read_text().splitlines() if file.is_file() else []
    free = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")]
    return all(each > 2 * size for each in free + left_in_cgroups())


def left_in_cgroups(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> list[int]:
    """Bytes left below each memory limit of this process's cgroups (version 2), counting the page cache as used."""
    lines = own.read_text().splitlines() if own.is_file() else []
    inner = root / next((line[3:].strip("/") for line in lines if line.startswith("0::")), "")
    left = []
    for place in (inner, *inner.parents):
        limit = place / "memory.max"
        if limit.is_file() and (most := limit.read_text().strip()) != "max":
            left.append(int(most) - int((place / "memory.current").read_text()))
    return left


class HostCopies(TorchCheckpointEngine):
    """DeepSpeed's checkpoint writer, except that it collects its work in `writes`: with `room` from copies in memory,
    otherwise from the tensors themselves."""

    def __init__(self, room: bool) -> None:
        super().__init__()
        self.writes, self._room = Writes(), room
        self._copies: dict[tuple[Any, ...], tuple[torch.Tensor, torch.Tensor]] = {}

    def save(self, state_dict: Any, path: str) -> None:
        self.writes[Path(path)] = partial(torch.save, self.copy(state_dict), path)

    def copy(self, item: Any) -> Any:
        """`item` with its nested tensors copied to the host, each once."""
        if not self._room:
            return item
        if torch.is_tensor(item):
            key = (item.data_ptr(), item.dtype, item.device, item.shape, item.stride())
            if key not in self._copies:  # with the original, so that its address is not reused
                self._copies[key] = item, item.detach().to("cpu", copy=True)
            return self._copies[key][1]
        if isinstance(item, dict):
            return type(item)((key, self.copy(value)) for key, value in item.items())
        if type(item) in (list, tuple):
            return type(item)(map(self.copy, item))
        return shallow_copy(item)  # for DeepSpeed's loss scaler, which a step changes


def universal(engine: Path, converted: Path) -> None:
    """Convert DeepSpeed's state to the form that any number of ranks can read. Raises RatchetError."""
    workers = str(min(8, core_count()))
    argv = [
        sys.executable, "-P", "-m", "deepspeed.checkpoint.ds_to_universal", "--inject_missing_state",
        "--input_folder", str(engine), "--output_folder", str(converted),
        "--num_extract_workers", workers, "--num_merge_workers", workers,
    ]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        raise RatchetError(f"{engine} could not be converted to another number of ranks: {done.stderr[-1500:]}")
