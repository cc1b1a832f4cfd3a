"""What every pool of verifiers offers, near or far: tickets in, verdicts out as they come."""

import os
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Self

from ratchet.infra.errors import RatchetError
from ratchet.infra.problems import Problem
from ratchet.verifiers.domain import domain_of
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.submission import JudgeSettings, Submission

Deliver = Callable[[Any], None]
"""Takes the Verdict, or the RatchetError that says why nothing can be judged here."""

CLOSED = Verdict(Outcome.INFRA_ERROR, decided_by="closed", detail="the pool was closed before it was judged")


class Pool(ABC):
    """Judges responses; a verdict depends on the problem and the response alone, not on where it is judged.

    Bad input (a problem without tests, NUL bytes) gets a verdict with the reason, never an exception. Methods may be
    called from any thread; `results` from one at a time. A pool does not survive a fork: make one in each process.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        self.settings = settings
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._out: set[Hashable] = set()
        self._done: queue.SimpleQueue[tuple[Hashable, Any]] = queue.SimpleQueue()

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

    def submit(self, ticket: Hashable, problem: Problem, response: str, finished: bool = True) -> None:
        """Queue one response; its verdict comes out of `results` under `ticket`.

        `finished` False says that the response was truncated at its token limit, which is a failure. A response is
        judged after its last `</think>`; when the prompt itself ends in `<think>`, submit prompt prefix and response
        joined. Raises ValueError when the ticket is out already.
        """
        submission = Submission(problem, response, finished, settings=self.settings)
        with self._lock:
            if ticket in self._out:
                raise ValueError(f"ticket {ticket!r} was submitted before and its verdict has not been taken")
            self.begin(submission, lambda verdict: self._done.put((ticket, verdict)))
            self._out.add(ticket)

    def results(self, wait: bool = True) -> Iterator[tuple[Any, Verdict]]:
        """Yield (ticket, verdict) in the order of completion until all that was submitted is out, meanwhile too; or,
        without waiting, what is there. Raises RatchetError where the machine cannot confine code."""
        while self._out:
            try:
                ticket, verdict = self._done.get(block=wait)
            except queue.Empty:
                return
            with self._lock:
                self._out.remove(ticket)
            if isinstance(verdict, BaseException):
                raise verdict
            yield ticket, verdict

    def run_programs(self, pairs: Iterable[tuple[Problem, str]]) -> list[Verdict]:
        """Verdicts of programs as they are, not of responses that hold them (golden solutions, mutants), in order.
        Raises as `results` does."""
        return gather(self.begin, (Submission(*pair, is_program=True, settings=self.settings) for pair in pairs))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def gather(begin: Callable[[Any, Deliver], object], items: Iterable[Any]) -> list[Any]:
    """What `begin` delivers for each item, in their order. Raises an exception that one of them was given."""
    finished: queue.SimpleQueue = queue.SimpleQueue()
    count = 0
    for item in items:
        begin(item, lambda result, number=count: finished.put((number, result)))
        count += 1
    results = dict(finished.get() for _ in range(count))
    for result in results.values():
        if isinstance(result, BaseException):
            raise result
    return [results[number] for number in range(count)]


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
