"""An HTTP proxy that loses some answers of the server behind it, which has done what was asked."""

from __future__ import annotations

import random
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class LossyProxy:
    """Loses a `share` of the answers, by a generator with a seed. A context manager."""

    def __init__(self, target: str, share: float, seed: int = 0) -> None:
        rng, lock = random.Random(seed), threading.Lock()
        self.lost = 0
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def forward(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                kept = {name: value for name, value in self.headers.items() if name.lower() != "host"}
                request = urllib.request.Request(target + self.path, body or None, kept, method=self.command)
                try:
                    with urllib.request.urlopen(request, timeout=60) as answer:
                        status, said = answer.status, answer.read()
                except urllib.error.HTTPError as error:
                    status, said = error.code, error.read()
                with lock:
                    lose = rng.random() < share
                    proxy.lost += lose
                if lose:
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            do_GET = do_POST = do_PUT = do_PATCH = forward

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self) -> LossyProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
