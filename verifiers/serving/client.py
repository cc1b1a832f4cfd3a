"""A pool whose workers are reward servers on other machines; docs/howto/reward_servers.md describes the protocol.

A verdict depends only on problem and response, so a ticket that one server did not answer is sent to another.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import httpx

from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.serving.pool import CLOSED, Deliver, Pool
from ratchet.verifiers.serving.protocol import TOKEN_VARIABLE, WORKERS_HEADER, decode_verdict, encode_batch
from ratchet.verifiers.submission import JudgeSettings, Submission

STREAMS = 8
"""Open requests to one server at a time. Each has half a ticket per worker, which keeps the workers busy."""
BATCH = 32
"""Most tickets in one request."""
COALESCE_S = 0.002
"""Seconds to wait for more tickets before a request is sent."""
TICK_S = 0.1
TRIES = 4
CONNECT_S, SEND_S, REQUEST_S = 5.0, 60.0, 900.0
LONGEST_BACKOFF_S = 10.0
BUSY_FACTOR = 10


class RemoteVerifierPool(Pool):
    """A pool over the reward servers at `urls`, least loaded first.

    If a server dies, is silent for `silence_s` seconds, answers 429 or 5xx, or shuts down, its tickets go to another;
    each is answered exactly once. If no server answers for `patience_s`, or all of them refuse every ticket for ten
    times as long, waiting tickets get `infra_error`. So does a ticket on which four requests failed, or
    one that was invalid without any other.

    `token` defaults to the environment variable RATCHET_JUDGE_TOKEN. Raises RatchetError for an invalid URL, if no
    server answers, or if one refuses the token. The environment's proxies are not used.
    """

    def __init__(
        self,
        urls: Sequence[str],
        token: str | None = None,
        settings: JudgeSettings = JudgeSettings(),
        *,
        patience_s: float = 60.0,
        silence_s: float = 15.0,
    ) -> None:
        super().__init__(settings)
        token = token or os.environ.get(TOKEN_VARIABLE, "").strip()
        if not token:
            raise RatchetError(
                f"Environment variable {TOKEN_VARIABLE} is not set: reward servers require their token "
                "(`ratchet-judge serve` says where it is)."
            )
        self._servers = [_Server(_checked(url)) for url in dict.fromkeys(urls)]
        self._patience_s = patience_s
        self._closed = False
        self._changed = threading.Condition()  # guards everything below, and the servers
        self._unanswered: set[_Item] = set()
        self._pending: deque[_Item] = deque()  # in no request
        self._begun = self._last_contact = self._last_verdict = 0.0
        self._client = httpx.Client(
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(silence_s, connect=CONNECT_S, write=SEND_S, pool=None),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=STREAMS * len(self._servers)),
            trust_env=False,
        )
        with ThreadPoolExecutor(len(self._servers)) as together:
            list(together.map(self._greet, self._servers))
        if not self._last_contact:
            raise RatchetError(
                f"No reward server answers ({self._reasons()}). Start them with `ratchet-judge serve`, or name none "
                "(training.reward_servers, RATCHET_REWARD_SERVERS) to judge on this machine."
            )
        for _ in range(STREAMS * len(self._servers)):
            threading.Thread(target=self._stream, name="reward-client", daemon=True).start()

    def _greet(self, server: "_Server") -> None:
        try:
            reply = self._client.get(server.url + "/health")
            if reply.status_code in (401, 403):
                raise RatchetError(
                    f"The reward server {server.url} refuses the token: {TOKEN_VARIABLE} here must be the server's own."
                )
            self._answered(server, reply.raise_for_status())
        except (httpx.HTTPError, ValueError) as error:
            server.failed(_shown(error))

    def _begin(self, submission: Submission, deliver: Deliver) -> Callable[[], None]:
        item = _Item(submission, deliver)
        with self._changed:
            if self._closed:
                raise RuntimeError("the RemoteVerifierPool is closed")
            if not self._unanswered:
                self._begun = time.monotonic()
            self._unanswered.add(item)
            self._pending.append(item)
            self._changed.notify()
        return lambda: self._unanswered.discard(item)

    def _answer(self, item: "_Item", verdict: Verdict) -> None:
        with self._changed:
            if item not in self._unanswered:
                return
            self._unanswered.remove(item)
        item.deliver(verdict)

    def _give_up(self, item: "_Item", detail: str) -> None:
        self._answer(item, Verdict(Outcome.INFRA_ERROR, decided_by="reward_servers", detail=detail))

    def close(self) -> None:
        if os.getpid() != self._pid:
            return
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            left = list(self._unanswered)
        for item in left:
            self._answer(item, CLOSED)
        self._client.close()

    def _stream(self) -> None:
        """One request after another. Items without an answer become pending again, until they have failed too often."""
        while (request := self._next_request()) is not None:
            server, batch = request
            waiting = dict(enumerate(batch))
            failure, tries = self._ask(server, waiting)
            given_up = []
            with self._changed:
                server.streams -= 1
                for item in reversed(waiting.values()):
                    item.tries += tries
                    if item.tries >= TRIES:
                        given_up.append(item)
                    elif item in self._unanswered:
                        self._pending.appendleft(item)
            for item in given_up:
                self._give_up(item, f"its requests failed; the last: {server.url}: {failure}")

    def _next_request(self) -> "tuple[_Server, list[_Item]] | None":
        """The least loaded server and what to send it; None when the pool is closed. Gives up on pending items that
        have waited too long."""
        while not self._closed:
            time.sleep(COALESCE_S)
            given_up: list[tuple[_Item, str]] = []
            with self._changed:
                now = time.monotonic()
                ready = [each for each in self._servers if now >= each.not_before and each.streams < STREAMS]
                if self._pending and ready:
                    server = min(ready, key=lambda each: (each.failures > 0, each.streams))
                    server.streams += 1
                    batch, most = [self._pending.popleft()], min(max(2, server.workers // 2), BATCH)
                    # An item from a failed request is sent alone: it may be the cause.
                    while self._pending and len(batch) < most and not batch[0].tries and not self._pending[0].tries:
                        batch.append(self._pending.popleft())
                    if self._pending:
                        self._changed.notify()
                    return server, batch
                if reason := self._hopeless(now):
                    given_up = [(item, f"{reason} ({self._reasons()})") for item in self._pending]
                    self._pending.clear()
                elif not self._closed:
                    self._changed.wait(TICK_S if self._pending else None)
            for item, why in given_up:
                self._give_up(item, why)
        return None

    def _hopeless(self, now: float) -> str:
        """The reason why pending items will not be answered; "" if they may be."""
        if self._pending and now - max(self._last_contact, self._begun) > self._patience_s:
            return f"no reward server has answered for {self._patience_s:g} s"
        if self._pending and now - max(self._last_verdict, self._begun) > BUSY_FACTOR * self._patience_s:
            return f"the reward servers accepted nothing for {BUSY_FACTOR * self._patience_s:g} s"
        return ""

    def _reasons(self) -> str:
        return "; ".join(f"{server.url}: {server.reason or 'has answered'}" for server in self._servers)

    def _ask(self, server: "_Server", waiting: "dict[int, _Item]") -> tuple[str, int]:
        """Send the items of `waiting` and remove those answered; returns why the request ended before all were, and
        how many of the rest's `TRIES` that costs."""
        failure, tries = "its response ended early", 1
        end = time.monotonic() + REQUEST_S
        try:
            body = encode_batch((number, item.submission) for number, item in waiting.items())
            with self._client.stream("POST", server.url + "/v1/verify", content=body) as reply:
                if reply.status_code != 200:
                    reply.read()
                    return self._refused(server, reply, alone=len(waiting) == 1)
                self._answered(server, reply)
                for line in reply.iter_lines():
                    self._last_contact = time.monotonic()
                    if line:
                        number, verdict = decode_verdict(line)
                        self._last_verdict = self._last_contact
                        self._answer(waiting.pop(number), verdict)  # KeyError if answered twice
                    if waiting and self._unanswered.isdisjoint(waiting.values()):
                        break  # the rest was withdrawn: the server sees the disconnect and drops it
                    if self._last_contact > end:
                        raise TimeoutError(f"not done after {REQUEST_S:g} s")
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:  # nothing was sent
            failure, tries = f"cannot be reached: {_shown(error)}", 0
        except Exception as error:  # silence, a broken connection, lines that are not verdicts: no ticket is lost
            failure = _shown(error)
        if waiting:
            with self._changed:
                server.failed(failure)
        return failure, tries

    def _answered(self, server: "_Server", reply: httpx.Response) -> None:
        with self._changed:
            self._last_contact = time.monotonic()
            server.failures, server.not_before, server.reason = 0, 0.0, ""
            server.workers = int(reply.headers.get(WORKERS_HEADER, server.workers))

    def _refused(self, server: "_Server", reply: httpx.Response, alone: bool) -> tuple[str, int]:
        status = reply.status_code
        try:
            reason = f"HTTP {status}: {reply.json()['error']}"
        except (ValueError, KeyError, TypeError):
            reason = f"HTTP {status}: {reply.text[:200]}"
        if status == 429:  # busy, not broken
            self._answered(server, reply)
            after = reply.headers.get("retry-after", "")
            wait_s = min(float(after), LONGEST_BACKOFF_S) if after.isdecimal() else 1.0
            with self._changed:
                server.reason, server.not_before = reason, time.monotonic() + wait_s
            return reason, 0
        if status in (401, 403, 408) or status >= 500:
            with self._changed:
                server.failed(reason)
            return reason, int(status not in (401, 403, 503))
        with self._changed:  # the request is invalid because of one of its items, which is then sent alone
            server.reason = reason
        return reason, TRIES if alone else 1


class _Item:
    def __init__(self, submission: Submission, deliver: Deliver) -> None:
        self.submission, self.deliver = submission, deliver
        self.tries = 0


class _Server:
    def __init__(self, url: str) -> None:
        self.url = url
        self.workers = 1
        self.streams = self.failures = 0
        self.not_before = 0.0
        self.reason = ""

    def failed(self, reason: str) -> None:
        self.reason = reason
        now = time.monotonic()
        if now >= self.not_before:  # the requests that fail together when a server dies are one failure
            self.failures += 1
            self.not_before = now + min(0.25 * 2**self.failures, LONGEST_BACKOFF_S)


def _checked(url: str) -> str:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise RatchetError(f"Reward server {url!r} is not a URL: {error}") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise RatchetError(f"Reward server {url!r} is not a URL: write it as http://host:port.")
    return str(parsed).rstrip("/")


def _shown(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]
