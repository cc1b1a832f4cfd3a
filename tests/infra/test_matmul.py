"""Products by oneDNN against torch's own, forward and backward."""

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from ratchet.infra.inference import matmul
from ratchet.infra.inference.matmul import (
    NARROW,
    Linear,
    Packed,
    by_onednn,
    float32_head,
    limit_threads,
    logits,
    multiply_by_onednn,
    product,
)

IN, OUT = 320, 256


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(3, IN), (2, 5, IN), (1, 1, IN)])
def test_values_and_gradients_are_those_of_torch(bias, shape):
    torch.manual_seed(0)
    plain = nn.Linear(IN, OUT, bias=bias)
    ours = nn.Linear(IN, OUT, bias=bias)
    ours.load_state_dict(plain.state_dict())
    multiply_by_onednn(ours)
    assert type(ours) is Linear and by_onednn(ours.weight)
    given = torch.randn(shape)
    found = []
    for layer in (plain, ours):
        inputs = given.clone().requires_grad_()
        outputs = layer(inputs)
        (outputs**2).sum().backward()
        found.append([outputs, inputs.grad, *(p.grad for p in layer.parameters())])
    for theirs, own in zip(*found, strict=True):
        torch.testing.assert_close(own, theirs, rtol=0, atol=2e-5 * float(theirs.detach().abs().max()))


def test_a_frozen_weight_has_no_gradient():
    layer = Linear(IN, OUT).requires_grad_(False)
    inputs = torch.randn(2, IN, requires_grad=True)
    layer(inputs).sum().backward()
    assert layer.weight.grad is None
    torch.testing.assert_close(inputs.grad, layer.weight.sum(0).expand(2, -1), rtol=1e-4, atol=1e-5)


def test_small_weights_and_other_types_stay_with_torch():
    assert by_onednn(torch.zeros(matmul.LEAST // 16, 16))
    assert not by_onednn(torch.zeros(matmul.LEAST // 16 - 1, 16))
    assert not by_onednn(torch.zeros(matmul.LEAST // 16, 16, dtype=torch.bfloat16))
    inputs, weight = torch.randn(3, 8), torch.randn(5, 8)
    assert torch.equal(product(inputs, weight), nn.functional.linear(inputs, weight))


@pytest.mark.parametrize(("width", "threads"), [(NARROW // 2, 1), (NARROW, 2)])
def test_a_narrow_model_has_one_thread(width, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        config = LlamaConfig(vocab_size=8, hidden_size=width, intermediate_size=8, num_hidden_layers=1)
        limit_threads(LlamaForCausalLM(config))
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("bias", [True, False])
def test_logits_of_a_16_bit_head_are_not_rounded_to_16_bits(bias):
    """Against float64. The embedded engine converts the head once for many products, the trainer tile by tile."""
    torch.manual_seed(0)
    head = nn.Linear(IN, OUT, bias=bias).bfloat16()
    hidden = (8 * torch.randn(5, IN)).bfloat16()
    exact = nn.functional.linear(hidden.double(), head.weight.double(), head.bias.double() if bias else None)
    whole = logits(hidden.float(), *float32_head(head))
    by_tiles = logits(hidden, head.weight, head.bias)
    rounded = logits(hidden, head.weight, head.bias, rounded=True)
    assert whole.dtype == by_tiles.dtype == rounded.dtype == torch.float32
    for each in (whole, by_tiles):
        assert float((each - exact).abs().max()) < 1e-5 * float(exact.abs().max())
    assert float((rounded - exact).abs().max()) > 1e-3 * float(exact.abs().max())
    assert float32_head(head, rounded=True)[0] is head.weight


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("sizes", [(256,), (256, 300, 512)])
def test_packed_layers_give_the_products_of_each(dtype, bias, sizes):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(512, size, bias).to(dtype) for size in sizes]
    packed, inputs = Packed(*layers), torch.randn(7, 512, dtype=dtype)
    for ours, layer in zip(packed(inputs), layers, strict=True):
        theirs = layer(inputs)
        rounding = 1e-5 if dtype == torch.float32 else torch.finfo(dtype).eps
        torch.testing.assert_close(ours, theirs, rtol=0, atol=rounding * float(theirs.abs().max()))
