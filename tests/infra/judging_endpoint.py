"""A server that judges pairs of statements and embeds texts, by rules: what a judge model would be asked, without one.

`/v1/chat/completions` says SAME where both statements have the same numbers, `/v1/embeddings` counts letters.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable

from tests.infra.tiny_endpoint import Running, RunningHandler

PAIR = re.compile(r"<first>\n(.*)\n</first>\n\n<second>\n(.*)\n</second>", re.DOTALL)


def by_numbers(item: str, row: str) -> str:
    numbers = [Counter(re.findall(r"\d+", text)) for text in (item, row)]
    same = numbers[0] == numbers[1] and numbers[0]
    return f"The numbers are {'the same' if same else 'others'}.\n{'SAME' if same else 'DIFFERENT'}"


class JudgingEndpoint(Running):
    """`asked` counts the calls for each (item, row), with ("", prompt) for any other question; `answers` says what is
    replied."""

    def __init__(self) -> None:
        self.answers: Callable[[str, str], str] = by_numbers
        self.asked: Counter[tuple[str, str]] = Counter()
        self.embedded = 0
        super().__init__()

    def answer(self, handler: RunningHandler, body: bytes) -> None:
        asked = json.loads(body)
        if handler.path.endswith("/embeddings"):
            return self._embed(handler, asked)
        text = asked["messages"][-1]["content"]
        found = PAIR.search(text)
        pair = (found[1], found[2]) if found else ("", text)
        with self._lock:
            self.asked[pair] += 1
        message = {"role": "assistant", "content": self.answers(*pair)}
        usage = {"prompt_tokens": 200, "completion_tokens": 10}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        handler.reply(200, {"object": "chat.completion", "choices": [choice], "usage": usage})

    def _embed(self, handler: RunningHandler, asked: dict) -> None:
        if asked["model"] != "letters":
            return handler.reply(404, {"error": {"message": "no such model"}})
        with self._lock:
            self.embedded += len(asked["input"])
        vectors = [[1.0 + text.lower().count(chr(97 + n)) for n in range(26)] for text in asked["input"]]
        data = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(vectors)]
        handler.reply(200, {"object": "list", "data": data[::-1], "model": "letters", "usage": {}})
