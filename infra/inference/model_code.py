"""Logits and attention windows as a model's own code computes them: beyond a stack of layers and a matrix.

Engine and trainer decode and score with pieces of a model: its layers, then its head's weight. Models differ in the
steps after the head (a scale, a soft cap), in the reach of a layer (a sliding window), and in random changes. Here each
is read off the model itself, so that the pieces compute the same as the whole; `model_support` checks it.
"""

from typing import Any

import torch
from torch import nn
from transformers.modeling_outputs import MoeModelOutputWithPast

from ratchet.infra.inference.matmul import logits

FULL, SLIDING = "full_attention", "sliding_attention"
RANDOM = ("drop", "jitter")
"""Parts of the names of a module's rates for random changes in training mode."""


def windows(config: Any) -> dict[str, int | None]:
    """Tokens that each kind of layer sees, including the present one; None: all before it. `layer_types` names the
    kinds; without it all layers are alike, with the same `sliding_window`."""
    width = getattr(config, "sliding_window", None)
    if getattr(config, "use_sliding_window", True) is False:
        width = None
    if kinds := getattr(config, "layer_types", None):
        return {kind: width if kind == SLIDING else None for kind in kinds}
    return {SLIDING: width} if width else {FULL: None}


def stop_randomness(model: nn.Module) -> None:
    """Set every rate of dropout or jitter to zero, as a module, an attribute or a setting: with them the trained
    network would differ from the one that sampled, and no probability ratio would be one."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name, value in list(vars(module).items()):
            if isinstance(value, float) and any(part in name.lower() for part in RANDOM):
                setattr(module, name, 0.0)
    for config in {id(c): c for c in (getattr(m, "config", None) for m in model.modules()) if c is not None}.values():
        for name, value in list(vars(config).items()):
            if isinstance(value, float) and any(part in name.lower() for part in RANDOM):
                setattr(config, name, 0.0)


class _Output(MoeModelOutputWithPast):
    """Output of a model's layers; a field that this model's code asks for and others lack is None."""

    def __getattr__(self, name: str) -> None:
        return None


class _Given(nn.Module):
    """A stand-in for a model's layers that returns given hidden states; all else is read from the layers."""

    def __init__(self, hidden: torch.Tensor, layers: Any) -> None:
        super().__init__()
        self.hidden = hidden
        self.__dict__ |= {"layers_replaced": layers, "decoder": self}  # OPT calls its layers by the name of decoder

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["layers_replaced"], name)

    def forward(self, *_: Any, **__: Any) -> MoeModelOutputWithPast:
        return _Output(last_hidden_state=self.hidden)  # pyright: ignore[reportArgumentType]


def own_logits(model: Any, hidden: torch.Tensor) -> torch.Tensor:
    """Float32 logits [tokens, vocabulary] of hidden states [tokens, width], by the model's own code."""
    prefix = model.base_model_prefix
    layers = getattr(model, prefix)
    places = torch.zeros(1, len(hidden), dtype=torch.long, device=hidden.device)
    model._modules[prefix] = _Given(hidden[None], layers)
    try:
        return model.forward(input_ids=places, use_cache=False, return_dict=True).logits[0].float()
    finally:
        model._modules[prefix] = layers


def head_logits(model: Any, hidden: torch.Tensor) -> torch.Tensor:
    """Float32 logits [tokens, vocabulary] of hidden states [tokens, width], by the head's weight alone."""
    head = model.get_output_embeddings()
    return logits(hidden, head.weight, head.bias)
