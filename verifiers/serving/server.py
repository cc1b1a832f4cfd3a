"""A pool of verifiers behind HTTP, for `ratchet-judge serve`; docs/howto/reward_servers.md describes the protocol.

One event loop handles HTTP; the pool's threads and their sandboxes judge.
"""

import asyncio
import base64
import functools
import hmac
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import uvicorn
from prometheus_client import REGISTRY, Counter, Gauge, Histogram, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ratchet.verifiers.domains import known_domains
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.reward import graded_domains, reward_of
from ratchet.verifiers.serving import openrlhf
from ratchet.verifiers.serving.local_pool import VerifierPool
from ratchet.verifiers.serving.pool import CLOSED
from ratchet.verifiers.serving.protocol import (
    HEARTBEAT_S,
    TOKEN_VARIABLE,
    WORKERS_HEADER,
    decode_batch,
    decode_verdict,
    encode_verdict,
)
from ratchet.verifiers.submission import Submission

RETRY_AFTER = {"Retry-After": "1"}
UPLOADS = 16
"""Most request bodies read at the same time; with the limit on one body this bounds memory."""
UPLOAD_S, UPLOAD_BYTES_S = 10.0, 256 << 10
"""Seconds for a body, plus one second per UPLOAD_BYTES_S bytes received: stalled uploads do not block others."""
GRACE_S = 30

VERDICTS = Counter("ratchet_judge_verdicts", "Verdicts given.", ["domain", "outcome"])
SECONDS = Histogram(
    "ratchet_judge_verdict_seconds", "From admission to the verdict.", ["domain"],
    buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100),
)  # fmt: skip
REFUSED = Counter("ratchet_judge_refused_requests", "Requests answered 429.")
DROPPED = Counter("ratchet_judge_dropped_tickets", "Tickets dropped: client gone, or shutting down.")
WORKERS = Gauge("ratchet_judge_workers", "Worker threads.")
QUEUED = Gauge("ratchet_judge_queue_depth", "Work waiting for a worker.")
RUNNING = Gauge("ratchet_judge_in_flight", "Work being judged.")


