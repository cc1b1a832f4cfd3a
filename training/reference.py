"""The reference policy of the KL term: the policy at the stage's start or last reset, or the stage's own model."""

from pathlib import Path
from typing import Any

import deepspeed
import torch
from safetensors.torch import load_file, save_file

from ratchet.infra.recipe.training import Hardware
from ratchet.training.adapter import trained
from ratchet.training.model import ScoredModel
from ratchet.training.packing import MicroBatch

FILE = "reference.safetensors"


class Reference:
    """A frozen model, sharded like the policy. All methods are collective."""

    def __init__(self, model: Any, hardware: Hardware) -> None:
        self._own = trained(model)  # the others are the policy's
        model.requires_grad_(False).eval()
        self._scored: Any = ScoredModel(model, hardware.rounded_logits)
        self._sharded = hardware.zero_stage == 3
        self.reset = False  # then it is the stage's start, which need not be saved
        if self._sharded:
            deepspeed.zero.register_external_parameter(self._scored, model.get_output_embeddings().weight)
            configuration = {
                "train_micro_batch_size_per_gpu": 1,
                "zero_optimization": {"stage": 3},
                "bf16": {"enabled": hardware.dtype == "bfloat16"},
            }
            self._scored = deepspeed.initialize(model=self._scored, config=configuration)[0]
            self._scored.eval()

    @torch.no_grad()
    def score(self, batch: MicroBatch, temperature: float) -> torch.Tensor:
        """Log-probabilities of the micro-batch's tokens, shape [tokens]."""
        return self._scored(batch, temperature)[0]

    def follow(self, model: Any) -> None:
        """Copy the weights of `model`."""
        for name, other in trained(model).items():
            with self._whole(other):
                value = other.detach().clone() if self._sharded else other.detach()
            self._set(self._own[name], value)
        self.reset = True

    def save(self, file: Path, rank: int) -> None:
        weights = {}
        for name, own in self._own.items():
            with self._whole(own):
                if rank == 0:
                    weights[name] = own.detach().to("cpu", copy=True)
        if rank == 0:
            save_file(weights, file)

    def load(self, directory: Path) -> None:
        weights = load_file(directory / FILE)
        for name, own in self._own.items():
            self._set(own, weights[name].to(own.device))
        self.reset = True

    def _whole(self, parameter: Any) -> Any:
        return deepspeed.zero.GatheredParameters([parameter], enabled=self._sharded)

    def _set(self, own: Any, value: torch.Tensor) -> None:
        with deepspeed.zero.GatheredParameters([own], modifier_rank=0, enabled=self._sharded):
            own.data.copy_(value)
