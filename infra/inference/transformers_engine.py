"""The default engine: any Hugging Face causal language model, with torch only.

Responses are decoded together, a row each. Once enough of them have ended, their rows are dropped and the next requests
take their place. Each distinct prompt of requests that start together is read once, its keys and values repeated for
its samples. A request's random numbers are a function of its seed and the token's position, so its response does not
depend on the others, up to the rounding of matrix products.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import torch
from transformers import Cache
from transformers.cache_utils import CacheLayerMixin

from ratchet.data_curation.base.protocol import Completion, Request, Sampling, check_tokens, completed
from ratchet.infra.inference import attention  # noqa: F401  what the model attends with
from ratchet.infra.inference.decoder import Decoder, fits
from ratchet.infra.inference.matmul import float32_head, limit_threads, logits, multiply_by_onednn
from ratchet.infra.inference.model_code import FULL, SLIDING, own_logits, windows
from ratchet.infra.inference.models import max_positions, read_model, stop_token_ids
from ratchet.infra.inference.twin import plain_head
from ratchet.verifiers.errors import RatchetError

REPLACE_BELOW = 0.75
"""Largest share of unfinished rows at which finished ones are dropped or replaced: copying the cache must pay off."""
SPARE = 64
"""Columns of a cache beyond the longest response, so that it is not copied for every token."""
STEP = 16
"""Prompt tokens that are read in the time of one decoding step of few rows, which reads all weights."""
BLOCK = 128
"""Tokens of a vocabulary whose probabilities are added before their cumulative sum."""


class TransformersEngine:
    """An engine (`data_curation.base.protocol.Engine`) for a model in memory, which may be trained between calls.
    `batch_size` is the number of responses decoded together."""

    def __init__(self, model: Any, tokenizer: Any, batch_size: int = 256, rounded_logits: bool = False) -> None:
        self._windows = windows(model.config)
        if other := sorted(self._windows.keys() - {FULL, SLIDING}):
            raise RatchetError(
                f"the transformers engine decodes full and sliding attention only; {model.config.model_type} has "
                f"layers of type {', '.join(other)}. Use the vllm engine for this model."
            )
        self.model: Any = model
        self._plain, self._rounded = plain_head(model.config), rounded_logits
        self.tokenizer, self.batch_size = tokenizer, batch_size
        self.stop_ids = stop_token_ids(model.generation_config, tokenizer)
        self.version: str | None = None
        """Version of the weights, for the completions."""

    @classmethod
    def load(
        cls, path: str, dtype: str = "float32", device: str = "cpu", batch_size: int = 256, rounded_logits: bool = False
    ) -> "TransformersEngine":
        """An engine for the model in `path` (directory or Hub name). Raises RatchetError if it cannot be read."""
        model, tokenizer = read_model(path, dtype)
        multiply_by_onednn(model)
        limit_threads(model)
        return cls(model.to(device).eval(), tokenizer, batch_size, rounded_logits)

    def close(self) -> None:
        self.model = None

    @torch.no_grad()
    def generate(self, requests: Iterable[Request], sampling: Sampling) -> Iterator[Completion]:
        """Yield one completion per request, as soon as it finishes. Raises RatchetError for a request without
        `prompt_ids`, or one that does not fit into the model's positions, when its turn comes."""
        pending = iter(requests)
        if not (first := list(islice(pending, self.batch_size))):
            return
        first, long = split_by_length(first, sampling.max_tokens)
        rows = self._read(first, sampling)
        forward = self._step()
        head = self.model.get_output_embeddings()
        weight, bias = float32_head(head, self._rounded) if self._plain else (head.weight, None)
        stop_ids = torch.tensor(self.stop_ids, device=head.weight.device)
        alive = torch.ones(len(rows), dtype=torch.bool, device=head.weight.device)

        while len(rows):
            if self._plain:
                scores = logits(rows.hidden.to(weight.dtype), weight, bias, self._rounded)
            else:
                scores = own_logits(self.model, rows.hidden)
            chosen, logprob = sample(scores, rows.noise.gather(1, rows.made[:, None]).squeeze(1), sampling)
            rows.tokens.scatter_(1, rows.made[:, None], chosen[:, None])
            rows.logprobs.scatter_(1, rows.made[:, None], logprob[:, None])
            positions = rows.lengths + rows.made
            stopped = torch.isin(chosen, stop_ids)
            ended = alive & (stopped | (rows.made + 1 == sampling.max_tokens))
            fresh: list[Request] = []
            if ended.any():
                for row in ended.nonzero().squeeze(1).tolist():
                    yield rows.completed(row, self.tokenizer, bool(stopped[row]), self.version)
                alive = alive & ~ended
                remaining = int(alive.sum())
                if remaining <= REPLACE_BELOW * len(rows):
                    fresh, longer = split_by_length(
                        list(islice(pending, self.batch_size - remaining)), sampling.max_tokens
                    )
                    long += longer
                    keep = alive.nonzero().squeeze(1)
                    chosen, positions, alive = chosen[keep], positions[keep], alive[keep]
                    rows.keep(keep)
            rows.made += alive
            if len(rows):
                masks = {kind: rows.visible(window) for kind, window in self._windows.items()}
                mask = masks if len(masks) > 1 else next(iter(masks.values()))
                rows.hidden = forward(chosen, positions, mask, rows.cache)
            if fresh:
                rows.move(self._read(fresh, sampling))
                alive = torch.cat((alive, alive.new_ones(len(fresh))))
            elif rows.cache.filled == rows.cache.capacity:
                rows.move()
        if long:
            yield from self.generate(long, sampling)

    def _step(self) -> Callable[..., torch.Tensor]:
        return Decoder(self.model) if fits(self.model) else by_modules(self.model)

    def _read(self, requests: Sequence[Request], sampling: Sampling) -> "Rows":
        """The requests' prompts, read: each distinct one once."""
        limit = max_positions(self.model.config)
        device = self.model.get_output_embeddings().weight.device
        prompts = [check_tokens(request, sampling, limit) for request in requests]
        distinct = list(dict.fromkeys(prompts))
        number = {prompt: i for i, prompt in enumerate(distinct)}
        row_of = torch.tensor([number[prompt] for prompt in prompts], device=device)
        lengths = torch.tensor([len(prompt) for prompt in distinct], device=device)
        width = int(lengths.max())
        # Padded on the left, so that all rows write their next key at the same place.
        padded = torch.tensor([(0,) * (width - len(prompt)) + prompt for prompt in distinct], device=device)
        positions = (torch.arange(width, device=device) - (width - lengths)[:, None]).clamp(min=0)
        cache = RowCache(self.model.config.num_hidden_layers, width + sampling.max_tokens)
        hidden = self.model.base_model(
            input_ids=padded,
            attention_mask=(torch.arange(width, device=device) >= (width - lengths)[:, None]).long(),
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
        ).last_hidden_state[:, -1]
        cache.keep_rows(row_of)
        return Rows(list(requests), sampling.max_tokens, cache, hidden[row_of], lengths[row_of])