class RewardServer:
    """The HTTP application. Above `queue_limit` open tickets it answers 429; `request_bytes` bounds one request's
    body."""

    def __init__(self, pool: VerifierPool, token: str, isolation: str, queue_limit: int, request_bytes: int) -> None:
        self.pool, self.isolation = pool, isolation
        self.queue_limit, self.request_bytes = queue_limit, request_bytes
        self.draining = False
        self.held = 0
        """Tickets neither answered nor dropped."""
        self.headers = {WORKERS_HEADER: str(pool.workers)}
        basic = base64.b64encode(f"ratchet:{token}".encode()).decode()  # of http://ratchet:TOKEN@host
        self._authorizations = f"Bearer {token}".encode(), f"Basic {basic}".encode()
        self._uploads = 0
        WORKERS.set(pool.workers)
        QUEUED.set_function(lambda: pool.queued)
        RUNNING.set_function(lambda: pool.running)
        for domain in known_domains():
            for outcome in Outcome:  # an alert needs infra errors to exist while they are zero
                VERDICTS.labels(domain, outcome.value)
        routes = [
            Route("/v1/verify", self._verify, methods=["POST"]),
            Route("/v1/openrlhf", self._openrlhf, methods=["POST"]),
            Route("/health", self._health),
            Route("/metrics", self._metrics),
        ]
        self.application = Starlette(routes=routes, exception_handlers={HTTPException: _refusal})

    async def _health(self, request: Request) -> Response:
        """Answer a probe: ready or not, with the token also the load. Refuses a wrong token, so that a client can check
        its own."""
        status: dict[str, Any] = {"status": "draining" if self.draining else "ok"}
        headers, pool = {}, self.pool
        if "authorization" in request.headers:
            self._authorize(request)
            headers, status["isolation"] = self.headers, self.isolation
            status |= {"workers": pool.workers, "queued": pool.queued, "running": pool.running}
        return JSONResponse(status, 503 if self.draining else 200, headers)

    async def _metrics(self, request: Request) -> Response:
        self._authorize(request)
        return Response(generate_latest(REGISTRY), media_type="text/plain; version=0.0.4")

    async def _verify(self, request: Request) -> Response:
        return await self._accept(request, decode_batch)

    async def _openrlhf(self, request: Request) -> Response:
        """Rewards as OpenRLHF asks for them; 503 if one was not judged."""
        stream = await self._accept(request, openrlhf.decode_request)
        rewards = await stream.rewards(graded_domains())
        judged = [reward for reward in rewards if reward is not None]
        if missing := len(rewards) - len(judged):
            raise HTTPException(503, f"{missing} of {len(rewards)} responses were not judged", RETRY_AFTER)
        return JSONResponse(openrlhf.reply(judged))

    async def _accept(
        self, request: Request, decode: Callable[[bytes], list[tuple[Any, Submission]]]
    ) -> "_VerdictStream":
        self._authorize(request)
        self._admit(1)
        body = await self._body(request)
        try:
            submissions = await asyncio.to_thread(decode, body)
        except ValueError as error:
            raise HTTPException(400, str(error)) from error
        if len(submissions) > self.queue_limit:
            raise HTTPException(413, f"{len(submissions)} tickets are more than the whole queue of {self.queue_limit}")
        self._admit(len(submissions))
        return _VerdictStream(self, submissions)

    def _authorize(self, request: Request) -> None:
        header = request.headers.get("authorization", "").encode("latin-1")  # the bytes as sent
        if not any([hmac.compare_digest(header, own) for own in self._authorizations]):
            raise HTTPException(401, f"the bearer token is missing or wrong: give the server's {TOKEN_VARIABLE}")

    def _admit(self, count: int) -> None:
        if self.draining:
            raise HTTPException(503, "the server is shutting down", RETRY_AFTER)
        if self.held + count > self.queue_limit or self._uploads >= UPLOADS:
            REFUSED.inc()
            raise HTTPException(429, f"{self.held} tickets are waiting, of at most {self.queue_limit}", RETRY_AFTER)

    async def _body(self, request: Request) -> bytes:
        limit = self.request_bytes
        refusal = HTTPException(413, f"the request is larger than {limit} bytes: send fewer responses at once")
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > limit:
            raise refusal
        body = bytearray()
        self._uploads += 1
        begin = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(UPLOAD_S) as deadline:
                async for part in request.stream():
                    body += part
                    if len(body) > limit:
                        raise refusal
                    deadline.reschedule(begin + UPLOAD_S + len(body) / UPLOAD_BYTES_S)
        except (ClientDisconnect, TimeoutError):
            raise HTTPException(408, "the request broke off, or came too slowly") from None
        finally:
            self._uploads -= 1
        return bytes(body)


