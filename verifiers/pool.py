"""Many responses judged at once, each as soon as it is there."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from infra.problems import Problem
from verifiers.code_judge import judge
from verifiers.extraction import python_program
from verifiers.math_equivalence import verify_math_quickly, verify_math_symbolically
from verifiers.outcome import Outcome, Verdict
from verifiers.sandbox.server import Sandbox
from verifiers.symbolic import Symbolic

REMEMBERED = 16_384
"""Verdicts kept, so that a program that many rollouts share is run once."""


class VerifierPool:
    """Judges responses with `workers` threads, each with a sandbox and an algebra worker of its own.

    Those are fresh processes that start when first needed, are never forked from this one, and die with it. A verdict
    depends on the problem and the response alone: limits count CPU time, and identical programs share one verdict
    unless it was a timeout or our fault.

    With `fraction` every test of a program is run, so that `Verdict.fraction` is exact; without it the first failed
    test settles the verdict. Methods may be called from any thread; `results` from one at a time. A pool does not
    survive a fork: make one in each process.
    """

    def __init__(self, workers: int | None = None, fraction: bool = False, minimum_isolation: str = "C") -> None:
        self.workers = workers or len(os.sched_getaffinity(0))
        self.fraction = fraction
        self.minimum_isolation = minimum_isolation
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._work: queue.SimpleQueue = queue.SimpleQueue()
        self._done: queue.SimpleQueue = queue.SimpleQueue()
        self._outstanding = 0
        self._remembered: OrderedDict[Hashable, Verdict] = OrderedDict()
        self._waiting: dict[Hashable, list[Callable[[Verdict], None]]] = {}
        self._threads: list[threading.Thread] = []
        self._closed = False

    # ---------------------------------------------------------------------------------- streaming

    def submit(self, ticket: Any, problem: Problem, response: str, finished: bool = True) -> None:
        """Queue one response; its verdict comes out of `results` under `ticket`.

        `finished` False says that the response was cut at its token limit, which is a failure. A response is judged
        after its last `</think>`; when the prompt itself ends in `<think>`, submit prompt prefix and response joined.
        """
        with self._lock:
            self._outstanding += 1
        self._start(problem, response, finished, lambda verdict: self._done.put((ticket, verdict)))

    def results(self, timeout: float | None = None) -> Iterator[tuple[Any, Verdict]]:
        """Yield (ticket, verdict) in the order of completion until all that was submitted is out.

        With `timeout` (seconds) stop early when nothing completes for that long; 0 takes what is ready. What was
        submitted meanwhile comes out too. Raises what a worker raised that is not a verdict (a problem without tests,
        a machine that cannot confine code).
        """
        while True:
            with self._lock:
                if self._outstanding == 0:
                    return
            try:
                ticket, verdict = self._done.get(timeout=timeout) if timeout != 0 else self._done.get_nowait()
            except queue.Empty:
                return
            with self._lock:
                self._outstanding -= 1
            if isinstance(verdict, BaseException):
                raise verdict
            yield ticket, verdict

    # -------------------------------------------------------------------------------------- at once

    def verify_all(self, pairs: Iterable[tuple[Problem, str]]) -> list[Verdict]:
        """Verdicts of finished responses, in order."""
        return self._gather(
            [lambda answer, p=problem, r=response: self._start(p, r, True, answer) for problem, response in pairs]
        )

    def run_program(self, problem: Problem, source: str) -> Verdict:
        """Judge a program as it is, not a response that holds one: golden solutions, mutants."""
        return self.run_programs([(problem, source)])[0]

    def run_programs(self, pairs: Iterable[tuple[Problem, str]]) -> list[Verdict]:
        return self._gather(
            [lambda answer, p=problem, s=source: self._start_program(p, s, answer) for problem, source in pairs]
        )

    def _gather(self, starts: list[Callable[[Callable[[Any], None]], None]]) -> list[Verdict]:
        finished: queue.SimpleQueue = queue.SimpleQueue()
        for index, start in enumerate(starts):
            start(lambda verdict, index=index: finished.put((index, verdict)))
        verdicts: list[Any] = [None] * len(starts)
        for _ in starts:
            index, verdicts_or_error = finished.get()
            verdicts[index] = verdicts_or_error
        for verdict in verdicts:
            if isinstance(verdict, BaseException):
                raise verdict
        return verdicts

    # ------------------------------------------------------------------------------------- dispatch

    def _start(self, problem: Problem, response: str, finished: bool, answer: Callable[[Any], None]) -> None:
        if problem.domain == "math":
            if problem.answer is None:
                answer(ValueError(f"problem {problem.problem_id} has no answer to compare with"))
                return
            verdict, boxed = verify_math_quickly(response, problem.answer, finished)
            if verdict is not None:
                answer(verdict)
            else:
                key = ("math", problem.answer, boxed)
                self._share(
                    key,
                    lambda tools: verify_math_symbolically(boxed, problem.answer, tools.symbolic),
                    answer,
                )
        elif not finished:
            answer(Verdict(Outcome.FAILED, decided_by="truncated"))
        elif (source := python_program(response)) is None:
            answer(Verdict(Outcome.UNPARSEABLE, decided_by="no_answer"))
        else:
            self._start_program(problem, source, answer)

    def _start_program(self, problem: Problem, source: str, answer: Callable[[Any], None]) -> None:
        limits = (problem.time_limit_s, problem.memory_limit_mb)
        key = ("code", problem.problem_id, problem.tests, problem.entry_point, problem.metadata, limits, source)
        self._share(key, lambda tools: judge(problem, source, tools.sandbox, fraction=self.fraction), answer)

    def _share(self, key: Hashable, work: Callable[[_Tools], Verdict], answer: Callable[[Any], None]) -> None:
        """Do the work once for all who ask for the same while it runs, and remember a verdict that will not change."""
        if os.getpid() != self._pid:
            raise RuntimeError("a VerifierPool does not survive a fork: make one in this process")
        with self._lock:
            if self._closed:
                raise RuntimeError("the VerifierPool is closed")
            verdict = self._remembered.get(key)
            if verdict is None:
                if key in self._waiting:
                    self._waiting[key].append(answer)
                    return
                self._waiting[key] = [answer]
                if len(self._threads) < self.workers:
                    thread = threading.Thread(target=self._worker, name="verifier", daemon=True)
                    self._threads.append(thread)
                    thread.start()
            else:
                self._remembered.move_to_end(key)
        if verdict is None:
            self._work.put((key, work))
        else:
            answer(verdict)

    def _worker(self) -> None:
        tools = _Tools(self.minimum_isolation)
        try:
            while (item := self._work.get()) is not None:
                key, work = item
                result: Any
                try:
                    result = work(tools)
                except Exception as error:  # handed to whoever waits for the result
                    result = error
                with self._lock:
                    answers = self._waiting.pop(key)
                    if isinstance(result, Verdict) and result.outcome not in (Outcome.TIMEOUT, Outcome.INFRA_ERROR):
                        self._remembered[key] = result
                        if len(self._remembered) > REMEMBERED:
                            self._remembered.popitem(last=False)
                for answer in answers:
                    answer(result)
        finally:
            tools.close()

    # ----------------------------------------------------------------------------------------- close

    def close(self) -> None:
        """Finish what is running, drop what is queued, stop all workers. Safe to call twice."""
        with self._lock:
            if self._closed or os.getpid() != self._pid:
                return
            self._closed = True
            threads = list(self._threads)
        for _ in threads:
            self._work.put(None)
        deadline = time.monotonic() + 60
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def __enter__(self) -> VerifierPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Tools:
    """What one worker thread owns: processes that start on first use."""

    def __init__(self, minimum_isolation: str) -> None:
        self.sandbox = Sandbox(minimum_isolation)
        self.symbolic = Symbolic()

    def close(self) -> None:
        self.sandbox.close()
        self.symbolic.close()
