"""Kill an evaluation of an endpoint at random points, and compare its report with that of one that was left alone.

    vllm serve MODEL --served-model-name tiny --max-model-len 256 --dtype float32 &
    python -m benchmarks.evaluation_kills http://127.0.0.1:8000/v1#tiny [--kills 8] [--outage 15]

`ratchet evaluate tiny` twice, each in a home of its own. The second time the endpoint hangs up on every call and takes
none for `--outage` seconds, and ratchet gets SIGKILL `--kills` times: after so many answers as drawn over all, the last
time right after the last answer. A proxy before the endpoint counts what is asked for. Compared: generations,
questions, scores and report, byte for byte. A generation may be asked for again only where it was on its way: at most
as many as there are calls open at a time, for each kill and for the outage.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
Generation = tuple[str, int]  # the question and the seed


class Proxy(ThreadingHTTPServer):
    """Passes calls on. `asked` counts calls, `given` those whose answer went out whole; `open` are on their way."""

    daemon_threads, request_queue_size = True, 128

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.upstream, self.lock = upstream, threading.Lock()
        self.asked: Counter[Generation] = Counter()
        self.given: Counter[Generation] = Counter()
        self.open, self.turned_away, self.down_until = 0, 0, 0.0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_: object) -> None:
        """Of a caller that was killed."""


class Handler(BaseHTTPRequestHandler):
    protocol_version, server = "HTTP/1.1", Any

    def do_POST(self) -> None:
        body, proxy = self.rfile.read(int(self.headers["Content-Length"])), self.server
        if time.monotonic() < proxy.down_until:
            proxy.turned_away += 1
            self.close_connection = True
            return
        said = json.loads(body)
        generation = (said["messages"][-1]["content"], said["seed"])
        with proxy.lock:
            proxy.asked[generation] += 1
            proxy.open += 1
        upstream = HTTPConnection(proxy.upstream)
        try:
            upstream.request("POST", self.path, body, {"Content-Type": "application/json"})
            answer = upstream.getresponse()
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.getheader("Content-Type", ""))
            self.send_header("Connection", "close")
            self.end_headers()
            while block := answer.read1():
                if time.monotonic() < proxy.down_until:
                    raise ConnectionError("down")
                self.wfile.write(block)
            with proxy.lock:
                proxy.given[generation] += answer.status == 200
        finally:
            self.close_connection = True
            upstream.close()  # the endpoint stops at once, as when its caller has gone
            with proxy.lock:
                proxy.open -= 1

    def log_message(self, *_: object) -> None:
        pass


def start(home: Path, model: str, concurrency: int) -> subprocess.Popen[bytes]:
    home.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "ratchet.cli.main", "evaluate", "tiny", "--model", model, "--home", str(home)]
    command += ["--set", f"evaluation.endpoint.concurrency={concurrency}"]
    with open(home / "output.log", "ab") as log:
        return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)


def finish(process: subprocess.Popen[bytes], home: Path) -> None:
    if process.wait() != 0:
        raise SystemExit(f"an evaluation failed: {home / 'output.log'}\n{(home / 'output.log').read_text()[-2000:]}")


def result(home: Path) -> dict[str, bytes]:
    """What a reader gets, without where it lies."""
    (evaluation,), (report,) = (list(home.glob(f"artifacts/{kind}/*")) for kind in ("evaluation", "report"))
    files = [evaluation / name for name in ("generations.parquet", "questions.parquet", "scores.json")]
    return {f.name: f.read_bytes().replace(bytes(home), b"") for f in (*files, report / "report.md")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("endpoint", help="URL#NAME")
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--outage", type=float, default=15, help="seconds")
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    arguments = parser.parse_args()
    url, _, name = arguments.endpoint.partition("#")
    proxy = Proxy(urlsplit(url).netloc)
    model = f"http://127.0.0.1:{proxy.server_port}{urlsplit(url).path}#{name}"

    with tempfile.TemporaryDirectory() as directory:
        whole, broken = Path(directory, "whole"), Path(directory, "broken")
        finish(start(whole, model, arguments.concurrency), whole)
        total, repeated = len(proxy.given), proxy.asked.total() - len(proxy.asked)
        print(f"left alone: {total} generations, {repeated} asked for again")
        shutil.copytree(whole, broken, ignore=shutil.ignore_patterns("evaluation", "report", "generations"))
        proxy.asked.clear()
        proxy.given.clear()

        moments = sorted(random.Random(arguments.seed).sample(range(total), arguments.kills - 1))
        for kill, moment in enumerate([*moments, total]):
            process = start(broken, model, arguments.concurrency)
            while len(proxy.given) < moment and process.poll() is None:
                if not kill and not proxy.down_until and len(proxy.given) > moment / 2:
                    proxy.down_until = time.monotonic() + arguments.outage
                time.sleep(0.001)
            open_calls = proxy.open
            process.kill()
            process.wait()
            while proxy.open:  # all that it was made of has gone too
                time.sleep(0.01)
            print(f"kill {kill + 1}: after {len(proxy.given)} answers, {open_calls} on their way", flush=True)
        finish(start(broken, model, arguments.concurrency), broken)

        expected, got = result(whole), result(broken)
        different = [file for file in expected if expected[file] != got[file]]
        again, twice = proxy.asked.total() - len(proxy.asked), proxy.given.total() - len(proxy.given)
        print(f"{proxy.turned_away} calls turned away in an outage of {arguments.outage:g} s")
        most = arguments.concurrency * (arguments.kills + 1)  # what may be open at each kill, and at the outage
        print(
            f"{len(proxy.given)} generations, {again} asked for again ({twice} of them had gone out whole), of {most}"
        )
        print(f"{different or 'no file'} differs")
        raise SystemExit(1 if different or len(proxy.given) != total or again > most else 0)


if __name__ == "__main__":
    main()
