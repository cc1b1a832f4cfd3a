"""Judge many responses at once on this machine."""

import heapq
import itertools
import os
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ratchet.verifiers.domain import Domain, Work
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.errors import RatchetError, not_installed, with_place
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.sandbox.server import Sandbox
from ratchet.verifiers.serving.isolated import IsolatedVerifier
from ratchet.verifiers.serving.pool import CLOSED, Deliver, Pool, gather
from ratchet.verifiers.submission import JudgeSettings, Submission

T = TypeVar("T")
REMEMBERED = 8_192
"""Verdicts kept, so that a program shared by many rollouts runs once; and problems whose seconds are known."""
ATTEMPTS = 3
PAUSE_S = 0.2
"""Seconds before the next attempt, times the attempts made: a full disk or process table may be temporary."""


def open_pool(
    reward_servers: Sequence[str] = (), workers: int | None = None, settings: JudgeSettings = JudgeSettings(),
    slots: int | None = None,
) -> Pool:  # fmt: skip
    """A pool over the reward servers at these URLs, or without any a `VerifierPool` on this machine.

    The environment has the servers' token, see `verifiers.serving.client`; a server keeps its own minimum isolation.
    Raises RatchetError if no server answers or one refuses the token.
    """
    if reward_servers:
        try:
            from ratchet.verifiers.serving.client import RemoteVerifierPool
        except ImportError as error:
            raise not_installed("A client of reward servers", "serve") from error
        return RemoteVerifierPool(reward_servers, settings=settings)
    return VerifierPool(workers, settings, slots)


