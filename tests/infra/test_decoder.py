import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from ratchet.infra.inference.decoder import Decoder, fits
from ratchet.infra.inference.transformers_engine import RowCache, by_modules
from ratchet.infra.inference.twin import PLAIN

ROWS, CACHED, STEPS = 5, 7, 3


def random_model(family: str, **settings):
    config = AutoConfig.for_model(
        family, vocab_size=40, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=64, initializer_range=0.3, sliding_window=None,
        **settings,
    )  # fmt: skip
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)
    for name, parameter in model.named_parameters():
        if "norm" in name or "bias" in name:  # 1 and 0 otherwise, which would hide that they are left out
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    return model


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("family", PLAIN)
def test_a_step_is_that_of_the_models_own_modules(family, dtype):
    llama3 = {"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 16}  # fmt: skip
    model = random_model(family, **({"rope_parameters": llama3} if family == "llama" else {})).to(dtype)
    assert fits(model)
    lengths = torch.tensor([7, 3, 5, 7, 1])
    mask = torch.zeros(ROWS, 1, 1, CACHED + STEPS, dtype=dtype)
    mask.masked_fill_(torch.arange(CACHED + STEPS) < (CACHED - lengths)[:, None, None, None], -torch.inf)
    tokens = torch.randint(40, (STEPS, ROWS))
    found = []
    for step_of in (by_modules(model), Decoder(model)):
        cache = RowCache(2, CACHED + STEPS)
        for layer in cache.rows:
            torch.manual_seed(1)
            layer.update(*torch.randn(2, ROWS, 2, CACHED, 8).to(dtype))
        hidden = []
        for step in range(STEPS):
            hidden.append(step_of(tokens[step], lengths + step, mask[..., : CACHED + step + 1], cache))
        found.append((torch.stack(hidden), cache.rows[-1].keys))
    for theirs, ours in zip(*found, strict=True):
        rounding = 2e-5 if dtype == torch.float32 else 0.03  # sums are in another order
        torch.testing.assert_close(ours, theirs, rtol=0, atol=rounding * float(theirs.abs().max()))


def test_what_is_built_otherwise_is_left_to_its_modules():
    assert not fits(random_model("granite"))
    assert not fits(random_model("llama", hidden_act="gelu"))
    adapted = random_model("llama")
    adapted.model.layers[0].self_attn.q_proj = torch.nn.Sequential(torch.nn.Linear(32, 32))
    assert not fits(adapted)
    watched = random_model("llama")
    watched.model.layers[0].mlp.up_proj.register_forward_hook(lambda *_: None)
    assert not fits(watched)