class _VerdictStream(StreamingResponse):
    """The verdicts of one request: one JSON line each, in order of completion. A dropped ticket has no line."""

    def __init__(self, server: RewardServer, submissions: list[tuple[Any, Submission]]) -> None:
        super().__init__(self._lines(), media_type="application/x-ndjson", headers=server.headers)
        self._server, self._submissions = server, submissions
        self._done: asyncio.Queue[tuple[Any, Problem, Any]] = asyncio.Queue()  # ticket, problem, verdict
        self._loop = asyncio.get_running_loop()
        self._withdraw: list[Callable[[], None]] = []
        self._ended = False
        self._unanswered = len(submissions)
        server.held += self._unanswered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._close()

    async def rewards(self, graded: frozenset[str]) -> list[float | None]:
        """Rewards of tickets 0, 1, 2… instead of a response; None for what was not judged."""
        rewards: list[float | None] = [None] * len(self._submissions)
        try:
            async for line in self._lines():
                if line.strip():
                    ticket, verdict = decode_verdict(line.decode())
                    domain = self._submissions[ticket][1].problem.domain
                    rewards[ticket] = reward_of(domain, verdict.outcome, verdict.fraction, graded)
        finally:
            self._close()
        return rewards

    def _close(self) -> None:
        """Done, or the client is gone: drop what is still queued."""
        self._ended = True
        for withdraw in list(self._withdraw):
            withdraw()
        self._server.held -= self._unanswered
        DROPPED.inc(self._unanswered)

    async def _lines(self) -> AsyncIterator[bytes]:
        start = time.monotonic()
        yield b"\n"  # sends the headers: the client knows that it was admitted
        starting = asyncio.create_task(asyncio.to_thread(self._begin))  # judges math itself
        left = len(self._submissions)
        while left:
            try:
                ticket, problem, verdict = await asyncio.wait_for(self._done.get(), HEARTBEAT_S)
            except TimeoutError:
                if starting.done():
                    starting.result()  # a bug must end the stream, not leave the client waiting
                yield b"\n"
                continue
            left -= 1
            if verdict == CLOSED:
                continue
            if isinstance(verdict, RatchetError):
                verdict = Verdict(Outcome.INFRA_ERROR, decided_by="judge", detail=str(verdict))
            self._unanswered -= 1
            self._server.held -= 1
            domain = problem.domain if problem.domain in known_domains() else "unknown"
            VERDICTS.labels(domain, verdict.outcome.value).inc()
            SECONDS.labels(domain).observe(time.monotonic() - start)
            yield encode_verdict(ticket, verdict)

    def _begin(self) -> None:
        for ticket, submission in self._submissions:
            deliver = functools.partial(self._deliver, ticket, submission.problem)
            try:
                self._withdraw.append(self._server.pool.begin(submission, deliver))
            except RuntimeError:  # closed meanwhile
                deliver(CLOSED)
            if self._ended:
                for withdraw in self._withdraw:
                    withdraw()
                return

    def _deliver(self, ticket: Any, problem: Problem, verdict: Any) -> None:
        if not self._ended:  # in a worker's thread
            self._loop.call_soon_threadsafe(self._done.put_nowait, (ticket, problem, verdict))


def _refusal(_: Request, refused: Exception) -> Response:
    assert isinstance(refused, HTTPException)
    return JSONResponse({"error": refused.detail}, refused.status_code, refused.headers)


def server_token(file: Path) -> tuple[str, str]:
    """The token and its source: the environment, or else the file, which is created if missing. Raises RatchetError if
    the file is empty or others can read it."""
    if token := os.environ.get(TOKEN_VARIABLE, "").strip():
        return token, f"environment variable {TOKEN_VARIABLE}"
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        _create(file, secrets.token_urlsafe(32) + "\n")
    if file.stat().st_mode & 0o077:
        raise RatchetError(f"{file} has the judge's token and others can read it: chmod 600 {file}")
    if not (token := file.read_text().strip()):
        raise RatchetError(f"{file} is empty: remove it to get a new token")
    return token, str(file)


def _create(file: Path, text: str) -> None:
    """Make a private file, whole at once, unless another process has just made it."""
    temporary = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    try:
        temporary.touch(0o600)
        temporary.write_text(text)
        with suppress(FileExistsError):
            os.link(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)


def serve_until_stopped(server: RewardServer, listening: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT. Then accept nothing new, drop the queue, wait at most 30 seconds for running work,
    and return; a second signal ends the process at once."""
    # Keep idle connections longer than clients do: a client never sends on one that was just closed.
    config = uvicorn.Config(
        server.application, log_level="warning", access_log=False, lifespan="off", loop="asyncio",
        timeout_graceful_shutdown=GRACE_S, timeout_keep_alive=30,
    )  # fmt: skip
    http = uvicorn.Server(config)
    closing = threading.Thread(target=server.pool.close)

    def stop(sig: int, frame: object) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        server.draining = http.should_exit = True
        closing.start()

    http.handle_exit = stop  # uvicorn's handler of both signals
    http.run([listening])
    if server.draining:
        closing.join()
