"""Completions from any endpoint that speaks OpenAI's chat protocol: a hosted model, or a vLLM or SGLang server.

An answer of a reasoning model takes minutes and is paid for whether or not it arrives. Answers are therefore streamed:
a gateway has no idle connection to cut, a server that died is noticed by its silence, and the traffic can be shown. An
answer is whole when it has a finish reason and its stream has come to its end; anything else is no answer. The client's
own retries are off: what is worth repeating is repeated here.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, ClassVar

from ratchet.infra.errors import RatchetError
from ratchet.infra.inference.concurrency import Slots
from ratchet.infra.inference.engine import TeacherEngine
from ratchet.infra.inference.protocol import Completion, Request, Sampling, derive_seed

if TYPE_CHECKING:
    from ratchet.infra.recipe.model import Teacher

CONNECT_TIMEOUT_S = 30.0
CHECK_S = 10.0
"""For an endpoint to answer before the first step of a run that will need it."""
TRIES = 8
LONGEST_BACKOFF_S = 60.0
FIRST_CONTACT_S = 10.0
"""How long an endpoint that has never answered is tried: most likely its address is wrong."""
PATIENCE_S = 900.0
"""How long one that did answer is waited for: it is overloaded, or being restarted."""
TELL_S = 10.0
REFUSALS = 3
"""An endpoint that calls this many requests bad, and has taken none, will not take the others."""
NOBODY_THERE = "cannot be reached ({}). Is the server running, and is its base_url right?"
BUSY = (429, 502, 503, 529)
AGAIN = (408, 409, 425)
USERS_FAULT = {
    401: "the key is not accepted",
    402: "the account has no credit",
    403: "the key has no access",
    404: "there is no such model or path",
}
_TOO_LONG = re.compile(r"context.?(length|size|window)|too long", re.IGNORECASE)
_END = object()


class EndpointUnreachable(RatchetError):
    """It takes no call, and has not for as long as one waits: it may come back."""


class _Failed(Exception):
    """A call that gave no whole answer. `again`: another may. `busy`: the server can take none just now; `wait` is the
    time it asks for, in seconds. `refused`: it is the prompt that the server does not want."""

    def __init__(
        self, reason: str, again: bool = True, busy: bool = False, wait: float = 0.0, refused: bool = False
    ) -> None:
        super().__init__(reason)
        self.again, self.busy, self.wait, self.refused = again and not refused, busy, wait, refused


@dataclass
class Traffic:
    """What goes on, for whoever watches; read from other threads."""

    open: int = 0
    calls: int = 0
    pieces: int = 0
    """Streamed so far, by all calls: about one a token."""
    lost_calls: int = 0
    """Begun to answer, and broken off: paid for, perhaps."""
    lost_pieces: int = 0


class OpenAIEngine(TeacherEngine):
    """`Engine` over one endpoint; requests carry `messages`.

    At most `concurrency` calls are open at a time, fewer while the endpoint pushes back (`Slots`), over one pool of
    connections. `timeout_s` is for one whole answer, `silence_s` between two pieces of it. `backoff_s` is the first
    wait before a repeat, doubled each time, where the server asks for none. `patience_s` is how long an endpoint that
    did answer may refuse everything; meanwhile `tell` is called with the reason, in another thread.
    """

    paid: ClassVar[bool] = True

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        concurrency: int = 64,
        timeout_s: float = 3600.0,
        silence_s: float = 600.0,
        backoff_s: float = 1.0,
        patience_s: float = PATIENCE_S,
        tell: Callable[[str], None] = lambda trouble: None,
    ) -> None:
        self.model, self.base_url, self.concurrency = model, base_url, concurrency
        self.traffic = Traffic()
        self._where = base_url or "the OpenAI API"
        self._api_key, self._timeout_s, self._silence_s, self._backoff_s = api_key, timeout_s, silence_s, backoff_s
        self._patience_s, self._tell, self._told_at = patience_s, tell, -TELL_S
        self._slots = Slots(concurrency)
        self._not_before = 0.0  # monotonic; when a server asks one call to wait, it means all
        self._accepted_at: float | None = None  # monotonic; when the endpoint last took a call
        self._reached = False  # something answers there, if only with a refusal
        self._refused = 0
        self._limit_name = "max_tokens"
        self._fatal: RatchetError | None = None
        self._ending = asyncio.Event()
        self._client: Any = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="openai-engine", daemon=True)
        self._thread.start()
        self._closed = False

    @classmethod
    def for_teacher(cls, teacher: Teacher) -> OpenAIEngine:
        """The engine that a recipe's teacher describes. Raises RatchetError when its model or key is missing."""
        key = _teacher_key(teacher)
        return cls(teacher.model, teacher.base_url, key, teacher.concurrency, teacher.timeout_s, teacher.silence_s)

    @classmethod
    def check(cls, teacher: Teacher) -> None:
        check_endpoint(teacher.base_url, _teacher_key(teacher))

    def generate(self, requests: Iterable[Request], sampling: Sampling) -> Iterator[Completion]:
        """Yield completions as they finish; one that cannot be had is `refused` or an `error`, and says why.

        `requests` is read as calls become free. Raises RatchetError where no call can succeed (a key or model that the
        endpoint does not accept, an endpoint that cannot be reached), after the answers that are already coming in.
        Leaving the iterator cancels what is open.
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
        import openai

        async def worker() -> None:
            for request in requests:  # shared: each worker takes the next one when it is free
                completion = await self._answer(request, sampling)
                if completion is not None:
                    outbox.put(completion)
                if self._fatal:
                    return

        self._fatal = None
        self._ending.clear()
        self._client = self._client or openai.AsyncOpenAI(
            api_key=self._api_key or "none",  # local servers want none, the client insists on one
            base_url=self.base_url,
            max_retries=0,
            timeout=openai.Timeout(self._silence_s, connect=CONNECT_TIMEOUT_S),
        )
        async with asyncio.TaskGroup() as group:
            for _ in range(self.concurrency):
                group.create_task(worker())
        if self._fatal:
            raise self._fatal

    async def _answer(self, request: Request, sampling: Sampling) -> Completion | None:
        """One request, asked as often as makes sense; None when the whole run ends instead."""
        if request.messages is None:
            raise RatchetError("an OpenAI-compatible endpoint needs messages, and this request has only token ids")
        tries, backoff, refused_since = 0, self._backoff_s, None
        while True:
            while (wait := self._not_before - time.monotonic()) > 0 and not self._fatal:
                await self._pause(wait)
            await self._slots.acquire()
            with self._slots.held() as sent:
                if self._fatal:
                    return None
                try:
                    return await self._call(request, sampling)
                except _Failed as error:
                    failed = error
                except RatchetError as error:
                    return self._end(error)
            self._not_before = max(self._not_before, time.monotonic() + failed.wait)
            if failed.busy:
                refused_since = refused_since or sent
                self._slots.pushed_back(sent)
                if out_of_patience := self._out_of_patience(refused_since, failed):
                    return self._end(EndpointUnreachable(f"{self._where} {out_of_patience}"))
                give_up = time.monotonic() - refused_since > self._patience_s  # others are answered, this one is not
            else:
                refused_since, tries = None, tries + 1
                give_up = tries == TRIES or not failed.again
            if give_up:
                if failed.refused:
                    return Completion(request.key, "", "refused", 0, error=str(failed))
                return Completion(request.key, "", "error", 0, error=f"{failed} (tries: {max(1, tries)})")
            await self._pause(backoff * (0.5 + derive_seed(request.seed, "backoff", backoff) / 2**63))
            backoff = min(2 * backoff, LONGEST_BACKOFF_S)

    async def _pause(self, seconds: float) -> None:
        """Wait; but when no call can succeed any more, that is not worth finishing."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ending.wait(), seconds)

    def _end(self, error: RatchetError) -> None:
        self._fatal = self._fatal or error
        self._ending.set()

    def _out_of_patience(self, since: float, failed: _Failed) -> str:
        """Why an endpoint that takes no call is waited for no longer; empty while it is."""
        now = time.monotonic()
        if failed.wait > self._patience_s:
            return f"asks to come back in {failed.wait / 60:.0f} minutes ({failed})."
        if not self._reached and now - since > FIRST_CONTACT_S:
            return NOBODY_THERE.format(failed)
        if now - max(since, self._accepted_at or 0.0) > self._patience_s:
            return f"has taken no call for {self._patience_s / 60:.0f} minutes ({failed})."
        if now - self._told_at > TELL_S:
            self._told_at = now
            self._tell(f"{self._where} takes no call just now: {failed}")
        return ""

    async def _call(self, request: Request, sampling: Sampling) -> Completion:
        """One call. Raises `_Failed`, or RatchetError where no other call would do better."""
        import openai

        limits: dict[str, Any] = {self._limit_name: sampling.max_tokens}
        if sampling.top_k:
            limits["top_k"] = sampling.top_k
        calling = self._client.chat.completions.with_streaming_response.create(
            model=self.model,
            messages=list(request.messages or ()),
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            seed=request.seed,
            stream=True,
            stream_options={"include_usage": True},
            extra_body=limits,
        )
        answer = _Answer(self.traffic)
        self.traffic.calls += 1
        self.traffic.open += 1
        try:
            async with asyncio.timeout(self._timeout_s), calling as response:
                self._accepted_at, self._reached = time.monotonic(), True
                self._slots.accepted()
                await answer.read(response)
            return answer.completion(request.key)
        except openai.APITimeoutError as error:
            if type(error.__cause__).__name__ == "ConnectTimeout":
                raise _Failed(f"no connection within {CONNECT_TIMEOUT_S:g} s", busy=True) from error
            raise _Failed(f"silent for {self._silence_s:g} s") from error
        except openai.APIConnectionError as error:
            raise _Failed(f"connection failed: {error.__cause__ or error}", busy=True) from error
        except openai.APIStatusError as error:
            raise self._refusal(error, limits) from error
        except TimeoutError:  # would take as long again, and is paid for
            raise _Failed(f"no whole answer within {self._timeout_s:g} s", again=False) from None
        finally:
            self.traffic.open -= 1
            if answer.pieces and not answer.whole:
                self.traffic.lost_calls += 1
                self.traffic.lost_pieces += answer.pieces

    def _refusal(self, error: Any, sent: dict[str, Any]) -> Exception:
        """What a status other than 200 means."""
        self._reached = True
        body = error.body if isinstance(error.body, dict) else {}
        message = str(body.get("message") or error.message)
        status, said = error.status_code, f"{error.status_code}: {_shown(message)}"
        reason = USERS_FAULT.get(status) or ("the quota is used up" if error.code == "insufficient_quota" else "")
        if status == 400 and "max_tokens" in sent and "max_completion_tokens" in message:
            self._limit_name = "max_completion_tokens"  # OpenAI's reasoning models know no other
            return _Failed(said)
        if status in (400, 413, 422) and _TOO_LONG.search(message):
            return _Failed(said, refused=True)
        bad_request = 400 <= status < 500 and status not in (*AGAIN, *BUSY)
        if bad_request and not reason and self._accepted_at is None:
            self._refused += 1
            reason = "no request is accepted" if self._refused == REFUSALS else ""
        if reason:
            return RatchetError(
                f"{self._where} refused model {self.model!r}: {reason} ({said}). Check the model's name, base_url, key "
                f"and sampling."
            )
        wait = 0.0 if bad_request else _retry_after(error.response.headers)
        return _Failed(said, not bad_request, status in BUSY or wait > 0, wait)


