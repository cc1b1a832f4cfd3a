"""The hub's client against a local server that speaks the part of its protocol that is used."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = {"data/test-00000-of-00002.parquet": b"one", "data/test-00001-of-00002.parquet": b"two", "README.md": b"# x"}
COMMIT = "a" * 40


class Hub(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, body: bool) -> None:
        path = self.path.split("?")[0]
        if "/api/datasets/someone/set" in path:
            content = [
                {"type": "file", "path": name, "size": len(data), "oid": "0" * 40} for name, data in FILES.items()
            ]
            info = {"id": "someone/set", "sha": COMMIT, "siblings": [{"rfilename": name} for name in FILES]}
            return self.reply(200, json.dumps(content if "/tree/" in path else info).encode(), body, "application/json")
        for name, data in FILES.items():
            if path.endswith(f"/datasets/someone/set/resolve/{COMMIT}/{name}"):
                return self.reply(200, data, body, "application/octet-stream")
        self.reply(404, b"{}", body, "application/json")

    def reply(self, status: int, data: bytes, body: bool, kind: str) -> None:
        self.send_response(status)
        for header, value in {
            "Content-Type": kind, "Content-Length": str(len(data)), "X-Repo-Commit": COMMIT,
            "ETag": f'"{hashlib.sha1(data).hexdigest()}"',
        }.items():  # fmt: skip
            self.send_header(header, value)
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def endpoint():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def fetch(endpoint: str, tmp_path: Path, *addresses: str) -> list[list[str]]:
    """In a process of its own: the client reads its settings when it is imported."""
    script = (
        "import sys\nfrom infra.hub import dataset_files\nfrom infra.errors import RatchetError\n"
        "for address in sys.argv[1:]:\n"
        "    try:\n        print([f.read_text() for f in dataset_files(address)])\n"
        "    except RatchetError as error:\n        print([str(error)])\n"
    )
    environment = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script, *addresses], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    import ast

    return [ast.literal_eval(line) for line in done.stdout.splitlines() if line.startswith("[")]


def test_files_by_pattern_and_what_goes_wrong(endpoint, tmp_path):
    base = "hf://datasets/someone/set"
    both, one, none, missing, wrong = fetch(
        endpoint, tmp_path, f"{base}/data/test-*.parquet", f"{base}@main/data/test-0000[1]*", f"{base}/nothing-*",
        "hf://datasets/someone/other/x.json", "hf://datasets/x",
    )  # fmt: skip
    assert both == ["one", "two"] and one == ["two"]
    assert "has no file that matches nothing-*" in none[0]
    assert "cannot be fetched from the hub" in missing[0] and "path of the benchmark" in missing[0]
    assert "is not an address on the hub" in wrong[0]
