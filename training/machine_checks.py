"""What `preflight.py` asks of machines, whatever they train: versions, links, disks. Collective, but for `space`."""

import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import distributions
from pathlib import Path
from statistics import median

import torch

from ratchet.infra.artifacts import disk_errors
from ratchet.infra.errors import RatchetError
from ratchet.training import ranks
from ratchet.training.machine import GIB

SLOW_LINK = 0.3
"""Of the median of all ranks: one that sends at less has a link of its own that is broken or shared."""


def versions(machines: int) -> str:
    """Of Python, every package, CUDA and the GPU: the same on every rank, and as many machines as there should be."""
    everyone = ranks.gather((socket.gethostname(), _versions()))
    host, mine = everyone[0]
    for number, (where, found) in enumerate(everyone):
        for name in sorted(mine.keys() | found.keys()):
            first, other = mine.get(name, "absent"), found.get(name, "absent")
            if first != other:
                raise RatchetError(
                    f"{name} is {first} on rank 0 ({host}) and {other} on rank {number} ({where}): install "
                    "constraints.txt everywhere"
                )
    came = len({where for where, _ in everyone})
    if came != machines:
        raise RatchetError(f"{came} machines joined, and training.hardware.machines is {machines}")
    return f"ranks: {len(everyone)}, machines: {came}, torch {torch.__version__}"


def _versions() -> dict[str, str]:
    found = {"Python": sys.version.split()[0], "CUDA": str(torch.version.cuda)}
    if torch.cuda.is_available():
        found["GPU"] = torch.cuda.get_device_name()
    return found | {each.name: each.version for each in distributions()}


def links(device: torch.device, largest: int) -> tuple[str, float]:
    """All-reduce at growing sizes up to `largest` bytes, and a broadcast from each rank: what is said, and bytes a
    second through one rank's link. Raises RatchetError where one rank is far slower than the others."""
    everyone, speeds = ranks.gather(socket.gethostname()), []
    for size in (2**20, 2**24, largest):
        tensor = torch.ones(size // 4, device=device)
        moved = 2 * size * (len(everyone) - 1) / len(everyone)
        speeds.append(moved / _timed(lambda tensor=tensor: torch.distributed.all_reduce(tensor)))
    tensor = torch.ones(2**22, device=device)
    sent = [
        tensor.nbytes / _timed(lambda source=source: torch.distributed.broadcast(tensor, source))
        for source in range(len(everyone))
    ]
    slowest, usual = min(sent), median(sent)
    if slowest < SLOW_LINK * usual:
        rank = sent.index(slowest)
        raise RatchetError(
            f"rank {rank} ({everyone[rank]}) sends {slowest / 1e9:.2g} GB/s, the others {usual / 1e9:.2g}: look at "
            "that machine's network cards and NCCL_DEBUG=INFO, or leave it out"
        )
    told = ", ".join(f"{speed / 1e9:.2g}" for speed in speeds)
    said = f"all-reduce {told} GB/s at 1, 16 and {largest >> 20} MiB, broadcasts {slowest / 1e9:.2g} to "
    return f"{said}{max(sent) / 1e9:.2g}", speeds[-1]


def _timed(call: Callable[[], object]) -> float:
    """Seconds of the slowest rank, the best of three."""
    found = []
    for _ in range(3):
        ranks.barrier()
        synchronize()
        started = time.perf_counter()
        call()
        synchronize()
        found.append(max(ranks.gather(time.perf_counter() - started)))
    return min(found)


def synchronize() -> None:
    """Wait for what the GPU still does, where there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def space(name: str, place: Path, needed: float, written: float) -> str:
    """Free bytes, and the speed of writing so many. Raises RatchetError where less than `needed` are free, and where
    they cannot be written."""
    free = shutil.disk_usage(place).free
    if free < needed:
        raise RatchetError(
            f"{name}: {free / GIB:.2g} GiB free at {place}, and {needed / GIB:.2g} are needed: free some, or move it"
        )
    chunk, started = os.urandom(2**24), time.perf_counter()
    with disk_errors(place), tempfile.TemporaryFile(dir=place) as file:
        for _ in range(max(1, int(written) // len(chunk))):
            file.write(chunk)
        os.fsync(file.fileno())
        speed = file.tell() / (time.perf_counter() - started)
    return f"{name} {free / GIB:.3g} GiB free, {speed / 1e9:.2g} GB/s"
