"""Matrix products in float32 on a CPU, by oneDNN.

torch multiplies with MKL, which leaves half of an AMD processor's vector width unused: 90 instead of 200 GFLOP/s on one
core of an EPYC 9005. The results differ by rounding. The first product of new sizes compiles a kernel, so small weights
stay with MKL.
"""

from typing import Any

import torch
from torch import nn
from torch.nn.functional import linear

LEAST = 2**16
"""Entries of the smallest weight for which compiling pays off."""
NARROW = 128
"""Hidden sizes below which a second thread costs more than it computes, measured at 64."""


def by_onednn(weight: torch.Tensor, dtype: torch.dtype | None = None) -> bool:
    """True if products with this weight, converted to `dtype` if given, use oneDNN."""
    plain = (dtype or weight.dtype) == torch.float32 and weight.device.type == "cpu" and weight.numel() >= LEAST
    return plain and torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()


def product(inputs: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Multiply as `linear` without gradient: [..., in] and weight [out, in], which may be a transposed view, to [...,
    out]."""
    return onednn(inputs, weight, bias) if by_onednn(weight) else linear(inputs, weight, bias)


def logits(
    hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, rounded: bool = False
) -> torch.Tensor:
    """Float32 logits [tokens, vocabulary] of hidden states [tokens, width] and a head's weight [vocabulary, width].

    16-bit factors are summed in float32 and the sum is not rounded: 8 bits of a logit of 20 are steps of 0.06, which
    trainer and engine round differently. With `rounded` the sum is rounded, as in a 16-bit product. A GPU has products
    of this kind; on a CPU 16-bit factors are converted first, which is exact.
    """
    if weight.dtype == torch.float32 or rounded:
        return product(hidden, weight, bias).float()
    if weight.is_cuda:
        found = torch.mm(hidden, weight.T, out_dtype=torch.float32)
        return found if bias is None else found.add_(bias)
    return product(hidden.float(), weight.float(), None if bias is None else bias.float())


def float32_head(head: Any, rounded: bool = False) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The head's weight and bias for many small products: on a CPU, 16-bit ones as float32, once for all of them."""
    weight, bias = head.weight, head.bias
    if weight.is_cuda or weight.dtype == torch.float32 or rounded:
        return weight, bias
    return weight.float(), None if bias is None else bias.float()


class Packed:
    """The weights of one or more linear layers side by side, for many products while they are constant.

    16-bit weights on a CPU are copied in the order that oneDNN's kernel reads, which saves a third of the time for few
    rows. Others are not copied: their products have the same bits as the layers' own.
    """

    def __init__(self, *layers: nn.Linear) -> None:
        self._layers, self._packed = layers, None
        if packs(layers[0].weight):
            weights: list[torch.Tensor] = [layer.weight for layer in layers]
            biases: list[torch.Tensor] = [layer.bias for layer in layers if layer.bias is not None]
            weight = torch.ops.mkldnn._reorder_linear_weight(torch.cat(weights) if layers[1:] else weights[0])
            self._packed = weight, torch.cat(biases) if biases else None
        self._sizes = [len(layer.weight) for layer in layers]

    def __call__(self, inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """[rows, in] to each layer's [rows, out]."""
        if self._packed is None:
            return tuple(product(inputs, layer.weight, layer.bias) for layer in self._layers)
        return onednn(inputs, *self._packed).split(self._sizes, dim=-1)


def packs(weight: torch.Tensor) -> bool:
    """True if oneDNN multiplies with a packed copy of this weight."""
    plain = weight.dtype == torch.bfloat16 and weight.device.type == "cpu" and weight.numel() >= LEAST
    return plain and torch.ops.mkldnn._is_mkldnn_bf16_supported()


def onednn(inputs: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Multiply by oneDNN, as `product`, whatever the size."""
    return torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, "none", [], "")


class Product(torch.autograd.Function):
    """A product by oneDNN with a gradient."""

    @staticmethod
    def forward(ctx: Any, inputs, weight, bias):
        ctx.save_for_backward(inputs, weight)
        return onednn(inputs, weight, bias)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any):
        inputs, weight = ctx.saved_tensors
        (grad,) = grad_outputs
        of_inputs, of_weight, of_bias = ctx.needs_input_grad
        rows = grad.flatten(0, -2)
        return (
            onednn(grad, weight.t()) if of_inputs else None,
            onednn(rows.t(), inputs.flatten(0, -2).t()) if of_weight else None,
            rows.sum(0) if of_bias else None,
        )


class Linear(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if by_onednn(self.weight):
            return Product.apply(input, self.weight, self.bias)  # type: ignore[no-any-return]
        return super().forward(input)


def limit_threads(model: Any) -> None:
    """Use one thread for a narrow model on a CPU. This depends on the model only: the number of threads changes
    bits."""
    if model.device.type == "cpu" and model.config.get_text_config().hidden_size < NARROW:
        torch.set_num_threads(1)


def multiply_by_onednn(model: nn.Module) -> None:
    """Let the model's linear layers use `product`."""
    for module in model.modules():
        if type(module) is nn.Linear:
            module.__class__ = Linear
