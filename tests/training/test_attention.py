"""Attention over packed rows against each sequence alone."""

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from ratchet.infra.inference.attention import attention
from ratchet.infra.recipe.training import Hardware
from ratchet.training.model import check_attention, load_model
from ratchet.verifiers.errors import RatchetError

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
LENGTHS = (5, 1, 17, 64)


def tensors(device: str, dtype: torch.dtype) -> list[torch.Tensor]:
    """Query of eight heads, key and value of two."""
    torch.manual_seed(0)
    return [
        torch.randn(1, heads, sum(LENGTHS), 32, device=device, dtype=dtype, requires_grad=True) for heads in (8, 2, 2)
    ]


def alone(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Each sequence by itself, its keys repeated for the heads that share them. In float32."""
    found, start = [], 0
    for length in LENGTHS:
        q, k, v = (each[:, :, start : start + length].float() for each in (query, key, value))
        k, v = (each.repeat_interleave(4, dim=1) for each in (k, v))
        later = torch.ones(length, length, device=query.device, dtype=torch.bool).triu(1)
        scores = (q @ k.transpose(-1, -2) * 0.25).masked_fill(later, -torch.inf)
        found.append(scores.softmax(-1) @ v)
        start += length
    return torch.cat(found, dim=2).transpose(1, 2)


@pytest.mark.parametrize(
    ("device", "dtype", "tolerance"),
    [
        ("cpu", torch.float32, 2e-6),
        ("cpu", torch.bfloat16, 3e-2),
        pytest.param("cuda", torch.bfloat16, 3e-2, marks=on_gpu),
    ],
)
def test_packed_sequences_see_themselves_alone(device, dtype, tolerance):
    given = tensors(device, dtype)
    found, _ = attention(nn.Module(), *given, None, sequences=LENGTHS, scaling=0.25, dropout=0.0)
    wanted = alone(*given)
    upstream = torch.randn_like(wanted)
    gradients = torch.autograd.grad((found.float() * upstream).sum(), given)
    wanted_gradients = torch.autograd.grad((wanted * upstream).sum(), given)
    for one, other in zip((found, *gradients), (wanted, *wanted_gradients), strict=True):
        torch.testing.assert_close(
            one.float(), other.float(), atol=tolerance * float(other.detach().abs().max()), rtol=0
        )


def test_without_packed_sequences_it_is_transformers_own():
    query, key, value = tensors("cpu", torch.float32)
    module = nn.Module()
    module.num_key_value_groups = 4
    found, _ = attention(module, query, key, value, None, scaling=0.25)
    wanted = scaled_dot_product_attention(query, key, value, is_causal=True, scale=0.25, enable_gqa=True)
    assert torch.equal(found, wanted.transpose(1, 2))


def test_a_mask_costs_no_copies_of_keys_and_values_and_changes_no_bit():
    query, key, value = tensors("cpu", torch.float32)
    mask = torch.zeros(1, 1, 1, key.shape[2]).masked_fill_(torch.arange(key.shape[2]) < 9, -torch.inf)
    found, _ = attention(nn.Module(), query[:, :, -1:], key, value, mask, scaling=0.25)
    repeated = (each.repeat_interleave(4, dim=1) for each in (key, value))
    wanted = scaled_dot_product_attention(query[:, :, -1:], *repeated, attn_mask=mask, scale=0.25)
    assert torch.equal(found, wanted.transpose(1, 2))


def test_a_model_whose_sequences_cannot_be_packed_is_refused(micro_model):
    model, _ = load_model(micro_model, "float32")
    check_attention(model, Hardware(packed=True))
    model.config.layer_types = ["full_attention", "sliding_attention"]
    check_attention(model, Hardware(packed=True))
    model.config.layer_types = ["full_attention", "linear_attention"]
    check_attention(model, Hardware())
    with pytest.raises(RatchetError, match=r"full_attention, linear_attention in sdpa.*packed=false"):
        check_attention(model, Hardware(packed=True))
