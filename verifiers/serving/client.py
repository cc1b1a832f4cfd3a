"""A pool whose workers are reward servers on other machines. The protocol is described in docs/reward_servers.md.

Verdicts are pure functions of problem and response, so whatever a server did not answer is asked of another.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

import httpx

from ratchet.infra.errors import RatchetError
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.serving.pool import CLOSED, Deliver, Pool, Submission
from ratchet.verifiers.serving.protocol import TOKEN_VARIABLE, WORKERS_HEADER, decode_verdict, encode_batch

BATCH, BATCH_BYTES = 32, 8 << 20
"""Tickets and bytes of one request, at most; one that is larger goes alone."""
STREAMS = 8
"""Requests to one server that are open at the same time."""
COALESCE_S = 0.002
"""Wait this long for more tickets before a request is sent."""
TICK_S = 0.1
TRIES = 4
CONNECT_S, SEND_S, REQUEST_S = 5.0, 60.0, 900.0
LONGEST_BACKOFF_S = 10.0
BUSY_FACTOR = 10


class RemoteVerifierPool(Pool):
    """`Pool` over one or more reward servers at `urls`, least loaded first.

    The tickets of a server that dies, falls silent for `silence_s` seconds, answers 429 or 5xx, or shuts down go to
    another; each is answered exactly once. When no server answers for `patience_s`, or all of them turn every ticket
    away for ten times as long, what waits gets `infra_error`; so does a ticket on which four requests failed.

    `token` is the servers' (default: environment variable RATCHET_JUDGE_TOKEN). Raises RatchetError when a URL is not
    one, no server answers, or one refuses the token. Proxies of the environment are not used.
    """

    def __init__(
        self,
        urls: Sequence[str],
        token: str | None = None,
        fraction: bool = False,
        *,
        patience_s: float = 60.0,
        silence_s: float = 15.0,
    ) -> None:
        super().__init__(fraction)
        token = token or os.environ.get(TOKEN_VARIABLE, "").strip()
        if not token:
            raise RatchetError(
                f"Environment variable {TOKEN_VARIABLE} is not set: reward servers want their token "
                "(`ratchet judge serve` says where it is)."
            )
        self._servers = [_Server(_checked(url)) for url in dict.fromkeys(urls)]
        if not self._servers:
            raise RatchetError("No reward server is given: name at least one URL, such as http://judge-1:8900.")
        self._patience_s, self._silence_s = patience_s, silence_s
        self._closed = False
        self._closing = threading.Lock()
        # What follows belongs to the loop's thread.
        self._pending: deque[_Item] = deque()
        self._changed = asyncio.Event()
        self._last_verdict = 0.0
        self._tasks: set[asyncio.Task] = set()
        self._client = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(silence_s, connect=CONNECT_S, write=SEND_S, pool=None),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=STREAMS * len(self._servers)),
            trust_env=False,
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="reward-client", daemon=True)
        self._thread.start()
        try:
            self._wait_for(self._connect())
        except BaseException:
            self.close()
            raise

    @property
    def workers(self) -> int:
        """Of all servers together, as far as they have answered."""
        return sum(server.workers for server in self._servers)

    def _begin(self, submission: Submission, deliver: Deliver) -> Callable[[], None]:
        item = _Item(submission, deliver)
        if not self._in_loop(self._add, item):
            raise RuntimeError("the RemoteVerifierPool is closed")

        def withdraw() -> None:
            self._in_loop(self._withdraw, item)

        return withdraw

    def _in_loop(self, action: Callable[[_Item], None], item: _Item) -> bool:
        """False when the pool is closed."""
        with self._closing:  # what is called before the end is done before the end
            if not self._closed:
                self._loop.call_soon_threadsafe(action, item)
            return not self._closed

    def close(self) -> None:
        with self._closing:
            if self._closed or os.getpid() != self._pid:
                return
            self._closed = True
        self._wait_for(self._shut_down())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _wait_for(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    # ------------------------------------------------------------------------- in the loop's thread

    async def _connect(self) -> None:
        for error in await asyncio.gather(*map(self._greet, self._servers), return_exceptions=True):
            if error is not None:
                raise error
        if not any(server.last_contact for server in self._servers):
            raise RatchetError(
                f"No reward server answers ({self._reasons()}). Start them with `ratchet judge serve`, or take "
                "training.reward_servers out of the recipe to judge on this machine."
            )
        self._start(self._dispatch())

    async def _greet(self, server: _Server) -> None:
        try:
            reply = await self._client.get(server.url + "/health")
            if reply.status_code in (401, 403):
                raise RatchetError(
                    f"The reward server {server.url} refuses the token: {TOKEN_VARIABLE} here must be the server's own."
                )
            reply.raise_for_status()
            server.workers = int(reply.json()["workers"])
            server.answered(self._loop.time())
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            server.failed(self._loop.time(), _shown(error))

    async def _shut_down(self) -> None:
        left = [*self._pending, *(item for server in self._servers for item in server.items)]
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for item in left:
            item.answer(CLOSED)
        await self._client.aclose()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _add(self, item: _Item) -> None:
        item.since = self._loop.time()
        self._pending.append(item)
        self._changed.set()

    def _withdraw(self, item: _Item) -> None:
        item.deliver = None
        if item.request is not None and all(other.deliver is None for other in item.request.waiting.values()):
            item.request.task.cancel()  # nobody wants anything of it: the server sees us go, and drops it

    async def _dispatch(self) -> None:
        """Send what is pending to whoever has room, as it comes; give up on what has waited too long."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), TICK_S if self._pending else None)
            self._changed.clear()
            await asyncio.sleep(COALESCE_S)
            while self._pending:
                now = self._loop.time()
                ready = [server for server in self._servers if server.has_room(now)]
                if not ready:
                    self._give_up(now)
                    break
                server = min(ready, key=lambda server: (server.failures > 0, len(server.items) / server.workers))
                if batch := self._take(server.window - len(server.items)):
                    request = _Request(dict(enumerate(batch)))
                    for item in batch:
                        item.request = request
                    server.items.update(dict.fromkeys(batch))
                    server.streams += 1
                    request.task = self._start(self._run(server, request))

    def _take(self, room: int) -> list[_Item]:
        """The next items that go into one request. One that was in two that failed goes alone: it may be the reason."""
        batch: list[_Item] = []
        problems: set[int] = set()
        size = 0
        while self._pending and len(batch) < min(room, BATCH):
            item = self._pending[0]
            problem, text = item.submission.problem, item.submission.text
            more = len(text) + (0 if id(problem) in problems else len(problem.tests or ""))
            if batch and (size + more > BATCH_BYTES or item.tries > 1 or batch[0].tries > 1):
                break
            self._pending.popleft()
            if item.deliver is not None:
                batch.append(item)
                problems.add(id(problem))
                size += more
        return batch

    def _give_up(self, now: float) -> None:
        contact = max(server.last_contact for server in self._servers)
        kept: deque[_Item] = deque()
        for item in self._pending:
            if now - max(contact, item.since) > self._patience_s:
                reason = f"no reward server has answered for {self._patience_s:g} s"
            elif now - max(self._last_verdict, item.since) > BUSY_FACTOR * self._patience_s:
                reason = f"the reward servers took nothing for {BUSY_FACTOR * self._patience_s:g} s"
            else:
                kept.append(item)
                continue
            item.answer(_infra_error(f"{reason} ({self._reasons()})"))
        self._pending = kept

    def _reasons(self) -> str:
        return "; ".join(f"{server.url}: {server.reason or 'has answered'}" for server in self._servers)

    async def _run(self, server: _Server, request: _Request) -> None:
        """One request: whatever is not answered at its end is pending again, or has been tried often enough."""
        sent = list(request.waiting.values())
        try:
            failure = await self._ask(server, request)
        finally:
            server.streams -= 1
            for item in sent:
                server.items.pop(item, None)
            self._changed.set()
        for item in reversed(request.waiting.values()):
            item.request = None
            item.tries += failure.is_try
            if failure.is_final or item.tries >= TRIES:
                item.answer(_infra_error(f"{item.tries} requests failed; the last: {server.url}: {failure.reason}"))
            else:
                self._pending.appendleft(item)

    async def _ask(self, server: _Server, request: _Request) -> _Failure:
        """Send the batch and deliver what comes back; how it ended, for what is still waiting."""
        try:
            async with asyncio.timeout(REQUEST_S):
                body = encode_batch((number, item.submission) for number, item in request.waiting.items())
                async with self._client.stream("POST", server.url + "/v1/verify", content=body) as reply:
                    if reply.status_code != 200:
                        text = (await reply.aread()).decode("utf-8", "replace")
                        return self._refused(server, reply, text, len(request.waiting))
                    server.answered(self._loop.time(), reply.headers.get(WORKERS_HEADER))
                    async for line in reply.aiter_lines():
                        server.last_contact = self._loop.time()
                        if line:
                            self._receive(server, request, *decode_verdict(line))
            failure = _Failure("it ended its answer early")
        except httpx.ConnectError as error:  # timeouts of connecting are below: both sent nothing
            failure = _Failure(f"cannot be reached: {_shown(error)}", is_try=False)
        except httpx.ConnectTimeout:
            failure = _Failure(f"cannot be reached within {CONNECT_S:g} s", is_try=False)
        except httpx.ReadTimeout:
            failure = _Failure(f"was silent for {self._silence_s:g} s")
        except TimeoutError:
            failure = _Failure(f"was not done after {REQUEST_S:g} s")
        except Exception as error:  # a broken connection, lines that are not verdicts: no reason to lose a ticket
            failure = _Failure(_shown(error))
        if request.waiting:
            server.failed(self._loop.time(), failure.reason)
        return failure

    def _receive(self, server: _Server, request: _Request, number: int, verdict: Verdict) -> None:
        item = request.waiting.pop(number)  # a KeyError, should a ticket be answered twice: the server is at fault
        del server.items[item]
        self._last_verdict = self._loop.time()
        item.answer(verdict)
        if self._pending and server.has_room(self._last_verdict):
            self._changed.set()

    def _refused(self, server: _Server, reply: httpx.Response, text: str, count: int) -> _Failure:
        now, status = self._loop.time(), reply.status_code
        try:
            reason = f"HTTP {status}: {json.loads(text)['error']}"
        except (ValueError, KeyError, TypeError):
            reason = f"HTTP {status}: {text[:200]}"
        if status == 429:  # busy, and well
            server.answered(now)
            server.reason, server.not_before = reason, now + _retry_after(reply)
            return _Failure(reason, is_try=False)
        if status in (401, 403) or status >= 500:
            server.failed(now, reason)
            return _Failure(reason, is_try=status >= 500 and status != 503)
        # The request itself is at fault: one of its items, which shows when each goes alone.
        server.reason = reason
        return _Failure(reason, is_final=count == 1)


