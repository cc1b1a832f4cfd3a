"""A Hugging Face Hub on loopback, which serves the repositories of a directory to the Hub's own client."""

import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote, urlsplit

_API = re.compile(r"/api/(?P<kind>datasets|models)/(?P<repo>[^/]+/[^/]+)/?(?P<what>revision|tree)?/?(?P<rest>.*)")
_FILE = re.compile(r"/(?P<kind>datasets/)?(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)")


class Hub:
    """A context manager. `url` is for HF_ENDPOINT; repositories are `directory/datasets/OWNER/NAME` and
    `directory/models/OWNER/NAME`, each with one revision, whatever its name."""

    def __init__(self, directory: Path) -> None:
        self._root = directory.resolve()
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                hub._answer(self, body=True)

            def do_HEAD(self) -> None:
                hub._answer(self, body=False)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def _answer(self, request: BaseHTTPRequestHandler, body: bool) -> None:
        path = unquote(urlsplit(request.path).path)
        if path in ("", "/"):
            return _reply(request, 200, b"", body)
        if match := _API.fullmatch(path):
            root = self._repository(match["kind"], match["repo"])
            if root is None:
                return _missing(request, "RepoNotFound", body)
            wanted = match["rest"].partition("/")[2] if match["what"] == "tree" else ""
            place = root / wanted
            if wanted and not place.is_dir():
                return _missing(request, "EntryNotFound", body)
            files = sorted(file for file in place.rglob("*") if file.is_file())
            names = [file.relative_to(root).as_posix() for file in files]
            if match["what"] == "tree":
                content: Any = [
                    {"type": "file", "path": name, "size": file.stat().st_size, "oid": _digest(file)[:40]}
                    for name, file in zip(names, files, strict=True)
                ]
            else:
                content = {
                    "id": match["repo"], "sha": _commit(root), "private": False, "gated": False, "tags": [],
                    "siblings": [{"rfilename": name} for name in names],
                }  # fmt: skip
            return _reply(request, 200, json.dumps(content).encode(), body, {"Content-Type": "application/json"})
        if match := _FILE.fullmatch(path):
            root = self._repository(match["kind"] or "models", match["repo"])
            if root is None:
                return _missing(request, "RepoNotFound", body)
            file = (root / match["file"]).resolve()
            if not file.is_relative_to(root) or not file.is_file():
                return _missing(request, "EntryNotFound", body, {"X-Repo-Commit": _commit(root)})
            headers = {"ETag": f'"{_digest(file)}"', "X-Repo-Commit": _commit(root)}
            return _reply(request, 200, file.read_bytes(), body, headers)
        return _missing(request, "RepoNotFound", body)

    def _repository(self, kind: str, name: str) -> Path | None:
        root = (self._root / kind.rstrip("/") / name).resolve()
        return root if root.is_relative_to(self._root) and root.is_dir() else None

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()


def _reply(
    request: BaseHTTPRequestHandler, status: int, content: bytes, body: bool, headers: dict[str, str] | None = None
) -> None:
    request.send_response(status)
    for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
        request.send_header(name, value)
    request.end_headers()
    if body:
        request.wfile.write(content)


def _missing(request: BaseHTTPRequestHandler, code: str, body: bool, headers: dict[str, str] | None = None) -> None:
    content = json.dumps({"error": code}).encode()
    _reply(request, 404, content, body, {"X-Error-Code": code, "X-Error-Message": code, **(headers or {})})


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _commit(root: Path) -> str:
    """A revision that changes with any file."""
    files = sorted(file for file in root.rglob("*") if file.is_file())
    names = "".join(f"{file.relative_to(root)} {_digest(file)}\n" for file in files)
    return hashlib.sha1(names.encode(), usedforsecurity=False).hexdigest()
