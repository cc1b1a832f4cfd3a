"""Where a stage's responses come from: an engine with the policy's present weights in it, and proof of it."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import numpy as np

from ratchet.infra.errors import RatchetError
from ratchet.infra.inference.engine import TrainingEngine
from ratchet.infra.inference.protocol import Completion, Request, Sampling, derive_seed
from ratchet.infra.recipe.training import Training
from ratchet.training import ranks
from ratchet.training.packing import Sample, collate
from ratchet.training.policy import Policy

PROBES, PROBE_PROMPT, PROBE_RESPONSE = 4, 8, 8
"""Requests after each change of weights, and the tokens of one."""
PROBE_TOLERANCE = {"float32": 1e-3, "bfloat16": 0.2}
"""Mean difference of log-probabilities that rounding can explain. One update too few already exceeds the first; the
second catches weights that are not the policy's at all."""


@contextmanager
def open_sampler(policy: Policy, training: Training, model_dir: str, work: Path) -> "Iterator[Sampler]":
    """The engine that the recipe asks for, gone with all of its processes on the way out. Collective."""
    work = work / "checkpoints"  # nothing of it outlives the stage
    with training.engine.open_for_training(policy, training.hardware, model_dir, work) as engine:
        yield Sampler(policy, engine)


class Sampler:
    """Samples from the present policy. An engine that has a copy of the weights gets the present ones before every
    call, and shows that it has them: its log-probabilities of a few tokens are compared with the policy's, and every
    completion carries the version that sampled it."""

    def __init__(self, policy: Policy, engine: TrainingEngine) -> None:
        self.positions, self.beside, self.continuous = engine.positions, engine.beside, engine.continuous
        self.facts: dict[str, float] = {}
        """About the last call of `generate`, for the metrics."""
        self._policy, self._engine = policy, engine
        self._pushes = 0
        # A server may still hold another run's weights.
        self._session = ranks.broadcast(f"{time.time_ns():x}") if engine.copies else ""

    def generate(
        self, batches: Iterable[Sequence[Request]], sampling: Sampling, left: Iterable[Sequence[Request]] = ()
    ) -> Iterator[Completion]:
        """Completions of the present policy as they finish. A batch is drawn when there is room for it, and one of
        those `left` by others when nothing is being decoded here. Collective: every rank calls it, with its own
        batches, and no rank changes the weights before the others are done. What it returns is not, and may be read on
        another thread."""
        return self._completions(batches, sampling, left, self._refresh())

    def _completions(
        self, batches: Iterable[Sequence[Request]], sampling: Sampling, left: Iterable[Sequence[Request]], version: str
    ) -> Iterator[Completion]:
        try:
            for share in chain([batches], ([batch] for batch in left)):
                for completion in self._engine.generate(share, sampling):
                    self._check_version(completion, version)
                    yield completion
        finally:
            self._engine.sleep()

    def _refresh(self) -> str:
        started = time.perf_counter()
        self._pushes += 1
        version = f"{self._session}-{self._pushes}"
        self._engine.receive(version)
        if self._engine.copies:
            pushed = time.perf_counter()
            difference = self._probe(version)
            self.facts = {
                "weight_version": float(self._pushes), "weight_seconds": pushed - started,
                "weight_probe": difference, "weight_probe_seconds": time.perf_counter() - pushed,
            }  # fmt: skip
        return version

    def _probe(self, version: str) -> float:
        """Mean difference of log-probabilities between engine and policy on a few random prompts. Collective.

        Raises RatchetError when it is more than rounding: the engine does not have the weights it was given.
        """
        vocabulary = len(self._policy.tokenizer)
        prompts = np.random.default_rng(derive_seed("probe")).integers(vocabulary, size=(PROBES, PROBE_PROMPT))
        requests = [
            Request(key=i, seed=derive_seed("probe", i), prompt_ids=tuple(map(int, prompt)))
            for i, prompt in enumerate(prompts)
        ]
        samples = []
        for completion in self._engine.generate([[each] for each in requests], Sampling(max_tokens=PROBE_RESPONSE)):
            self._check_version(completion, version)
            response, logprobs = np.array(completion.token_ids), np.array(completion.logprobs)
            samples.append(Sample(completion.key, prompts[completion.key], response, sampled_logprobs=logprobs))
        batch = collate(samples, self._policy.device)
        logprobs, _ = self._policy.score(batch, temperature=1.0)
        difference = float((logprobs - batch.sampled_logprobs).abs().mean())
        limit = PROBE_TOLERANCE[self._policy.hardware.dtype]
        if not difference <= limit:
            raise RatchetError(
                f"the engine was given new weights, and its log-probabilities still differ from the policy's by "
                f"{difference:.3g} on average (rounding explains {limit:g}): it does not have them all. "
                "`--set training.engine=transformers` samples with the policy itself."
            )
        return difference

    def _check_version(self, completion: Completion, version: str) -> None:
        if self._engine.copies and completion.weight_version != version:
            raise RatchetError(
                f"the engine sampled with weights {completion.weight_version!r} and not with {version!r}, which it was "
                "given. Was the server restarted, or does another run use it? Run the same command again to continue "
                "from the last checkpoint."
            )
