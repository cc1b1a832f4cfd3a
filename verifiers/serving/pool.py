"""What every pool of verifiers offers, near or far: tickets in, verdicts out as they come."""

from __future__ import annotations

import os
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ratchet.infra.errors import RatchetError
from ratchet.infra.problems import Problem
from ratchet.verifiers.domain import domain_of
from ratchet.verifiers.outcome import Outcome, Verdict

Deliver = Callable[[Any], None]
"""Takes the Verdict, or the RatchetError that says why nothing can be judged here."""

CLOSED = Verdict(Outcome.INFRA_ERROR, decided_by="closed", detail="the pool was closed before it was judged")


@dataclass(frozen=True, slots=True)
class Submission:
    """What is to be judged: a response, or with `is_program` a program as it is. `finished` False says that it was cut
    at its token limit; with `fraction` every test of a program is run."""

    problem: Problem
    text: str
    finished: bool = True
    is_program: bool = False
    fraction: bool = False


class Pool(ABC):
    """Judges responses; a verdict depends on the problem and the response alone, not on where it is judged.

    With `fraction` every test of a program is run, so that `Verdict.fraction` is exact; without it the first failed
    test settles the verdict. Bad input (a problem without tests, NUL bytes) gets a verdict with the reason, never an
    exception. Methods may be called from any thread; `results` from one at a time. A pool does not survive a fork:
    make one in each process.
    """

    def __init__(self, fraction: bool) -> None:
        self.fraction = fraction
        self._pid = os.getpid()
        self._open: dict[Hashable, _Ticket] = {}
        self._open_lock = threading.Lock()
        self._done: queue.SimpleQueue = queue.SimpleQueue()

    def begin(self, submission: Submission, deliver: Deliver) -> Callable[[], None]:
        """Have it judged and `deliver` called with the verdict, once, from any thread, perhaps before this returns.

        What is returned withdraws it: queued work is dropped, and of work that has begun the result is discarded.
        Raises RuntimeError when the pool is closed or was made before a fork.
        """
        if os.getpid() != self._pid:
            raise RuntimeError(f"a {type(self).__name__} does not survive a fork: make one in this process")
        if fault := _input_fault(submission):
            deliver(fault)
            return lambda: None
        return self._begin(submission, deliver)

    @abstractmethod
    def _begin(self, submission: Submission, deliver: Deliver) -> Callable[[], None]:
        """`begin`, of a problem and a text that can be judged."""

    @abstractmethod
    def close(self) -> None:
        """Finish what is running, drop what is queued, stop all workers. Safe to call twice.

        Dropped tickets come out as `infra_error`, decided by `closed`.
        """

    # ---------------------------------------------------------------------------------- streaming

    def submit(self, ticket: Hashable, problem: Problem, response: str, finished: bool = True) -> None:
        """Queue one response; its verdict comes out of `results` under `ticket`.

        `finished` False says that the response was cut at its token limit, which is a failure. A response is judged
        after its last `</think>`; when the prompt itself ends in `<think>`, submit prompt prefix and response joined.
        Raises ValueError when the ticket is out already.
        """
        mine = _Ticket(ticket)
        with self._open_lock:
            if ticket in self._open:
                raise ValueError(f"ticket {ticket!r} was submitted before and its verdict has not been taken")
            self._open[ticket] = mine
        submission = Submission(problem, response, finished, fraction=self.fraction)
        try:
            mine.withdraw = self.begin(submission, lambda verdict: self._done.put((mine, verdict)))
        except BaseException:
            with self._open_lock:
                self._open.pop(ticket, None)
            raise

    def results(self, timeout: float | None = None) -> Iterator[tuple[Any, Verdict]]:
        """Yield (ticket, verdict) in the order of completion until all that was submitted is out.

        With `timeout` (seconds) stop early when nothing completes for that long; 0 takes what is ready. What was
        submitted meanwhile comes out too. Raises RatchetError where the machine cannot confine code.
        """
        while True:
            with self._open_lock:
                if not self._open:
                    return
            try:
                mine, verdict = self._done.get(timeout=timeout) if timeout != 0 else self._done.get_nowait()
            except queue.Empty:
                return
            with self._open_lock:
                if mine is None or self._open.get(mine.name) is not mine:
                    continue  # cancelled
                del self._open[mine.name]
            if isinstance(verdict, BaseException):
                raise verdict
            yield mine.name, verdict

    def cancel(self, ticket: Hashable) -> bool:
        """Forget a ticket: its verdict will not come out, and its work is dropped unless others wait for the same.

        Work that has begun runs on to its limits, and its result is discarded. False when the ticket is not out.
        """
        with self._open_lock:
            mine = self._open.pop(ticket, None)
        if mine is None:
            return False
        mine.withdraw()
        self._done.put((None, None))  # so that `results`, waiting in another thread, sees that it is gone
        return True

    # -------------------------------------------------------------------------------------- at once

    def run_programs(self, pairs: Iterable[tuple[Problem, str]]) -> list[Verdict]:
        """Verdicts of programs as they are, not of responses that hold them (golden solutions, mutants), in order.
        Raises as `results` does."""
        finished: queue.SimpleQueue = queue.SimpleQueue()
        count = 0
        for problem, text in pairs:
            submission = Submission(problem, text, is_program=True, fraction=self.fraction)
            self.begin(submission, lambda verdict, i=count: finished.put((i, verdict)))
            count += 1
        verdicts = dict(finished.get() for _ in range(count))
        for verdict in verdicts.values():
            if isinstance(verdict, BaseException):
                raise verdict
        return [verdicts[i] for i in range(count)]

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Ticket:
    """One submission. An object of its own, so that a ticket's name can be used again after it was cancelled."""

    def __init__(self, name: Hashable) -> None:
        self.name = name
        self.withdraw: Callable[[], None] = lambda: None


def _input_fault(submission: Submission) -> Verdict | None:
    """The verdict on what cannot be judged: a faulty problem, whatever the text says, or a text that is none."""
    problem, text = submission.problem, submission.text
    try:
        fault = domain_of(problem.domain).fault(problem)
    except RatchetError as error:
        fault = str(error)
    if fault:
        detail = f"problem {problem.problem_id}: {fault}"
        return Verdict(Outcome.UNPARSEABLE, decided_by="invalid_problem", detail=detail)
    if not isinstance(text, str):
        detail = f"a response must be text, not {type(text).__name__}"
        return Verdict(Outcome.UNPARSEABLE, decided_by="no_answer", detail=detail)
    return None
