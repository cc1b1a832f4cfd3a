"""Several inference servers beside the trainer as one engine. No request is lost with a server."""

import queue
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ratchet.data_curation.base.protocol import Completion, Request, Sampling
from ratchet.infra.inference.engine import TrainingEngine
from ratchet.verifiers.errors import RatchetError

if TYPE_CHECKING:
    from ratchet.infra.inference.vllm_service import VllmService

Push = Callable[[str], Mapping[int, str]]
"""A function that sends the policy's weights to the servers under a version; returns the failed servers with the
reasons. Collective, with the same result on every rank. Raises RatchetError if all failed."""


class Servers(TrainingEngine):
    """Several servers as one engine, each with a copy of the weights. This rank has `batch_size` responses open at a
    time.

    Each batch goes to the server with the fewest open responses. A lost server's open requests go to the others; it is
    used again once it has taken new weights. Raises RatchetError when all are lost.
    """

    separate_devices: bool = True
    continuous_batching: bool = True

    def __init__(self, services: "Sequence[VllmService]", push: Push, batch_size: int, rank: int) -> None:
        self.positions = min(service.positions for service in services)
        self._services, self._push, self._batch_size, self._rank = services, push, batch_size, rank
        self._count, self._lost = len(services), dict[int, str]()

    def receive(self, version: str) -> None:
        failed, before, self._lost = self._push(version), self._lost, {}
        for number, reason in failed.items():
            self._lose(number, RatchetError(reason), report=number not in before)

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
                    number = min(self._alive(), key=lambda i: (open_responses[i], (i - self._rank) % self._count))
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

    def _alive(self) -> list[int]:
        return [number for number in range(self._count) if number not in self._lost]

    def _lose(self, number: int, failure: Exception, report: bool = True) -> None:
        if number not in self._lost:
            self._lost[number] = str(failure)
            if not isinstance(failure, RatchetError) or not self._alive():
                raise failure
            if report:
                rest = f"{len(self._alive())} of {self._count} servers"
                print(f"continuing with {rest}: {failure}", file=sys.stderr, flush=True)
