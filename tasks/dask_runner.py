"""Row-wise work on a Dask cluster, through Prefect's Dask task runner."""

import importlib.util
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from ratchet.infra.store.files import content_key, sha256_file
from ratchet.infra.store.versions import library_versions
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.processes import core_count
from ratchet.verifiers.workers import Submit

PROCESSES, DASK = "processes", "dask"
CHECK_S = 20
"""Seconds without a result before the cluster is checked for workers."""


@contextmanager
def dask(runner: str, workers: int, title: str) -> Iterator[tuple[Submit, int]]:
    """A cluster of `workers` processes of this machine, or the one of the scheduler at the address `runner`. Each item
    is a Prefect task called `title`. Dask retries the items of workers that die. RatchetError is raised when no worker
    is left, when three have died over the same item, and when the scheduler is lost."""
    os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "critical")
    from prefect import task
    from prefect.cache_policies import NO_CACHE
    from prefect.context import TaskRunContext
    from prefect_dask.task_runners import DaskTaskRunner

    local = {"n_workers": workers or core_count(), "threads_per_worker": 1, "dashboard_address": None}
    chosen = DaskTaskRunner(cluster_kwargs=local) if runner == DASK else DaskTaskRunner(address=runner)
    remote = task(name=title, task_run_name=title, cache_policy=NO_CACHE, persist_result=False)(_on_worker)
    environment = {name: value for name, value in os.environ.items() if name.startswith("RATCHET_")}
    fixed = {"environment": environment, "versions": _versions()}
    # Prefect pickles its context; the step's own task holds open files and stays here.
    context = copy_context()
    context.run(TaskRunContext.__var__.set, cast(Any, None))
    with chosen as cluster:
        client = cast(Any, cluster.client)

        def submit(work: Callable[[Any], Any], item: Any) -> Any:
            return _Future(context.run(cluster.submit, remote, {"work": work, "item": item, **fixed}), client, runner)

        yield submit, _threads(client, runner)


@dataclass
class _Future:
    future: Any
    client: Any
    runner: str

    def result(self) -> Any:
        from distributed import CancelledError, KilledWorker

        while True:
            try:
                return self.future.result(timeout=CHECK_S)
            except TimeoutError:
                _threads(self.client, self.runner)
            except KilledWorker as error:
                raise RatchetError(
                    f"runner: {error.allowed_failures + 1} workers of {self.runner} died over the same rows, perhaps "
                    "for lack of memory: see their logs. Start them with more memory, then run again."
                ) from error
            except CancelledError as error:
                raise RatchetError(
                    f"runner: the Dask scheduler at {self.runner} was lost. Start it and its workers, then run again: "
                    "finished steps are kept."
                ) from error


def _threads(client: Any, runner: str) -> int:
    """The number of items that the cluster works on at a time. Raises RatchetError when it has no workers."""
    if threads := sum(client.nthreads().values()):
        return threads
    raise RatchetError(f"runner: {runner} has no workers. Start some with `dask worker {runner}`, then run again.")


def _on_worker(work: Callable[[Any], Any], item: Any, environment: dict[str, str], versions: dict[str, str]) -> Any:
    """Runs on a worker, with this process's RATCHET_ settings. Raises RatchetError where the worker has other versions,
    which would judge rows by other rules."""
    own = _versions()
    if wrong := [f"{name} {own[name]}, not {its}" for name, its in versions.items() if own.get(name, its) != its]:
        raise RatchetError(
            f"runner: a worker on {socket.gethostname()} has {'; '.join(wrong)}. Install the same versions there."
        )
    os.environ.update(environment)
    return work(item)


@cache
def _versions() -> dict[str, str]:
    """Versions of the code that judges rows; of our own, a hash of its files."""
    root = Path(__file__).resolve().parent.parent
    files = (file for room in ("data_curation", "infra", "verifiers") for file in (root / room).rglob("*.py"))
    code = content_key([(str(file.relative_to(root)), sha256_file(file)) for file in files])
    return {"ratchet-rl code": code[:12], **library_versions()}


def check_runner(runner: str) -> None:
    """Raises RatchetError if Dask is not installed or no scheduler answers."""
    if runner == PROCESSES:
        return
    if importlib.util.find_spec("prefect_dask") is None:
        raise RatchetError(f"runner: {runner} needs Dask: pip install 'ratchet-rl[dask]', or use runner: processes.")
    if runner != DASK:
        address = urlsplit(runner)
        try:
            socket.create_connection((address.hostname or "", address.port or 8786), timeout=5).close()
        except OSError as error:
            raise RatchetError(
                f"runner: no Dask scheduler answers at {runner} ({error}). Start one with `dask scheduler`, and "
                "workers with `dask worker ADDRESS` in an environment in which ratchet-rl is installed."
            ) from error
