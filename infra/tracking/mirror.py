"""Replay run journals into one tracker: `… -m ratchet.infra.tracking.mirror TRACKER JOURNALS ADDRESS [PARENT JOURNAL]`

One process for each tracker mirrors every journal, and exits when all are complete. It ends with its parent, unless the
parent has closed its own journal: the end of a run does not wait for a tracker. The differences between trackers are in
`mlflow_mirror.py` and `sinks.py`.
"""

import fcntl
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from ratchet.data_curation.base.files import is_locked, write_atomically
from ratchet.infra.tracking import sinks
from ratchet.infra.tracking.mirrored import Mirrored, Unusable, state_file, state_in

POLL_S = 0.3
ROUND_S = 10.0  # between rounds while runs are active: their metrics are sent together, a page is that late
AGAIN_S = 2.0
LOST_S = 0.2  # before the next try where something has arrived since the last: an answer was lost
PARENT_S = 0.5  # between two looks whether the parent lives
CLOSED = b'"event": "close"}'
GIVE_UP_AFTER_S = 15  # without progress, once no writer is left


def mirror(tracker: str, directory: Path, address: str) -> bool:
    """Replay until every journal is complete. False when the tracker stays unreachable and no writer is left."""
    with open(directory / f".{tracker}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two mirrors would send everything twice
        try:
            opened = _opener(tracker, directory, address)
        except Unusable as problem:
            _tell(directory, tracker, address, str(problem))
            return False
        return _replay_all(directory, opened)


def _opener(tracker: str, directory: Path, address: str) -> Callable[[Path], Mirrored]:
    if tracker in sinks.SINKS:
        return partial(sinks.WholeRun, tracker=tracker, address=Path(address))
    from ratchet.infra.tracking import mlflow_mirror  # seconds

    return mlflow_mirror.opener(directory, address)


def _tell(directory: Path, tracker: str, address: str, problem: str) -> None:
    """Leave the reason with each journal that the tracker does not have."""
    print(f"{time.strftime('%H:%M:%S')} {problem}", flush=True)
    for journal in directory.glob("*.jsonl"):
        file = state_file(journal, tracker, address)
        state = state_in(file)
        if not state.get("complete"):
            write_atomically(file, json.dumps({**state, "problem": problem}))


def _replay_all(directory: Path, opened: Callable[[Path], Mirrored]) -> bool:
    journals: dict[str, Mirrored] = {}
    last_success = time.monotonic()
    while True:
        for path in directory.glob("*.jsonl"):
            if path.name not in journals:
                journals[path.name] = opened(path)
        pending = [journals[name] for name in sorted(journals, reverse=True) if not journals[name].complete]
        if not pending:
            return True
        sent, failed, arrived = 0, False, False
        for journal in pending:  # newest first: people watch it
            before = journal.place
            try:
                sent += journal.replay()
                last_success = time.monotonic()
            except Exception as error:  # from the clients of the store or the database
                failed, problem = True, journal.reason(error)
                if journal.place != before:
                    arrived, last_success = True, time.monotonic()
                if problem != journal.problem:
                    print(f"{time.strftime('%H:%M:%S')} {journal.path.name}: {problem}", flush=True)
                    journal.problem = problem
                    journal.save()
        alone = _alone(pending)
        if failed and alone and time.monotonic() - last_success > GIVE_UP_AFTER_S:
            return False
        again_s = LOST_S if arrived else AGAIN_S
        pause_s = again_s if failed else ROUND_S if not alone else 0 if sent else POLL_S
        next_round = time.monotonic() + pause_s
        while time.monotonic() < next_round and _alone(pending) == alone:  # a closing run waits for the mirror
            time.sleep(0.1)


def _alone(journals: Sequence[Mirrored]) -> bool:
    return not any(is_locked(journal.path) for journal in journals)


def _end_with_parent(parent: int, journal: str) -> None:
    """End this process when its parent has died, unless that has closed its journal."""
    while os.getppid() == parent:
        time.sleep(PARENT_S)
    if not journal or not Path(journal).read_bytes().rstrip().endswith(CLOSED):
        os._exit(143)


if __name__ == "__main__":
    to, journals, where, *caller = sys.argv[1:]
    if caller:
        threading.Thread(target=_end_with_parent, args=(int(caller[0]), caller[1]), daemon=True).start()
    sys.exit(0 if mirror(to, Path(journals), where) else 1)
