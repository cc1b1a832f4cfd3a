"""Completions from an endpoint that speaks OpenAI's chat protocol: a hosted model, a vLLM or SGLang server, a router.

An answer of a reasoning model takes minutes and is charged even if it does not arrive. Answers are therefore streamed:
gateways see no idle connection, a dead server is noticed by its silence, and progress can be shown. The client's own
retries are off, because they wait for a minute at most, and know nothing of a stream that breaks off.

Providers accept different fields. A field that one refuses by name (`seed`, `stream_options`, `temperature`, …) is
omitted, permanently once the same call is accepted without it; this is reported once.
"""

import asyncio
import os
import queue
import random
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, ClassVar

from ratchet.data_curation.base.openai_stream import Answer, CallFailed, Traffic, shown
from ratchet.data_curation.base.protocol import Completion, Request, Sampling
from ratchet.data_curation.base.slow_calls import proxy_note, say_if_slow
from ratchet.data_curation.base.teacher_engine import TeacherEngine
from ratchet.verifiers.errors import RatchetError

if TYPE_CHECKING:
    from ratchet.data_curation.settings.teacher import Endpoint, Teacher

TRIES = 8
LONGEST_BACKOFF_S = 60.0
PATIENCE_S = 900.0
"""Seconds to wait for an endpoint that has answered before: it is overloaded, or being restarted."""
LONGEST_WAIT_S = 86_400.0
CONNECT_TIMEOUT_S = 30.0
SILENCE_S = 600.0
"""Seconds without data from a stream before its connection counts as dead."""
ANSWER_S = 3600.0
"""Timeout of a whole answer in seconds. Long on purpose: models think for minutes, and a call that times out is paid
for."""
CHECK_S = 10.0
"""Timeout in seconds of the check before the first step of a run."""
FIRST_CONTACT_S = 10.0
"""Seconds to try an endpoint that has never answered: its address is probably wrong."""
MAX_REFUSALS = 3
"""Bad requests after which an endpoint that has accepted none is given up."""
SHORTEST_KEY = 8
"""Least characters of a key that is masked in messages; a shorter one may be an ordinary word."""
NOBODY_THERE = "cannot be reached ({}). Is the server running, and is its base_url right?"
BUSY = (429, 502, 503, 529)
AGAIN = (408, 409, 425)
USERS_FAULT = {
    401: "the key is not accepted",
    402: "the account has no credit",
    403: "the key has no access",
    404: "there is no such model or path",
}
MAY_BE_LEFT_OUT = ("stream_options", "seed", "top_k", "top_p", "temperature")
"""Parameters that are omitted when an endpoint refuses them; if it names several, the first of these is."""
_TOO_LONG = re.compile(r"context.?(length|size|window)|too long", re.IGNORECASE)
_OUT_OF_RANGE = re.compile(
    r"between|\brange\b|(less|greater|smaller|larger) than|at (most|least)|m(ax|in)imum|must be (in|non|positive)|[<>]",
    re.IGNORECASE,
)
_END = object()


class EndpointUnreachable(RatchetError):
    """An endpoint that has accepted no call for longer than a caller waits; it may come back."""


