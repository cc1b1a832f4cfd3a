"""The model in training: read, without dropout, and given its head."""

from typing import Any

import torch
from torch import nn

from ratchet.infra.inference import attention  # noqa: F401  what takes `sequences`
from ratchet.infra.inference.models import read_model
from ratchet.training.logprobs import ChunkedLogProbabilities
from ratchet.training.packing import MicroBatch


def load_model(path: str, dtype: str) -> tuple[Any, Any]:
    """(model, tokenizer) of a directory or hub name. Raises RatchetError when they cannot be read or do not fit."""
    model, tokenizer = read_model(path, dtype)
    # The network that is trained must be the network that sampled: with dropout no probability ratio is one.
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        elif isinstance(getattr(module, "attention_dropout", None), float):
            module.attention_dropout = 0.0
    return model, tokenizer


class ScoredModel(nn.Module):
    """Model and head as one module whose output is per-token log-probabilities and entropies instead of logits."""

    def __init__(self, model: Any, chunk: int) -> None:
        super().__init__()
        self.model, self.chunk = model, chunk

    def forward(self, batch: MicroBatch, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
        packed = {}
        if batch.sequences is not None:
            # transformers would make a mask of tokens x tokens out of the positions, and takes one of four dimensions
            # as it is: an empty one, which fits no attention but ours.
            no_mask = torch.empty(1, 1, 0, 0, device=batch.input_ids.device)
            packed = {"position_ids": batch.position_ids, "attention_mask": no_mask, "sequences": batch.sequences}
        # With a cache, packed sequences would see one another.
        hidden = self.model.base_model(input_ids=batch.input_ids, use_cache=False, **packed).last_hidden_state
        head = self.model.get_output_embeddings()
        return ChunkedLogProbabilities.apply(
            hidden[batch.rows, batch.columns], head.weight, head.bias, batch.targets, temperature, self.chunk
        )