def check_endpoint(base_url: str | None, key: str | None) -> None:
    """Raises RatchetError where nothing answers at `base_url`, or what does will not have the key. Asks for the list of
    models, which costs nothing; an endpoint that does not keep one is there all the same."""
    import openai

    client = openai.OpenAI(api_key=key or "none", base_url=base_url, max_retries=0, timeout=CHECK_S)
    where = base_url or "the OpenAI API"
    try:
        with client:
            client.models.list()
    except openai.APIConnectionError as error:
        raise EndpointUnreachable(f"{where} {NOBODY_THERE.format(error.__cause__ or error)}") from error
    except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
        raise RatchetError(
            f"{where}: {USERS_FAULT[error.status_code]} ({error.status_code}: {_shown(error.message)})."
        ) from error
    except (openai.OpenAIError, ValueError):
        pass


def _teacher_key(teacher: Teacher) -> str | None:
    if not teacher.model:
        raise RatchetError("The recipe's teacher has no model: set curation.<domain>.teacher.model to its name.")
    key = os.environ.get(teacher.api_key_env)
    if key is None and teacher.base_url is None:
        raise RatchetError(
            f"Environment variable {teacher.api_key_env} is not set, and the teacher has no base_url: "
            "set the key, or give the address of an endpoint of your own."
        )
    return key


