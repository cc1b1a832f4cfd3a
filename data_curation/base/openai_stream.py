"""One answer of a stream, complete if it has a finish reason and its stream has ended; counts of all calls."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from ratchet.data_curation.base.protocol import Completion, FinishReason, token_count, valid_text

FINISHED: dict[str, FinishReason] = {
    **dict.fromkeys(("stop", "eos", "eos_token", "stop_sequence", "end_turn"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "model_length"), "length"),
}
"""Servers' words for an answer that ended by itself, or at its limit."""
BROKEN = (
    "abort", "cancelled", "error", "network_error", "server_error", "timeout",  # codespell:ignore cancelled
    "insufficient_system_resource",
)  # fmt: skip
"""Servers' words for a failure of the server, including those of DeepSeek, OpenRouter and Zhipu."""


class CallFailed(Exception):
    """A call without a whole answer. `again`: another call may succeed. `busy`: the server accepts none for now, and
    asks to wait `wait` seconds. `refused`: the server rejects the prompt."""

    def __init__(
        self, reason: str, again: bool = True, busy: bool = False, wait: float = 0.0, refused: bool = False
    ) -> None:
        super().__init__(reason)
        self.again, self.busy, self.wait, self.refused = again and not refused, busy, wait, refused


@dataclass
class Traffic:
    """Counts of all calls; read from other threads."""

    open: int = 0
    calls: int = 0
    pieces: int = 0
    """Pieces streamed so far, about one per token."""
    lost_calls: int = 0
    """Answers that broke off, which may be charged."""
    lost_pieces: int = 0
    learned: list[str] = field(default_factory=list)
    """Sentences about fields that the endpoint does not accept."""


@dataclass
class Answer:
    """One answer as it arrives, in parts."""

    text: list[str] = field(default_factory=list)
    thought: list[str] = field(default_factory=list)
    refusal: list[str] = field(default_factory=list)
    reason: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    pieces: int = 0
    ended: bool = False
    whole: bool = False

    async def read(self, response: Any) -> AsyncIterator[int]:
        """Read the body, yielding the number of new pieces. Raises CallFailed if it is incomplete or invalid. Lines end
        in LF only: JSON text may contain any other line separator."""
        try:
            if "event-stream" not in response.headers.get("content-type", ""):
                self.add(await response.read())
                self.ended = True
                yield 1
                return
            rest = b""
            async for block in response.iter_bytes():
                before = self.pieces
                *lines, rest = (rest + block).split(b"\n")
                for line in lines:
                    self._take(line)
                yield self.pieces - before
            self._take(rest)
        except CallFailed:
            raise
        except Exception as error:  # depends on the client's transport
            raise CallFailed(f"cut after {self.pieces} pieces: {type(error).__name__} {shown(error)}") from error

    def _take(self, line: bytes) -> None:
        """One line: an event, the end, a comment, or a blank line."""
        if line.startswith(b"data:"):
            self.ended |= line[5:].strip() == b"[DONE]"
            if not self.ended:
                self.add(line[5:])

    def add(self, event: bytes) -> None:
        """Add one event: a part of the answer, or all of it if the server does not stream."""
        self.pieces += 1
        try:
            body = json.loads(event)
            if "error" in body and not body.get("choices"):
                raise CallFailed(f"broken off by the server: {shown(body['error'])}")
            if isinstance(usage := body.get("usage"), dict):  # it is no part of the answer: anything else is no count
                self.usage |= usage
            for choice in (body.get("choices") or [])[:1]:
                part = choice.get("delta") or choice.get("message") or {}
                text, thought = _split(part.get("content"))
                self.text.append(_text(text))
                self.thought.append(thought + (part.get("reasoning_content") or part.get("reasoning") or ""))
                self.refusal.append(_text(part.get("refusal") or ""))
                if (reason := choice.get("finish_reason")) is not None:
                    self.reason = _text(reason) or self.reason
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CallFailed(f"not a chat completion ({error!r}): {shown(event.decode(errors='replace'))}") from error

    def completion(self, key: Any) -> Completion:
        """The completion of the whole answer. Raises CallFailed if the answer is incomplete."""
        if self.reason is None or not (self.ended or self.usage):  # usage comes last
            raise CallFailed(f"cut after {self.pieces} pieces")
        text, thought, refusal = ("".join(parts) for parts in (self.text, self.thought, self.refusal))
        reason = FINISHED.get(self.reason.lower())
        if reason is None:
            raise CallFailed(f"ended by {self.reason!r}", refused=self.reason.lower() not in BROKEN)
        if refusal and not text:
            raise CallFailed(f"refused: {shown(refusal)}", refused=True)
        text = valid_text(with_thought(text, thought, reason == "stop"))
        self.whole = True
        tokens, prompt_tokens = (token_count(self.usage.get(f"{side}_tokens")) for side in ("completion", "prompt"))
        return Completion(key, text, reason, tokens if tokens or not text else None, prompt_tokens=prompt_tokens)


def with_thought(text: str, thought: str, ended: bool) -> str:
    """The response with its thinking, which servers with a reasoning parser send separately."""
    if not thought:
        return text
    return f"<think>\n{thought}\n</think>\n{text}" if text or ended else f"<think>\n{thought}"


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} instead of text")
    return value


def _split(content: Any) -> tuple[str, str]:
    """Text and thinking of a message's content: a string, nothing, or a list of parts."""
    if not isinstance(content, list):
        return "" if content is None else content, ""
    text = "".join(part.get("text") or "" for part in content)
    thinking = [part.get("thinking") or "" for part in content]
    return text, "".join(_split(part)[0] if isinstance(part, list) else part for part in thinking)


def shown(text: Any) -> str:
    """A text for messages: one line of at most 200 characters."""
    return valid_text(" ".join(str(text).split())[:200])
