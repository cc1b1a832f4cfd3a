"""Replays run journals into one tracker: `python -m ratchet.infra.tracking.mirror TRACKER JOURNALS ADDRESS`.

One process for each tracker mirrors every journal, and exits when all are complete. What differs between trackers is in
`mlflow_mirror.py`, `tensorboard_mirror.py` and `wandb_mirror.py`.
"""

import fcntl
import importlib
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ratchet.data_curation.base.files import is_locked
from ratchet.infra.tracking.mirrored import Mirrored

POLL_S = 0.3
ROUND_S = 10.0  # between rounds while runs are active: their metrics are sent together, a page is that late
AGAIN_S = 2.0
GIVE_UP_AFTER_S = 15  # without progress, once no writer is left


def mirror(tracker: str, directory: Path, address: str) -> bool:
    """Replay until every journal is complete; False when the tracker stays unreachable and no writer is left."""
    with open(directory / f".{tracker}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two mirrors would send everything twice
        module = importlib.import_module(f"ratchet.infra.tracking.{tracker}_mirror")
        return _replay_all(directory, module.opener(directory, address))


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
        sent, failed = 0, False
        for journal in pending:  # newest first: people watch it
            try:
                sent += journal.replay()
                last_success = time.monotonic()
            except Exception as error:  # from the clients of the store or the database
                failed, problem = True, journal.reason(error)
                if problem != journal.problem:
                    print(f"{time.strftime('%H:%M:%S')} {journal.path.name}: {problem}", flush=True)
                    journal.problem = problem
                    journal.save()
        alone = _alone(pending)
        if failed and alone and time.monotonic() - last_success > GIVE_UP_AFTER_S:
            return False
        pause_s = ROUND_S if not alone else AGAIN_S if failed else 0 if sent else POLL_S
        next_round = time.monotonic() + pause_s
        while time.monotonic() < next_round and _alone(pending) == alone:  # a closing run waits for the mirror
            time.sleep(0.1)


def _alone(journals: Sequence[Mirrored]) -> bool:
    return not any(is_locked(journal.path) for journal in journals)


if __name__ == "__main__":
    sys.exit(0 if mirror(sys.argv[1], Path(sys.argv[2]), sys.argv[3]) else 1)
