"""What an inference engine is. The recipe names one, `training.engine`; everything else asks it through this contract.

An engine of your own is a class in one file, named in the recipe by its import path (docs/inference.md). Its settings
are its fields. The class is imported where recipes are read, so leave torch and the like to its methods.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol

from pydantic import BeforeValidator, ConfigDict, SerializeAsAny

from ratchet.infra.errors import RatchetError, nearest
from ratchet.infra.inference.protocol import Completion, Engine, Request, Sampling
from ratchet.infra.registry import Registry
from ratchet.infra.section import Section

if TYPE_CHECKING:
    from ratchet.infra.recipe.curation import Teacher
    from ratchet.infra.recipe.training import Hardware


class InferenceEngine(Section, ABC):
    """One engine's settings, and all that it does with them.

    While a run is planned, in its own process: `check`, and `needs` for the estimate. In training, on every rank:
    `open_for_training`. In evaluation, in every sampling process: `preload` in the process they come from, then
    `open_for_evaluation`.
    """

    model_config = ConfigDict(json_schema_extra={"additionalProperties": True})  # forms know the common part alone

    kind: str
    """The engine's name or import path."""

    def check_hardware(self, hardware: "Hardware") -> None:
        """Raises ValueError where it cannot serve this hardware; called when the recipe is read."""

    def check(self, python: str) -> None:
        """Raises RatchetError where something that it needs is missing: a package in the interpreter `python`, in which
        trainers and evaluators run, or a server that should answer. What is missed here is found hours later."""

    @abstractmethod
    def needs(self, work: "Work") -> "Needs":
        """Memory and room for one step's sampling, by arithmetic alone."""

    @abstractmethod
    def open_for_training(
        self, policy: "TrainedModel", hardware: "Hardware", model_dir: str, work: Path
    ) -> "AbstractContextManager[TrainingEngine]":
        """The engine for a stage that starts from `model_dir`; on the way out it is gone with all of its processes,
        also when it failed. Collective. Files go below `work`, which does not outlive the stage."""

    def preload(self) -> bool:
        """Import what sampling processes need and say True where they may then be forked from this one. Where the
        engine has threads or has asked a GPU anything, forked processes hang: they start fresh."""
        return False

    @abstractmethod
    def open_for_evaluation(self, model_dir: str, dtype: str, batch_size: int, index: int) -> "EvaluationEngine":
        """The engine of sampling process `index`, on GPUs of its own where there are any, with the whole of them.
        Raises RatchetError when the model cannot be read or served."""


class TrainedModel(Protocol):
    """The policy as an engine sees it (`training.policy.Policy`): one rank's handle. All ranks call a collective method
    together, or all of them hang."""

    rank: int
    ranks: int
    model: Any
    tokenizer: Any

    def weights(self) -> Iterator[tuple[str, Any]]:
        """Name and whole present tensor of every weight, one at a time, tied ones under each name. Collective."""
        ...

    def whole_model(self) -> Any:
        """The model with all of its present weights, for decoding. Collective."""
        ...


class TrainingEngine(Protocol):
    """An engine that samples from the policy. Before each pass of sampling `receive`, after it `sleep`; all ranks make
    the same passes, each with its own requests."""

    positions: int | None
    """What a prompt and its longest response may have together; None where only the model limits them."""
    copies: bool
    """Whether it samples with weights of its own. Completions must then carry the version that `receive` was given, and
    log-probabilities: they are compared with the policy's after each change of weights, and a difference above rounding
    ends the run. Without a copy the policy itself is sampled, and there is nothing to compare."""

    def receive(self, version: str) -> None:
        """Have the policy's present weights, and the memory to sample with. Collective. All weights are replaced, and
        what was computed with the old ones (a prefix cache) is forgotten, or what follows is of no policy at all."""
        ...

    def generate(self, batches: Iterable[Sequence[Request]], sampling: Sampling) -> Iterator[Completion]:
        """Yield completions as they finish. A batch is drawn when there is room for it. Not collective: a rank calls it
        as often in a pass as it finds something to do."""
        ...

    def sleep(self) -> None:
        """Leave the accelerator's memory to the update. Also after a pass that failed."""
        ...


class EvaluationEngine(Engine, Protocol):
    tokenizer: Any


@dataclass(frozen=True)
class Work:
    """One step's sampling. `weights` and `token` are bytes: of the whole model, and of one token's keys and values."""

    weights: float
    token: float
    responses: int
    longest: float
    """Tokens of a prompt and its longest response."""
    ranks: int
    hardware: "Hardware"
    gpu: float | None
    """Bytes of one GPU's memory; None on a CPU."""


@dataclass(frozen=True)
class Needs:
    """What an engine takes for `Work`."""

    memory: dict[str, float]
    """Bytes on each rank's accelerator, by what holds them."""
    room: float
    """Tokens that one engine's cache holds, prompts included."""
    batch: int
    """Responses that one engine decodes together at the most."""
    engines: int
    gpus: int = 1
    """Of one engine."""
    continuous: bool = True
    """Whether a response begins when another ends, or when its whole batch has ended."""
    more_room: str = "lower training.hardware.rollout_batch."
    """What to do when `room` is less than one response needs."""
    transfer: Literal["", "memory", "disk"] = "memory"
    """The way that new weights take to it: none, between GPUs, or over files."""


class TeacherEngine(ABC):
    """An engine that answers as the recipe's teacher; `Teacher.kind` names the class."""

    paid: ClassVar[bool] = False
    """Whether answers cost money. Paid ones answer every seed of a recipe, are made durable one by one, and their cost
    is told."""
    tell: Callable[[str], None] = staticmethod(lambda trouble: None)
    """Whoever asks sets it; it may be called, in any thread, with a sentence that a person should read."""

    @classmethod
    @abstractmethod
    def for_teacher(cls, teacher: "Teacher") -> "TeacherEngine":
        """The engine that the recipe describes. Raises RatchetError for settings that cannot work."""

    @classmethod
    def check(cls, teacher: "Teacher") -> None:
        """Raises RatchetError where it would not answer: asked before the first step of a run that will need it."""
        return

    @abstractmethod
    def generate(self, requests: Iterable[Request], sampling: Sampling) -> Iterator[Completion]:
        """As `protocol.Engine`; requests carry `messages`."""

    def close(self) -> None:
        """As `protocol.Engine`."""
        return


def _concrete(of: type) -> Any:
    return lambda value: inspect.isclass(value) and issubclass(value, of) and not inspect.isabstract(value)


ENGINES: Registry[type[InferenceEngine]] = Registry(
    "engine",
    {
        "transformers": "ratchet.infra.inference.with_transformers:Transformers",
        "vllm": "ratchet.infra.inference.with_vllm:Vllm",
        "vllm-server": "ratchet.infra.inference.vllm_service:ServedVllm",
    },
    _concrete(InferenceEngine),
)
TEACHERS: Registry[type[TeacherEngine]] = Registry(
    "teacher",
    {"openai": "ratchet.infra.inference.openai_engine:OpenAIEngine"},
    _concrete(TeacherEngine),
)


def chosen_engine(value: Any) -> InferenceEngine:
    """What a recipe says, a name or settings with their `kind`, as the engine's own class."""
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