@dataclass
class _Answer:
    """One answer as it streams in."""

    traffic: Traffic
    text: list[str] = field(default_factory=list)
    thought: list[str] = field(default_factory=list)
    reason: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    pieces: int = 0
    ended: bool = False
    whole: bool = False

    async def read(self, response: Any) -> None:
        """Take in the body, line by line. Lines end in LF alone: a JSON text may hold any other line separator."""
        try:
            if "event-stream" not in response.headers.get("content-type", ""):
                self._add(await response.read())
                self.ended = True
                return
            rest = b""
            async for block in response.iter_bytes():
                *lines, rest = (rest + block).split(b"\n")
                for line in lines:
                    self._take(line)
            self._take(rest)
        except _Failed:
            raise
        except Exception as error:  # of whatever transport the client uses
            raise _Failed(f"cut after {self.pieces} pieces: {type(error).__name__} {_shown(error)}") from error

    def _take(self, line: bytes) -> None:
        """One line: an event, the end, a comment, or the space between events."""
        if line.startswith(b"data:"):
            self.ended |= line[5:].strip() == b"[DONE]"
            if not self.ended:
                self._add(line[5:])

    def _add(self, event: bytes) -> None:
        """One event: a part of the answer, or all of it where a server does not stream."""
        self.pieces += 1
        self.traffic.pieces += 1
        try:
            said = json.loads(event)
            if "error" in said and not said.get("choices"):
                raise _Failed(f"broken off by the server: {_shown(said['error'])}")
            self.usage = said.get("usage") or self.usage
            for choice in said["choices"][:1]:
                part = choice.get("delta") or choice.get("message") or {}
                self.text.append(part.get("content") or "")
                self.thought.append(part.get("reasoning_content") or part.get("reasoning") or "")
                self.reason = choice.get("finish_reason") or self.reason
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _Failed(f"not a chat completion ({error!r}): {_shown(event.decode(errors='replace'))}") from error

    def completion(self, key: Any) -> Completion:
        """Raises `_Failed` when this is no whole answer."""
        if self.reason is None or not (self.ended or self.usage):  # what counts the tokens comes last
            raise _Failed(f"cut after {self.pieces} pieces")
        if self.reason not in ("stop", "length"):
            raise _Failed(f"ended by {self.reason!r}", refused=self.reason != "abort")
        text, thought = "".join(self.text), "".join(self.thought)
        if thought:  # servers with a reasoning parser take the thinking out of the text; a response holds both
            text = f"<think>\n{thought}\n</think>\n{text}" if text or self.reason == "stop" else f"<think>\n{thought}"
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # JSON can hold half a character
        self.whole = True
        return Completion(
            key, text, self.reason, self.usage.get("completion_tokens"), prompt_tokens=self.usage.get("prompt_tokens")
        )


def _retry_after(headers: Any) -> float:
    """Seconds the server asks to wait: the header holds a number or a date."""
    value = headers.get("retry-after", "")
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return 0.0


def _shown(text: Any) -> str:
    return " ".join(str(text).split())[:200]
