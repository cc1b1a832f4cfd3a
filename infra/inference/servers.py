"""Several inference servers beside the trainer as one engine. One that is lost takes none of its requests with it."""

import queue
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ratchet.infra.errors import RatchetError
from ratchet.infra.inference.protocol import Completion, Request, Sampling

if TYPE_CHECKING:
    from ratchet.infra.inference.vllm_service import VllmService

Push = Callable[[str], Mapping[int, str]]
"""Brings the policy's present weights to the servers, under this version; which of them did not take them, and why.
Collective, with the same result on every rank. Raises RatchetError when none did."""


class Servers:
    """`TrainingEngine` over servers that have a copy of the weights each. `batch_size` responses of this rank are open
    at a time.

    Each batch goes to the server with the fewest open responses, so one that is done sooner is asked sooner again. What
    a lost server has not answered is asked of the others, until the next weights; a server that takes those is asked
    again. Raises RatchetError when all are lost.
    """

    copies: bool = True
    beside: bool = True
    continuous: bool = True

    def __init__(self, services: "Sequence[VllmService]", push: Push, batch_size: int, rank: int) -> None:
        self.positions: int | None = min(service.positions for service in services)
        self._services, self._push, self._batch_size, self._rank = services, push, batch_size, rank
        self._count, self._lost = len(services), dict[int, str]()

    def receive(self, version: str) -> None:
        failed, before, self._lost = self._push(version), self._lost, {}
        for number, reason in failed.items():
            self._lose(number, RatchetError(reason), tell=number not in before)

    def generate(self, batches: Iterable[Sequence[Request]], sampling: Sampling) -> Iterator[Completion]:
        pending, again, answers = iter(batches), deque[Sequence[Request]](), queue.SimpleQueue()
        open_responses, asking, left = Counter[int](), 0, threading.Event()

        def ask(number: int, batch: Sequence[Request]) -> None:
            waiting, failure = {request.key: request for request in batch}, None
            try:
                for completion in self._services[number].answer(batch, sampling, left):
                    del waiting[completion.key]
                    answers.put((number, completion))
            except Exception as error:
                failure = error
            answers.put((number, (list(waiting.values()), failure)))

        try:
            while True:
                while open_responses.total() < self._batch_size:
                    batch = again.popleft() if again else next(pending, None)
                    if batch is None:
                        break
                    number = min(self._asked(), key=lambda i: (open_responses[i], (i - self._rank) % self._count))
                    open_responses[number] += len(batch)
                    asking += 1
                    threading.Thread(target=ask, args=(number, batch), name="server", daemon=True).start()
                if not asking:
                    return
                number, answer = answers.get()
                if isinstance(answer, Completion):
                    open_responses[number] -= 1
                    yield answer
                    continue
                unanswered, failure = answer
                asking -= 1
                open_responses[number] -= len(unanswered)
                if failure is not None:
                    self._lose(number, failure)
                if unanswered:
                    again.append(unanswered)
        finally:
            left.set()

    def sleep(self) -> None:
        """A server's memory is its own."""

    def _asked(self) -> list[int]:
        return [number for number in range(self._count) if number not in self._lost]

    def _lose(self, number: int, failure: Exception, tell: bool = True) -> None:
        if number not in self._lost:
            self._lost[number] = str(failure)
            if not isinstance(failure, RatchetError) or not self._asked():
                raise failure
            if tell:
                print(f"going on with {len(self._asked())} of {self._count}: {failure}", file=sys.stderr, flush=True)
