"""Sample a stage's responses: an engine with the policy's current weights, and a check that it has them."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path

import numpy as np
import torch

from ratchet.data_curation.base.protocol import Completion, Request, Sampling, derive_seed
from ratchet.infra.inference.engine import TrainingEngine
from ratchet.infra.recipe.training import Training
from ratchet.training import ranks
from ratchet.training.checkpoint_files import CHECKPOINTS
from ratchet.training.packing import Sample, collate
from ratchet.training.policy import Policy
from ratchet.verifiers.errors import RatchetError

PROBES, PROBE_PROMPT, PROBE_RESPONSE = 4, 8, 8
"""Requests after each change of weights, and the tokens of each prompt and response."""
PROBE_TOLERANCE = {"float32": 1e-3, "bfloat16": 0.2}
"""Mean difference of log-probabilities that rounding can explain. In float32 one missing update exceeds it; in bfloat16
it catches weights of another model."""


@contextmanager
def open_sampler(
    policy: Policy, training: Training, model_dir: str, work: Path, beside: bool = False
) -> "Iterator[Sampler]":
    """Open the recipe's engine; all of its processes end with the block. With `beside`, it samples while the policy
    learns. Collective."""
    work = work / CHECKPOINTS  # deleted at the end of the stage
    opened = training.engine.open_async if beside else training.engine.open_for_training
    with opened(policy, training.hardware, model_dir, work) as engine:
        yield Sampler(policy, engine)


def difference(policy: Policy, prompts: Sequence[Sequence[int]], completions: Iterable[Completion]) -> torch.Tensor:
    """The policy's log-probabilities minus the engine's, shape [tokens]; a completion's key is its prompt's number.
    Collective."""
    samples = [
        Sample(c.key, np.array(prompts[c.key]), np.array(c.token_ids), sampled_logprobs=np.array(c.logprobs))
        for c in completions
    ]
    batch = collate(samples, policy.device)
    return policy.score(batch, 1.0)[0] - batch.sampled_logprobs


class Sampler:
    """A sampler from the current policy. An engine with its own copy of the weights gets the current ones before every
    pass, and is checked: its log-probabilities of a few tokens are compared with the policy's, and every completion
    carries the version of the weights that sampled it."""

    def __init__(self, policy: Policy, engine: TrainingEngine) -> None:
        self.positions, self.separate_devices = engine.positions, engine.separate_devices
        self.continuous_batching = engine.continuous_batching
        self.ranks_per_engine = engine.ranks_per_engine
        self.facts: dict[str, float] = {}
        """Metrics of the last `generate`."""
        self._policy, self._engine = policy, engine
        self._pushes = 0
        # Makes versions unique: a server may still hold another run's weights.
        self._session = ranks.broadcast(f"{time.time_ns():x}") if engine.has_own_weights else ""

    def generate(self, batches: Iterable[Sequence[Request]], sampling: Sampling) -> Iterator[Completion]:
        """Yield completions as `generate_each` does, with the same settings for all batches. Collective."""
        return self.generate_each(((sampling, batch) for batch in batches), ())

    def generate_each(
        self, batches: Iterable[tuple[Sampling, Sequence[Request]]], left: Iterable[tuple[Sampling, Sequence[Request]]]
    ) -> Iterator[Completion]:
        """Yield completions of the current policy as they finish; batches with equal settings should follow one
        another. A batch is drawn when there is room for it, and one of those `left` by other ranks when nothing is
        being decoded here. Collective: every rank calls it with its own batches, and no rank changes the weights before
        the others are done. The returned iterator is not collective, and may be read on another thread."""
        version = self._refresh()

        def completions() -> Iterator[Completion]:
            try:
                for share in chain([batches], ([batch] for batch in left)):
                    for sampling, same in groupby(share, key=itemgetter(0)):
                        for completion in self._engine.generate((requests for _, requests in same), sampling):
                            self._check_version(completion, version)
                            yield completion
            finally:
                self._engine.sleep()

        return completions()

    def _refresh(self) -> str:
        started = time.perf_counter()
        self._pushes += 1
        version = f"{self._session}-{self._pushes}"
        self._engine.receive(version)
        if self._engine.has_own_weights:
            pushed = time.perf_counter()
            gap = self._probe(version)
            self.facts = {
                "weight_version": float(self._pushes), "weight_seconds": pushed - started,
                "weight_probe": gap, "weight_probe_seconds": time.perf_counter() - pushed,
            }  # fmt: skip
        return version

    def _probe(self, version: str) -> float:
        """Mean absolute difference of log-probabilities between engine and policy on a few random prompts. Collective.
        Raises RatchetError when rounding cannot explain it: the engine does not have the policy's weights."""
        random, vocabulary = np.random.default_rng(derive_seed("probe")), len(self._policy.tokenizer)
        prompts = random.integers(vocabulary, size=(PROBES, PROBE_PROMPT)).tolist()
        requests = [[Request(i, derive_seed("probe", i), tuple(prompt))] for i, prompt in enumerate(prompts)]
        completions = list(self._engine.generate(requests, Sampling(max_tokens=PROBE_RESPONSE)))
        for completion in completions:
            self._check_version(completion, version)
        gap = float(difference(self._policy, prompts, completions).abs().mean())
        limit = PROBE_TOLERANCE[self._policy.hardware.dtype]
        if not gap <= limit:
            raise RatchetError(
                f"the engine was given new weights, but its log-probabilities differ from the policy's by {gap:.3g} "
                f"on average (rounding explains {limit:g}): it does not have all of them. "
                "`--set training.engine=transformers` samples with the policy itself."
            )
        return gap

    def _check_version(self, completion: Completion, version: str) -> None:
        if self._engine.has_own_weights and completion.weight_version != version:
            raise RatchetError(
                f"the engine sampled with weights {completion.weight_version!r} instead of {version!r}. Was the server "
                "restarted, or does another run use it? Run the same command again to continue from the last "
                "checkpoint."
            )
