"""A rehearsal's teacher: an OpenAI-compatible server on loopback that knows the answers, and fails where it should."""

import json
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any, Self

CHANCES = (1.0, 1.0, 0.9, 0.75, 0.9, 1.0, 0.6, 0.0)
"""Of a right answer, by problem in turn: some the teacher never solves, so that difficulty and votes drop something."""
THOUGHTS = (40, 64, 24, 50, 40, 3, 45)
"""Words of thinking, by problem in turn: below, between and above the limits of the length filter."""


class Teacher:
    """A context manager; `url` is its address. `calls` counts the answers."""

    def __init__(self, answers: Path) -> None:
        lines = [json.loads(line) for line in answers.read_text().splitlines()]
        self._answers: Sequence[dict[str, Any]] = sorted(lines, key=lambda line: line["id"])
        self.calls = 0
        teacher = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.reply(teacher.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"])))))

            def reply(self, content: dict[str, Any]) -> None:
                body = json.dumps(content).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self) -> None:  # /v1/models, which tells that the server is up
                self.reply({"object": "list", "data": []})

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """A whole chat completion. What is answered depends on the problem and the request's seed only."""
        message, seed = request["messages"][-1]["content"], request.get("seed", 0)
        matches = [(len(a["prompt"]), i) for i, a in enumerate(self._answers) if a["prompt"] and a["prompt"] in message]
        number = max(matches, default=(0, None))[1]
        text = "I do not know this problem."
        if number is not None:
            answer = self._answers[number]
            knows = Random(f"{number} {seed}").random() < CHANCES[number % len(CHANCES)]
            words = THOUGHTS[number % len(THOUGHTS)]
            thinking = " ".join(["so"] * words)
            text = f"<think>\n{thinking}\n</think>\n{answer['right'] if knows and answer['right'] else answer['wrong']}"
        self.calls += 1
        usage = {"prompt_tokens": len(message.split()), "completion_tokens": len(text.split())}
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return {"id": f"answer-{self.calls}", "object": "chat.completion", "created": 0, "model": request["model"],
                "choices": [choice], "usage": usage}  # fmt: skip

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
