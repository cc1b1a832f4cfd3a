import pytest

from infra.errors import RatchetError
from infra.recipe.model import Hardware, Stage
from tests.training.conftest import MICRO
from training.estimate import GIB, TILE, Shape, estimate, found_machine, told_machine
from training.logprobs import VOCABULARY_TILE

QWEN_14B = {
    "vocab_size": 152064, "hidden_size": 5120, "num_hidden_layers": 48, "num_attention_heads": 40,
    "num_key_value_heads": 8, "intermediate_size": 13824, "tie_word_embeddings": False,
}  # fmt: skip


def stage(**settings) -> Stage:
    return Stage(**{"name": "s", "domain": "math", "max_response_tokens": 8192, "steps": 5, **settings})


def test_parameters_are_those_of_the_model(policy, micro_model):
    config = policy.model.config.to_dict()
    counted = sum(p.numel() for p in policy.model.parameters())
    assert Shape.of(config).parameters == counted
    assert Shape.of(config).head_dim == MICRO.head_dim
    assert Shape.of(QWEN_14B).parameters == pytest.approx(14.77e9, rel=1e-3)
    assert TILE == VOCABULARY_TILE


def test_memory_by_hand():
    """14 billion parameters on 128 GPUs under ZeRO-3: 12 bytes of optimizer a parameter, shared by all."""
    shape, hardware = Shape.of(QWEN_14B), Hardware(zero_stage=3, dtype="bfloat16", rollout_batch=4)
    needs = estimate(shape, stage(), hardware, told_machine("128xH100"))
    assert needs.updating["optimizer"] == pytest.approx(shape.parameters * 12 / 128)
    assert needs.sampling["key-value cache"] == pytest.approx(4 * (8192 + 256) * 48 * 2 * 8 * 128 * 2)
    assert needs.updating["logits, in chunks"] < 1 * GIB < needs.full_logits
    assert "reference" not in needs.sampling
    one = estimate(shape, stage(kl_coefficient=1e-3), hardware, told_machine("1 x H100"))
    assert one.peak > 200 * GIB and "reference" in one.sampling
    offloaded = estimate(shape, stage(), hardware.model_copy(update={"cpu_offload": True}), told_machine("H100"))
    assert "optimizer" not in offloaded.sampling
    assert estimate(shape, stage(), hardware, told_machine("64xH100")).step_seconds > needs.step_seconds


def test_what_cannot_be_estimated_says_why():
    with pytest.raises(RatchetError, match=r"say how many of which, e\.g\. 8xH100; known are H100"):
        told_machine("8xZ80")
    with pytest.raises(RatchetError, match="mixture of experts"):
        Shape.of({**QWEN_14B, "num_experts": 8})
    with pytest.raises(RatchetError, match="no num_attention_heads"):
        Shape.of({"vocab_size": 1, "hidden_size": 1})


def test_the_machine_found_has_what_it_was_told_where_it_has_no_gpu(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    machine = found_machine(cores=2, memory=4 * GIB)
    assert (machine.count, machine.memory) == (1, 4 * GIB) and "2 cores" in str(machine)