class VerifierPool(Pool):
    """A pool that judges with `workers` threads (default: one per core), each with its own sandbox processes.

    Those start when first needed, are never forked from this process, and die with it. Limits count CPU time, and
    identical programs share one verdict unless it was a timeout or a fault of this machine. Problems that took long
    before go first; a free worker takes the domain that has the fewest workers, so that slow verifiers do not hold up
    fast ones. After a fault of this machine fresh processes try again; then the verdict is `infra_error`.

    Pools of several processes on one machine share `slots`, the descriptor of a pipe: a worker reads a byte from it
    before it judges, and writes it back.
    """

    def __init__(
        self, workers: int | None = None, settings: JudgeSettings = JudgeSettings(), slots: int | None = None
    ) -> None:
        super().__init__(settings)
        self.workers = workers or len(os.sched_getaffinity(0))
        self._slots = slots
        self._changed = threading.Condition()
        self._queues: dict[str, list[tuple[float, int, Work]]] = {}  # by domain
        self._busy: Counter[str] = Counter()  # workers by domain
        self._serial = itertools.count()
        self._waiting: dict[bytes, list[Deliver]] = {}  # by the key of work that is queued or running
        self._remembered: OrderedDict[bytes, Verdict] = OrderedDict()
        self._seconds: OrderedDict[str, float] = OrderedDict()  # the most so far, by problem
        self._threads: list[threading.Thread] = []
        self._closed = False

    @property
    def queued(self) -> int:
        return sum(map(len, self._queues.values()))

    @property
    def running(self) -> int:
        return self._busy.total()

    def _begin(self, submission: Submission, deliver: Deliver) -> Callable[[], None]:
        try:
            prepared = domain_of(submission.problem.domain).prepare(submission)
        except Exception as error:  # a bug of a domain: must not lose the other responses
            prepared = Verdict(Outcome.INFRA_ERROR, decided_by="judge", detail=with_place(error))
        if isinstance(prepared, Verdict):
            deliver(prepared)
            return lambda: None
        return self._share(prepared, deliver)

    def map_programs(
        self, function: Callable[[Problem, str, Sandbox], T], programs: Iterable[tuple[Problem, str]]
    ) -> list[T]:
        """Call `function` with each program and a worker's sandbox, and return the results in order, for callers that
        need more than verdicts, such as `code.judge.examine`. Raises RatchetError if it fails repeatedly."""

        def begin(program: tuple[Problem, str], deliver: Deliver) -> None:
            unique = (next(self._serial),)
            self._share(Work(*program, unique, lambda tools: function(*program, tools.sandbox)), deliver)

        results = gather(begin, programs)
        for result in results:
            if isinstance(result, Verdict) and result.outcome is Outcome.INFRA_ERROR:
                raise RatchetError(f"A program cannot be run: {result.detail}. `ratchet doctor` may say why.")
        return results

    def _share(self, work: Work, deliver: Deliver) -> Callable[[], None]:
        """Do the work once for all that request it while it is queued or running; remember a verdict that is final."""
        _ = work.key  # a digest of megabytes of tests, once: not while others wait for the lock
        with self._changed:
            if self._closed:
                raise RuntimeError("the VerifierPool is closed")
            verdict = self._remembered.get(work.key)
            if verdict is not None:
                self._remembered.move_to_end(work.key)
            else:
                if work.key not in self._waiting:
                    self._enqueue(work)
                self._waiting[work.key].append(deliver)
        if verdict is not None:
            deliver(replace(verdict, extracted=work.subject))
            return lambda: None
        return lambda: self._withdraw(work, deliver)

    def _enqueue(self, work: Work) -> None:
        """Longest first, but without starvation: work of n seconds overtakes what arrived in the last n seconds."""
        position = time.monotonic() - self._seconds.get(work.problem.problem_id, 0.0)
        heapq.heappush(self._queues.setdefault(work.problem.domain, []), (position, next(self._serial), work))
        self._waiting[work.key] = []
        if len(self._threads) < self.workers:
            thread = threading.Thread(target=self._worker, name="verifier", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._changed.notify()

    def _withdraw(self, work: Work, deliver: Deliver) -> None:
        with self._changed:
            if deliver in (waiting := self._waiting.get(work.key, [])):
                waiting.remove(deliver)

    def _worker(self) -> None:
        tools = Tools(self.settings.minimum_isolation)
        try:
            while (work := self._next()) is not None:
                start = time.monotonic()
                result = _attempted(work, tools)
                self._return_slot()
                self._finish(work, result, time.monotonic() - start)
        finally:
            tools.close()

    def _next(self) -> Work | None:
        """The next work, with a slot taken; None when the pool is closed."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or any(self._queues.values()))
                if self._closed:
                    return None
            if self._slots is not None:
                os.read(self._slots, 1)  # blocks until there is one
            with self._changed:
                if work := self._pop():
                    return work
            self._return_slot()  # another worker was faster

    def _pop(self) -> Work | None:
        while queues := {domain: queue for domain, queue in self._queues.items() if queue}:
            domain = min(queues, key=lambda domain: (self._busy[domain], queues[domain][0]))
            work = heapq.heappop(queues[domain])[2]
            if self._waiting[work.key]:
                self._busy[domain] += 1
                return work
            del self._waiting[work.key]  # withdrawn
        return None

    def _return_slot(self) -> None:
        if self._slots is not None:
            os.write(self._slots, b".")

    def _finish(self, work: Work, result: Any, seconds: float) -> None:
        with self._changed:
            self._busy[work.problem.domain] -= 1
            waiting = self._waiting.pop(work.key)
            if isinstance(result, Verdict):
                if result.outcome not in (Outcome.TIMEOUT, Outcome.INFRA_ERROR):
                    _remember(self._remembered, work.key, replace(result, extracted=None))
                most = max(seconds, self._seconds.get(work.problem.problem_id, 0.0))
                _remember(self._seconds, work.problem.problem_id, most)
        for deliver in waiting:
            deliver(result)

    def close(self) -> None:
        with self._changed:
            if self._closed or os.getpid() != self._pid:
                return
            self._closed = True
            queued = [work.key for queue in self._queues.values() for _, _, work in queue]
            dropped = [deliver for key in queued for deliver in self._waiting.pop(key)]
            self._queues.clear()
            self._changed.notify_all()
        for deliver in dropped:
            deliver(CLOSED)
        deadline = time.monotonic() + 60
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))


def _attempted(work: Work, tools: "Tools") -> Any:
    """The work's result. What fails because of this machine (no process available, a full disk, a killed worker) is
    tried again with fresh processes. A RatchetError, returned, says that nothing can be judged here."""
    result: Any = CLOSED
    for attempt in range(ATTEMPTS):
        if attempt:
            tools.close()
            time.sleep(PAUSE_S * attempt)
        try:
            result = work.run(tools)
        except RatchetError as error:
            return error
        except Exception as error:
            detail = f"{type(error).__name__}: {error}"
            result = Verdict(Outcome.INFRA_ERROR, decided_by="judge", detail=detail, extracted=work.subject)
        at_fault = isinstance(result, Verdict) and result.outcome is Outcome.INFRA_ERROR
        if not at_fault or result.decided_by in ("checker", "score"):  # the problem's or the domain's: it fails again
            return result
    return result


def _remember(memory: OrderedDict, key: Any, value: Any) -> None:
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > REMEMBERED:
        memory.popitem(last=False)


class Tools:
    """A worker thread's processes, which start on first use, and again after `close`."""

    def __init__(self, minimum_isolation: str) -> None:
        self.sandbox = Sandbox(minimum_isolation)
        self._isolated: dict[str, IsolatedVerifier] = {}

    def isolated(self, domain: Domain) -> IsolatedVerifier:
        """The confined process that runs this domain's `score`."""
        if domain.name not in self._isolated:
            self._isolated[domain.name] = IsolatedVerifier(domain)
        return self._isolated[domain.name]

    def close(self) -> None:
        for process in (self.sandbox, *self._isolated.values()):
            process.close()
