"""`transformers` as a recipe's engine: `transformers_engine.py` with the model in training, or with one from disk."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ratchet.data_curation.base.bounds import Flag
from ratchet.data_curation.base.protocol import Completion, Request, Sampling
from ratchet.infra.inference import hide_unused_libraries
from ratchet.infra.inference.engine import (
    EngineResources,
    EvaluationEngine,
    InferenceEngine,
    SamplingWorkload,
    TrainedModel,
    TrainingEngine,
)

if TYPE_CHECKING:
    from ratchet.infra.recipe.training import Hardware


COPY = "whole copy to sample with"


class Transformers(InferenceEngine):
    """The default engine, with torch only."""

    beside: Flag = True
    """Sample in a process of its own while the policy learns, with `max_staleness`. False: in the trainer, between two
    updates, without a second copy of the weights."""

    @property
    def supports_async_sampling(self) -> bool:
        return self.beside

    def needs(self, work: SamplingWorkload) -> EngineResources:
        batch = min(work.hardware.rollout_batch, -(-work.responses // work.ranks))
        room = batch * work.longest  # the cache is allocated for the longest responses
        memory = {"key-value cache": room * work.token}
        if work.beside or work.adapted or work.hardware.zero_stage == 3:
            memory[COPY] = work.weights
            if work.beside:  # a process of its own, which does not stop for the update
                return EngineResources(memory, room, batch, engines=work.ranks, kept=tuple(memory))
            return EngineResources(memory, room, batch, engines=work.ranks, kept=(COPY,))
        return EngineResources(memory, room, batch, engines=work.ranks, transfer="")

    @contextmanager
    def open_for_training(
        self, policy: TrainedModel, hardware: "Hardware", model_dir: str, work: Path
    ) -> "Iterator[EmbeddedEngine]":
        yield EmbeddedEngine(policy, hardware.rollout_batch, hardware.rounded_logits)

    @contextmanager
    def open_async(
        self, policy: TrainedModel, hardware: "Hardware", model_dir: str, work: Path
    ) -> Iterator[TrainingEngine]:
        from ratchet.infra.inference.sampling_process import opened

        with opened(policy, hardware, model_dir, work) as engine:
            yield engine

    @property
    def single_threaded(self) -> bool:
        import torch

        return not torch.cuda.is_available()

    def preload(self) -> bool:
        hide_unused_libraries()
        from ratchet.infra.inference import transformers_engine  # noqa: F401

        return self.single_threaded

    def open_for_evaluation(self, model_dir: str, dtype: str, batch_size: int, index: int) -> EvaluationEngine:
        import torch

        from ratchet.infra.inference.transformers_engine import TransformersEngine

        device = f"cuda:{index % torch.cuda.device_count()}" if torch.cuda.is_available() else "cpu"
        return TransformersEngine.load(model_dir, dtype=dtype, device=device, batch_size=batch_size)


class EmbeddedEngine(TrainingEngine):
    """An engine that decodes with the model in training itself, or with a whole copy if it is sharded or has an
    adapter."""

    def __init__(self, policy: TrainedModel, batch_size: int, rounded_logits: bool = False) -> None:
        from ratchet.infra.inference.transformers_engine import TransformersEngine

        self._policy = policy
        self.has_own_weights: bool = policy.whole_model() is not policy.model
        self._engine = TransformersEngine(policy.model, policy.tokenizer, batch_size, rounded_logits)

    def receive(self, version: str) -> None:
        self._engine.model, self._engine.version = self._policy.whole_model(), version

    def generate(self, batches: Iterable[Sequence[Request]], sampling: Sampling) -> Iterator[Completion]:
        for batch in batches:  # decoded separately, so that a response does not depend on the batch before
            yield from self._engine.generate(batch, sampling)
