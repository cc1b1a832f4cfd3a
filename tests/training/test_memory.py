"""The plan's activations against those of real models, counted without memory on torch's meta device."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import AttentionInterface, AutoModelForCausalLM, Qwen2Config

from ratchet.infra.recipe.training import Hardware, Stage, Training
from ratchet.training.estimate import estimate
from ratchet.training.machine import parse_machine
from ratchet.training.memory import PROMPT_TOKENS
from ratchet.training.shape import Shape

MODELS = {  # DeepSeek-R1-Distill-Qwen: layers, hidden size, intermediate size, heads, heads of keys and values
    "7B": (28, 3584, 18944, 28, 4),
    "14B": (48, 5120, 13824, 40, 8),
    "32B": (64, 5120, 27648, 40, 8),
}
TOKENS = 16384
NEAR = 0.1
"""The plan leaves out norms, masks and rotations."""


class Attention(torch.autograd.Function):
    """Keeps for the backward pass what FlashAttention keeps: queries, keys, values, output, a number for each row."""

    @staticmethod
    def forward(ctx: Any, query: Any, key: Any, value: Any) -> Any:
        output = torch.empty_like(query)
        ctx.save_for_backward(query, key, value, output, query.new_empty(query.shape[:-1], dtype=torch.float32))
        return output


def model_of(name: str) -> Any:
    layers, hidden, intermediate, heads, key_value_heads = MODELS[name]
    AttentionInterface.register(
        "counted", lambda module, q, k, v, mask, **_: (Attention.apply(q, k, v).transpose(1, 2), None)
    )
    config = Qwen2Config(
        vocab_size=152064, hidden_size=hidden, intermediate_size=intermediate, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=key_value_heads, tie_word_embeddings=False,
        max_position_embeddings=131072, use_cache=False,
    )  # fmt: skip
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation="counted")


def kept_bytes(run: Any, model: Any) -> int:
    """Bytes of the tensors that autograd keeps while `run` computes, each storage once, weights left out."""
    weights = {id(each.untyped_storage()) for each in (*model.parameters(), *model.buffers())}
    kept: dict[int, Any] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if id(storage) not in weights:
            kept[id(storage)] = storage  # held, so that its identity is not reused
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        held = run()
    del held
    return sum(storage.nbytes() for storage in kept.values())


def planned(model: Any, checkpointed: bool) -> float:
    hardware = Hardware(
        processes=8, machines=8, zero_stage=3, dtype="bfloat16", micro_batch_tokens=TOKENS, packed=True,
        activation_checkpointing=checkpointed,
    )  # fmt: skip
    longest = Stage(name="s", domain="math", max_response_tokens=TOKENS - PROMPT_TOKENS, steps=1)
    shape = Shape.of(model.config.to_dict())
    return estimate(shape, longest, Training(hardware=hardware), parse_machine("64xH100")).updating["activations"]


@pytest.mark.parametrize("name", MODELS)
def test_activations_of_a_micro_batch(name):
    """With recomputation: every layer's input, and all that one layer keeps."""
    model = model_of(name)
    decoder = model.model.train()
    ids, positions = (torch.zeros(1, TOKENS, dtype=torch.long, device="meta") for _ in range(2))
    hidden = torch.empty(1, TOKENS, decoder.config.hidden_size, dtype=torch.bfloat16, device="meta", requires_grad=True)
    rotary = decoder.rotary_emb(hidden, positions)
    layer = kept_bytes(lambda: decoder.layers[0](hidden, position_embeddings=rotary, position_ids=positions), model)
    model.gradient_checkpointing_enable()
    inputs = kept_bytes(lambda: decoder(input_ids=ids, position_ids=positions), model)
    assert planned(model, checkpointed=True) == pytest.approx(inputs + layer, rel=NEAR)
    assert planned(model, checkpointed=False) == pytest.approx(len(decoder.layers) * layer, rel=NEAR)
