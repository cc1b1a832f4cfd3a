"""Completions from any endpoint that speaks OpenAI's chat protocol: a hosted model, or a vLLM or SGLang server.

An answer of a reasoning model takes minutes and is paid for whether or not it arrives, so the client's own retries are
off: a call that times out after it was sent is not sent again, and what is worth repeating (refused connections, 408,
409, 429, 5xx, a reply that is not what the protocol says) is repeated here, after the time the server asks for.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import threading
import time
from collections.abc import Iterable, Iterator
from email.utils import parsedate_to_datetime
from typing import Any

from infra.errors import RatchetError
from infra.inference.protocol import Completion, Request, Sampling, derive_seed
from infra.recipe.model import Teacher

CONNECT_TIMEOUT_S = 30.0
TRIES = 8
LONGEST_WAIT_S = 120.0
RETRIED = (408, 409, 429)
USERS_FAULT = {
    401: "the key is not accepted",
    403: "the key has no access",
    404: "there is no such model or path",
}
_END = object()


class EndpointUnreachable(RatchetError):
    """No connection, after all tries: it may come back."""


class _Unusable(Exception):
    """A reply that is no completion; `again` says whether it is asked for again, `refused` that it never would be."""

    def __init__(self, reason: str, again: bool, refused: bool = False):
        super().__init__(reason)
        self.again, self.refused = again, refused


class OpenAIEngine:
    """`Engine` over one endpoint; requests carry `messages`.

    At most `concurrency` calls are open at a time, over one pool of connections. `timeout_s` is for one answer.
    `backoff_s` is the first wait before a repeat, doubled each time, where the server asks for none.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        concurrency: int = 64,
        timeout_s: float = 3600.0,
        backoff_s: float = 1.0,
    ) -> None:
        self.model, self.base_url, self.concurrency = model, base_url, concurrency
        self._where = base_url or "the OpenAI API"
        self._api_key, self._timeout_s, self._backoff_s = api_key, timeout_s, backoff_s
        self._not_before = 0.0  # monotonic; when a server asks one call to wait, it means all
        self._client: Any = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="openai-engine", daemon=True)
        self._thread.start()
        self._closed = False

    @classmethod
    def for_teacher(cls, teacher: Teacher) -> OpenAIEngine:
        """The engine that a recipe's teacher describes. Raises RatchetError when its model or key is missing."""
        if not teacher.model:
            raise RatchetError("The recipe's teacher has no model: set curation.<domain>.teacher.model to its name.")
        key = os.environ.get(teacher.api_key_env)
        if key is None and teacher.base_url is None:
            raise RatchetError(
                f"Environment variable {teacher.api_key_env} is not set, and the teacher has no base_url: "
                "set the key, or give the address of an endpoint of your own."
            )
        return cls(teacher.model, teacher.base_url, key, teacher.concurrency, teacher.timeout_s)

    def generate(self, requests: Iterable[Request], sampling: Sampling) -> Iterator[Completion]:
        """Yield completions as they finish; one that cannot be had has `finish_reason` `error` and says why.

        `requests` is read as calls become free. Raises RatchetError where no call can succeed: a key or model that the
        endpoint does not accept, an endpoint that cannot be reached. Leaving the iterator cancels what is open.
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
        if self._client is not None:
            await self._client.close()

    async def _answer_all(
        self, requests: Iterator[Request], sampling: Sampling, outbox: queue.SimpleQueue[Any]
    ) -> None:
        async def worker() -> None:
            for request in requests:  # shared: each worker takes the next one when it is free
                outbox.put(await self._answer(request, sampling))

        async with asyncio.TaskGroup() as group:
            for _ in range(self.concurrency):
                group.create_task(worker())

    async def _answer(self, request: Request, sampling: Sampling) -> Completion:
        if request.messages is None:
            raise RatchetError("an OpenAI-compatible endpoint needs messages, and this request has only token ids")
        for attempt in range(TRIES):
            await asyncio.sleep(max(0.0, self._not_before - time.monotonic()))
            try:
                return _completion(request, await self._call(request, sampling, attempt == TRIES - 1))
            except _Unusable as reason:
                if not reason.again or attempt == TRIES - 1:
                    error = f"{reason} (after {attempt + 1} tries)"
                    return Completion(request.key, "", "error", 0, error=error, refused=reason.refused)
                jitter = 0.5 + derive_seed(request.seed, "backoff", attempt) / 2**63
                await asyncio.sleep(min(self._backoff_s * 2**attempt * jitter, LONGEST_WAIT_S))
        raise AssertionError("unreachable")

    async def _call(self, request: Request, sampling: Sampling, is_last: bool) -> str:
        """The reply's body. Raises `_Unusable`, or RatchetError where no other call would do better."""
        import openai

        if self._client is None:
            self._client = openai.AsyncOpenAI(
                api_key=self._api_key or "none",  # local servers want none, the client insists on one
                base_url=self.base_url,
                max_retries=0,
                timeout=openai.Timeout(self._timeout_s, connect=CONNECT_TIMEOUT_S),
            )
        try:
            reply = await self._client.chat.completions.with_raw_response.create(
                model=self.model,
                messages=list(request.messages or ()),
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                max_tokens=sampling.max_tokens,
                seed=request.seed,
                extra_body={"top_k": sampling.top_k} if sampling.top_k else None,
            )
            return reply.text if isinstance(reply.text, str) else reply.text()
        except openai.APITimeoutError as error:
            never_sent = type(error.__cause__).__name__ in ("ConnectTimeout", "PoolTimeout")
            raise _Unusable(f"no answer within {self._timeout_s:g} s", again=never_sent) from error
        except openai.APIConnectionError as error:
            if is_last:
                raise EndpointUnreachable(
                    f"{self._where} cannot be reached ({error.__cause__ or error}). Is the server running, and is "
                    "its base_url right?"
                ) from error
            raise _Unusable(f"connection failed: {error.__cause__ or error}", again=True) from error
        except openai.APIStatusError as error:
            if error.status_code in USERS_FAULT:
                reason = f"{USERS_FAULT[error.status_code]} ({error.status_code}: {_shown(error.message)})"
                raise RatchetError(
                    f"{self._where} refused model {self.model!r}: {reason}. Check the model's name, base_url and key."
                ) from error
            again = error.status_code in RETRIED or error.status_code >= 500
            if again and (wait := _retry_after(error.response.headers)) is not None:
                self._not_before = max(self._not_before, time.monotonic() + wait)
            raise _Unusable(f"{error.status_code}: {_shown(error.message)}", again, refused=not again) from error


def _completion(request: Request, body: str) -> Completion:
    try:
        reply = json.loads(body)
        choice = reply["choices"][0]
        message, reason = choice["message"], choice["finish_reason"]
        text, tokens = message.get("content") or "", int(reply["usage"]["completion_tokens"])
        thought = message.get("reasoning_content") or message.get("reasoning")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise _Unusable(f"not a chat completion ({error!r}): {_shown(body)}", again=True) from error
    if reason not in ("stop", "length"):
        raise _Unusable(f"ended by {reason!r}", again=False, refused=True)
    if thought:  # servers with a reasoning parser take the thinking out of the text; a response holds both
        text = f"<think>\n{thought}\n</think>\n{text}" if text or reason == "stop" else f"<think>\n{thought}"
    return Completion(request.key, text, reason, tokens)


def _retry_after(headers: Any) -> float | None:
    """Seconds the server asks to wait: the header holds a number or a date."""
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return None
    return min(max(seconds, 0.0), LONGEST_WAIT_S)


def _shown(text: Any) -> str:
    return " ".join(str(text).split())[:200]