class _Without(Exception):
    """The endpoint does not accept the field `name`."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class OpenAIEngine(TeacherEngine):
    """An engine for one address with at most `concurrency` open calls; requests carry `messages`.

    `backoff_s` is the first wait before a repeat, doubled each time; a wait that the server asks for holds for all
    calls. `patience_s` is how long it may reject everything. `tell` is called in another thread with sentences for the
    user.
    """

    paid: ClassVar[bool] = True

    def __init__(
        self, model: str, base_url: str | None = None, key: str | None = None, concurrency: int = 64,
        backoff_s: float = 1.0, patience_s: float = PATIENCE_S, tell: Callable[[str], None] = lambda trouble: None,
    ) -> None:  # fmt: skip
        self.model, self.base_url, self.tell = model, base_url, tell
        self.where = base_url or "the OpenAI API"
        self.traffic = Traffic()
        self._key, self._concurrency = key, concurrency
        self._backoff_s, self._patience_s = backoff_s, patience_s
        self._left_out: set[str] = set()
        self._accepted = self._reached = False  # accepted a call; answered at all
        self._not_before = 0.0  # monotonic time
        self._busy_since: float | None = None  # since when it has rejected every call
        self._pushed_back = self._refused = 0  # calls rejected for now; bad requests
        self._fatal: RatchetError | None = None
        self._ending = asyncio.Event()
        self._client: Any = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="openai-engine", daemon=True)
        self._thread.start()
        self._closed = False

    @classmethod
    def for_teacher(cls, teacher: "Teacher") -> "OpenAIEngine":
        """The engine of a recipe's teacher. Raises RatchetError if its model or key is missing."""
        return cls(teacher.model, teacher.base_url, _key_of(teacher), teacher.concurrency)

    @classmethod
    def check(cls, teacher: "Teacher") -> None:
        check_endpoint(teacher.base_url, _key_of(teacher))

    def generate(self, requests: Iterable[Request], sampling: Sampling) -> Iterator[Completion]:
        """Yield completions as they finish; a failed one is `refused` or an `error`, with the reason.

        `requests` is read in another thread as calls become free. Raises RatchetError if no call can succeed (the key
        or model is not accepted, or nothing can be reached), after the answers that are arriving. Leaving the iterator
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
        if self._client is not None:
            await self._client.close()

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
            for _ in range(self._concurrency):
                group.create_task(worker())
        if self._fatal:
            raise self._fatal

    async def _answer(self, request: Request, sampling: Sampling) -> Completion | None:
        """One request, repeated as often as makes sense; None if the whole run ends."""
        if request.messages is None:
            raise RatchetError("an OpenAI-compatible endpoint needs messages, and this request has only token ids")
        tries, backoff, busy_since = 0, self._backoff_s, None
        while not self._fatal:
            if (wait := self._not_before - time.monotonic()) > 0:
                await self._pause(wait)
                continue
            try:
                return await self._call(request, sampling)
            except RatchetError as error:
                self._end(error)
                return None
            except CallFailed as failed:
                if failed.busy:
                    now = time.monotonic()
                    busy_since = busy_since or now
                    self._push_back(failed, now)
                    give_up = now - busy_since > self._patience_s  # others are answered, and this one is not
                else:
                    busy_since, tries = None, tries + 1
                    give_up = tries == TRIES or not failed.again
                if give_up:
                    if failed.refused:
                        return Completion(request.key, "", "refused", 0, error=str(failed))
                    return Completion(request.key, "", "error", 0, error=f"{failed} (tries: {max(1, tries)})")
            await self._pause(backoff * random.uniform(0.5, 1.5))
            backoff = min(2 * backoff, LONGEST_BACKOFF_S)
        return None

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ending.wait(), seconds)

    def _push_back(self, failed: CallFailed, now: float) -> None:
        """Wait while no call is accepted, and end the run if that takes too long."""
        self._busy_since = self._busy_since or now
        self._not_before = max(self._not_before, now + failed.wait)
        silent, wait = now - self._busy_since, self._not_before - now
        if wait > self._patience_s:
            self._end(EndpointUnreachable(f"{self.where} asks to come back in {wait / 60:.0f} minutes ({failed})."))
        elif not self._reached and silent > FIRST_CONTACT_S:
            self._end(EndpointUnreachable(f"{self.where} {NOBODY_THERE.format(failed)}"))
        elif silent > self._patience_s:
            minutes = self._patience_s / 60
            self._end(EndpointUnreachable(f"{self.where} has accepted no call for {minutes:.0f} minutes ({failed})."))
        self._pushed_back += 1
        if str(self._pushed_back).strip("0") == "1":  # the first, tenth, hundredth, …
            self.tell(f"{self.where}: retrying {self._pushed_back:,} call{'s' * (self._pushed_back > 1)}: {failed}")

    def _end(self, error: RatchetError) -> None:
        self._fatal = self._fatal or error
        self._ending.set()

    async def _call(self, request: Request, sampling: Sampling) -> Completion:
        """One answer. Raises CallFailed, or RatchetError if no call can succeed."""
        without: dict[str, str] = {}
        while True:
            try:
                return await self._once(request, sampling, without)
            except (CallFailed, RatchetError, _Without) as error:
                error.args = tuple(without_key(arg, self._key) for arg in error.args)
                if not isinstance(error, _Without):
                    raise
                without[error.name] = str(error)

    async def _once(self, request: Request, sampling: Sampling, without: dict[str, str]) -> Completion:
        import openai

        left_out = self._left_out | without.keys()
        limit = "max_completion_tokens" if "max_tokens" in left_out else "max_tokens"
        fields = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "seed": request.seed % 2**31,  # the largest that every provider accepts
            "stream_options": {"include_usage": True},
            **({"top_k": sampling.top_k} if sampling.top_k else {}),
        }
        sent = {name: value for name, value in fields.items() if name not in left_out}
        values = request.chat_template_kwargs  # never left out: the prompt would be another
        asked = {"chat_template_kwargs": values} if values else {}
        self._client = self._client or openai.AsyncOpenAI(
            api_key=self._key or "none",  # the client requires one, local servers do not
            base_url=self.base_url, max_retries=0, timeout=openai.Timeout(SILENCE_S, connect=CONNECT_TIMEOUT_S),
        )  # fmt: skip
        calling = self._client.chat.completions.with_streaming_response.create(
            model=self.model, messages=list(request.messages or ()), stream=True,
            extra_body={limit: sampling.max_tokens, **sent, **asked},
        )  # fmt: skip
        answer = Answer()
        self.traffic.calls += 1
        self.traffic.open += 1
        try:
            async with asyncio.timeout(ANSWER_S), calling as response:
                self._accept(without)
                async for pieces in answer.read(response):
                    self.traffic.pieces += pieces
            return answer.completion(request.key)
        except openai.APITimeoutError as error:
            if type(error.__cause__).__name__ == "ConnectTimeout":
                raise CallFailed(f"no connection within {CONNECT_TIMEOUT_S:g} s", busy=True) from error
            raise CallFailed(f"silent for {SILENCE_S:g} s") from error
        except openai.APIConnectionError as error:
            raise CallFailed(f"connection failed: {error.__cause__ or error}", busy=True) from error
        except openai.APIStatusError as error:
            raise self._refusal(error, {limit, *sent}) from error
        except TimeoutError:  # another call would take as long, and is charged
            raise CallFailed(f"no whole answer within {ANSWER_S:g} s", again=False) from None
        finally:
            self.traffic.open -= 1
            if answer.pieces and not answer.whole:
                self.traffic.lost_calls += 1
                self.traffic.lost_pieces += answer.pieces

    def _accept(self, without: dict[str, str]) -> None:
        self._accepted = self._reached = True
        self._busy_since = None
        for name in without.keys() - self._left_out:
            self._left_out.add(name)
            instead = "max_completion_tokens is sent instead" if name == "max_tokens" else "its own default holds"
            learned = f"{self.where} does not take {name}, and {instead} ({without[name]})."
            self.traffic.learned.append(learned)
            self.tell(learned)

    def _refusal(self, error: Any, sent: set[str]) -> Exception:
        """The meaning of a status other than 200."""
        self._reached = True
        body = error.body if isinstance(error.body, dict) else {}
        message = str(body.get("message") or error.message)
        status, text = error.status_code, f"{error.status_code}: {shown(message)}"
        reason = USERS_FAULT.get(status) or ("the quota is used up" if error.code == "insufficient_quota" else "")
        if status in (400, 413, 422) and _TOO_LONG.search(message):
            return CallFailed(text, refused=True)
        if status in (400, 422) and (name := _named(message, str(error.param or ""), sent)):
            return _Without(name, text)
        bad_request = 400 <= status < 500 and status not in (*AGAIN, *BUSY)
        if bad_request and not reason and not self._accepted:
            self._refused += 1
            reason = "no request is accepted" if self._refused == MAX_REFUSALS else ""
        if reason:
            return RatchetError(
                f"{self.where} refused model {self.model!r}: {reason} ({text}). Check the model's name, base_url, key "
                f"and sampling."
            )
        wait = 0.0 if bad_request else _retry_after(error.response.headers)
        return CallFailed(text, not bad_request, status in BUSY or wait > 0, wait)


def _named(message: str, parameter: str, sent: set[str]) -> str:
    if "max_tokens" in sent and "max_completion_tokens" in message:  # OpenAI's reasoning models accept only the latter
        return "max_tokens"
    if _OUT_OF_RANGE.search(message):  # the field is accepted; the user must correct its value
        return ""
    text = f"{parameter} {message}"
    named = (name for name in MAY_BE_LEFT_OUT if name in sent and re.search(rf"(?<!\w){name}(?!\w)", text))
    return next(named, "")


def without_key(text: Any, key: str | None) -> Any:
    """The text without the key, which a proxy may repeat when it refuses it."""
    return text.replace(key, "…") if isinstance(text, str) and key and len(key) >= SHORTEST_KEY else text


def check_endpoint(base_url: str | None, key: str | None) -> None:
    """Raises RatchetError if nothing answers at `base_url`, or if the key is refused. Requests the list of models,
    which is free; an endpoint without one passes."""
    import openai

    where = base_url or "the OpenAI API"
    try:
        client = openai.OpenAI(api_key=key or "none", base_url=base_url, max_retries=0, timeout=CHECK_S)
    except Exception as error:  # depends on the client's transport
        raise RatchetError(f"{where} is not an address ({error}): write http://HOST:PORT/v1.") from error
    try:
        with client, say_if_slow(f"Waiting for {where} …"):
            client.models.list()
    except openai.APIConnectionError as error:
        way = proxy_note(base_url or "https://api.openai.com")
        raise EndpointUnreachable(f"{where}{way} {NOBODY_THERE.format(error.__cause__ or error)}") from error
    except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
        raise RatchetError(
            f"{where}: {USERS_FAULT[error.status_code]} "
            f"({error.status_code}: {without_key(shown(error.message), key)})."
        ) from error
    except (openai.OpenAIError, ValueError):
        pass


def _retry_after(headers: Any) -> float:
    """Seconds that the server asks to wait: its header holds a number or a date. More than a day is no wait but a
    mistake (a time in milliseconds, or since 1970)."""
    value = headers.get("retry-after", "")
    for seconds in (float, lambda date: parsedate_to_datetime(date).timestamp() - time.time()):
        with suppress(ValueError, TypeError, OverflowError):
            wait = seconds(value)
            return wait if 0 < wait <= LONGEST_WAIT_S else 0.0
    return 0.0


def _key_of(endpoint: "Endpoint") -> str | None:
    """The key that its environment variable holds. Raises RatchetError if the model or a required key is missing."""
    if not endpoint.model:
        raise RatchetError("The recipe's teacher has no model: set curation.<domain>.teacher.model to its name.")
    key = os.environ.get(endpoint.api_key_env)
    if key is None and endpoint.base_url is None:
        raise RatchetError(
            f"Environment variable {endpoint.api_key_env} is not set, and the teacher has no base_url: "
            "set the key, or give the address of your own endpoint."
        )
    return key
