"""Many responses judged at once on this machine, each as soon as it is there."""

import hashlib
import heapq
import itertools
import os
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ratchet.infra.errors import RatchetError
from ratchet.infra.problems import Problem
from ratchet.verifiers.domain import Domain, Work, domain_of
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.sandbox.server import Sandbox
from ratchet.verifiers.serving.isolated import IsolatedVerifier
from ratchet.verifiers.serving.pool import CLOSED, Deliver, Pool, gather
from ratchet.verifiers.submission import JudgeSettings, Submission

T = TypeVar("T")
REMEMBERED = 8_192
"""Verdicts kept, so that a program that many rollouts share is run once; and problems whose seconds are known."""
ATTEMPTS = 3
PAUSE_S = 0.2
"""Before another attempt, times the attempts made: a full disk or process table may be so for a moment only."""


def open_pool(
    reward_servers: Sequence[str] = (), workers: int | None = None, settings: JudgeSettings = JudgeSettings(),
    slots: int | None = None,
) -> Pool:  # fmt: skip
    """A pool near or far: reward servers at these URLs, or with none `workers` local ones, which refuse to run code on
    a machine that confines less than the settings demand (a reward server keeps its own minimum). `slots`: as of a
    `VerifierPool`.

    The servers' token is in the environment, see `verifiers.serving.client`. Raises RatchetError when no server answers
    or one refuses the token.
    """
    if reward_servers:
        from ratchet.verifiers.serving.client import RemoteVerifierPool

        return RemoteVerifierPool(reward_servers, settings=settings)
    return VerifierPool(workers, settings, slots)


