"""A pool of verifiers behind HTTP: what `ratchet judge serve` runs. The protocol: docs/reward_servers.md.

One event loop speaks HTTP; the pool's threads and their sandboxes judge. Nothing of a response is evaluated here.
"""

from __future__ import annotations

import asyncio
import functools
import hmac
import os
import secrets
import signal
import socket
import stat
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ratchet.infra.errors import RatchetError
from ratchet.infra.problems import Problem
from ratchet.verifiers.domain import known_domains
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.serving.local_pool import VerifierPool
from ratchet.verifiers.serving.pool import CLOSED, Submission
from ratchet.verifiers.serving.protocol import (
    HEARTBEAT_S,
    TOKEN_VARIABLE,
    WORKERS_HEADER,
    decode_batch,
    encode_verdict,
)

RETRY_AFTER_S = 1
UPLOADS = 16
"""Requests whose bodies are read at the same time; bounds memory, together with the limit on one body."""
GRACE_S = 30
_BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)


class _Refusal(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        busy = status in (429, 503)
        self.response = JSONResponse(
            {"error": reason}, status, headers={"Retry-After": str(RETRY_AFTER_S)} if busy else {}
        )


class RewardServer:
    """The application, for as long as one event loop runs. `queue_limit` bounds the tickets it holds at a time, above
    which it answers 429; `request_bytes` bounds one request's body."""

    def __init__(self, pool: VerifierPool, token: str, isolation: str, queue_limit: int, request_bytes: int) -> None:
        self.pool, self.isolation = pool, isolation
        self.queue_limit, self.request_bytes = queue_limit, request_bytes
        self.draining = False
        self._authorization = f"Bearer {token}".encode()
        self._held = 0
        self._uploads = 0
        self._metrics = _Metrics(pool)
        routes = [
            Route("/v1/verify", self._verify, methods=["POST"]),
            Route("/health", self._health),
            Route("/metrics", self._show_metrics),
        ]
        self.application = Starlette(routes=routes, exception_handlers={_Refusal: lambda _, refusal: refusal.response})

    def drain(self) -> None:
        """Take no more, let go what is queued (its clients ask elsewhere), and wait until what is running is done."""
        self.draining = True
        self.pool.close()

    # ------------------------------------------------------------------------------------- endpoints

    async def _health(self, request: Request) -> Response:
        """Whether to send work here; with the token also how much there is. A wrong token is refused, so that a client
        can check its own."""
        status = "draining" if self.draining else "ok"
        code = 503 if self.draining else 200
        if "authorization" not in request.headers:
            return JSONResponse({"status": status}, code)
        self._authorize(request)
        facts = {
            "workers": self.pool.workers, "queued": self.pool.queued, "running": self.pool.running,
            "isolation": self.isolation,
        }  # fmt: skip
        return JSONResponse({"status": status, **facts}, code)

    async def _show_metrics(self, request: Request) -> Response:
        self._authorize(request)
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4")

    async def _verify(self, request: Request) -> Response:
        self._authorize(request)
        self._admit(1)
        body = await self._body(request)
        try:
            submissions = await asyncio.to_thread(decode_batch, body)
        except ValueError as error:
            raise _Refusal(400, str(error)) from error
        if len(submissions) > self.queue_limit:
            raise _Refusal(413, f"{len(submissions)} tickets are more than the whole queue of {self.queue_limit}")
        self._admit(len(submissions))
        return _VerdictStream(_Batch(self, submissions), {WORKERS_HEADER: str(self.pool.workers)})

    def _authorize(self, request: Request) -> None:
        given = request.headers.get("authorization", "").encode("latin-1")  # the bytes as they were sent
        if not hmac.compare_digest(given, self._authorization):
            raise _Refusal(401, f"the bearer token is missing or wrong: it is the server's {TOKEN_VARIABLE}")

    def _admit(self, count: int) -> None:
        if self.draining:
            raise _Refusal(503, "the server is shutting down")
        if self._held + count > self.queue_limit or self._uploads >= UPLOADS:
            self._metrics.refused.inc()
            raise _Refusal(429, f"{self._held} tickets are waiting, of at most {self.queue_limit}")

    async def _body(self, request: Request) -> bytes:
        refusal = _Refusal(413, f"the request is larger than {self.request_bytes} bytes: send fewer responses at once")
        length = request.headers.get("content-length", "")
        if length.isdigit() and int(length) > self.request_bytes:
            raise refusal
        parts, size = [], 0
        self._uploads += 1
        try:
            async for part in request.stream():
                size += len(part)
                if size > self.request_bytes:
                    raise refusal
                parts.append(part)
        except ClientDisconnect:
            raise _Refusal(400, "the client went away") from None
        finally:
            self._uploads -= 1
        return b"".join(parts)

    # --------------------------------------------------------------------------------------- tickets

    def took(self, count: int) -> None:
        self._held += count

    def gave(self, problem: Problem, verdict: Verdict, seconds: float) -> None:
        self._held -= 1
        domain = problem.domain if problem.domain in known_domains() else "unknown"
        self._metrics.verdicts.labels(domain, verdict.outcome.value).inc()
        self._metrics.seconds.labels(domain).observe(seconds)

    def let_go(self, count: int) -> None:
        self._held -= count
        self._metrics.let_go.inc(count)


class _Batch:
    """The tickets of one request, from the pool to the client."""

    def __init__(self, server: RewardServer, submissions: list[tuple[Any, Submission]]) -> None:
        self._server, self._submissions = server, submissions
        self._waiting = len(submissions)
        self._done: asyncio.Queue[tuple[Any, Problem, Any]] = asyncio.Queue()  # ticket, problem, verdict
        self._loop = asyncio.get_running_loop()
        self._withdraw: list[Callable[[], None]] = []
        self._ended = False
        server.took(self._waiting)

    async def lines(self) -> AsyncIterator[bytes]:
        """One JSON line a verdict, in the order of completion; a ticket that the server lets go of has none."""
        start = time.monotonic()
        yield b"\n"  # the headers go out with it: the client knows that it was admitted
        starting = asyncio.create_task(asyncio.to_thread(self._begin))  # the cheap tiers of math are judged in it
        while self._waiting:
            try:
                ticket, problem, verdict = await asyncio.wait_for(self._done.get(), HEARTBEAT_S)
            except TimeoutError:
                if starting.done():
                    starting.result()  # a defect must end the stream, not leave the client waiting
                yield b"\n"
                continue
            self._waiting -= 1
            if verdict == CLOSED:
                self._server.let_go(1)
                continue
            if isinstance(verdict, RatchetError):
                verdict = Verdict(Outcome.INFRA_ERROR, decided_by="judge", detail=str(verdict))
            self._server.gave(problem, verdict, time.monotonic() - start)
            yield encode_verdict(ticket, verdict)
        await starting

    def _begin(self) -> None:
        for ticket, submission in self._submissions:
            if self._ended:
                return
            deliver = functools.partial(self._deliver, ticket, submission.problem)
            try:
                withdraw = self._server.pool.begin(submission, deliver)
            except RuntimeError:  # closed meanwhile
                deliver(CLOSED)
                continue
            self._withdraw.append(withdraw)
            if self._ended:
                withdraw()

    def _deliver(self, ticket: Any, problem: Problem, verdict: Any) -> None:
        """In a worker's thread."""
        if not self._ended:
            self._loop.call_soon_threadsafe(self._done.put_nowait, (ticket, problem, verdict))

    def end(self) -> None:
        """All is said, or the client is gone: what is still queued is dropped."""
        self._ended = True
        for withdraw in list(self._withdraw):
            withdraw()
        self._server.let_go(self._waiting)
        self._waiting = 0


class _VerdictStream(StreamingResponse):
    def __init__(self, batch: _Batch, headers: dict[str, str]) -> None:
        super().__init__(batch.lines(), media_type="application/x-ndjson", headers=headers)
        self._batch = batch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._batch.end()


class _Metrics:
    """What /metrics shows, in the Prometheus text format."""

    def __init__(self, pool: VerifierPool) -> None:
        self._registry = CollectorRegistry()
        self.verdicts = self._make(Counter, "verdicts", "Verdicts given.", ["domain", "outcome"])
        self.seconds = self._make(
            Histogram, "verdict_seconds", "From admission to the verdict.", ["domain"], buckets=_BUCKETS
        )
        self.refused = self._make(Counter, "refused_requests", "Requests answered 429.")
        self.let_go = self._make(Counter, "dropped_tickets", "Tickets given up: client gone, or shutting down.")
        self._make(Gauge, "workers", "Worker threads.").set(pool.workers)
        self._make(Gauge, "queue_depth", "Work waiting for a worker.").set_function(lambda: pool.queued)
        self._make(Gauge, "in_flight", "Work being judged.").set_function(lambda: pool.running)
        for domain in known_domains():
            for outcome in Outcome:  # infra errors must be seen to be zero
                self.verdicts.labels(domain, outcome.value)

    def _make(self, kind: Any, name: str, text: str, labels: tuple | list = (), **options: Any) -> Any:
        return kind(f"ratchet_judge_{name}", text, labels, registry=self._registry, **options)

    def text(self) -> bytes:
        return generate_latest(self._registry)


# ---------------------------------------------------------------------------------------------- process


def server_token(file: Path) -> tuple[str, str]:
    """(token, where it is from): the environment's, else the file's, which is made when there is none.

    Raises RatchetError when others can read the file, or it is empty.
    """
    if token := os.environ.get(TOKEN_VARIABLE, "").strip():
        return token, f"environment variable {TOKEN_VARIABLE}"
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        if file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise RatchetError(f"{file} holds the judge's token and others can read it: chmod 600 {file}") from None
        if not (token := file.read_text().strip()):
            raise RatchetError(f"{file} is empty: remove it, and a new token is made") from None
        return token, str(file)
    with os.fdopen(descriptor, "w") as written:
        token = secrets.token_urlsafe(32)
        written.write(token + "\n")
    return token, str(file)


def serve_until_stopped(server: RewardServer, listening: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT; then drain, for at most 30 seconds, and return."""
    config = uvicorn.Config(
        server.application,
        log_level="warning",
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=GRACE_S,
        timeout_keep_alive=30,  # longer than clients keep idle connections: they never meet one that we just closed
    )
    asyncio.run(_Uvicorn(config, server).serve([listening]))


class _Uvicorn(uvicorn.Server):
    """uvicorn, with a way down that lets go of queued work, and without raising the signal again at the end."""

    def __init__(self, config: uvicorn.Config, server: RewardServer) -> None:
        super().__init__(config)
        self._reward_server = server

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        yield

    def _stop(self) -> None:
        if self.should_exit:
            self.force_exit = True
            return
        self.should_exit = self._reward_server.draining = True
        asyncio.get_running_loop().run_in_executor(None, self._reward_server.drain)
