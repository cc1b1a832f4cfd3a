"""A small model of the same kind as a large one, which shows what a checkpoint's configuration alone decides.

The twin has the configuration's class and switches, few and narrow layers, a short sliding window, and random weights
large enough that every part of it moves the logits. It takes a second and 50 MB, whatever the checkpoint's size.
"""

import copy
import json
from contextlib import suppress
from functools import cache
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from ratchet.infra.inference.model_code import head_logits, own_logits
from ratchet.verifiers.errors import RatchetError

PLAIN = ("llama", "mistral", "qwen2", "qwen3")
"""Families whose head is only a matrix, which need no twin to show it (tests/training/test_model_support.py)."""
WINDOW = 6
LAYERS = 2
WIDTHS = {
    "hidden_size": 64, "n_embd": 64, "d_model": 64, "num_attention_heads": 4, "n_head": 4, "num_key_value_heads": 2,
    "head_dim": 16, "intermediate_size": 96, "n_inner": 96, "ffn_dim": 96, "num_experts": 4, "num_local_experts": 4,
    "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32,
    "rotary_dim": 16,
}  # fmt: skip
SIZES = {
    "vocab_size": 160, "sliding_window": WINDOW, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "attn_logit_softcapping": 2.0, "final_logit_softcapping": 2.0,
}  # fmt: skip
SHORT = 20
LARGEST = 200_000_000
"""Parameters of a twin whose layers could not be made narrower."""
DEPTHS = ("num_hidden_layers", "n_layer", "num_layers")
GAIN = 1.5
"""Standard deviation of an output for inputs of deviation 1: at the usual 0.02 a window would move no logit."""


def small_twin(config: Any, attention: str | None = None) -> Any:
    """The twin of a configuration, in float32 and evaluation mode, with transformers' implementation of `attention`;
    None means its choice for the model. Raises RatchetError if transformers cannot build it."""
    text = config.get_text_config(decoder=True)
    errors = []
    for widths in (WIDTHS, {}):  # some families tie their sizes to one another: then only fewer layers
        try:
            reduced = _reduced(text, widths)
            if not widths:
                with torch.device("meta"):
                    size = AutoModelForCausalLM.from_config(reduced).num_parameters()
                if size > LARGEST:
                    break
            model = AutoModelForCausalLM.from_config(reduced, dtype=torch.float32, attn_implementation=attention)
            model = _with_weights(model.eval())
            with torch.no_grad():
                model(input_ids=torch.arange(3, 9)[None], use_cache=False)
            return model
        except Exception as error:  # each architecture has its own
            errors.append(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
    raise RatchetError(f"a small {text.model_type} model cannot be built to check it: {errors[0]}")


def _reduced(config: Any, widths: dict[str, int]) -> Any:
    reduced = copy.deepcopy(config)
    layers = LAYERS
    if kinds := getattr(reduced, "layer_types", None):
        while set(kinds[:layers]) != set(kinds):  # a layer of each kind
            layers += 1
    depth = getattr(reduced, "num_hidden_layers", 0)
    for name, value in list(vars(reduced).items()):
        if isinstance(value, list | tuple) and len(value) == depth > 0:  # a setting for each layer
            _set(reduced, name, list(value[:layers]))
    sizes = {name: layers for name in DEPTHS} | SIZES | widths
    if getattr(reduced, "num_key_value_heads", None) == getattr(reduced, "num_attention_heads", None):
        sizes["num_key_value_heads"] = sizes.get("num_attention_heads", getattr(reduced, "num_attention_heads", 0))
    if rotary := getattr(reduced, "qk_rope_head_dim", None):  # multi-head latent attention
        sizes["head_dim"] = rotary
    for name, value in sizes.items():
        if getattr(reduced, name, None) is not None:
            _set(reduced, name, value)
    rope = getattr(reduced, "rope_parameters", None) or {}
    if rope.get("rope_type") == "longrope":  # its angles depend on the longest of a batch: let some be short, some long
        rope["original_max_position_embeddings"] = SHORT
        if hasattr(reduced, "original_max_position_embeddings"):  # transformers copies it back
            _set(reduced, "original_max_position_embeddings", SHORT)
        for name in ("short_factor", "long_factor"):  # one for each pair of a head's numbers
            rope[name] = list(rope[name])[: widths.get("head_dim", 2 * len(rope[name])) // 2]
    return reduced


def _set(config: Any, name: str, value: Any) -> None:
    with suppress(AttributeError):  # computed from others
        setattr(config, name, value)


@torch.no_grad()
def _with_weights(model: Any) -> Any:
    random = torch.Generator().manual_seed(0)
    for weight in model.parameters():
        noise = torch.randn(weight.shape, generator=random)
        if weight.dim() > 1:
            weight.copy_(noise * GAIN / weight.shape[-1] ** 0.5)
        else:
            weight.add_(noise * 0.1)
    return model


def is_plain(config: Any) -> bool:
    """True for a configuration whose every path is compared in the tests, so that no run needs to compare it."""
    return config.model_type in PLAIN and not getattr(config, "sliding_window", None)


def plain_head(config: Any) -> bool:
    """True if logits are the head's weight times the hidden states: no scale, cap or layer follows or precedes it."""
    return config.model_type in PLAIN or _plain_head(key(config))


def key(config: Any) -> str:
    """A configuration as text, with the fields that decide how a model computes, not where it is from."""
    return json.dumps({**config.get_text_config(decoder=True).to_dict(), "dtype": None}, sort_keys=True, default=str)


@cache
def _plain_head(config: str) -> bool:
    fields = json.loads(config)
    twin = small_twin(AutoConfig.for_model(fields.pop("model_type"), **fields))
    width = twin.get_output_embeddings().weight.shape[1]
    hidden = torch.randn(5, width, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        return torch.allclose(own_logits(twin, hidden), head_logits(twin, hidden), atol=1e-4)
