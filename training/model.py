"""The model in training: loading it, turning off dropout, and the head's log-probabilities."""

from typing import Any

import deepspeed
import torch
from deepspeed.utils import groups
from safetensors import SafetensorError, safe_open
from torch import nn
from transformers import AutoModelForCausalLM
from transformers.initialization import no_init_weights

from ratchet.infra.inference.attention import KIND, whole
from ratchet.infra.inference.matmul import multiply_by_onednn
from ratchet.infra.inference.model_code import FULL, SLIDING, stop_randomness, windows
from ratchet.infra.inference.models import (
    check_model,
    check_saving,
    read_config,
    read_generation_config,
    read_model,
    refuse_weights,
    unreadable,
    weight_files,
)
from ratchet.infra.inference.twin import plain_head
from ratchet.infra.recipe.training import Hardware
from ratchet.training import ranks
from ratchet.training.logprobs import TILES, ChunkedLogProbabilities, own_logprobs
from ratchet.training.packing import MicroBatch
from ratchet.verifiers.errors import RatchetError


def load_model(path: str, dtype: str, sharded: bool = False, copied: Hardware | None = None) -> tuple[Any, Any]:
    """Load the model and the tokenizer of a directory or Hub name. `sharded`: for ZeRO-3, each rank reads only its part
    of each weight from the safetensors files; gathered weights are `copied` as this hardware asks. Collective. Raises
    RatchetError if they cannot be read or do not match."""
    model, tokenizer = _read_shards(path, dtype, copied) if sharded else read_model(path, dtype)
    check_saving(path, model.generation_config)
    stop_randomness(model)
    multiply_by_onednn(model)
    return model, tokenizer


def copied_among(model: Any, hardware: Hardware) -> int:
    """The number of neighboring ranks that share a copy of the model's gathered weights; 1 if there is none."""
    weights = sum(getattr(each, "ds_numel", each.numel()) * each.element_size() for each in model.parameters())
    gpu = torch.cuda.get_device_properties(ranks.device()).total_memory if torch.cuda.is_available() else None
    return hardware.copied_among(weights, gpu, hardware.machines, hardware.processes)


def _neighbors(count: int) -> Any:
    """The process group of this rank and its neighbors; DeepSpeed has one for all models. None for one rank."""
    if count > 1 and groups._get_zero_param_intra_parallel_group() is None:
        groups._create_zero_param_parallel_group(count)
    return groups._get_zero_param_intra_parallel_group() if count > 1 else None


def _read_shards(path: str, dtype: str, copied: Hardware | None) -> tuple[Any, Any]:
    tokenizer, files = check_model(path), weight_files(path)
    with no_init_weights():  # memory that is never written takes no space
        model = AutoModelForCausalLM.from_config(read_config(path), dtype=getattr(torch, dtype))
    model.tie_weights()
    model.generation_config = read_generation_config(path)
    neighbors = _neighbors(copied_among(model, copied)) if copied else None
    deepspeed.zero.Init(module=model, dtype=getattr(torch, dtype), zero_param_parallel_group=neighbors)
    for weight in model.parameters():
        weight.ds_secondary_tensor = None  # a copy of what is read only now; DeepSpeed makes another when it gathers
    weights = dict(model.named_parameters())
    misshapen = []
    try:
        for file in sorted({files[name] for name in weights.keys() & files}):
            with safe_open(file, "pt", backend="pread") as stored:  # mapped files would count as this process's memory
                for name in weights.keys() & stored.keys():
                    part = stored.get_slice(name)
                    if tuple(part.get_shape()) == weights[name].ds_shape:
                        _fill(weights[name], part)
                    else:
                        misshapen.append(name)
    except SafetensorError as error:
        raise unreadable(path, error) from error
    refuse_weights(path, weights.keys() - files, misshapen)
    return model, tokenizer


def _fill(weight: Any, stored: Any) -> None:
    """Read this rank's part of a weight, a stretch of its elements; the file is read by whole rows."""
    size, row = weight.ds_tensor.numel(), weight.ds_numel // weight.ds_shape[0]
    first, last = (min(weight.ds_numel, (weight.ds_zero_partition_rank + i) * size) for i in (0, 1))
    weight.ds_tensor.zero_()
    if first < last:
        rows = stored[first // row : -(-last // row)].flatten()
        weight.ds_tensor[: last - first].copy_(rows[first % row :][: last - first])


def check_attention(model: Any, hardware: Hardware) -> None:
    """Raises RatchetError if sequences are packed and the model's attention is not full, in sdpa."""
    kinds = windows(model.config).keys()
    ours = model.config._attn_implementation == KIND and kinds <= {FULL, SLIDING}
    if hardware.packed and not ours:
        raise RatchetError(
            "training.hardware.packed needs full or sliding attention in PyTorch's own implementation (sdpa), and the "
            f"layers of this {model.config.model_type} are {', '.join(sorted(kinds))} in "
            f"{model.config._attn_implementation}: --set training.hardware.packed=false"
        )


class ScoredModel(nn.Module):
    """The model and its head as one module that returns per-token log-probabilities and entropies instead of logits."""

    def __init__(self, model: Any, rounded_logits: bool = False) -> None:
        super().__init__()
        self.model, self._rounded = model, rounded_logits
        self._plain = plain_head(model.config)

    def forward(self, batch: MicroBatch, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
        packed = {}
        if batch.sequences is not None:
            # transformers would make a tokens x tokens mask from the positions, but passes on a four-dimensional one:
            # an empty one, which only our attention accepts.
            no_mask = torch.empty(1, 1, 0, 0, device=batch.input_ids.device)
            packed = {
                "position_ids": batch.position_ids, "attention_mask": no_mask, "sequences": batch.sequences,
                "prompts": batch.prompts,
            }  # fmt: skip
        # With a cache, packed sequences would attend to one another.
        hidden = self.model.base_model(input_ids=batch.input_ids, use_cache=False, **packed).last_hidden_state
        if batch.prompts:
            hidden = whole(hidden, batch.prompts, 1)
        hidden = hidden[batch.rows, batch.columns]
        if not self._plain:
            return own_logprobs(self.model, hidden, batch.targets, temperature)
        head = self.model.get_output_embeddings()
        chunk, columns = TILES[head.weight.device.type]
        tiles = chunk, columns, self._rounded
        return ChunkedLogProbabilities.apply(hidden, head.weight, head.bias, batch.targets, temperature, *tiles)
