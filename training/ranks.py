"""The process group of one stage: join it, communicate, and die with it."""

import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import count
from typing import Any

import torch
from torch.distributed.distributed_c10d import _get_default_store

from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.processes import end_with_parent


class Lost(RatchetError):
    """Another machine of the group has stopped answering."""


LAUNCHER_PID = "RATCHET_LAUNCHER_PID"
"""Environment variable with the process id of the ranks' parent."""


def die_with_launcher() -> None:
    """Die when the launcher is gone, so that no rank writes checkpoints beside the run that replaces it; and exit
    cleanly on SIGTERM, closing pools and files. Called first of all."""
    end_with_parent(int(os.environ.get(LAUNCHER_PID, os.getppid())), signal.SIGKILL)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def rank() -> int:
    """The number of this process in the group; 0 if it was started alone."""
    return int(os.environ.get("RANK", 0))


def device() -> torch.device:
    """This rank's GPU, or the CPU."""
    return (
        torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if torch.cuda.is_available() else torch.device("cpu")
    )


def join(timeout_minutes: float = 30) -> None:
    """Join the process group that the environment describes (RANK, WORLD_SIZE, MASTER_ADDR, …). A rank that waits
    longer than `timeout_minutes` for the others fails."""
    import deepspeed

    accelerated = torch.cuda.is_available()
    if accelerated:
        # Before the group, which is bound to this GPU: what is gathered goes through the current one.
        torch.cuda.set_device(device())
    else:
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))
        # DeepSpeed would compile a shared-memory all-reduce for a minute on first use.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    backend, timeout = "nccl" if accelerated else "gloo", timedelta(minutes=timeout_minutes)
    deepspeed.init_distributed(dist_backend=backend, auto_mpi_discovery=False, timeout=timeout)
    give_up_silence(timeout_minutes)


def give_up_silence(timeout_minutes: float) -> None:
    """Let the kernel close each connection of this process whose peer acknowledges nothing for that long: torch waits
    forever for answers of its store."""
    if sys.platform != "linux":
        return
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # not a socket, or closed meanwhile
            connection = socket.socket(fileno=int(descriptor))
            with suppress(OSError):  # not TCP
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(60_000 * timeout_minutes))
            connection.detach()  # it belongs to torch


@contextmanager
def in_touch(timeout_minutes: float) -> Iterator[None]:
    """Run the block. Raises Lost, with a message, if another machine stops answering."""
    try:
        yield
    except RuntimeError as error:
        if not (isinstance(error, torch.distributed.DistError) or "Timed out waiting" in str(error)):
            raise
        raise Lost(
            f"Another machine has not answered for {timeout_minutes:g} minutes "
            f"(training.hardware.advanced.timeout_minutes), or closed its connection: {str(error).splitlines()[0]}. "
            "When the network works again, run the same command to continue from the last checkpoint."
        ) from error


def leave() -> None:
    """Leave the group that `join` entered. Collective, so that no rank leaves while another waits for it."""
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def gather(item: Any) -> list[Any]:
    """Every rank's `item`, in rank order, on every rank. Collective."""
    items: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(items, item)
    return items


def broadcast(item: Any) -> Any:
    """Rank 0's `item` on every rank. Collective."""
    items = [item]
    torch.distributed.broadcast_object_list(items, src=0)
    return items[0]


_assignments = count()


def assign(number: int, ranks_per_engine: int = 1) -> tuple[Iterator[int], Iterator[int]]:
    """Divide the numbers below `number` among the ranks, each to one rank only. The first iterator has this rank's even
    share; the second, for a rank that has finished, takes from the rank with the most left. Collective; all ranks
    finish an assignment before the next. The neighboring ranks of one engine get the same share, and nothing else: they
    could not agree on when to take more."""
    if ranks_per_engine > 1:
        return iter(
            range(rank() // ranks_per_engine, number, torch.distributed.get_world_size() // ranks_per_engine)
        ), iter(())
    return assigned(number, _get_default_store(), next(_assignments), rank(), torch.distributed.get_world_size())


def assigned(number: int, store: Any, name: int, rank: int, ranks: int) -> tuple[Iterator[int], Iterator[int]]:
    """Assign numbers, as `assign` does, to one of `ranks` that share a `torch.distributed.Store`; assignments are named
    0, 1, 2, …"""
    shares = [range(first, number, ranks) for first in range(ranks)]

    def key(owner: int | str, name: int = name) -> str:
        return f"ratchet-assignment-{name}-{owner}"  # a counter of the numbers taken

    for owner in (rank, "all") if name else ():
        store.delete_key(key(owner, name - 1))

    def take(owner: int) -> int | None:
        number = store.add(key(owner), 1) - 1
        if number >= len(shares[owner]):
            return None
        store.add(key("all"), 1)
        return shares[owner][number]

    def left_by_others() -> Iterator[int]:
        while store.add(key("all"), 0) < number:  # a single request if nothing is left
            left = [len(share) - store.add(key(owner), 0) for owner, share in enumerate(shares)]
            if max(left) <= 0:  # the last ones are being taken
                return
            if (batch := take(left.index(max(left)))) is not None:
                yield batch

    return iter(lambda: take(rank), None), left_by_others()


@contextmanager
def machine_slots(count: int) -> Iterator[int | None]:
    """The descriptor of a pipe shared by this machine's ranks, with `count` bytes, one per slot; None for a single
    rank. Collective on entry."""
    if int(os.environ.get("LOCAL_WORLD_SIZE", 1)) == 1:
        yield None
        return
    machine, directory = os.environ.get("GROUP_RANK"), None
    if os.environ["LOCAL_RANK"] == "0":
        directory = tempfile.mkdtemp(prefix="ratchet-slots-")
        os.mkfifo(os.path.join(directory, "pipe"))
    (shared,) = (path for of, path in gather((machine, directory)) if of == machine and path)
    slots = os.open(os.path.join(shared, "pipe"), os.O_RDWR)
    try:
        if directory:
            os.write(slots, b"." * count)
        barrier()
        if directory:
            shutil.rmtree(directory)  # the pipe exists while it is open
        yield slots
    finally:
        os.close(slots)


def tally(name: str, more: int) -> int:
    """Add to a count; returns the sum so far of all ranks together."""
    return _get_default_store().add(f"ratchet-tally-{name}", more)


def barrier() -> None:
    """Wait until every rank has called this. Collective."""
    torch.distributed.barrier()
