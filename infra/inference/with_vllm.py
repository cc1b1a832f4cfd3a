"""`vllm` as a recipe's engine: vLLM inside each trainer process, and inside each sampling process of an evaluation."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ratchet.data_curation.base.bounds import Gibibytes, OpenProbability, Processes, Seconds
from ratchet.data_curation.base.protocol import Completion, Request, Sampling
from ratchet.data_curation.base.section import NotInKey
from ratchet.infra.inference.engine import (
    EngineResources,
    EvaluationEngine,
    InferenceEngine,
    SamplingWorkload,
    TrainedModel,
    TrainingEngine,
)
from ratchet.infra.inference.vllm_common import MORE_ROOM, require_vllm, visible_gpus

if TYPE_CHECKING:
    from ratchet.infra.recipe.training import Hardware


PROFILED_TOKENS = 16384
"""Tokens of the largest batch of prompts that vLLM reserves memory for (its default on GPUs of 70 GiB and more)."""
RESERVED = 2.0 * 2**30
"""Bytes of CUDA graphs, NCCL's buffers and the sampler's logits; assumed."""


class Vllm(InferenceEngine):
    """vLLM in each trainer process, one engine per rank or per `tensor_parallel` ranks; in an evaluation, in each
    sampling process."""

    memory_share: NotInKey[OpenProbability] = 0.4
    """Share of a GPU's memory for vLLM's weights and KV cache."""
    cpu_cache_gib: NotInKey[Gibibytes] = 1
    """GiB of KV cache on a machine without a GPU."""
    timeout_s: NotInKey[Seconds] = 300.0
    """Seconds without progress after which the engine has hung, and the run stops."""
    tensor_parallel: Processes = 1
    """GPUs that share one copy of the model."""

    @property
    def gpus(self) -> int:
        return self.tensor_parallel

    def check_hardware(self, hardware: "Hardware") -> None:
        if hardware.processes % self.tensor_parallel:
            raise ValueError(
                f"engine.tensor_parallel ({self.tensor_parallel}) must divide hardware.processes "
                f"({hardware.processes}): neighboring ranks share an engine"
            )

    def check(self, python: str) -> None:
        require_vllm(python)

    def needs(self, work: SamplingWorkload) -> EngineResources:
        """The memory and cache room of one step. vLLM pages its cache, which holds as many responses as their current
        lengths allow."""
        room, gpus = self._room(work), self.tensor_parallel
        memory = (room * work.token + work.weights) / gpus if work.gpu is None else self.memory_share * work.gpu
        engines = work.ranks // gpus
        batch = min(work.hardware.rollout_batch * gpus, -(-work.responses // engines))
        return EngineResources({"vLLM": memory}, room, batch, engines, gpus=gpus, more_room=MORE_ROOM)

    def _room(self, work: SamplingWorkload) -> float:
        if work.gpu is None:
            return self.cpu_cache_gib * 2**30 * self.tensor_parallel / work.token
        own = self.memory_share * work.gpu - RESERVED
        allocation = work.weights + PROFILED_TOKENS * work.layer
        return max(0.0, own * self.tensor_parallel - allocation) / work.token

    def for_evaluation(self) -> "Vllm":
        settings = {name: getattr(self, name) for name in Vllm.model_fields}
        return Vllm(**{**settings, "kind": "vllm", "memory_share": 0.9})

    @contextmanager
    def open_for_training(
        self, policy: TrainedModel, hardware: "Hardware", model_dir: str, work: Path
    ) -> Iterator[TrainingEngine]:
        from ratchet.infra.inference.vllm_engine import VllmEngine

        batch = hardware.rollout_batch * self.tensor_parallel
        engine = VllmEngine(model_dir, hardware.dtype, batch, self, among_ranks=True)
        try:
            engine.sleep()
            yield ColocatedVllm(
                engine, lambda version: engine.load_weights(policy.weights(), version), self.tensor_parallel
            )
        finally:
            engine.close()

    def open_for_evaluation(self, model_dir: str, dtype: str, batch_size: int, index: int) -> EvaluationEngine:
        """Open vLLM inside this process, on the GPUs of process `index`."""
        from ratchet.infra.inference.vllm_engine import VllmEngine

        mine = range(index * self.gpus, (index + 1) * self.gpus)
        devices = visible_gpus()
        # vLLM takes the first GPUs it sees. CUDA reads this once, and has not been used yet.
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(devices[i % len(devices)] if devices else str(i) for i in mine)
        return VllmEngine(model_dir, dtype, batch_size, self.for_evaluation())


class ColocatedVllm(TrainingEngine):
    """A `VllmEngine` in the trainer's process. `push` sends it the policy's weights under a version; collective.

    The engines of ranks that share a copy of the model decode in lockstep: each has the same requests, and draws the
    same tokens from the same logits and seeds.
    """

    continuous_batching: bool = True

    def __init__(self, engine: Any, push: Callable[[str], None], ranks_per_engine: int = 1) -> None:
        self.positions, self.ranks_per_engine = engine.positions, ranks_per_engine
        self._engine, self._push = engine, push

    def receive(self, version: str) -> None:
        self._engine.wake("weights")
        self._push(version)
        self._engine.wake("kv_cache")

    def generate(self, batches: Iterable[Sequence[Request]], sampling: Sampling) -> Iterator[Completion]:
        return self._engine.generate(chain.from_iterable(batches), sampling)

    def sleep(self) -> None:
        self._engine.sleep()