class VerifierPool(Pool):
    """Judges with `workers` threads, each with a sandbox and an algebra worker of its own.

    Those are fresh processes that start when first needed, are never forked from this one, and die with it. Limits
    count CPU time, and identical programs share one verdict unless it was a timeout or our fault. What is known to
    take long, from other responses to the same problem, goes first; but a free worker turns to the domain that the
    fewest of them work for, so that slow verifiers do not hold up fast ones. A fault of this machine is tried again
    with fresh processes, then it is `infra_error`.

    Pools of several processes that share a machine share `slots`, the descriptor of a pipe: a worker takes a byte out
    of it to judge, and puts it back.
    """

    def __init__(
        self, workers: int | None = None, settings: JudgeSettings = JudgeSettings(), slots: int | None = None
    ) -> None:
        super().__init__(settings)
        self.workers = workers or len(os.sched_getaffinity(0))
        self._slots = slots
        self._changed = threading.Condition()
        self._queues: dict[str, list[tuple[float, int, _Work]]] = {}  # by domain
        self._busy: Counter[str] = Counter()  # workers, by domain
        self._serial = itertools.count()
        self._works: dict[bytes, _Work] = {}  # queued or running
        self._remembered: OrderedDict[bytes, Verdict] = OrderedDict()
        self._seconds: OrderedDict[str, float] = OrderedDict()  # the longest so far, by problem
        self._threads: list[threading.Thread] = []
        self._closed = False

    @property
    def queued(self) -> int:
        return sum(map(len, self._queues.values()))

    @property
    def running(self) -> int:
        return self._busy.total()

    # ------------------------------------------------------------------------------------- dispatch

    def _begin(self, submission: Submission, deliver: Deliver) -> Callable[[], None]:
        try:
            prepared = domain_of(submission.problem.domain).prepare(submission)
        except Exception as error:  # a defect of ours: counted as such, and no reason to lose the other responses
            prepared = Verdict(Outcome.INFRA_ERROR, decided_by="judge", detail=f"{type(error).__name__}: {error}")
        if isinstance(prepared, Verdict):
            deliver(prepared)
            return lambda: None
        return self._share(_Work(prepared), deliver)

    def map_programs(
        self, function: Callable[[Problem, str, Sandbox], T], programs: Iterable[tuple[Problem, str]]
    ) -> list[T]:
        """`function` of each program and a worker's sandbox, in order, for who needs more than verdicts:
        `code_judge.examine`, `recording.record`. Raises RatchetError when it fails again and again."""

        def begin(program: tuple[Problem, str], deliver: Deliver) -> None:
            def job(tools: "Tools") -> Any:
                return function(*program, tools.sandbox)

            self._share(_Work(Work(*program, (next(self._serial),), job)), deliver)

        results = gather(begin, programs)
        for result in results:
            if isinstance(result, Verdict) and result.outcome is Outcome.INFRA_ERROR:
                raise RatchetError(f"A program cannot be run: {result.detail}. `ratchet doctor` may say why.")
        return results

    def _share(self, work: "_Work", deliver: Deliver) -> Callable[[], None]:
        """Do the work once for all who ask for the same while it runs, and remember a verdict that will not change."""
        with self._changed:
            if self._closed:
                raise RuntimeError("the VerifierPool is closed")
            known = self._remembered.get(work.key)
            if known is not None:
                self._remembered.move_to_end(work.key)
            else:
                if work.key not in self._works:
                    self._enqueue(work)
                work = self._works[work.key]
                work.waiting.append(deliver)
        if known is not None:
            deliver(replace(known, extracted=work.subject))
            return lambda: None
        return lambda: self._withdraw(work, deliver)

    def _enqueue(self, work: "_Work") -> None:
        """Longest first, yet nothing waits for ever: a work of n seconds overtakes what came in the last n seconds."""
        position = time.monotonic() - self._seconds.get(work.problem_id, 0.0)
        heapq.heappush(self._queues.setdefault(work.domain, []), (position, next(self._serial), work))
        self._works[work.key] = work
        if len(self._threads) < self.workers:
            thread = threading.Thread(target=self._worker, name="verifier", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._changed.notify()

    def _withdraw(self, work: "_Work", deliver: Deliver) -> None:
        with self._changed:
            if deliver in work.waiting:
                work.waiting.remove(deliver)

    # -------------------------------------------------------------------------------------- workers

    def _worker(self) -> None:
        tools = Tools(self.settings.minimum_isolation)
        try:
            while (work := self._next()) is not None:
                start = time.monotonic()
                result = _judged(work, tools)
                self._give_slot()
                self._finish(work, result, time.monotonic() - start)
        finally:
            tools.close()

    def _next(self) -> "_Work | None":
        """What to judge now, with a slot taken; None when the pool is closed."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or any(self._queues.values()))
                if self._closed:
                    return None
            if self._slots is not None:
                os.read(self._slots, 1)  # waits for one
            with self._changed:
                if work := self._pop():
                    return work
            self._give_slot()  # another worker was faster

    def _pop(self) -> "_Work | None":
        while waiting := {domain: queue for domain, queue in self._queues.items() if queue}:
            domain = min(waiting, key=lambda domain: (self._busy[domain], waiting[domain][0]))
            work = heapq.heappop(waiting[domain])[2]
            if work.waiting:
                self._busy[domain] += 1
                return work
            del self._works[work.key]  # withdrawn
        return None

    def _give_slot(self) -> None:
        if self._slots is not None:
            os.write(self._slots, b".")

    def _finish(self, work: "_Work", result: Any, seconds: float) -> None:
        with self._changed:
            self._busy[work.domain] -= 1
            del self._works[work.key]
            waiting, work.waiting = work.waiting, []
            if isinstance(result, Verdict):
                if result.outcome not in (Outcome.TIMEOUT, Outcome.INFRA_ERROR):
                    _remember(self._remembered, work.key, replace(result, extracted=None))
                _remember(self._seconds, work.problem_id, max(seconds, self._seconds.get(work.problem_id, 0.0)))
        for deliver in waiting:
            deliver(result)

    # ----------------------------------------------------------------------------------------- close

    def close(self) -> None:
        with self._changed:
            if self._closed or os.getpid() != self._pid:
                return
            self._closed = True
            dropped = [deliver for queue in self._queues.values() for _, _, work in queue for deliver in work.waiting]
            self._queues.clear()
            self._changed.notify_all()
        for deliver in dropped:
            deliver(CLOSED)
        deadline = time.monotonic() + 60
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))


class _Work:
    """What one worker does at a time, for all who wait for it."""

    def __init__(self, work: Work) -> None:
        self.problem_id, self.domain = work.problem.problem_id, work.problem.domain
        self.subject, self.run = work.subject, work.run
        # A digest, because tests can be megabytes and this is kept long after they are gone.
        parts = "\0".join(repr(fact) for fact in (*work.facts, work.subject))
        self.key = hashlib.sha256(parts.encode("utf-8", "surrogatepass")).digest()
        self.waiting: list[Deliver] = []


def _judged(work: _Work, tools: "Tools") -> Any:
    """Do the work; what fails on our side is tried again with fresh processes: no process to be had, a full disk, a
    worker that something killed. RatchetError says that nothing can be judged here at all."""
    verdict = CLOSED
    for attempt in range(ATTEMPTS):
        if attempt:
            tools.close()
            time.sleep(PAUSE_S * attempt)
        try:
            verdict = work.run(tools)
        except RatchetError as error:
            return error
        except Exception as error:
            verdict = Verdict(
                Outcome.INFRA_ERROR, decided_by="judge", detail=f"{type(error).__name__}: {error}",
                extracted=work.subject,
            )  # fmt: skip
        if not isinstance(verdict, Verdict) or verdict.outcome is not Outcome.INFRA_ERROR:
            return verdict
    return verdict


def _remember(memory: OrderedDict, key: Any, value: Any) -> None:
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > REMEMBERED:
        memory.popitem(last=False)


class Tools:
    """What one worker thread owns: processes that start on first use, and again after `close`."""

    def __init__(self, minimum_isolation: str) -> None:
        self.sandbox = Sandbox(minimum_isolation)
        self._isolated: dict[str, IsolatedVerifier] = {}

    def isolated(self, domain: Domain) -> IsolatedVerifier:
        """The confined process in which this domain's `score` runs."""
        if domain.name not in self._isolated:
            self._isolated[domain.name] = IsolatedVerifier(domain)
        return self._isolated[domain.name]

    def close(self) -> None:
        for closed in (self.sandbox, *self._isolated.values()):
            closed.close()
