"""A real HTTP server that answers everything with one status, or not at all, and keeps what it was sent."""

import threading
from http.server import BaseHTTPRequestHandler

from tests.infra.stub_server import StubServer

SILENT = 0


class Server(StubServer):
    """`status` may change while it runs."""

    def __init__(self, status: int, text: str = "{}") -> None:
        self.status, self.text = status, text
        self.received: list[tuple[str, bytes]] = []
        """(path, body) of what was answered with 200."""
        self.headers: list[dict[str, str]] = []
        self._closing = threading.Event()
        super().__init__()

    def answer(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, bytes] | None:
        self.headers.append(dict(request.headers))
        if (status := self.status) == SILENT:
            self._closing.wait(60)
            return None
        if status == 200:
            self.received.append((request.path, body))
        return status, self.text.encode()

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        super().__exit__()