def split_by_length(requests: list[Request], max_tokens: int) -> tuple[list[Request], list[Request]]:
    """Split prompts into short and long ones. Prompts that are read together are padded to the longest one: those far
    longer than the others wait if that saves more than half of the work, and more than the cost of their own
    `max_tokens` steps of decoding.
    """
    lengths = sorted(map(len, {request.prompt_ids or () for request in requests}))
    longest, number = max(lengths, default=0), len(lengths)
    splits = [(i * lengths[i - 1] + (number - i) * longest, lengths[i - 1]) for i in range(1, number)]
    padded, cut = min(splits, default=(0, longest))
    saved = number * longest - padded
    if saved <= max(padded, STEP * max_tokens):
        return requests, []
    short = [request for request in requests if len(request.prompt_ids or ()) <= cut]
    return short, [request for request in requests if len(request.prompt_ids or ()) > cut]


class Rows:
    """Responses that are decoded together; every tensor has a row for each."""

    STATE = ("hidden", "lengths", "made", "noise", "tokens", "logprobs")

    def __init__(
        self, requests: list[Request], max_tokens: int, cache: "RowCache", hidden: torch.Tensor, lengths: torch.Tensor
    ) -> None:
        self.requests, self.cache = requests, cache
        self.hidden = hidden
        """Hidden states that predict the next token, shape [rows, hidden]."""
        self.lengths, self.made = lengths, torch.zeros_like(lengths)
        """Tokens of each prompt, and of each response so far, shape [rows]."""
        self.noise = uniform_noise([request.seed for request in requests], max_tokens, hidden.device)
        self.tokens = torch.empty(len(requests), max_tokens, dtype=torch.long, device=hidden.device)
        self.logprobs = torch.empty(len(requests), max_tokens, dtype=torch.float32, device=hidden.device)
        self.mask = self._mask()

    def __len__(self) -> int:
        return len(self.requests)

    def _mask(self) -> torch.Tensor:
        """[rows, 1, 1, capacity]: -inf for what is left of a row's prompt, for every later token of the row."""
        mask = torch.zeros(len(self), 1, 1, self.cache.capacity, dtype=self.hidden.dtype, device=self.hidden.device)
        first = (self.cache.filled - self.lengths - self.made)[:, None, None, None]
        return mask.masked_fill_(torch.arange(self.cache.capacity, device=mask.device) < first, -torch.inf)

    def visible(self, window: int | None) -> torch.Tensor:
        """The mask of the next token for layers that see `window` tokens (None: all), shape [rows, 1, 1, cached +
        1]."""
        mask = self.mask[..., : self.cache.filled + 1]
        if window is None or self.cache.filled < window:
            return mask
        hidden = torch.arange(mask.shape[-1], device=mask.device) <= self.cache.filled - window
        return mask.masked_fill(hidden, -torch.inf)

    def completed(self, row: int, tokenizer: Any, stopped: bool, version: str | None) -> Completion:
        count = int(self.made[row]) + 1
        ids, chances = self.tokens[row, :count].tolist(), self.logprobs[row, :count].tolist()
        return completed(self.requests[row], tokenizer, ids, chances, stopped, version)

    def keep(self, rows: torch.Tensor) -> None:
        """Keep these rows: [n] indices."""
        self.requests = [self.requests[row] for row in rows.tolist()]
        for name in (*self.STATE, "mask"):
            setattr(self, name, getattr(self, name)[rows])
        self.cache.keep_rows(rows)

    def move(self, others: "Rows | None" = None) -> None:
        """Drop the columns that no row needs anymore, and add the others' rows below."""
        needed = int((self.lengths + self.made).max()) if len(self) else 0
        if others is not None:
            self.requests = self.requests + others.requests
            for name in self.STATE:
                setattr(self, name, torch.cat((getattr(self, name), getattr(others, name))))
        self.cache.move(
            needed, int(self.lengths.max()) + self.tokens.shape[1] + SPARE, None if others is None else others.cache
        )
        self.mask = self._mask()