class _Item:
    """One ticket on its way. `deliver` is None when it was answered or withdrawn."""

    def __init__(self, submission: Submission, deliver: Deliver) -> None:
        self.submission = submission
        self.deliver: Deliver | None = deliver
        self.request: _Request | None = None
        self.tries = 0
        self.since = 0.0

    def answer(self, verdict: Verdict) -> None:
        deliver, self.deliver = self.deliver, None
        if deliver is not None:
            deliver(verdict)


class _Request:
    """One request that is open: its items that are not answered, by their number in it."""

    def __init__(self, waiting: dict[int, _Item]) -> None:
        self.waiting = waiting
        self.task: asyncio.Task | None = None


class _Failure(NamedTuple):
    """Why a request ended before all of it was answered. `is_try` counts against its items; `is_final` ends them."""

    reason: str
    is_try: bool = True
    is_final: bool = False


class _Server:
    """What is known of one reward server."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.workers = 1
        self.items: dict[_Item, None] = {}  # in flight to it
        self.streams = 0
        self.failures = 0
        self.not_before = 0.0
        self.last_contact = 0.0
        self.reason = ""

    @property
    def window(self) -> int:
        """Tickets in flight to it, at most: enough to keep it busy, few enough to share with others."""
        return max(16, 4 * self.workers)

    def has_room(self, now: float) -> bool:
        is_low = len(self.items) <= self.window // 2  # not one ticket a request, each time one comes back
        return now >= self.not_before and self.streams < STREAMS and is_low

    def answered(self, now: float, workers: str | None = None) -> None:
        self.failures, self.not_before, self.reason, self.last_contact = 0, 0.0, "", now
        if workers is not None:
            self.workers = max(1, int(workers))

    def failed(self, now: float, reason: str) -> None:
        self.reason = reason
        if now >= self.not_before:  # many requests fail together when a server dies: that is one failure
            self.failures += 1
            self.not_before = now + min(0.25 * 2**self.failures, LONGEST_BACKOFF_S)


def _infra_error(detail: str) -> Verdict:
    return Verdict(Outcome.INFRA_ERROR, decided_by="reward_servers", detail=detail)


def _checked(url: str) -> str:
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise RatchetError(f"Reward server {url!r} is not a URL: {error}") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise RatchetError(f"Reward server {url!r} is not a URL: write it as http://host:port.")
    return str(parsed).rstrip("/")


def _retry_after(reply: httpx.Response) -> float:
    try:
        return min(max(float(reply.headers.get("retry-after", "1")), 0.05), LONGEST_BACKOFF_S)
    except ValueError:  # a date, which our servers never send
        return 1.0


def _shown(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]
