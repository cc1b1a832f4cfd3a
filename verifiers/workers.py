"""Work on many items by several processes, with the results in the order of the items."""

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from itertools import chain, islice
from typing import Any, TypeVar

from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.processes import core_count, end_with_parent

Item = TypeVar("Item")
Result = TypeVar("Result")
Submit = Callable[..., Any]
"""Submits `work` and an item; returns an object with a `result()`."""
Cluster = AbstractContextManager[tuple[Submit, int]]
"""Processes elsewhere, and their number."""
AHEAD = 2
"""Items submitted per worker before the first result is back: memory grows with it."""


def in_order(
    work: Callable[[Item], Result], items: Iterable[Item], workers: int = 0, cluster: Cluster | None = None
) -> Generator[Result, None, None]:
    """`work` of each item, in order. Both are pickled for the processes of a `cluster`, or `workers` of this machine
    (0: one per core). A single item, or a single local worker, runs in this process."""
    items = iter(items)
    first = list(islice(items, 2))
    items, workers = chain(first, items), workers or core_count()
    if len(first) < 2 or (cluster is None and workers == 1):
        yield from map(work, items)
        return
    with cluster or _processes(workers) as (submit, places):
        waiting: deque[Any] = deque()
        for item in items:
            waiting.append(submit(work, item))
            if len(waiting) > AHEAD * places:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@contextmanager
def _processes(workers: int) -> Iterator[tuple[Submit, int]]:
    # Spawned: a fork would copy locks that threads of Prefect, MLflow and Arrow hold.
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), end_with_parent, (os.getpid(),))
    try:
        yield pool.submit, workers
    except BrokenProcessPool as error:
        raise RatchetError(
            "A worker process was killed, perhaps for memory. Run again with fewer: --set workers=1."
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)
