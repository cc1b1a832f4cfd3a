"""Process many items with several processes, with the results in the order of the items."""

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from typing import TypeVar

from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.processes import core_count, end_with_parent

Item = TypeVar("Item")
Result = TypeVar("Result")
AHEAD = 2
"""Items submitted per worker before the first result is back: memory grows with it."""


def ordered_map(
    work: Callable[[Item], Result], items: Iterable[Item], workers: int = 0
) -> Generator[Result, None, None]:
    """The results of `work` for each item, in order. Both are pickled for `workers` processes (0: one per core). A
    single item, or a single worker, runs in this process."""
    items = iter(items)
    first = list(islice(items, 2))
    items, workers = chain(first, items), workers or core_count()
    if len(first) < 2 or workers == 1:
        yield from map(work, items)
        return
    # Spawned: a fork would copy locks that threads of Prefect, MLflow and Arrow hold.
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), end_with_parent, (os.getpid(),))
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > AHEAD * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise RatchetError(
            "A worker process was killed, perhaps for memory. Run again where there is more, or with fewer workers "
            "(`workers`)."
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)
