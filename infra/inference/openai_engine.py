"""Completions from endpoints that speak OpenAI's chat protocol: a hosted model, vLLM or SGLang servers, a router.

An answer of a reasoning model takes minutes and is charged even if it does not arrive. Answers are therefore streamed:
gateways see no idle connection, a dead server is noticed by its silence, and progress can be shown. The client's own
retries are off, because they know neither the other endpoints nor the cost; calls are repeated here.
"""

import asyncio
import os
import queue
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from ratchet.infra.inference.engine import TeacherEngine
from ratchet.infra.inference.openai_endpoint import Endpoint, EndpointUnreachable, Traffic, check_endpoint
from ratchet.infra.inference.openai_stream import CallFailed
from ratchet.infra.inference.protocol import Completion, Request, Sampling
from ratchet.verifiers.errors import RatchetError

if TYPE_CHECKING:
    from ratchet.infra.recipe.teacher import Teacher

TRIES = 8
LONGEST_BACKOFF_S = 60.0
PATIENCE_S = 900.0
"""How long to wait for an endpoint that has answered before: it is overloaded, or being restarted."""
TELL_S = 10.0
_END = object()


class OpenAIEngine(TeacherEngine):
    """`Engine` over one endpoint or several that serve the same model; requests carry `messages`.

    `base_url` and `api_key` are single values or lists. Each endpoint has at most `concurrency` open calls, fewer while
    it pushes back (`Slots`); the next call goes to the endpoint with the smallest share in use. An endpoint that can
    accept no call (wrong key, no credit) is dropped; a busy one is tried again. `backoff_s` is the first wait before a
    repeat, doubled each time, unless the server says how long. `patience_s` is how long all endpoints may reject
    everything. `tell` is called in another thread with sentences for the user. The rest are `Endpoint`'s settings.
    """

    paid: ClassVar[bool] = True

    def __init__(
        self, model: str, base_url: str | Sequence[str | None] | None = None,
        api_key: str | Sequence[str | None] | None = None, concurrency: int = 64, timeout_s: float = 3600.0,
        silence_s: float = 600.0, backoff_s: float = 1.0, patience_s: float = PATIENCE_S,
        tell: Callable[[str], None] = lambda trouble: None,
    ) -> None:  # fmt: skip
        urls = [base_url] if base_url is None or isinstance(base_url, str) else list(base_url)
        keys = [api_key] * len(urls) if api_key is None or isinstance(api_key, str) else list(api_key)
        self.tell, self._reported_at = tell, -TELL_S
        self.traffic = Traffic()
        self._ending = asyncio.Event()
        self._changed = asyncio.Event()  # there may be room for a call, or the run ends
        self._endpoints = [
            Endpoint(
                model, url, key, concurrency, timeout_s, silence_s, self.traffic,
                self._changed, lambda message: self.tell(message),
            )
            for url, key in zip(urls, keys, strict=True)
        ]  # fmt: skip
        self._workers = concurrency * len(urls)
        self._backoff_s, self._patience_s = backoff_s, patience_s
        self._hold_s = backoff_s if len(urls) > 1 else 0.0  # calls have another endpoint to go to
        self._fatal: RatchetError | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="openai-engine", daemon=True)
        self._thread.start()
        self._closed = False

    @classmethod
    def for_teacher(cls, teacher: "Teacher") -> "OpenAIEngine":
        """The engine of a recipe's teacher. Raises RatchetError if its model or key is missing."""
        urls, keys = zip(*_addresses(teacher), strict=True)
        return cls(teacher.model, urls, keys, teacher.concurrency)

    @classmethod
    def check(cls, teacher: "Teacher") -> None:
        faults = []
        for url, key in _addresses(teacher):
            try:
                return check_endpoint(url, key)
            except RatchetError as error:
                faults.append(error)
        raise faults[0]

    def generate(self, requests: Iterable[Request], sampling: Sampling) -> Iterator[Completion]:
        """Yield completions as they finish; a failed one is `refused` or an `error`, with the reason.

        `requests` is read in another thread as calls become free. Raises RatchetError if no call can succeed (no
        endpoint accepts the key or model, or can be reached), after the answers that are arriving. Leaving the iterator
        cancels open calls.
        """
        outbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        running = asyncio.run_coroutine_threadsafe(self._answer_all(iter(requests), sampling, outbox), self._loop)
        running.add_done_callback(lambda _: outbox.put(_END))
        try:
            while (completion := outbox.get()) is not _END:
                yield completion
            running.result()
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        finally:
            running.cancel()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        asyncio.run_coroutine_threadsafe(self._shut_down(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # ------------------------------------------------------------------------- in the loop's thread

    async def _shut_down(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for endpoint in self._endpoints:
            await endpoint.close()

    async def _answer_all(
        self, requests: Iterator[Request], sampling: Sampling, outbox: queue.SimpleQueue[Any]
    ) -> None:
        async def worker() -> None:
            for request in requests:  # shared by the workers
                completion = await self._answer(request, sampling)
                if completion is not None:
                    outbox.put(completion)
                if self._fatal:
                    return

        self._fatal = None
        self._ending.clear()
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(worker())
        if self._fatal:
            raise self._fatal

    async def _answer(self, request: Request, sampling: Sampling) -> Completion | None:
        """One request, repeated as often as makes sense; None if the whole run ends."""
        if request.messages is None:
            raise RatchetError("an OpenAI-compatible endpoint needs messages, and this request has only token ids")
        tries, backoff, refused_since = 0, self._backoff_s, None
        while (endpoint := await self._free_endpoint()) is not None:
            with endpoint.slots.held() as began:
                result = await self._try(endpoint, request, sampling)
            self._changed.set()
            if isinstance(result, Completion):
                return result
            if result is None:
                continue  # at another endpoint, if there is one
            if result.busy:
                if endpoint.pushed_back(result, began, self._hold_s):
                    refused_since = refused_since or began
                self._wait_or_end(endpoint, result)
                # Other requests are answered, and this one is not.
                give_up = refused_since is not None and time.monotonic() - refused_since > self._patience_s
            else:
                refused_since, tries = None, tries + 1
                give_up = tries == TRIES or not result.again
            if give_up:
                if result.refused:
                    return Completion(request.key, "", "refused", 0, error=str(result))
                return Completion(request.key, "", "error", 0, error=f"{result} (tries: {max(1, tries)})")
            if not (result.busy and self._free(but=endpoint)):
                await self._pause(self._ending, backoff * random.uniform(0.5, 1.5))
                backoff = min(2 * backoff, LONGEST_BACKOFF_S)
        return None

    async def _try(self, endpoint: Endpoint, request: Request, sampling: Sampling) -> Completion | CallFailed | None:
        """The result of a call; None if no call can succeed there."""
        try:
            completion = await endpoint.call(request, sampling)
        except CallFailed as failed:
            return failed
        except RatchetError as error:
            if not endpoint.gone:
                endpoint.gone = str(error)
                if all(other.gone for other in self._endpoints):
                    self._end(error)
                else:
                    self.tell(f"{error} It gets no further calls.")
            return None
        if completion.empty:
            self.traffic.empty += 1
            if self.traffic.empty == 1:
                self.tell(f"{endpoint.where} gave an answer without text, after {completion.tokens} tokens.")
        return completion

    def _free(self, but: Endpoint | None = None) -> list[Endpoint]:
        now = time.monotonic()
        return [endpoint for endpoint in self._endpoints if endpoint is not but and endpoint.takes(now)]

    async def _free_endpoint(self) -> Endpoint | None:
        """The endpoint with the most room, as soon as there is one; None when the run ends."""
        while not self._fatal:
            if free := self._free():
                return min(free, key=lambda endpoint: endpoint.slots.open / endpoint.slots.limit)
            waits = [endpoint.not_before - time.monotonic() for endpoint in self._endpoints if not endpoint.gone]
            self._changed.clear()
            await self._pause(self._changed, min((wait for wait in waits if wait > 0), default=None))
        return None

    async def _pause(self, event: asyncio.Event, seconds: float | None) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), seconds)

    def _wait_or_end(self, endpoint: Endpoint, failed: CallFailed) -> None:
        """End the run if no endpoint is worth waiting for."""
        if all(other.hopeless(failed, self._patience_s) for other in self._endpoints):
            self._end(EndpointUnreachable(endpoint.hopeless(failed, self._patience_s)))
        elif time.monotonic() - self._reported_at > TELL_S:
            self._reported_at = time.monotonic()
            self.tell(f"{endpoint.where} accepts no call for now: {failed}")

    def _end(self, error: RatchetError) -> None:
        self._fatal = self._fatal or error
        self._ending.set()
        self._changed.set()


def _addresses(teacher: "Teacher") -> list[tuple[str | None, str | None]]:
    """Each address with its key. Raises RatchetError if the model or a required key is missing."""
    if not teacher.model:
        raise RatchetError(
            "The recipe's teacher has no model: set curation.<domain>.teacher.model to its name (a judge's, "
            "curation.<domain>.advanced.judge.model)."
        )
    found = [(url, os.environ.get(name)) for url, name in teacher.addresses]
    if (None, None) in found:
        raise RatchetError(
            f"Environment variable {teacher.addresses[0][1]} is not set, and the teacher has no base_url: "
            "set the key, or give the address of your own endpoint."
        )
    return found
