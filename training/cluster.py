"""Preflight checks of the machines themselves: their versions, the links between them, and their disks."""

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

from ratchet.data_curation.base.files import disk_errors
from ratchet.training import ranks
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.processes import GIB

SLOW_LINK = 0.3
"""Share of the ranks' median bandwidth below which a link is broken or shared."""


def versions(machines: int) -> str:
    """Check that Python, CUDA, GPU and every package are equal on all ranks, and that the number of machines is as
    expected. Raises RatchetError for a difference. Collective."""
    mine = {"Python": sys.version.split()[0], "CUDA": str(torch.version.cuda)}
    if torch.cuda.is_available():
        mine["GPU"] = torch.cuda.get_device_name()
    mine |= {package.name: package.version for package in distributions()}
    everyone = ranks.gather((socket.gethostname(), mine))
    host, first = everyone[0]
    for number, (where, other) in enumerate(everyone):
        if differing := sorted(name for name, _ in first.items() ^ other.items()):
            here, there = (versions_of.get(differing[0], "absent") for versions_of in (first, other))
            raise RatchetError(
                f"{differing[0]} is {here} on rank 0 ({host}) and {there} on rank {number} ({where}): install "
                "constraints.txt everywhere"
            )
    joined = len({where for where, _ in everyone})
    if joined != machines:
        raise RatchetError(f"{joined} machines joined, and training.hardware.machines is {machines}")
    return f"ranks: {len(everyone)}, machines: {joined}, torch {torch.__version__}"


def links(device: torch.device, is_cpu: bool) -> tuple[float, str]:
    """Measure all-reduce at growing sizes, and a broadcast from each rank. Returns bytes per second of the largest
    all-reduce, and a message. Collective."""
    hosts, speeds = ranks.gather(socket.gethostname()), dict[int, float]()
    for size in (2**20, 2**24, 2**27 if is_cpu else 2**30):
        tensor = torch.ones(size // 4, device=device)
        moved = 2 * size * (len(hosts) - 1) / len(hosts)
        speeds[size] = moved / timed(lambda tensor=tensor: torch.distributed.all_reduce(tensor))
    tensor = torch.ones(2**22, device=device)
    sent = [
        tensor.nbytes / timed(lambda source=source: torch.distributed.broadcast(tensor, source))
        for source in range(len(hosts))
    ]
    slowest, usual = min(sent), median(sent)
    if slowest < SLOW_LINK * usual:
        rank = sent.index(slowest)
        raise RatchetError(
            f"rank {rank} ({hosts[rank]}) sends {slowest / 1e9:.2g} GB/s, the others {usual / 1e9:.2g}: check "
            "that machine's network cards with NCCL_DEBUG=INFO, or leave the machine out"
        )
    reduced = ", ".join(f"{speed / 1e9:.2g} GB/s at {size >> 20} MiB" for size, speed in speeds.items())
    message = f"all-reduce {reduced}; broadcasts {slowest / 1e9:.2g} to {max(sent) / 1e9:.2g} GB/s"
    return speeds[max(speeds)], message


def timed(call: Callable[[], object], times: int = 3) -> float:
    """Seconds of the slowest rank, the least of several measurements. Collective."""
    seconds = []
    for _ in range(times):
        ranks.barrier()
        synchronize()
        started = time.perf_counter()
        call()
        synchronize()
        seconds.append(max(ranks.gather(time.perf_counter() - started)))
    return min(seconds)


def synchronize() -> None:
    """Wait for this rank's GPU, if it has one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def space(name: str, place: Path, needed: float) -> str:
    """The free bytes at `place`, which must be writable. Raises RatchetError if fewer than `needed` are free."""
    free = shutil.disk_usage(place).free
    if free < needed:
        raise RatchetError(
            f"{name}: {free / GIB:.2g} GiB free at {place}, and {needed / GIB:.2g} are needed: free some, or move it"
        )
    with disk_errors(place), tempfile.TemporaryFile(dir=place) as file:
        file.write(os.urandom(2**20))
        os.fsync(file.fileno())
    return f"{name} {free / GIB:.3g} GiB free"
