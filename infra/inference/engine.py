"""The contract of inference engines. The recipe names one as `training.engine`.

Your own engine is a class in one file, named in the recipe by its import path (docs/howto/engine.md). Its settings are
its fields. The class is imported wherever recipes are read, so import torch in its methods only.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

from pydantic import BeforeValidator, ConfigDict, SerializeAsAny

from ratchet.data_curation.base.files import disk_errors
from ratchet.data_curation.base.protocol import Completion, Engine, Request, Sampling
from ratchet.data_curation.base.section import Section
from ratchet.verifiers.errors import RatchetError, nearest
from ratchet.verifiers.registry import Registry, concrete

if TYPE_CHECKING:
    from ratchet.infra.recipe.training import Hardware


class InferenceEngine(Section, ABC):
    """An engine's settings and methods.

    Planning calls `check` and `needs`; training calls `open_for_training`, or `open_async`, on every rank; evaluation
    calls `preload` in the parent of the sampling processes, then `open_for_evaluation` in each of them.
    """

    model_config = ConfigDict(json_schema_extra={"additionalProperties": True})  # forms know only the common fields

    kind: str
    """The engine's name or import path."""

    @property
    def gpus(self) -> int:
        """GPUs of one engine in an evaluation."""
        return 1

    @property
    def single_threaded(self) -> bool:
        """True if an engine of an evaluation computes on one core of this machine."""
        return False

    @property
    def supports_async_sampling(self) -> bool:
        """True if `open_async` gives an engine that samples while the policy learns (`max_staleness`)."""
        return False

    def rounds(self, staleness: int) -> int:
        """Rounds of decoding that a response may take. A round beside an update is a step old when it is learned from;
        a round between two updates is not."""
        return max(1, staleness if self.supports_async_sampling else staleness + 1)

    def check_hardware(self, hardware: "Hardware") -> None:
        """Raises ValueError if the engine cannot serve this hardware. Called when the recipe is read."""

    def check(self, python: str) -> None:
        """Raises RatchetError if something is missing: a package in the interpreter `python` of trainers and
        evaluators, or a running server. Anything that is not checked here fails hours later."""

    @abstractmethod
    def needs(self, work: "SamplingWorkload") -> "EngineResources":
        """The memory and cache room for one step's sampling, by arithmetic."""

    @abstractmethod
    def open_for_training(
        self, policy: "TrainedModel", hardware: "Hardware", model_dir: str, work: Path
    ) -> "AbstractContextManager[TrainingEngine]":
        """Open the engine for a stage that starts from `model_dir`; all of its processes end with the block, also after
        a failure. Collective. Files go below `work`, which is deleted with the stage."""

    def open_async(
        self, policy: "TrainedModel", hardware: "Hardware", model_dir: str, work: Path
    ) -> "AbstractContextManager[TrainingEngine]":
        """Open the engine for a stage with `max_staleness`: `generate` is read on a thread while the policy learns."""
        return self.open_for_training(policy, hardware, model_dir, work)

    def for_evaluation(self) -> "InferenceEngine":
        """The engine with its settings for an evaluation, which runs without a trainer beside it."""
        return self

    def preload(self) -> bool:
        """Import everything that sampling processes need; True if they may be forked from this process. With threads or
        a GPU in use, forked processes would hang: return False, and they start fresh."""
        return False

    @abstractmethod
    def open_for_evaluation(self, model_dir: str, dtype: str, batch_size: int, index: int) -> "EvaluationEngine":
        """Open the engine of sampling process `index`, which has its own GPUs, if any, to itself. Raises RatchetError
        if the model cannot be read or served."""


class TrainedModel(Protocol):
    """The policy as an engine sees it: one rank's `training.policy.Policy`. All ranks call a collective method
    together, or all hang."""

    rank: int
    ranks: int
    model: Any
    tokenizer: Any

    def weights(self) -> Iterator[tuple[str, Any]]:
        """The name and the whole current tensor of every weight, one at a time, tied ones under each name.
        Collective."""
        ...

    def whole_model(self) -> Any:
        """The model with all of its current weights, for decoding. Collective."""
        ...


BATCHES_AT_ONCE = 4
"""Batches handed to an engine together, so that it can replace responses that have ended. The samples do not depend on
requests handed over before or after, so a resumed pass samples the same."""


