"""Attention in training: sequence by sequence where they are packed, and exchanged where ranks share them.

It takes the place of transformers' `sdpa` and is the same to a model whose sequences are beside one another.
"""

from functools import lru_cache
from typing import Any

import torch
from deepspeed.runtime.sequence_parallel.ulysses_sp import UlyssesSPAttentionHF
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from ratchet.infra.errors import RatchetError
from ratchet.infra.recipe.training import Hardware

KIND = "sdpa"


def attention(
    module: nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None,
    *arguments: Any, sequences: tuple[int, ...] | None = None, **settings: Any,
) -> tuple[torch.Tensor, None]:  # fmt: skip
    """What transformers asks of an attention function: query [rows, heads, tokens, width], key and value [rows,
    key-value heads, tokens, width] to [rows, tokens, heads, width]. `sequences`: the lengths of those that the one row
    consists of. Each sees itself alone, causally, and what is held grows with the tokens, not with their square."""
    if sequences is None:
        return sdpa_attention_forward(module, query, key, value, mask, *arguments, **settings)
    if query.is_cuda and query.dtype != torch.float32:
        from torch.nn.attention.varlen import varlen_attn  # flash attention, which has no float32

        ends, longest = _ends(sequences, query.device), max(sequences)
        found = varlen_attn(
            *(each[0].transpose(0, 1) for each in (query, key, value)), ends, ends, longest, longest,
            scale=settings.get("scaling"), window_size=(-1, 0), enable_gqa=True,
        )  # fmt: skip
        assert isinstance(found, torch.Tensor)
        return found[None], None
    parts = zip(*(each.split(sequences, dim=2) for each in (query, key, value)), strict=True)
    each = [
        scaled_dot_product_attention(*part, is_causal=True, scale=settings.get("scaling"), enable_gqa=True)
        for part in parts
    ]
    return torch.cat(each, dim=2).transpose(1, 2).contiguous(), None


@lru_cache(maxsize=4)
def _ends(sequences: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """Where each sequence begins and the last one ends, int32 [sequences + 1]; every layer asks for the same."""
    return torch.tensor([0, *sequences], device=device).cumsum(0).to(torch.int32)


ALL_ATTENTION_FUNCTIONS[KIND] = attention


def check_attention(model: Any, hardware: Hardware) -> None:
    """Raises RatchetError where sequences are to be packed, or shared, and the model's attention is not the above."""
    kinds = set(getattr(model.config, "layer_types", None) or ["full_attention"])
    ours = model.config._attn_implementation == KIND and kinds == {"full_attention"}
    if not ours and (hardware.packed or hardware.sequence_ranks > 1):
        raise RatchetError(
            "training.hardware.packed and sequence_ranks need full attention in PyTorch's own implementation (sdpa), "
            f"and the layers of this {model.config.model_type} are {', '.join(sorted(kinds))} in "
            f"{model.config._attn_implementation}: --set training.hardware.packed=false"
        )


_shared: set[int] = set()


def share_attention(model: Any, ranks: int) -> None:
    """Have `ranks` consecutive ranks compute each sequence together while the model is in training mode. Collective.

    Every rank holds a stretch of tokens, and for attention they exchange it for all tokens of a share of the heads
    (Ulysses, Jacobs et al. 2023, arXiv 2309.14509; DeepSpeed's implementation, which takes the place of transformers'
    attention function). Raises RatchetError when the heads cannot be shared out.
    """
    heads = model.config.num_key_value_heads
    if heads % ranks:
        raise RatchetError(
            f"training.hardware.sequence_ranks is {ranks}, which does not divide the model's {heads} key-value heads"
        )
    for module in model.modules():
        module.shares_sequence = True
    if ranks in _shared:
        return
    alone = ALL_ATTENTION_FUNCTIONS[KIND]
    UlyssesSPAttentionHF.register_with_transformers(
        model_name_or_path=model,
        core_attn_implementation=KIND,
        sequence_parallel_size=ranks,
        micro_batch_size=1,
        seq_length_is_variable=True,
    )
    together = ALL_ATTENTION_FUNCTIONS[KIND]
    _shared.add(ranks)

    def shared(module: nn.Module, *arguments: Any, **settings: Any) -> Any:
        shares = module.training and getattr(module, "shares_sequence", False)
        return (together if shares else alone)(module, *arguments, **settings)

    ALL_ATTENTION_FUNCTIONS[KIND] = shared
