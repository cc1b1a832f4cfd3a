"""A real HTTP server on a thread, whose answers a test decides."""

import json
import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def respond(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with suppress(OSError):  # the caller has gone
            self.server.owner.respond(self, body)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = respond

    def reply(self, status: int, content: Any, **headers: str) -> None:
        """Answer with JSON, or with a text or bytes as they are."""
        text = content if isinstance(content, str | bytes) else json.dumps(content)
        data = text.encode() if isinstance(text, str) else text
        self.send_response(status)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **given}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


class StubServer:
    """A context manager. It closes the connection of a request that it does not answer."""

    def __init__(self, port: int = 0) -> None:
        self.listen(port)
        self.port = self._http.server_port
        self.url = f"http://127.0.0.1:{self.port}"

    def listen(self, port: int) -> None:
        self._http: Any = _Server(("127.0.0.1", port), Handler)
        self._http.owner = self
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def respond(self, request: Handler, body: bytes) -> None:
        if answer := self.answer(request, body):
            request.reply(*answer)
        else:
            request.close_connection = True

    def answer(self, request: Handler, body: bytes) -> Any:
        """Status and content; None for no answer."""
        raise NotImplementedError

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
