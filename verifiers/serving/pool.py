"""The interface of every pool of verifiers, local or remote: tickets in, verdicts out as they are ready."""

import os
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Self

from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.submission import JudgeSettings, Submission

Deliver = Callable[[Any], None]
"""A callback that receives the Verdict, or a RatchetError that says why nothing can be judged here."""

CLOSED = Verdict(Outcome.INFRA_ERROR, decided_by="closed", detail="the pool was closed before it was judged")


class Pool(ABC):
    """A pool that judges responses. A verdict depends only on the problem and the response, not on the machine.

    Bad input (a problem without tests, NUL bytes) gets a verdict with the reason, never an exception. Methods may be
    called from any thread, `results` from one at a time. A pool does not survive a fork: create one per process.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        self.settings = settings
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._out: set[Hashable] = set()
        self._done: queue.SimpleQueue[tuple[Hashable, Any]] = queue.SimpleQueue()

    def begin(self, submission: Submission, deliver: Deliver) -> Callable[[], None]:
        """Judge, and call `deliver` once with the verdict, from any thread, possibly before this returns.

        Returns a function that withdraws it: queued work is dropped, the result of running work is discarded. Raises
        RuntimeError if the pool is closed or was made before a fork.
        """
        if os.getpid() != self._pid:
            raise RuntimeError(f"a {type(self).__name__} does not survive a fork: make one in this process")
        if fault := _input_fault(submission):
            deliver(fault)
            return lambda: None
        return self._begin(submission, deliver)

    @abstractmethod
    def _begin(self, submission: Submission, deliver: Deliver) -> Callable[[], None]:
        """`begin` for a problem and a text that can be judged."""

    @abstractmethod
    def close(self) -> None:
        """Finish what is running, drop what is queued (`infra_error`, decided by `closed`), stop all workers. Safe to
        call twice."""

    def submit(
        self, ticket: Hashable, problem: Problem, response: str, finished: bool = True, is_program: bool = False
    ) -> None:
        """Queue one response, or with `is_program` a bare program or answer; `results` yields its verdict under
        `ticket`.

        `finished` False: the response was truncated at its token limit, which is a failure. A response is judged after
        its last `</think>`; if the prompt itself ends in `<think>`, submit prefix and response joined. Raises
        ValueError if the ticket is in use.
        """
        submission = Submission(problem, response, finished, is_program, self.settings)
        with self._lock:
            if ticket in self._out:
                raise ValueError(f"ticket {ticket!r} was submitted before and its verdict has not been taken")
            self.begin(submission, lambda verdict: self._done.put((ticket, verdict)))
            self._out.add(ticket)

    def results(self, wait: bool = True) -> Iterator[tuple[Any, Verdict]]:
        """Yield (ticket, verdict) in order of completion until no submitted ticket is left, or without `wait` those
        that are ready. Raises RatchetError where the machine cannot confine code."""
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

    def verify(self, pairs: Iterable[tuple[Problem, str]]) -> list[Verdict]:
        """Judge finished responses; returns their verdicts in order. Raises the errors of `results`."""
        return gather(self.begin, (Submission(*pair, settings=self.settings) for pair in pairs))

    def run_programs(self, pairs: Iterable[tuple[Problem, str]]) -> list[Verdict]:
        """Judge bare programs (golden solutions, mutants); returns their verdicts in order. Raises the errors of
        `results`."""
        return gather(self.begin, (Submission(*pair, is_program=True, settings=self.settings) for pair in pairs))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def gather(begin: Callable[[Any, Deliver], object], items: Iterable[Any]) -> list[Any]:
    """Collect what `begin` delivers for each item, in order. Raises an exception that was delivered."""
    finished: queue.SimpleQueue = queue.SimpleQueue()
    count = 0
    for count, item in enumerate(items, 1):
        begin(item, lambda result, number=count: finished.put((number, result)))
    results = dict(finished.get() for _ in range(count))
    for result in results.values():
        if isinstance(result, BaseException):
            raise result
    return [result for _, result in sorted(results.items(), key=lambda pair: pair[0])]


def _wrong_type(problem: Problem) -> str:
    for name in ("prompt", "starter_code", "answer", "tests", "entry_point", "metadata"):
        if not isinstance(value := getattr(problem, name), str | None):
            return f"its {name} must be text, not {type(value).__name__}"
    return ""


def _input_fault(submission: Submission) -> Verdict | None:
    """The verdict on a problem that cannot be judged, by anyone or here, or on a text that is not a string."""
    problem, text = submission.problem, submission.text
    try:
        fault = _wrong_type(problem) or domain_of(problem.domain).fault(problem)
    except RatchetError as error:  # of this machine, which lacks the domain or a package: another may have it
        return Verdict(Outcome.INFRA_ERROR, decided_by="judge", detail=str(error))
    except Exception as error:  # of a domain of one's own: one row must not take the others along
        fault = f"the domain {problem.domain} fails on it: {type(error).__name__}: {error}"
    if fault:
        detail = f"problem {problem.problem_id}: {fault}"
        return Verdict(Outcome.UNPARSEABLE, decided_by="invalid_problem", detail=detail)
    if not isinstance(text, str):
        detail = f"a response must be text, not {type(text).__name__}"
        return Verdict(Outcome.UNPARSEABLE, decided_by="no_answer", detail=detail)
    return None