def by_modules(model: Any) -> Callable[..., torch.Tensor]:
    """Decode one step, as `Decoder` does, with any model's own modules."""

    def step(tokens: torch.Tensor, positions: torch.Tensor, mask: Any, cache: Cache) -> torch.Tensor:
        return model.base_model(
            input_ids=tokens[:, None], attention_mask=mask, position_ids=positions[:, None], past_key_values=cache,
            use_cache=True,
        ).last_hidden_state[:, -1]  # fmt: skip

    return step


class RowCache(Cache):
    """Keys and values in buffers of fixed capacity, of which only the filled part is returned."""

    def __init__(self, layers: int, capacity: int) -> None:
        self.rows = [RowCacheLayer(capacity) for _ in range(layers)]
        super().__init__(layers=list(self.rows))

    @property
    def capacity(self) -> int:
        return self.rows[0].capacity

    @property
    def filled(self) -> int:
        return self.rows[0].filled

    def keep_rows(self, rows: torch.Tensor) -> None:
        """Keep these rows, in this order, with repetition: [n] indices into the present rows."""
        for layer in self.rows:
            layer.keep_rows(rows)

    def move(self, needed: int, capacity: int, others: "RowCache | None") -> None:
        """Keep the last `needed` columns, in `capacity`, and add the others' rows, which end at the same column."""
        for i, layer in enumerate(self.rows):
            layer.move(needed, capacity, None if others is None else others.rows[i])


class RowCacheLayer(CacheLayerMixin):
    """One attention layer's part of `RowCache`: keys and values [rows, heads, capacity, head_dim]."""

    is_sliding = False

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity, self.filled = capacity, 0

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        rows, heads, _, head_dim = key_states.shape
        self.keys = key_states.new_empty(rows, heads, self.capacity, head_dim)
        self.values = value_states.new_empty(rows, heads, self.capacity, value_states.shape[-1])
        self.is_initialized = True

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any):
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None and self.values is not None
        start, self.filled = self.filled, self.filled + key_states.shape[2]
        self.keys[:, :, start : self.filled] = key_states
        self.values[:, :, start : self.filled] = value_states
        return self.keys[:, :, : self.filled], self.values[:, :, : self.filled]

    def keep_rows(self, rows: torch.Tensor) -> None:
        self.keys, self.values = (
            _stacked([getattr(self, name)[rows, :, : self.filled]], self.filled, self.capacity)
            for name in ("keys", "values")
        )

    def move(self, needed: int, capacity: int, other: "RowCacheLayer | None") -> None:
        parts = [(self, needed)] if other is None else [(self, needed), (other, other.filled)]
        filled = max(kept for _, kept in parts)
        self.keys, self.values = (
            _stacked([getattr(p, name)[:, :, p.filled - kept : p.filled] for p, kept in parts], filled, capacity)
            for name in ("keys", "values")
        )
        self.filled, self.capacity = filled, capacity

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.filled + query_length, 0

    def get_seq_length(self) -> int:
        return self.filled

    def get_max_length(self) -> int:
        return self.capacity


