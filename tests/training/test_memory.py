"""The plan's bytes against those of real models' tensors, counted without memory on torch's meta device."""

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
SAME, NEAR = 1e-3, 0.1
"""Of parameters, gradients and optimizer; of activations, where the plan leaves out norms, masks and rotations."""


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


def planned(model: Any, gpus: int, zero: int, checkpointed: bool = True) -> dict[str, float]:
    hardware = Hardware(
        processes=8, machines=max(1, gpus // 8), zero_stage=zero, dtype="bfloat16", micro_batch_tokens=TOKENS,
        packed=True, activation_checkpointing=checkpointed,
    )  # fmt: skip
    longest = Stage(name="s", domain="math", max_response_tokens=TOKENS - PROMPT_TOKENS, steps=1)
    shape = Shape.of(model.config.to_dict())
    return estimate(shape, longest, Training(hardware=hardware), parse_machine(f"{gpus}xH100")).updating


@pytest.mark.parametrize("zero", [2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_weights_gradients_and_optimizer_of_each_rank(name, zero):
    """Each rank's partition of every tensor, in whole elements; DeepSpeed keeps 32-bit weights and two moments."""
    model, ranks = model_of(name), 64
    whole = list(model.parameters())
    parts = [torch.empty(-(-each.numel() // ranks), device="meta", dtype=torch.float32) for each in whole]
    of_a_rank = sum(part.nbytes for part in parts)
    plan = planned(model, ranks, zero)
    assert ("a machine's copy of the weights" in plan) == (zero == 3)
    if zero == 3:
        copy = sum(-(-each.numel() // 8) * each.element_size() for each in whole)
        assert plan["a machine's copy of the weights"] == pytest.approx(copy, rel=SAME)
    weights = sum(each.nbytes for each in whole)
    assert plan["weights"] == pytest.approx(weights / ranks if zero == 3 else weights, rel=SAME)
    assert plan["gradients"] == pytest.approx(of_a_rank, rel=SAME)
    assert plan["optimizer"] == pytest.approx(3 * of_a_rank, rel=SAME)


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
    assert planned(model, 64, 3)["activations"] == pytest.approx(inputs + layer, rel=NEAR)
    assert planned(model, 64, 3, checkpointed=False)["activations"] == pytest.approx(
        len(decoder.layers) * layer, rel=NEAR
    )
