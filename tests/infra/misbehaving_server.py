"""A real HTTP server that answers everything with one status, or not at all, and keeps what it was sent."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SILENT = 0


class Server:
    """`status` may change while it runs; a context manager."""

    def __init__(self, status: int, text: str = "{}") -> None:
        self.status, self.text = status, text
        self.first: list[int] = []
        """The statuses of the next answers, before it is `status`."""
        self.received: list[tuple[str, bytes]] = []
        """(path, body) of what was answered with 200."""
        self.headers: list[dict[str, str]] = []
        self._closing = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                server.headers.append(dict(self.headers))
                status = server.first.pop(0) if server.first else server.status
                if status == SILENT:
                    server._closing.wait(60)
                    return
                if status == 200:
                    server.received.append((self.path, body))
                said = server.text.encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            do_GET = do_POST = do_PUT = do_PATCH = answer

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()
