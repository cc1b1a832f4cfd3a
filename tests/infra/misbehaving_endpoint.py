"""A real HTTP server, an endpoint as the engine knows it, that misbehaves on demand."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from email.utils import formatdate
from typing import Any

from tests.infra.tiny_endpoint import Running, RunningHandler

EVENTS = {"Content_Type": "text/event-stream; charset=utf-8"}
HALF = {"choices": [{"delta": {"content": "he"}, "finish_reason": None}]}


def error(words: str, **more: str) -> dict[str, Any]:
    return {"error": {"message": words, **more}}


Reply = tuple[int, Any, dict[str, str]]
FIRST: dict[str, Reply] = {  # at the first call only, "broken" at two
    "limited": (429, error("slow down"), {"Retry_After": "0.3"}),
    "broken": (500, error("oops"), {}),
    "garbled": (200, '{"choices": [', {}),
    "half": (200, f"data: {json.dumps(HALF)}\n\n", EVENTS),  # ends, cleanly, in the middle
    "error": (200, f"data: {json.dumps(error('engine died'))}\n\n", EVENTS),  # as vLLM when its engine fails
    "empty": (200, {"choices": []}, {}),
    "page": (200, "<html>proxy</html>", {"Content_Type": "text/html"}),
}
ALWAYS: dict[str, Reply] = {
    "poor": (429, error("quota", code="insufficient_quota"), {}),
    "later": (429, {}, {"Retry_After": "7200"}),
    "nonsense": (200, [], {}),
    "refused": (400, error("bad temperature"), {}),
    "endless": (400, error("maximum context length is 9 tokens"), {}),
    "keyless": (401, error("bad key"), {}),
}
REASONS = {"long": "length", "filtered": "content_filter", "eos": "eos_token"}
MESSAGES: dict[str, dict[str, Any]] = {
    "blank": {"content": ""},
    "null": {"content": None},
    "pondering": {"reasoning_content": "one and one", "content": ""},
    "declined": {"refusal": "I will not.", "content": None},
    "parts": {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                          {"type": "text", "text": "two"}]},
    "thinking": {"reasoning_content": "one and one", "content": "two"},
}  # fmt: skip
SECONDS = {"slow": 0.8, "steady": 0.03, "stuck": 30}


class Endpoint(Running):
    """Answers "hello <question>"; the question's first word says how to fail first."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.bodies: list[dict] = []
        self.times: list[float] = []
        self.open = self.most_open = 0
        self.clients: set[tuple[str, int]] = set()
        self.lacks: set[str] = set()
        self.fault, self.faults = "", 10**9
        self.words = "Unsupported parameter: '{}' is not supported with this model."
        self.closing = threading.Event()
        super().__init__()

    @property
    def connections(self) -> int:
        return len(self.clients)

    def answer(self, handler: RunningHandler, body: bytes) -> None:
        asked = json.loads(body)
        question = asked["messages"][-1]["content"]
        with self._lock:
            self.calls[question] += 1
            call = self.calls[question]
            self.bodies.append(asked)
            self.clients.add(handler.client_address)
            self.times.append(time.monotonic())
            self.open += 1
            self.most_open = max(self.most_open, self.open)
        try:
            self._reply(handler, asked, question, call)
        finally:
            with self._lock:
                self.open -= 1

    def _reply(self, handler: RunningHandler, asked: dict[str, Any], question: str, call: int) -> None:
        kind = question.split()[0]
        if {"goes away": self.calls.total() > 5, "busy": self.faults > 0}.get(self.fault):
            self.faults -= 1
            return handler.reply(503, {})
        if kind == "dated" and call == 1:
            return handler.reply(503, {}, Retry_After=formatdate(time.time() + 1, usegmt=True))
        if kind == "dropped" and call == 1:
            return handler.hang_up()
        if lacking := self.lacks & asked.keys():
            name = min(lacking)
            return handler.reply(400, error(self.words.format(name), param=name))
        if kind == "newer" and "max_completion_tokens" not in asked:
            return handler.reply(400, error("Use max_completion_tokens instead."))
        if reply := ALWAYS.get(kind) or (FIRST.get(kind) if call <= 1 + (kind == "broken") else None):
            status, content, headers = reply
            return handler.reply(status, content, **headers)
        self.closing.wait(SECONDS.get(kind, 0))
        message = MESSAGES.get(kind, {"content": f"hello {question}"})
        overloaded = kind == "overloaded" and call == 1
        reason = "insufficient_system_resource" if overloaded else REASONS.get(kind, "stop")
        usage = {"prompt_tokens": 3, "completion_tokens": len(question), "total_tokens": 3}
        if kind == "whole":  # a server that does not stream, whatever it is asked
            choice = {"index": 0, "message": message, "finish_reason": reason}
            return handler.reply(200, {"object": "chat.completion", "choices": [choice], "usage": usage})
        whole = [{name: said} for name, said in message.items() if not isinstance(said, str)]
        texts = [(name, said) for name, said in message.items() if isinstance(said, str)]
        parts = [*whole, *({name: text[i : i + 4]} for name, text in texts for i in range(0, len(text), 4))]
        choices = [[{"index": 0, "delta": part, "finish_reason": None}] for part in parts]
        choices.append([{"index": 0, "delta": {}, "finish_reason": reason}])
        events = [*({"choices": choice} for choice in choices), {"choices": [], "usage": usage}]
        lines = [": a comment", *(f"data: {json.dumps(event, ensure_ascii=False)}" for event in events), "data: [DONE]"]
        handler.reply(200, "\n\n".join(lines) + "\n\n", **EVENTS)

    def close(self) -> None:
        self.closing.set()
        super().close()
