"""A real HTTP server that has as much of the Hub as an upload asks for: repositories, large files, commits."""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Hub:
    """`files` are those of each repository, by `datasets/owner/name` or `owner/name`. A context manager."""

    TOKEN = "hf_planted_for_writing"

    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = {}
        self.created: list[dict[str, Any]] = []
        self._large: dict[str, bytes] = {}
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hub._large[self.path.split("/")[-1]] = body
                self.say(200, {})

            def do_GET(self) -> None:
                self.say(404, {"error": "no such repository"})

            do_HEAD = do_GET

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if self.headers.get("Authorization") != f"Bearer {Hub.TOKEN}":
                    return self.say(401, {"error": "Invalid credentials"})
                self.say(*hub.answer(self.path.split("?")[0].strip("/"), body))

            def say(self, status: int, answer: Any) -> None:
                said = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(said)

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, path: str, body: bytes) -> tuple[int, Any]:
        if path == "api/repos/create":
            self.created.append(said := json.loads(body))
            folder = "datasets/" if said["type"] == "dataset" else ""
            self.files.setdefault(f"{folder}{said['organization']}/{said['name']}", {})
            return 200, {"url": f"{self.url}/{folder}{said['organization']}/{said['name']}"}
        if path == "api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        repository = path.removeprefix("api/").removeprefix("models/").rsplit("/", 2)[0]
        if "/preupload/" in path:
            modes = {True: "lfs", False: "regular"}
            names = [file["path"] for file in json.loads(body)["files"]]
            large = {name: name.endswith((".parquet", ".safetensors")) for name in names}
            return 200, {"files": [{"path": n, "uploadMode": modes[large[n]], "shouldIgnore": False} for n in names]}
        if path.endswith("info/lfs/objects/batch"):
            wanted = json.loads(body)["objects"]
            actions = [o | {"actions": {"upload": {"href": f"{self.url}/large/{o['oid']}"}}} for o in wanted]
            return 200, {"transfer": "basic", "objects": actions}
        if "/commit/" in path:
            for line in map(json.loads, body.splitlines()):
                value = line["value"]
                if line["key"] == "file":
                    self.files[repository][value["path"]] = base64.b64decode(value["content"])
                if line["key"] == "lfsFile":
                    self.files[repository][value["path"]] = self._large[value["oid"]]
            return 200, {"commitUrl": f"{self.url}/{repository}/commit/abc", "commitOid": "a" * 40, "success": True}
        return 404, {"error": f"this Hub has no {path}"}

    def __enter__(self) -> Hub:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
