"""A decode step for models with Llama's architecture.

The arithmetic equals that of transformers bit for bit, without its modules' overhead, a third of the time of a small
model. Where oneDNN multiplies (`products`), attention is two batched products, which read keys and values where they
are, and only rounding differs.
"""

from typing import Any

import torch
from torch import nn
from torch.nn.functional import rms_norm, scaled_dot_product_attention, silu

from ratchet.infra.inference.matmul import Packed, by_onednn
from ratchet.infra.inference.model_code import windows
from ratchet.infra.inference.twin import PLAIN

ROTARY = ("default", "linear", "llama3", "yarn")
"""Rotary embeddings whose angle depends on the position only."""
SPAN = 1024
"""Positions whose rotations are computed at once."""


def fits(model: Any) -> bool:
    """True if `Decoder` computes the same as this model. On a GPU masked attention needs other kernels."""
    config = model.config
    return (
        model.device.type == "cpu"
        and config.model_type in PLAIN
        and len(windows(config)) == 1
        and config.hidden_act == "silu"
        and config.rope_parameters["rope_type"] in ROTARY
        and type(model.base_model.embed_tokens) is nn.Embedding
        and all(_plain(part) for layer in model.base_model.layers for part in layer.modules() if part is not layer)
    )


def _plain(module: Any) -> bool:
    """True for the family's own module, without adapter or hooks."""
    own = type(module).__module__.startswith(("torch.nn.modules.linear", "transformers.", Packed.__module__))
    return own and not module._forward_hooks and not module._forward_pre_hooks


class Decoder:
    """One decoding step for all rows of a batch, with the model's weights as they are when it is made."""

    def __init__(self, model: Any) -> None:
        body = model.base_model
        self._embedding, self._norm, self._rotary = body.embed_tokens.weight, body.norm, body.rotary_emb
        self._layers = [_Layer(layer) for layer in body.layers]
        self._rotate(SPAN)

    def _rotate(self, positions: int) -> None:
        cos, sin = self._rotary(self._embedding, torch.arange(positions, device=self._embedding.device)[None])
        half = sin.shape[-1] // 2
        self._cos, self._sin = cos[0], torch.cat((-sin[0, :, :half], sin[0, :, half:]), dim=-1)

    def __call__(self, tokens: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor, cache: Any) -> torch.Tensor:
        """tokens and positions [rows], mask [rows, 1, 1, cached + 1] to hidden states [rows, hidden]; adds keys and
        values to the cache, a `transformers_engine.RowCache`."""
        if cache.capacity > len(self._cos):
            self._rotate(cache.capacity)
        hidden = self._embedding[tokens]
        rotation = self._cos[positions][:, None], self._sin[positions][:, None]
        for layer, cached in zip(self._layers, cache.rows, strict=True):
            hidden = layer(hidden, *rotation, mask, cached)
        return _normed(hidden, self._norm)


class _Layer:
    def __init__(self, layer: Any) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        self._before, self._between = layer.input_layernorm, layer.post_attention_layernorm
        self._qkv = Packed(attention.q_proj, attention.k_proj, attention.v_proj)
        self._o = Packed(attention.o_proj)
        self._q_norm, self._k_norm = getattr(attention, "q_norm", None), getattr(attention, "k_norm", None)
        self._gate_up, self._down = Packed(mlp.gate_proj, mlp.up_proj), Packed(mlp.down_proj)
        self._by_onednn = by_onednn(mlp.down_proj.weight)
        self._width, self._scale = attention.head_dim, attention.scaling

    def __call__(self, hidden: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, mask: torch.Tensor, cached: Any):
        rows = len(hidden)
        normed = _normed(hidden, self._before)
        query, key, value = (part.reshape(rows, -1, self._width) for part in self._qkv(normed))
        if self._q_norm is not None:
            query, key = _normed(query, self._q_norm), _normed(key, self._k_norm)
        both = torch.cat((query, key), dim=1)  # fewer operations: their overhead is most of the cost
        both = (both * cos).add_(both.roll(self._width // 2, -1).mul_(sin))
        query, key = both.split((query.shape[1], key.shape[1]), dim=1)
        keys, values = cached.update(key[:, :, None], value[:, :, None])
        if self._by_onednn:
            attended = _attended(query, keys, values, mask, self._scale)
        else:
            # In 16 bits the heads that share keys are queries of one head, a tenth of the time. In float32 each head is
            # apart, with transformers' bits.
            apart = query.dtype == torch.float32
            shape = (rows, -1, 1, self._width) if apart else (rows, keys.shape[1], -1, self._width)
            queries = query.reshape(shape)
            attended = scaled_dot_product_attention(
                queries, keys, values, attn_mask=mask.expand(-1, -1, queries.shape[2], -1), scale=self._scale,
                enable_gqa=apart,
            )  # fmt: skip
        hidden = self._o(attended.view(rows, -1))[0].add_(hidden)
        gate, up = self._gate_up(_normed(hidden, self._between))
        return self._down(silu(gate, inplace=True).mul_(up))[0].add_(hidden)


def _attended(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor, scale: float):
    """query [rows, heads, width], keys and values [rows, key-value heads, tokens, width], mask [rows, 1, 1, tokens] to
    [rows, heads, width], or in another shape of as many numbers."""
    rows, shared, tokens, width = keys.shape
    mask = mask.expand(rows, shared, 1, tokens).reshape(-1, 1, tokens)
    keys, values = keys.view(-1, tokens, width), values.view(-1, tokens, width)
    query = query.reshape(rows * shared, -1, width)
    return torch.bmm(torch.baddbmm(mask, query, keys.mT, alpha=scale).softmax(-1), values)


def _normed(hidden: torch.Tensor, norm: Any) -> torch.Tensor:
    if hidden.dtype != torch.float32:  # transformers rounds before it multiplies with the weight
        return norm(hidden)
    return rms_norm(hidden, (hidden.shape[-1],), norm.weight, norm.variance_epsilon)
