"""An HTTP proxy that loses some answers of the server behind it, which has done what was asked."""

import random
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler

from tests.infra.stub_server import StubServer


class LossyProxy(StubServer):
    """Loses a `share` of the answers, by a generator with a seed."""

    def __init__(self, target: str, share: float, seed: int = 0) -> None:
        self._target, self._share = target, share
        self._rng, self._lock = random.Random(seed), threading.Lock()
        self.lost = 0
        super().__init__()

    def answer(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, bytes] | None:
        kept = {name: value for name, value in request.headers.items() if name.lower() != "host"}
        passed_on = urllib.request.Request(self._target + request.path, body or None, kept, method=request.command)
        try:
            with urllib.request.urlopen(passed_on, timeout=60) as answer:
                status, said = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, said = error.code, error.read()
        with self._lock:
            lose = self._rng.random() < self._share
            self.lost += lose
        return None if lose else (status, said)
