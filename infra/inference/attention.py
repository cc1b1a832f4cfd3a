"""Attention that replaces transformers' `sdpa`: packed rows sequence by sequence, and grouped heads without copies of
keys and values; otherwise the same.
"""

from functools import cache, lru_cache
from inspect import signature
from itertools import chain
from typing import Any

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

KIND = "sdpa"
Prompts = tuple[tuple[int, tuple[int, ...]], ...]
"""The prompts of a packed row: the length of each, and the lengths of the responses that follow it."""


def attention(
    module: nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: torch.Tensor | None,
    *arguments: Any, sequences: tuple[int, ...] | None = None, prompts: Prompts | None = None, **settings: Any,
) -> tuple[torch.Tensor, None]:  # fmt: skip
    """Attention with transformers' interface: query [rows, heads, tokens, width], key and value [rows, key-value heads,
    tokens, width] to [rows, tokens, heads, width]. `sequences`: lengths of the sequences in a packed row; each attends
    to itself only, causally, within the layer's `sliding_window` if it has one, in memory linear in the tokens.
    `prompts`: prompts that sequences share, which the row has once."""
    scale, window, cap = settings.get("scaling"), settings.get("sliding_window"), settings.get("softcap")
    if sequences is None and cap:  # sdpa would ignore it
        return _capped(query, key, value, attention_mask, scale, cap).transpose(1, 2).contiguous(), None
    if sequences is None:
        if attention_mask is None or key.shape[1] == query.shape[1] or query.device.type != "cpu":
            return sdpa_attention_forward(module, query, key, value, attention_mask, *arguments, **settings)
        # With a mask transformers repeats keys and values for the heads that share them, most of the cost on a CPU.
        attended = scaled_dot_product_attention(
            query, key, value, attn_mask=attention_mask, scale=scale, enable_gqa=True
        )
        return attended.transpose(1, 2).contiguous(), None
    if prompts is not None:  # every layer but attention computes a shared prompt once
        query, key, value = (whole(each, prompts, 2) for each in (query, key, value))
        attended, _ = attention(module, query, key, value, attention_mask, *arguments, sequences=sequences, **settings)
        return _once(attended, prompts), None
    if query.is_cuda and query.dtype != torch.float32 and not cap:
        varlen_attn, settings = _flash_attention()
        ends, longest = _ends(sequences, query.device), max(sequences)
        q, k, v = (each[0].transpose(0, 1) for each in (query, key, value))
        if "enable_gqa" not in settings:
            k, v = (each.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for each in (k, v))
        if window:
            settings = settings | {"window_size": (window - 1, 0)}
        attended = varlen_attn(q, k, v, ends, ends, longest, longest, scale=scale, **settings)
        assert isinstance(attended, torch.Tensor)
        return attended[None], None
    parts = zip(*(each.split(sequences, dim=2) for each in (query, key, value)), strict=True)
    masks = (_band(length, window, query.device) if window and length > window else None for length in sequences)
    each = [
        _capped(q, k, v, mask, scale, cap)
        if cap
        else scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None, scale=scale, enable_gqa=True)
        for (q, k, v), mask in zip(parts, masks, strict=True)
    ]
    return torch.cat(each, dim=2).transpose(1, 2).contiguous(), None


def _capped(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, scale: float | None,
    cap: float,
) -> torch.Tensor:  # fmt: skip
    """Attention whose scores are bounded by `cap` (Gemma 2, arXiv 2408.00118, section 2): cap tanh(scores / cap). A
    mask is true where a token is seen, or is added; without one it is causal."""
    groups = query.shape[1] // key.shape[1]
    key, value = (each.repeat_interleave(groups, dim=1) for each in (key, value))
    scores = cap * torch.tanh(query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale) / cap)
    if mask is None:
        shape = scores.shape[-2:]
        mask = torch.ones(shape, dtype=torch.bool, device=scores.device).tril(shape[1] - shape[0])
    if mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    else:
        scores = scores + mask[..., : scores.shape[-1]]
    return scores.softmax(-1, dtype=torch.float32).to(query.dtype) @ value


def _band(length: int, window: int, device: torch.device) -> torch.Tensor:
    """[length, length]: true where a token, the second dimension, is among the `window` last ones up to the first."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril().triu(1 - window)


@cache
def _flash_attention() -> tuple[Any, dict[str, Any]]:
    """torch's `varlen_attn`, which has no float32, and the settings for causal attention with grouped heads that this
    version of torch takes. Up to 2.11 it has no `enable_gqa`."""
    from torch.nn.attention.varlen import varlen_attn

    known = signature(varlen_attn).parameters
    causal = {"window_size": (-1, 0)} if "window_size" in known else {"is_causal": True}
    return varlen_attn, causal | ({"enable_gqa": True} if "enable_gqa" in known else {})


def whole(row: torch.Tensor, prompts: Prompts, dim: int) -> torch.Tensor:
    """Every sequence with its prompt, from a row that has shared prompts once; tokens are dimension `dim`. Its
    gradient, unlike an index's, is added in the same order each time."""
    parts = iter(row.split([length for prompt, responses in prompts for length in (prompt, *responses)], dim))
    sequences = []
    for _, responses in prompts:
        prompt = next(parts)
        sequences += [part for _ in responses for part in (prompt, next(parts))]
    return torch.cat(sequences, dim)


def _once(unpacked: torch.Tensor, prompts: Prompts) -> torch.Tensor:
    """Keep the first of a shared prompt's copies, which are equal: the inverse of `whole`, for [1, tokens, …]."""
    lengths = [(prompt, length) for prompt, responses in prompts for length in responses]
    parts = iter(unpacked.split(list(chain.from_iterable(lengths)), dim=1))
    kept = []
    for _, responses in prompts:
        for number in range(len(responses)):
            prompt, response = next(parts), next(parts)
            kept += [response] if number else [prompt, response]
    return torch.cat(kept, dim=1)


@lru_cache(maxsize=4)
def _ends(sequences: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """Start of each sequence and end of the last, int32 [sequences + 1]; the same for every layer."""
    return torch.tensor([0, *sequences], device=device).cumsum(0).to(torch.int32)


ALL_ATTENTION_FUNCTIONS[KIND] = attention
