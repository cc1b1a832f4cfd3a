import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ratchet.infra.launching.fork_server import ForkServer, Job
from tests.waiting import happens

ROOT = Path(__file__).parents[2]


@pytest.fixture
def fork_server() -> Iterator[ForkServer]:
    fork_server = ForkServer()
    yield fork_server
    fork_server.close()


@contextmanager
def ordered(fork_server: ForkServer, log: Path, *arguments: str, **environment: str) -> Iterator[Job]:
    argv = [sys.executable, "-P", "-m", "tests.infra.ordered", *arguments]
    with fork_server.run(argv, log, {**os.environ, "PYTHONPATH": str(ROOT), **environment}) as job:
        yield job


def ended(job: Job) -> int:
    assert happens(lambda: job.poll() is not None)
    code = job.poll()
    assert code is not None
    return code


def pids(log: Path) -> list[int]:
    """Of the process that loaded, and of the one that did what was ordered, once it has begun."""
    assert happens(lambda: log.is_file() and log.read_text().endswith("\n"))
    return [int(word) for word in log.read_text().split()]


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def test_orders_are_copies_of_one_process_that_loaded_once(fork_server, tmp_path):
    for number in (0, 3):
        with ordered(fork_server, tmp_path / f"{number}", str(number)) as job:
            assert ended(job) == number
    (loaded, first), (again, second) = pids(tmp_path / "0"), pids(tmp_path / "3")
    assert loaded == again and len({loaded, first, second}) == 3
    fork_server.close()
    assert not alive(loaded)


def test_what_is_left_before_it_has_ended_is_ended_and_the_next_order_starts_afresh(fork_server, tmp_path):
    with ordered(fork_server, tmp_path / "long", "0", "600") as job:
        loaded, copy = pids(tmp_path / "long")
        assert job.poll() is None
    assert not alive(loaded) and not alive(copy)
    with ordered(fork_server, tmp_path / "next", "0") as job:
        assert ended(job) == 0
    assert pids(tmp_path / "next")[0] != loaded


def test_a_resident_that_is_killed_is_told_and_takes_its_copy_along(fork_server, tmp_path):
    with ordered(fork_server, tmp_path / "long", "0", "600") as job:
        loaded, copy = pids(tmp_path / "long")
        os.kill(loaded, 9)
        assert ended(job) == -9
        assert happens(lambda: not alive(copy))


def test_where_copies_would_not_work_each_order_has_a_process(fork_server, tmp_path):
    for number in (1, 2):
        with ordered(fork_server, tmp_path / f"{number}", str(number), ALONE="1") as job:
            assert ended(job) == number
    (loaded, worked), (again, _) = pids(tmp_path / "1"), pids(tmp_path / "2")
    assert loaded == worked != again
