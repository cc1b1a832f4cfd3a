"""Packed and shared attention in training: which models can do it, and sharing it between ranks."""

from typing import Any

from deepspeed.runtime.sequence_parallel.ulysses_sp import UlyssesSPAttentionHF
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from ratchet.infra.inference.attention import KIND
from ratchet.infra.recipe.training import Hardware
from ratchet.verifiers.errors import RatchetError


def check_attention(model: Any, hardware: Hardware) -> None:
    """Raises RatchetError if sequences are packed or shared, and the model's attention is not full in sdpa."""
    kinds = set(getattr(model.config, "layer_types", None) or ["full_attention"])
    ours = model.config._attn_implementation == KIND and kinds == {"full_attention"}
    if not ours and (hardware.packed or hardware.advanced.sequence_ranks > 1):
        raise RatchetError(
            "training.hardware.packed and sequence_ranks need full attention in PyTorch's own implementation (sdpa), "
            f"and the layers of this {model.config.model_type} are {', '.join(sorted(kinds))} in "
            f"{model.config._attn_implementation}: --set training.hardware.packed=false, and sequence_ranks=1"
        )


_shared: set[int] = set()


def share_attention(model: Any, ranks: int) -> None:
    """Let `ranks` consecutive ranks compute each sequence together while the model is in training mode. Collective.

    Every rank holds a stretch of tokens; for attention they exchange it for all tokens of a share of the heads
    (Ulysses, Jacobs et al. 2023, arXiv 2309.14509; DeepSpeed's implementation replaces transformers' attention
    function). Raises RatchetError if the heads cannot be divided.
    """
    heads = model.config.num_key_value_heads
    if heads % ranks:
        raise RatchetError(
            f"training.hardware.advanced.sequence_ranks is {ranks}, which does not divide the model's {heads} "
            "key-value heads"
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
