"""Judge a batch of responses to the problems of its rows, and report which were not judged: shared by the adapters."""

import functools
import inspect
import logging
import os
import runpy
import sys
import threading
from collections.abc import Sequence
from typing import Any

from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.math.second_verifier import check_installed
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.reward import graded_domains, reward_of
from ratchet.verifiers.serving.local_pool import open_pool
from ratchet.verifiers.serving.pool import Pool
from ratchet.verifiers.serving.rows import paired
from ratchet.verifiers.submission import JudgeSettings

_log, _lock = logging.getLogger("ratchet"), threading.Lock()


class Rewards:
    """Rewards of responses: 1 for a passed one and else 0, or the verdict's fraction in graded domains.

    `servers`: URLs of reward servers, separated by commas, or "" for this machine. `graded`: domains, separated by
    commas, besides those that always are. `workers`: verifiers on this machine, 0 for one per core. Where these are
    None, the environment has them: RATCHET_REWARD_SERVERS, RATCHET_GRADED, RATCHET_JUDGE_WORKERS. `total_s` limits the
    seconds for all tests of a program; `either` accepts a math answer that one of two verifiers accepts. Safe to call
    from any thread, and after a fork.
    """

    def __init__(
        self, servers: str | None = None, graded: str | None = None, workers: int | None = None,
        total_s: float | None = None, either: bool = False,
    ) -> None:  # fmt: skip
        urls = os.environ.get("RATCHET_REWARD_SERVERS", "") if servers is None else servers
        self._servers = [url.strip() for url in urls.split(",") if url.strip()]
        self._workers = int(os.environ.get("RATCHET_JUDGE_WORKERS", 0) if workers is None else workers) or None
        self._graded = graded_domains(graded)
        if either:
            check_installed()
        self._settings = JudgeSettings(fraction=bool(self._graded), either=either, total_s=total_s)
        self._pool: Pool | None = None
        self._pid, self._changed = 0, threading.Lock()
        self.judged = self.infra_errors = 0

    def __call__(self, rows: Sequence[str], responses: Sequence[str]) -> list[float | None]:
        """Rewards in order, None where the judge failed. A row is a problem as `serving.rows.encode` writes it. Raises
        RatchetError for a row that cannot be judged, or if no reward server answers."""
        return [reward for reward, _ in self.with_verdicts(rows, responses)]

    def with_verdicts(self, rows: Sequence[str], responses: Sequence[str]) -> list[tuple[float | None, Verdict]]:
        """The rewards, each with the verdict that it comes from."""
        pairs = paired(rows, responses)
        verdicts = self._opened().verify(pairs)
        faults = [verdict.detail for verdict in verdicts if verdict.outcome is Outcome.INFRA_ERROR]
        with self._changed:
            self.judged, self.infra_errors = self.judged + len(verdicts), self.infra_errors + len(faults)
        if invalid := next((v.detail for v in verdicts if v.decided_by == "invalid_problem"), ""):
            _log.warning("no response can earn a reward: %s", invalid)
        if faults:
            _log.warning("%s: %s", self._missing(len(faults), len(verdicts)), faults[0])
        return [
            (reward_of(problem.domain, verdict.outcome, verdict.fraction, self._graded), verdict)
            for (problem, _), verdict in zip(pairs, verdicts, strict=True)
        ]

    def certain(self, rows: Sequence[str], responses: Sequence[str]) -> list[float]:
        """The rewards for a trainer that cannot leave a response out. Raises RatchetError where the judge failed."""
        rewards = self(rows, responses)
        judged = [reward for reward in rewards if reward is not None]
        if missing := len(rewards) - len(judged):
            raise RatchetError(f"{self._missing(missing, len(rewards))}. That is no reward of zero; the log says why.")
        return judged

    def _missing(self, missing: int, of: int) -> str:
        total = f"{self.infra_errors:,} of {self.judged:,} so far"
        return f"{missing} of {of} responses were not judged, for a fault of the judge ({total})"

    def _opened(self) -> Pool:
        with self._changed:
            if self._pool is None or self._pid != os.getpid():  # no pool survives a fork
                self._pool, self._pid = open_pool(self._servers, self._workers, self._settings), os.getpid()
            return self._pool


def rewards(**options: Any) -> Rewards:
    """This process's `Rewards` with these options. Raises RatchetError for an unknown option, or for one that needs a
    package which is not installed."""
    known = inspect.signature(Rewards).parameters
    if unknown := sorted(options.keys() - known.keys()):
        raise RatchetError(f"Unknown option {unknown[0]!r}; known: {', '.join(known)}.")
    with _lock:
        return _made(**options)


_made = functools.lru_cache(Rewards)


def run_script() -> None:
    """Run the script that is this program's first argument with the arguments after it."""
    if len(sys.argv) < 2:
        raise SystemExit("Give the trainer's script and its arguments.")
    sys.argv.pop(0)
    runpy.run_path(sys.argv[0], run_name="__main__")
