"""A real OpenAI-compatible server that samples a tiny model, and a proxy that makes a bad day for whoever calls it."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from email.utils import formatdate
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from ratchet.data_curation.base.prompts import PromptFormat, message_ids
from ratchet.data_curation.base.protocol import Request, Sampling
from ratchet.infra.recipe.model import NewModelConfig
from tests.infra.stub_server import Handler as RunningHandler
from tests.infra.stub_server import StubServer

MODEL = NewModelConfig(
    hidden_size=32, layers=1, attention_heads=2, key_value_heads=1, intermediate_size=48, vocabulary=320,
    max_positions=512,
)  # fmt: skip


def word_model(directory: Path, **settings: Any) -> Path:
    """A Llama of random weights and 40 words, two of which end a response: hundreds of tokens in a second."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel({f"w{i}": i for i in range(40)}, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    named = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="w1", unk_token="w0")
    named.chat_template = "{{ messages[0].content }}"
    named.save_pretrained(directory)
    torch.manual_seed(0)
    size = {"vocab_size": 40, "intermediate_size": 48, "num_hidden_layers": 2, "initializer_range": 0.3}
    model = LlamaForCausalLM(LlamaConfig(**size, **settings))
    model.generation_config = GenerationConfig(eos_token_id=[1, 2])
    model.save_pretrained(directory)
    return directory


def grow_model(directory: Path) -> Path:
    """Random weights, and a tokenizer that knows sums."""
    from ratchet.training.new_model import create

    create(MODEL, [f"What is {i} plus {i + 1}? \\boxed{{{2 * i + 1}}}" for i in range(200)], 0, directory)
    return directory


class Running(StubServer):
    """Its `answer` replies to a POST by itself, in parts if it likes."""

    listing = 200
    """Status of the answer to a GET, as for the list of models."""

    def __init__(self, port: int = 0) -> None:
        self._lock = threading.Lock()
        super().__init__(port)
        self.url += "/v1"

    def respond(self, handler: RunningHandler, body: bytes) -> None:
        if handler.command == "GET":
            handler.reply(self.listing, {})
        else:
            self.answer(handler, body)


class TinyEndpoint(Running):
    """`/v1/chat/completions` over a model directory. `asked` counts the calls for each (prompt, seed)."""

    def __init__(self, model: Path, seconds_per_answer: float = 0.0, counts_tokens: bool = True, port: int = 0) -> None:
        from ratchet.infra.inference.transformers_engine import TransformersEngine

        self.engine = TransformersEngine.load(str(model))
        self.asked: Counter[tuple[str, int]] = Counter()
        self.seconds, self.counts_tokens = seconds_per_answer, counts_tokens
        self._sampling = threading.Lock()
        super().__init__(port)

    def answer(self, handler: RunningHandler, body: bytes) -> None:
        asked = json.loads(body)
        prompt = asked["messages"][-1]["content"]
        with self._lock:
            self.asked[prompt, asked["seed"]] += 1
        (ids,) = message_ids(self.engine.tokenizer, [prompt], PromptFormat())
        sampling = Sampling(asked["temperature"], asked["top_p"], 0, asked["max_tokens"])
        with self._sampling:
            (completion,) = self.engine.generate([Request(0, asked["seed"], prompt_ids=ids)], sampling)
        handler.begin_stream()
        pieces = [completion.text[i : i + 16] for i in range(0, len(completion.text), 16)]
        for piece in pieces:
            time.sleep(self.seconds / len(pieces))
            handler.chunk(_event(choices=[{"index": 0, "delta": {"content": piece}, "finish_reason": None}]))
        handler.chunk(_event(choices=[{"index": 0, "delta": {}, "finish_reason": completion.finish_reason}]))
        if self.counts_tokens and asked.get("stream_options", {}).get("include_usage"):
            usage = {"prompt_tokens": len(ids), "completion_tokens": completion.tokens}
            handler.chunk(_event(choices=[], usage=usage))
        handler.chunk(b"data: [DONE]\n\n")
        handler.chunk(b"")


class SolvingEndpoint(Running):
    """`/v1/chat/completions` whose answers are a function of the prompt, as of a model that is right."""

    def __init__(self, answer_to: Callable[[str], str], port: int = 0) -> None:
        self.answer_to, self.asked = answer_to, list[str]()
        super().__init__(port)

    def answer(self, handler: RunningHandler, body: bytes) -> None:
        request = json.loads(body)
        prompt = request["messages"][-1]["content"]
        self.asked.append(prompt)
        text = self.answer_to(prompt)
        handler.begin_stream()
        handler.chunk(_event(choices=[{"index": 0, "delta": {"content": text}, "finish_reason": None}]))
        handler.chunk(_event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}]))
        usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": len(text.split())}
        handler.chunk(_event(choices=[], usage=usage))
        handler.chunk(b"data: [DONE]\n\n")
        handler.chunk(b"")


class FaultyProxy(Running):
    """Passes calls on to `upstream`, each with the next of `faults`, in turn; after the last, all pass."""

    def __init__(self, upstream: TinyEndpoint, faults: list[str]) -> None:
        self._upstream, self._faults = upstream, iter(faults)
        self.met: Counter[str] = Counter()
        super().__init__()

    def answer(self, handler: RunningHandler, body: bytes) -> None:
        with self._lock:
            fault = next(self._faults, "pass")
            self.met[fault] += 1
        if fault == "429":
            return handler.reply(429, {"error": {"message": "slow down"}}, Retry_After="0.2")
        if fault == "429 until":
            return handler.reply(
                429, {"error": {"message": "slow down"}}, Retry_After=formatdate(time.time() + 1.1, usegmt=True)
            )
        if fault == "500":
            return handler.reply(500, {"error": {"message": "internal error"}})
        if fault == "hang up":
            return handler.hang_up()
        if fault == "down":
            handler.hang_up()
            return self._go_down(0.4)
        upstream = HTTPConnection("127.0.0.1", self._upstream.port)
        upstream.request("POST", handler.path, body, {"Content-Type": "application/json"})
        events = upstream.getresponse().read().split(b"\n\n")
        upstream.close()
        handler.begin_stream()
        for number, event in enumerate(events[:-1]):
            if fault == "cut" and number == len(events) // 2:
                return handler.hang_up()
            if fault == "malformed" and number == 1:
                event = event[: len(event) // 2]
            if fault == "slow":
                time.sleep(0.05)
            if fault == "ends early" and number == len(events) // 2:
                break
            handler.chunk(event + b"\n\n")
        handler.chunk(b"")

    def _go_down(self, seconds: float) -> None:
        """Refuse connections for a while."""
        self.close()
        time.sleep(seconds)
        self.listen(self.port)


def _event(**content: Any) -> bytes:
    return b"data: " + json.dumps({"object": "chat.completion.chunk", **content}).encode() + b"\n\n"
