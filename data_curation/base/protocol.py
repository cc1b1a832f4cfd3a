"""The protocol between callers and inference engines.

A request is one sample of one prompt. An engine yields completions in the order they finish, so that judging starts
while others are decoded. Its random choices for a request depend on `Request.seed` only, not on the batch that the
request shares, up to rounding.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from ratchet.verifiers.errors import RatchetError

FinishReason = Literal["stop", "length", "refused", "error"]
"""Reason for the end of a completion. `refused`: the endpoint will not answer this prompt. `error`: the call failed.
`Completion.error` has the details."""


@dataclass(frozen=True)
class Sampling:
    """Sampling settings. `top_p` 1 and `top_k` 0 mean off, which is what training requires."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 1024


@dataclass(frozen=True)
class Request:
    """One sample of one prompt.

    `key` is the caller's name for it and is returned with the completion. Either `prompt_ids` (local engines) or
    `messages` (OpenAI-compatible endpoints and the tiny recipe's teacher) is set; an engine given the other one raises
    RatchetError.
    """

    key: Any
    seed: int
    prompt_ids: tuple[int, ...] | None = None
    messages: tuple[dict[str, str], ...] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    """Values for an endpoint's chat template."""


@dataclass(frozen=True)
class Completion:
    """One answer. `token_ids` include the end-of-sequence token when `finish_reason` is `stop`.

    `logprobs` are natural logarithms of the probabilities sampled from (after temperature), one per token. `tokens` is
    the count for budgets and length rules, `prompt_tokens` the endpoint's count of the prompt. Each is None if unknown.
    `weight_version` names the weights that sampled it, if the engine has its own copy.
    """

    key: Any
    text: str
    finish_reason: FinishReason
    tokens: int | None
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    error: str | None = None
    prompt_tokens: int | None = None
    weight_version: str | None = None

    @property
    def empty(self) -> bool:
        """True if the completion ended by itself with no text apart from thinking."""
        return says_nothing(self.text, self.finish_reason)


def token_count(value: Any) -> int | None:
    """A number of tokens from an endpoint or a journal; None for any value that is not a count: null, text, a negative
    number, NaN, or more than a signed 32-bit integer holds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < 2**31 and value == int(value) else None


def valid_text(text: str) -> str:
    """The text with lone surrogates replaced: JSON can contain them, UTF-8 and Parquet cannot."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def says_nothing(text: str, finish_reason: str) -> bool:
    """True if a response ended by itself with no text apart from thinking."""
    return finish_reason == "stop" and not text.rpartition("</think>")[2].strip()


def check_tokens(request: Request, sampling: Sampling, positions: int | None) -> tuple[int, ...]:
    """The prompt of a request to an engine with `positions` positions. Raises RatchetError if it has no token ids or
    does not fit; it is never shortened."""
    if not request.prompt_ids:
        raise RatchetError(f"request {request.key}: this engine needs prompt_ids, not messages")
    needed = len(request.prompt_ids) + sampling.max_tokens
    if positions is not None and needed > positions:
        raise RatchetError(
            f"request {request.key}: a prompt of {len(request.prompt_ids)} tokens and a response of up to "
            f"{sampling.max_tokens} need {needed} positions; the engine has {positions}. Lower the response limit, "
            "drop long prompts in curation, use a model with more positions, or give vLLM more memory "
            "(training.engine.memory_share)."
        )
    return request.prompt_ids


def completed(
    request: Request,
    tokenizer: Any,
    ids: list[int],
    logprobs: Iterable[float],
    stopped: bool,
    version: str | None = None,
) -> Completion:
    """The completion of these tokens. With `stopped`, the last one ends the sequence."""
    import numpy as np  # takes 0.3 s, which `--help` avoids

    shown = np.array(ids[:-1] if stopped else ids, dtype=np.int64)  # transformers inspects every number of a list
    return Completion(
        key=request.key,
        text=tokenizer.decode(shown, skip_special_tokens=True),
        finish_reason="stop" if stopped else "length",
        tokens=len(ids),
        token_ids=tuple(ids),
        logprobs=tuple(logprobs),
        weight_version=version,
    )


class Engine(Protocol):
    """The methods of every inference engine."""

    def generate(self, requests: Iterable[Request], sampling: Sampling) -> Iterator[Completion]:
        """Yield one completion for each request, as soon as it finishes."""
        ...

    def close(self) -> None:
        """Release memory, connections and processes. Safe to call twice."""
        ...


def derive_seed(*parts: Any) -> int:
    """A 63-bit seed from run seed, step, problem id, sample number and the like. A hash, so that an interrupted run
    continues with the same numbers, and neighboring samples have uncorrelated generator states."""
    digest = hashlib.sha256("\x00".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