def _stacked(parts: list[torch.Tensor], filled: int, capacity: int) -> torch.Tensor:
    """Rows of keys or values below each other, right-aligned in the first `filled` of `capacity` columns."""
    heads, width = parts[0].shape[1], parts[0].shape[-1]
    together = parts[0].new_empty(sum(len(part) for part in parts), heads, capacity, width)
    for rows, part in zip(together.split([len(part) for part in parts]), parts, strict=True):
        rows[:, :, : filled - part.shape[2]] = 0  # what is masked must be finite
        rows[:, :, filled - part.shape[2] : filled] = part
    return together


def sample(logits: torch.Tensor, uniform: torch.Tensor, sampling: Sampling) -> tuple[torch.Tensor, torch.Tensor]:
    """Choose one token per row by inverting the cumulative distribution at `uniform`.

    Maps logits [rows, vocabulary] float32 and uniform [rows] float64 in [0, 1) to token ids [rows] and the
    log-probabilities they were sampled with [rows], after temperature, top-k and top-p. Temperature 0 takes the most
    likely token, with its probability at temperature 1.
    """
    if sampling.temperature == 0:
        chosen = logits.argmax(-1)
        return chosen, torch.log_softmax(logits, -1).gather(-1, chosen[:, None]).squeeze(-1)
    if sampling.temperature != 1:
        logits = logits / sampling.temperature
    if sampling.top_k and sampling.top_k < logits.shape[-1]:
        kth = logits.topk(sampling.top_k, -1).values[:, -1:]
        logits = logits.masked_fill(logits < kth, -torch.inf)
    if sampling.top_p < 1:
        ordered, order = logits.sort(-1, descending=True)
        mass = ordered.softmax(-1).cumsum(-1)
        # A token stays if the mass before it is below top_p; the most likely one always does.
        outside = mass - ordered.softmax(-1) >= sampling.top_p
        logits = logits.masked_fill(outside.gather(-1, order.argsort(-1)), -torch.inf)
    logprobs = torch.log_softmax(logits, -1)
    chosen = _inverted(logprobs.exp(), uniform[:, None])
    return chosen.squeeze(-1), logprobs.gather(-1, chosen).squeeze(-1)


def _inverted(weights: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """The first column whose cumulative share exceeds `uniform` [rows, 1]; one of weight 0 never does. int64 [rows, 1].

    Cumulative sums are in float64: in float32 the tail of a large vocabulary is lost to rounding. For speed, they are
    of blocks of a wide row first, then of the chosen block.
    """
    if weights.shape[-1] <= 8 * BLOCK:
        cumulative = weights.cumsum(-1, dtype=torch.float64)
        return torch.searchsorted(cumulative, uniform * cumulative[:, -1:], right=True)
    if missing := -weights.shape[-1] % BLOCK:
        weights = torch.nn.functional.pad(weights, (0, missing))
    blocks = weights.view(len(weights), -1, BLOCK)
    mass = blocks.sum(-1).double()
    cumulative = mass.cumsum(-1)
    target = uniform * cumulative[:, -1:]
    chosen = torch.searchsorted(cumulative, target, right=True)
    mass = mass.gather(-1, chosen)
    rest = (target - cumulative.gather(-1, chosen) + mass) / mass  # of the chosen block, below 1
    inside = blocks[torch.arange(len(blocks), device=blocks.device), chosen.squeeze(-1)]
    return chosen * BLOCK + _inverted(inside, rest.clamp(0.0, 1.0 - 2.0**-53))


def uniform_noise(seeds: list[int], count: int, device: torch.device | str) -> torch.Tensor:
    """Uniform numbers in [0, 1), float64 [len(seeds), count]; row i is a function of seeds[i] only.

    SplitMix64 (Steele, Lea and Flood, 2014, "Fast splittable pseudorandom number generators"): number j of a seed mixes
    seed + (j+1)·golden ratio, so it is computed at once, with equal results on all devices. int64 arithmetic wraps
    around like the algorithm's uint64.
    """
    state = torch.tensor(seeds, dtype=torch.int64, device=device)[:, None]
    z = state + torch.arange(1, count + 1, device=device) * _signed(0x9E3779B97F4A7C15)
    z = (z ^ _shift_right(z, 30)) * _signed(0xBF58476D1CE4E5B9)
    z = (z ^ _shift_right(z, 27)) * _signed(0x94D049BB133111EB)
    z = z ^ _shift_right(z, 31)
    return _shift_right(z, 11).double() * 2.0**-53


def _signed(constant: int) -> int:
    return constant - (1 << 64) if constant >> 63 else constant


def _shift_right(z: torch.Tensor, bits: int) -> torch.Tensor:
    """Logical shift: torch's `>>` on int64 copies the sign bit."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)
