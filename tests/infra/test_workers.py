import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.workers import AHEAD, ordered_map
from tests.waiting import happens


def squared(number: int) -> int:
    time.sleep(0.05 if number == 0 else 0)  # the first is the last to be done
    return number * number


def where(_: int) -> int:
    return os.getpid()


def refused(number: int) -> int:
    if number == 3:
        raise RatchetError("row 3 of rows.jsonl")
    return number


def killed(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_results_come_in_the_order_of_the_items_and_from_several_processes() -> None:
    assert list(ordered_map(squared, range(40), 2)) == [number * number for number in range(40)]
    assert os.getpid() not in ordered_map(where, range(40), 2)


def test_a_single_item_or_worker_needs_no_process() -> None:
    assert set(ordered_map(where, range(9), 1)) == set(ordered_map(where, [1], 2)) == {os.getpid()}
    assert list(ordered_map(where, [], 2)) == []


def test_no_more_items_are_taken_than_the_workers_need_soon() -> None:
    taken: list[int] = []
    items = (taken.append(number) or number for number in range(1000))
    results = ordered_map(squared, items, 2)
    for _ in range(3):
        next(results)
    assert len(taken) <= 3 + 2 * AHEAD + 1
    results.close()


def test_what_went_wrong_in_a_process_is_raised_here() -> None:
    with pytest.raises(RatchetError, match=r"row 3 of rows\.jsonl"):
        list(ordered_map(refused, range(9), 2))
    with pytest.raises(RatchetError, match="killed"):
        list(ordered_map(killed, range(9), 2))


def test_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os, signal\n"
        "from ratchet.verifiers.workers import ordered_map\n"
        "from tests.infra.test_workers import where\n"
        "if __name__ == '__main__':\n"
        "    workers = ordered_map(where, range(1000), 2)\n"
        "    print(next(workers), flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert happens(lambda: not Path(f"/proc/{int(done.stdout)}").exists())
