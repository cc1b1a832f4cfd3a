"""Attention that replaces transformers' `sdpa`: packed rows sequence by sequence, and grouped heads without copies of
keys and values; otherwise the same.
"""

from functools import lru_cache
from typing import Any

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

KIND = "sdpa"


def attention(
    module: nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None,
    *arguments: Any, sequences: tuple[int, ...] | None = None, **settings: Any,
) -> tuple[torch.Tensor, None]:  # fmt: skip
    """Transformers' interface: query [rows, heads, tokens, width], key and value [rows, key-value heads, tokens, width]
    to [rows, tokens, heads, width]. `sequences`: lengths of the sequences in a packed row; each attends to itself only,
    causally, in memory linear in the tokens."""
    scale = settings.get("scaling")
    if sequences is None:
        if mask is None or key.shape[1] == query.shape[1] or query.device.type != "cpu":
            return sdpa_attention_forward(module, query, key, value, mask, *arguments, **settings)
        # With a mask transformers repeats keys and values for the heads that share them, most of the cost on a CPU.
        found = scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale, enable_gqa=True)
        return found.transpose(1, 2).contiguous(), None
    if query.is_cuda and query.dtype != torch.float32:
        from torch.nn.attention.varlen import varlen_attn  # flash attention, which has no float32

        ends, longest = _ends(sequences, query.device), max(sequences)
        q, k, v = (each[0].transpose(0, 1) for each in (query, key, value))
        causal = (-1, 0)
        found = varlen_attn(q, k, v, ends, ends, longest, longest, scale=scale, window_size=causal, enable_gqa=True)
        assert isinstance(found, torch.Tensor)
        return found[None], None
    parts = zip(*(each.split(sequences, dim=2) for each in (query, key, value)), strict=True)
    each = [scaled_dot_product_attention(*part, is_causal=True, scale=scale, enable_gqa=True) for part in parts]
    return torch.cat(each, dim=2).transpose(1, 2).contiguous(), None


@lru_cache(maxsize=4)
def _ends(sequences: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """Start of each sequence and end of the last, int32 [sequences + 1]; the same for every layer."""
    return torch.tensor([0, *sequences], device=device).cumsum(0).to(torch.int32)


ALL_ATTENTION_FUNCTIONS[KIND] = attention
