"""The source of a stage's batches: the interface between `loop.py` and the samplers."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Protocol

from ratchet.training.curriculum import PromptBatch
from ratchet.training.groups import Group
from ratchet.training.metrics import Metrics


@dataclass
class Collected:
    """One step's groups of rollouts."""

    groups: list[Group] = field(default_factory=list)
    """Groups to learn from."""
    sampled: list[Group] = field(default_factory=list)
    """All groups that were sampled and judged in this step, for its metrics."""
    unlearned: list[Group] = field(default_factory=list)
    """Groups that no step will learn from: replaced by dynamic sampling, or deferred and sampled again later."""
    rounds: int = 0
    """Number of rounds of sampling."""
    missing: Counter[str] = field(default_factory=Counter)
    """Number of prompts that the batch is short of, by domain."""
    deferred_tokens: int = 0
    """Response tokens of the groups that tail batching samples again later."""


class RolloutSource(Protocol):
    """A stage's sampler: on-policy (`on_policy.py`) or with bounded staleness (`asynchronous.py`). The same on every
    rank; all methods but `report` and the state's are collective."""

    def collect(self, batch: PromptBatch) -> Collected:
        """Sample and judge the step's batch. Raises RatchetError if too many verdicts are infrastructure errors."""
        ...

    def settle(self) -> None:
        """Wait for the sampling beside the update, if any: before a validation, which needs the engine, and before a
        checkpoint, which needs the samples."""
        ...

    def report(self, collected: Collected) -> Metrics:
        """Metrics of the step's samples."""
        ...

    def leftover(self) -> list[Group]:
        """Judged groups that wait for a later step; at the stage's end no step will learn from them."""
        ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...
