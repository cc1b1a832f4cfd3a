"""The process group of one stage: how a rank joins it, talks to the others, and dies with it."""

import ctypes
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import count
from typing import Any

import torch
from torch.distributed.distributed_c10d import _get_default_store

from ratchet.infra.errors import RatchetError
from ratchet.infra.exec_guard import PR_SET_PDEATHSIG


class Lost(RatchetError):
    """Another machine of the group has fallen silent."""


LAUNCHER_PID = "RATCHET_LAUNCHER_PID"
"""Of the process whose children the ranks are; in a container it may be the first of all."""


def die_with_launcher() -> None:
    """Ask the kernel to kill this rank when its launcher is gone, and end cleanly on SIGTERM. Called first of all.

    A rank that survives its launcher would go on writing checkpoints beside the run that replaces it.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != int(os.environ.get(LAUNCHER_PID, os.getppid())):  # gone before we asked
            os._exit(143)
    # An exception instead of an instant death: open pools and files are closed on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def rank() -> int:
    """This process's number in the group, 0 when it was started alone."""
    return int(os.environ.get("RANK", 0))


def join(timeout_minutes: float = 30) -> None:
    """Join the process group the launcher describes in the environment (RANK, WORLD_SIZE, MASTER_ADDR, …).

    A rank that waits longer than `timeout_minutes` for the others ends with an error.
    """
    import deepspeed

    accelerated = torch.cuda.is_available()
    if not accelerated:
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))
        # DeepSpeed would compile a shared-memory all-reduce for a minute on first use, if it finds a compiler.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    backend = "nccl" if accelerated else "gloo"
    deepspeed.init_distributed(
        dist_backend=backend, auto_mpi_discovery=False, timeout=timedelta(minutes=timeout_minutes)
    )
    give_up_silence(timeout_minutes)


def give_up_silence(timeout_minutes: float) -> None:
    """Have the kernel close each connection of this process whose other end acknowledges nothing for so long. Torch
    waits without end for an answer of the store by which ranks and launchers find one another."""
    if sys.platform != "linux":
        return
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # no socket, or closed meanwhile
            connection = socket.socket(fileno=int(descriptor))
            with suppress(OSError):  # none of TCP's
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(60_000 * timeout_minutes))
            connection.detach()  # it is not ours to close


@contextmanager
def in_touch(timeout_minutes: float) -> Iterator[None]:
    """Say in words that another machine has fallen silent. Raises Lost."""
    try:
        yield
    except RuntimeError as error:
        if not (isinstance(error, torch.distributed.DistError) or "Timed out waiting" in str(error)):
            raise
        raise Lost(
            f"Another machine has not answered for {timeout_minutes:g} minutes (training.hardware.timeout_minutes), or "
            f"closed its connection: {str(error).splitlines()[0]}. When the network is well, the same command goes on "
            "from the last checkpoint."
        ) from error


def leave() -> None:
    """The reverse of `join`. Collective, so that no rank tears down what another still waits for."""
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


_deals = count()


def deal(number: int) -> tuple[Iterator[int], Iterator[int]]:
    """Who does which of `number` things: first this rank's even share, then what others have left. Each number below
    `number` is given to one rank only. The second iterator is for a rank that has nothing to do any more; it takes from
    the rank that has most left. Calls are collective, and all ranks are done with one deal before the next."""
    return dealt(number, _get_default_store(), next(_deals), rank(), torch.distributed.get_world_size())


def dealt(number: int, store: Any, name: int, rank: int, ranks: int) -> tuple[Iterator[int], Iterator[int]]:
    """`deal` for one of `ranks` that share a `torch.distributed.Store`; the deals are named 0, 1, 2, …"""
    shares = [range(first, number, ranks) for first in range(ranks)]

    def key(whose: int | str, deal: int = name) -> str:
        return f"ratchet-deal-{deal}-{whose}"  # a counter of what has been begun

    if name:
        store.delete_key(key(rank, name - 1))
        store.delete_key(key("all", name - 1))

    def take(whose: int) -> int | None:
        begun = store.add(key(whose), 1) - 1
        if begun >= len(shares[whose]):
            return None
        store.add(key("all"), 1)
        return shares[whose][begun]

    def left_by_others() -> Iterator[int]:
        while store.add(key("all"), 0) < number:  # one question where nothing is left, and not one a rank
            left = [len(share) - store.add(key(whose), 0) for whose, share in enumerate(shares)]
            if max(left) <= 0:  # the last ones are just being taken
                return
            taken = take(left.index(max(left)))
            if taken is not None:
                yield taken

    return iter(lambda: take(rank), None), left_by_others()


@contextmanager
def machine_slots(count: int) -> Iterator[int | None]:
    """A pipe with `count` bytes, a slot each, that the ranks of this machine share: its descriptor; None where a rank
    has the machine to itself. Collective on the way in."""
    if int(os.environ.get("LOCAL_WORLD_SIZE", 1)) == 1:
        yield None
        return
    machine, directory = os.environ.get("GROUP_RANK"), None
    if os.environ["LOCAL_RANK"] == "0":
        directory = tempfile.mkdtemp(prefix="ratchet-slots-")
        os.mkfifo(os.path.join(directory, "pipe"))
    (found,) = (path for of, path in gather((machine, directory)) if of == machine and path)
    slots = os.open(os.path.join(found, "pipe"), os.O_RDWR)
    if directory:
        os.write(slots, b"." * count)
    barrier()
    if directory:
        shutil.rmtree(directory)  # the pipe is there as long as somebody has it open
    yield slots
    os.close(slots)


def tally(name: str) -> int:
    """How often this was called on all ranks together, this time included."""
    return _get_default_store().add(f"ratchet-tally-{name}", 1)


SLOW_DISK = 50e6
"""Bytes a second that files are read or written at, at the least."""
_firsts = count()


def minutes_for(size: float, timeout_minutes: float) -> float:
    """How long to wait for what somebody does with `size` bytes of files."""
    return timeout_minutes + size / SLOW_DISK / 60


def first(work: Callable[[], object], size: float, timeout_minutes: float) -> None:
    """Have rank 0 do `work` on `size` bytes of files, while the others wait: as long as for anything else, and as long
    as a slow disk takes besides. Collective. Raises Lost."""
    store, done = _get_default_store(), f"ratchet-first-{next(_firsts)}"
    if rank() == 0:
        work()
        store.set(done, "1")
    minutes = minutes_for(size, timeout_minutes)
    deadline, pause = time.monotonic() + 60 * minutes, 0.005
    while not store.check([done]):
        if time.monotonic() > deadline:
            raise Lost(f"Rank 0 was not done with {size / 1e9:,.1f} GB of files within {minutes:,.0f} minutes.")
        time.sleep(pause := min(2 * pause, 0.5))


def barrier() -> None:
    """Wait until every rank is here. Collective."""
    torch.distributed.barrier()
