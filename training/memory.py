"""Memory of one rank by purpose: what is allocated by design, without fragmentation or the few GB of a GPU
framework."""

import math

from ratchet.infra.recipe.training import Stage, Training
from ratchet.training.machine import Machine
from ratchet.training.shape import Shape, reference_shape

PROMPT_TOKENS = 256
"""Assumed tokens of a prompt; for toy recipes, no more than the longest response."""
PER_STEP_MEMORY = ("gradients", "activations", "logits, in chunks")
"""Memory that only the update holds; `Rates.memory` scales it."""
TILES = {"cpu": (1024, 4096), "cuda": (4096, 16_384)}  # those of `logprobs`, which would import torch
PIECES, WHOLE = 4, 3  # those of `packing`
LIBRARIES = 0.58e9
"""Bytes of a rank's process without a model: torch, transformers and DeepSpeed."""


class RankMemory:
    """Bytes of memory of one of a stage's `ranks` ranks."""

    def __init__(self, shape: Shape, stage: Stage, training: Training, machine: Machine, ranks: int) -> None:
        self._shape, self._stage, self._hardware, self._machine, self._ranks = (
            shape, stage, training.hardware, machine, ranks,
        )  # fmt: skip
        self.size = 2 if training.hardware.dtype == "bfloat16" else 4
        """Bytes of a weight."""
        self.adapter = shape.adapter(training.advanced.lora)
        self.trained = self.adapter or shape.parameters
        """Parameters with a gradient."""
        self.state = self.trained * (12 if self.size == 2 else 8)
        """Bytes of the optimizer's state, over all ranks."""
        self.prompt = min(PROMPT_TOKENS, stage.longest_response)
        gpu, on_each = None if machine.is_cpu else machine.memory, min(machine.in_one, ranks)
        weights = shape.parameters * self.size
        self.copied_among = training.hardware.copied_among(weights, gpu, ranks // on_each, on_each)

    def _sharded(self, size: float, from_stage: int) -> float:
        return size / self._ranks if self._hardware.sharding >= from_stage else size

    def held(self) -> dict[str, float]:
        """Bytes held all the time, by purpose."""
        parameters = self._shape.parameters
        held = {"weights": self._sharded((parameters + self.adapter) * self.size, 3)}
        if self.copied_among > 1:
            held["a machine's copy of the weights"] = parameters * self.size / self.copied_among
        if not self._hardware.advanced.cpu_offload:
            held["optimizer"] = self._sharded(self.state, 1)
        if self._stage.kl_coefficient:
            scoring = reference_shape(self._stage)
            held["reference"] = self._sharded((scoring.parameters if scoring else self.trained) * self.size, 3)
        if self._machine.is_cpu:
            held["libraries"] = LIBRARIES
        return held

    @property
    def once(self) -> float:
        """Share of the prompts that a step computes: packed responses share theirs."""
        if not self._hardware.packed:
            return 1.0
        return min(1.0, math.ceil(PIECES * self._ranks / self._stage.prompts_per_batch) / self._stage.most_rollouts)

    def updating(self) -> dict[str, float]:
        """Bytes that the update holds besides `held`, by purpose, if all responses are longest."""
        shape, hardware, size, ranks = self._shape, self._hardware, self.size, self._ranks
        longest = self.prompt + self._stage.longest_response
        responses = self._stage.prompts_per_batch * self._stage.most_rollouts
        most = (self.prompt * self.once + self._stage.longest_response) * responses / ranks  # tokens of one rank
        micro_batches = math.ceil(most / hardware.micro_batch_tokens) if hardware.packed else 1
        tokens = max(longest, min(hardware.micro_batch_tokens, most / micro_batches))
        # Attention sees whole sequences, also where their prompts are computed once.
        whole = tokens * min(WHOLE, longest * responses / ranks / most)
        attended = whole * (2 * shape.attention + 2 * shape.cache_width)
        layer = (tokens * (8 * shape.hidden + 4 * shape.intermediate) + attended) * size
        recomputed = layer + shape.layers * tokens * shape.hidden * size
        chunk, columns = TILES["cpu" if self._machine.is_cpu else "cuda"]
        per_step = (
            # In float32, whatever the weights are. Without ZeRO DeepSpeed copies them to average them over ranks.
            self._sharded(self.trained * 4, 2) * (2 if ranks > 1 and not hardware.sharding else 1),
            recomputed if hardware.activation_checkpointing else shape.layers * layer,
            3 * min(chunk, tokens) * min(columns, shape.vocabulary) * 4 + tokens * shape.hidden * 4,
        )
        return {name: each * self._machine.rates.memory for name, each in zip(PER_STEP_MEMORY, per_step, strict=True)}