class TrainingEngine(Protocol):
    """An engine that samples from the policy. Each sampling pass starts with `receive` and ends with `sleep`; all ranks
    make the same passes, each with its own requests."""

    positions: int | None = None
    """Most tokens of a prompt and its response together; None if only the model limits them."""
    has_own_weights: bool = True
    """True if the engine has its own copy of the weights. Its completions must then carry the version given to
    `receive`, and log-probabilities, which are compared with the policy's after each change of weights; a difference
    above rounding ends the run."""
    separate_devices: bool = False
    """True if the engine samples in its own processes on its own devices: the policy then learns from finished groups
    while the rest is sampled."""
    continuous_batching: bool = False
    """True if a response starts when any other ends; prompts with the longest expected responses then go first. If
    False, it may start when another one that was handed over together with it ends."""
    ranks_per_engine: int = 1
    """The number of neighboring ranks that share one engine, each with the same requests and completions."""

    def receive(self, version: str) -> None:
        """Take the policy's current weights, and the memory to sample with. Collective. Replaces all weights and drops
        everything computed with old ones, such as a prefix cache."""
        ...

    def generate(self, batches: Iterable[Sequence[Request]], sampling: Sampling) -> Iterator[Completion]:
        """Yield completions as they finish. A batch is drawn when there is room for it. Not collective: a rank may call
        it several times in a pass; for an engine with `separate_devices`, on a separate thread."""
        ...

    def sleep(self) -> None:
        """Free the accelerator's memory for the update; called also after a failed pass. Does nothing by default."""


class EvaluationEngine(Engine, Protocol):
    """An engine of an evaluation, with its tokenizer."""

    tokenizer: Any


@dataclass(frozen=True)
class SamplingWorkload:
    """The sampling of one step. In bytes: `weights` of the whole model, `token` of one token's keys and values."""

    weights: float
    token: float
    responses: int
    longest: float
    """Tokens of a prompt and its longest response."""
    ranks: int
    hardware: "Hardware"
    gpu: float | None
    """Bytes of one GPU's memory; None on a CPU."""
    layer: float = 0.0
    """Bytes of one token's activations in the widest layer, forward only."""
    adapted: bool = False
    """True if the policy is a base model with an adapter, which engines get merged."""
    beside: bool = False
    """True if responses are sampled while the policy learns."""


@dataclass(frozen=True)
class EngineResources:
    """The resources of an engine for a `SamplingWorkload`."""

    memory: dict[str, float]
    """Bytes on each rank's accelerator while sampling, by purpose."""
    room: float
    """Tokens that one engine's cache holds, prompts included."""
    batch: int
    """Most responses that one engine decodes together."""
    engines: int
    gpus: int = 1
    """GPUs of one engine."""
    more_room: str = "lower training.hardware.rollout_batch."
    """Advice for when `room` is less than one response needs."""
    kept: tuple[str, ...] = ()
    """The parts of `memory` that are not freed for the update."""
    apart: bool = False
    """True if the engine has GPUs that do not train, so that it may sample while the policy learns."""
    transfer: Literal["", "memory", "disk"] = "memory"
    """Transfer of new weights: none, between GPUs, or by files."""


ENGINES: Registry[type[InferenceEngine]] = Registry(
    "engine",
    {
        "transformers": "ratchet.infra.inference.with_transformers:Transformers",
        "vllm": "ratchet.infra.inference.with_vllm:Vllm",
        "vllm-server": "ratchet.infra.inference.vllm_service:ServedVllm",
    },
    concrete(InferenceEngine),
    group="ratchet.engines",
)


def write_weights(policy: TrainedModel, file: Path) -> None:
    """Write all of the policy's weights as safetensors, on rank 0. Collective. Raises RatchetError if the disk is
    full."""
    from safetensors.torch import save_file

    weights = {}
    for name, weight in policy.weights():
        if policy.rank == 0:
            weights[name] = weight.to("cpu", copy=True).contiguous()
    if policy.rank == 0:
        with disk_errors(file.parent):
            file.parent.mkdir(parents=True, exist_ok=True)
            save_file(weights, file)


def chosen_engine(value: Any) -> InferenceEngine:
    """The engine that a recipe describes, by a name or by settings with their `kind`."""
    if isinstance(value, InferenceEngine):
        return value
    settings = value if isinstance(value, Mapping) else {"kind": value}
    kind = str(settings.get("kind", "transformers"))
    try:
        engine = ENGINES.get(kind)
        for name in settings.keys() - engine.model_fields:
            raise ValueError(_unknown(name, kind, engine))
    except RatchetError as error:
        raise ValueError(str(error)) from error
    return engine.model_validate({**settings, "kind": kind})


def _unknown(name: str, kind: str, engine: type[InferenceEngine]) -> str:
    valid = [field for field in engine.model_fields if field != "kind"]
    others = [other for other in ENGINES.shipped if name in ENGINES.get(other).model_fields]
    hint = nearest(name, valid) or (f" It is one of {', '.join(others)}." if others else "")
    return f"the engine {kind} has no setting {name!r}.{hint} Its settings: {', '.join(valid) or 'none'}."


AnyEngine = Annotated[SerializeAsAny[InferenceEngine], BeforeValidator(chosen_engine)]
"""The type of a field that holds an engine; a name alone is its `kind`."""
