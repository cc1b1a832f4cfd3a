"""A real HTTP server, an endpoint as the engine knows it, that misbehaves on demand."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

EVENTS = {"Content-Type": "text/event-stream; charset=utf-8"}


class Endpoint:
    """Answers "hello <question>"; the question's first word says how to fail first."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.bodies: list[dict] = []
        self.times: list[float] = []
        self.open = self.most_open = self.connections = 0
        self.listing = 200
        self.lacks: set[str] = set()
        self.fault, self.faults = "", 10**9
        self.keys: set[str] = set()
        self.words = "Unsupported parameter: '{}' is not supported with this model."
        self.closing = threading.Event()
        lock = threading.Lock()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                endpoint.connections += 1

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                question = body["messages"][-1]["content"]
                with lock:
                    endpoint.calls[question] += 1
                    endpoint.bodies.append(body)
                    endpoint.keys.add(self.headers["Authorization"])
                    self.body = body
                    endpoint.times.append(time.monotonic())
                    endpoint.open += 1
                    endpoint.most_open = max(endpoint.most_open, endpoint.open)
                try:
                    endpoint.answer(self, question, endpoint.calls[question])
                finally:
                    with lock:
                        endpoint.open -= 1

            def do_GET(self) -> None:
                self.reply(endpoint.listing, "{}")

            def reply(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
                data = text.encode()
                self.send_response(status)
                for name, value in ({"Content-Type": "application/json"} | (headers or {})).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def answer(self, handler, question: str, call: int) -> None:
        kind = question.split()[0]
        if {"goes away": self.calls.total() > 5, "busy": self.faults > 0}.get(self.fault):
            self.faults -= 1
            return handler.reply(503, "{}")
        if self.fault == "keyless":
            kind = "keyless"
        message = {"content": f"hello {question}"}
        reason = "stop"
        if kind == "limited" and call == 1:
            return handler.reply(429, '{"error": {"message": "slow down"}}', {"Retry-After": "0.3"})
        if kind == "dated" and call == 1:
            return handler.reply(503, "{}", {"Retry-After": formatdate(time.time() + 1, usegmt=True)})
        if kind == "broken" and call <= 2:
            return handler.reply(500, '{"error": {"message": "oops"}}')
        if kind == "garbled" and call == 1:
            return handler.reply(200, '{"choices": [')
        if kind == "half" and call == 1:  # ends, cleanly, in the middle
            part = {"choices": [{"delta": {"content": "he"}, "finish_reason": None}]}
            return handler.reply(200, f"data: {json.dumps(part)}\n\n", {"Content-Type": "text/event-stream"})
        if kind == "error" and call == 1:  # as vLLM does when its engine fails in the middle
            return handler.reply(200, 'data: {"error": {"message": "engine died"}}\n\n', EVENTS)
        if kind == "poor":
            return handler.reply(429, '{"error": {"message": "quota", "code": "insufficient_quota"}}')
        if lacking := self.lacks & handler.body.keys():
            name = min(lacking)
            return handler.reply(400, json.dumps({"error": {"message": self.words.format(name), "param": name}}))
        if kind == "newer" and "max_completion_tokens" not in handler.body:
            return handler.reply(400, '{"error": {"message": "Use max_completion_tokens instead."}}')
        if kind == "later":
            return handler.reply(429, "{}", {"Retry-After": "7200"})
        if kind == "empty" and call == 1:
            return handler.reply(200, '{"choices": []}')
        if kind == "page" and call == 1:
            return handler.reply(200, "<html>proxy</html>", {"Content-Type": "text/html"})
        if kind == "nonsense":
            return handler.reply(200, "[]")
        if kind == "dropped" and call == 1:
            handler.close_connection = True
            return handler.connection.shutdown(socket.SHUT_RDWR)
        if kind == "refused":
            return handler.reply(400, '{"error": {"message": "bad temperature"}}')
        if kind == "endless":
            return handler.reply(400, '{"error": {"message": "maximum context length is 9 tokens"}}')
        if kind == "keyless":
            return handler.reply(401, '{"error": {"message": "bad key"}}')
        if kind == "slow":
            time.sleep(0.8)
        if kind == "stuck":
            self.closing.wait(30)
        if kind == "steady":
            time.sleep(0.03)
        if kind == "long":
            reason = "length"
        if kind == "filtered":
            reason = "content_filter"
        if kind == "overloaded" and call == 1:
            reason = "insufficient_system_resource"
        if kind == "eos":
            reason = "eos_token"
        if kind == "blank":
            message = {"content": ""}
        if kind == "null":
            message = {"content": None}
        if kind == "pondering":
            message = {"reasoning_content": "one and one", "content": ""}
        if kind == "declined":
            message = {"refusal": "I will not.", "content": None}
        if kind == "parts":
            parts = [
                {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                {"type": "text", "text": "two"},
            ]
            message = {"content": parts}
        if kind == "thinking":
            message = {"reasoning_content": "one and one", "content": "two"}
        usage = {"prompt_tokens": 3, "completion_tokens": len(question), "total_tokens": 3}
        if kind == "whole":  # a server that does not stream, whatever it is asked
            choice = {"index": 0, "message": message, "finish_reason": reason}
            return handler.reply(200, json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage}))
        whole = [{name: said} for name, said in message.items() if not isinstance(said, str)]
        texts = [(name, said) for name, said in message.items() if isinstance(said, str)]
        parts = [*whole, *({name: text[i : i + 4]} for name, text in texts for i in range(0, len(text), 4))]
        choices = [[{"index": 0, "delta": part, "finish_reason": None}] for part in parts]
        choices.append([{"index": 0, "delta": {}, "finish_reason": reason}])
        events = [*({"choices": choice} for choice in choices), {"choices": [], "usage": usage}]
        lines = [": a comment", *(f"data: {json.dumps(event, ensure_ascii=False)}" for event in events), "data: [DONE]"]
        handler.reply(200, "\n\n".join(lines) + "\n\n", EVENTS)

    def close(self) -> None:
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()
