import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ratchet.infra.launching.resident import Order, Resident
from tests.waiting import happens

ROOT = Path(__file__).parents[2]


@pytest.fixture
def resident() -> Iterator[Resident]:
    resident = Resident()
    yield resident
    resident.close()


@contextmanager
def ordered(resident: Resident, log: Path, *arguments: str, **environment: str) -> Iterator[Order]:
    argv = [sys.executable, "-P", "-m", "tests.infra.ordered", *arguments]
    with resident.order(argv, log, {**os.environ, "PYTHONPATH": str(ROOT), **environment}) as order:
        yield order


def ended(order: Order) -> int:
    assert happens(lambda: order.poll() is not None)
    code = order.poll()
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


def test_orders_are_copies_of_one_process_that_loaded_once(resident, tmp_path):
    for number in (0, 3):
        with ordered(resident, tmp_path / f"{number}", str(number)) as order:
            assert ended(order) == number
    (loaded, first), (again, second) = pids(tmp_path / "0"), pids(tmp_path / "3")
    assert loaded == again and len({loaded, first, second}) == 3
    resident.close()
    assert not alive(loaded)


def test_what_is_left_before_it_has_ended_is_ended_and_the_next_order_starts_afresh(resident, tmp_path):
    with ordered(resident, tmp_path / "long", "0", "600") as order:
        loaded, copy = pids(tmp_path / "long")
        assert order.poll() is None
    assert not alive(loaded) and not alive(copy)
    with ordered(resident, tmp_path / "next", "0") as order:
        assert ended(order) == 0
    assert pids(tmp_path / "next")[0] != loaded


def test_a_resident_that_is_killed_is_told_and_takes_its_copy_along(resident, tmp_path):
    with ordered(resident, tmp_path / "long", "0", "600") as order:
        loaded, copy = pids(tmp_path / "long")
        os.kill(loaded, 9)
        assert ended(order) == -9
        assert happens(lambda: not alive(copy))


def test_where_copies_would_not_work_each_order_has_a_process(resident, tmp_path):
    for number in (1, 2):
        with ordered(resident, tmp_path / f"{number}", str(number), ALONE="1") as order:
            assert ended(order) == number
    (loaded, worked), (again, _) = pids(tmp_path / "1"), pids(tmp_path / "2")
    assert loaded == worked != again
