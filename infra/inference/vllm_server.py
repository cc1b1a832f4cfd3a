"""vLLM as a server, for GPUs that do not train or for another machine. The client is `vllm_service.py`.

    export RATCHET_ENGINE_TOKEN=…
    python -m ratchet.infra.inference.vllm_server MODEL [--port 8700] [--engine '{"tensor_parallel": 2}']

    GET  /health                 the model's shape
    POST /generate               token ids in; a JSON line per completion as it finishes, empty lines as heartbeat
    POST /weights                replaces all weights by safetensors files

Every request carries the bearer token. Listens on loopback by default: traffic is not encrypted, and whoever can
replace the weights controls the responses.
"""

import argparse
import hmac
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvicorn
from anyio.to_thread import current_default_thread_limiter
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from ratchet.data_curation.base.files import write_atomically
from ratchet.data_curation.base.protocol import Request, Sampling
from ratchet.infra.inference.vllm_service import TOKEN_VARIABLE, ServedVllm
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.processes import bound_socket

STREAMS = 1024
"""Most requests answered at the same time."""


class VllmServer:
    """The HTTP application around one vLLM engine."""

    def __init__(self, engine: Any, model_dir: str, token: str) -> None:
        self._engine, self._model_dir = engine, model_dir
        self._authorization = f"Bearer {token}".encode()
        routes = [
            Route("/health", self._health),
            Route("/generate", self._generate, methods=["POST"]),
            Route("/weights", self._weights, methods=["POST"]),
        ]
        self.application = Starlette(routes=routes, exception_handlers={RatchetError: _refused})

    def _authorize(self, request: HttpRequest) -> None:
        if not hmac.compare_digest(request.headers.get("authorization", "").encode(), self._authorization):
            raise HTTPException(401, f"the token is not this server's: set {TOKEN_VARIABLE} to it")

    async def _health(self, request: HttpRequest) -> Response:
        self._authorize(request)
        engine = self._engine
        facts = {"shape": engine.shape, "positions": engine.positions}
        return JSONResponse({"model": self._model_dir, **facts})

    async def _generate(self, request: HttpRequest) -> Response:
        self._authorize(request)
        current_default_thread_limiter().total_tokens = STREAMS  # each waits in a thread; the default limit is 40
        try:
            body = await request.json()
            sampling = Sampling(**body["sampling"])
            asked = [
                Request(key=i, seed=int(seed), prompt_ids=tuple(map(int, prompt)))
                for i, (seed, prompt) in enumerate(body["requests"])
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise HTTPException(400, f"not a list of requests with their sampling: {error!r}") from error
        return StreamingResponse(self._lines(asked, sampling), media_type="application/x-ndjson")

    def _lines(self, asked: list[Request], sampling: Sampling) -> Iterator[str]:
        try:
            for completion in self._engine.stream(asked, sampling):
                yield "\n" if completion is None else json.dumps(vars(completion)) + "\n"
        except RatchetError as error:
            yield json.dumps({"failure": str(error)}) + "\n"

    async def _weights(self, request: HttpRequest) -> Response:
        self._authorize(request)
        try:
            body = await request.json()
            arguments = (body["directory"], body["version"])
        except (KeyError, TypeError, ValueError) as error:
            raise HTTPException(400, f"not a request about weights: {error!r}") from error
        await run_in_threadpool(self._engine.load_weights_from, *arguments)
        return JSONResponse({})


async def _refused(_: HttpRequest, error: Exception) -> Response:
    return PlainTextResponse(str(error), 409)


def serve(arguments: argparse.Namespace) -> None:
    """Serve a model until the process is stopped. Raises RatchetError if the token is missing."""
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token:
        raise RatchetError(f"environment variable {TOKEN_VARIABLE} is not set: clients must send this token")
    settings = ServedVllm.model_validate({**json.loads(arguments.engine), "kind": "vllm-server"})
    listening = bound_socket(arguments.host, arguments.port)
    host, port = listening.getsockname()[:2]
    from ratchet.infra.inference.vllm_engine import VllmEngine  # torch and transformers: seconds

    engine = VllmEngine(arguments.model, arguments.dtype, arguments.batch, settings)
    server = VllmServer(engine, arguments.model, token)
    config = uvicorn.Config(
        server.application, log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=2
    )
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    listening.listen()  # clients that come before uvicorn is ready wait instead of being refused
    if arguments.ready:
        write_atomically(arguments.ready, url)
    print(f"vLLM serves {arguments.model} at {url}", flush=True)
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        engine.close()


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m ratchet.infra.inference.vllm_server", description=str(__doc__).split("\n")[0]
    )
    parser.add_argument("model", help="directory or hub name")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: loopback)")
    parser.add_argument("--port", type=int, default=8700, help="0 takes a free one")
    parser.add_argument("--dtype", default="bfloat16", choices=["float32", "bfloat16"])
    parser.add_argument("--batch", type=int, default=256, help="responses decoded together")
    parser.add_argument("--engine", default="{}", help="training.engine of the recipe, as JSON")
    parser.add_argument("--ready", type=Path, help="write the URL here once requests are answered")
    try:
        serve(parser.parse_args(argv))
    except (RatchetError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
