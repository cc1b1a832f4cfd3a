"""A real HTTP server that has as much of the Hub as an upload asks for: repositories, large files, commits."""

from __future__ import annotations

import base64
import json
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.infra.stub_server import StubServer


class Hub(StubServer):
    """`files` are those of each repository, by `datasets/owner/name` or `owner/name`. A context manager."""

    TOKEN = "hf_planted_for_writing"

    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = {}
        self.created: list[dict[str, Any]] = []
        self._large: dict[str, bytes] = {}
        super().__init__()

    def answer(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, bytes]:
        status, said = self._say(request, body)
        return status, json.dumps(said).encode()

    def _say(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, Any]:
        if request.command == "PUT":
            self._large[request.path.split("/")[-1]] = body
            return 200, {}
        if request.command != "POST":
            return 404, {"error": "no such repository"}
        if request.headers.get("Authorization") != f"Bearer {Hub.TOKEN}":
            return 401, {"error": "Invalid credentials"}
        path = request.path.split("?")[0].strip("/")
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
