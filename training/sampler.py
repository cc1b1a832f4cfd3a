"""Where a stage's responses come from: an engine of `infra.inference`, with the policy's present weights in it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ratchet.infra.errors import RatchetError
from ratchet.infra.inference.protocol import Completion, Request, Sampling, derive_seed
from ratchet.infra.inference.transformers_engine import TransformersEngine
from ratchet.infra.inference.vllm_engine import VllmEngine, model_shape, require_vllm
from ratchet.infra.inference.vllm_service import TOKEN_VARIABLE, VllmService, own_server
from ratchet.infra.recipe.model import Training
from ratchet.training import ranks
from ratchet.training.packing import Sample, collate
from ratchet.training.policy import Policy

PROBES, PROBE_PROMPT, PROBE_RESPONSE = 4, 8, 8
"""Requests after each change of weights, and the tokens of one."""
PROBE_TOLERANCE = {"float32": 1e-3, "bfloat16": 0.2}
"""Mean difference of log-probabilities that rounding can explain. One update too few already exceeds the first; the
second catches weights that are not the policy's at all."""


class Sampler(Protocol):
    positions: int | None
    """What a prompt and its longest response may have together; None where only the model limits them."""
    facts: dict[str, float]
    """About the last call of `generate`, for the metrics."""

    def generate(self, batches: Iterable[Sequence[Request]], sampling: Sampling) -> Iterator[Completion]:
        """Yield completions of the present policy as they finish. A batch is drawn when there is room for it.
        Collective: every rank calls it, with its own batches, and no rank changes the weights before the others are
        done."""
        ...


@contextmanager
def open_sampler(policy: Policy, training: Training, model_dir: str, work: Path) -> Iterator[Sampler]:
    """The engine that the recipe asks for, gone with all of its processes on the way out. Collective."""
    batch, settings = training.hardware.rollout_batch, training.engine
    if settings.kind == "transformers":
        yield PolicySampler(policy, batch)
        return
    require_vllm()
    if settings.placement == "colocated":
        engine = VllmEngine(model_dir, training.hardware.dtype, batch, settings, among_ranks=True)
        try:
            engine.sleep()
            yield VllmSampler(policy, engine, lambda version: engine.load_weights(policy.weights(), version))
        finally:
            engine.close()
        return
    from ratchet.training.weight_transfer import push_to

    work = work / "checkpoints" / "vllm"  # nothing of it outlives the stage
    with _server(policy, training, model_dir, work) as (url, token):
        service = VllmService(url, token, policy.tokenizer, batch, settings.timeout_s)
        check_shape(service, policy)
        yield VllmSampler(policy, service, push_to(service, policy, settings, work))


@contextmanager
def _server(policy: Policy, training: Training, model_dir: str, work: Path) -> Iterator[tuple[str, str]]:
    """URL and token of the stage's vLLM server, on every rank; rank 0 starts it, where the recipe names none."""
    settings = training.engine
    if settings.url is not None:
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        if not token:
            raise RatchetError(f"training.engine.url is set, but {TOKEN_VARIABLE} is not: it holds the server's token")
        yield settings.url, token
        return
    with ExitStack() as stack:
        own = None
        if policy.rank == 0:
            batch = training.hardware.rollout_batch * policy.ranks
            own = stack.enter_context(own_server(model_dir, training.hardware.dtype, batch, settings, work))
        yield ranks.broadcast(own)


def check_shape(service: VllmService, policy: Policy) -> None:
    mine = model_shape(policy.model.config)
    differing = [f"{name} {value} and not {mine[name]}" for name, value in service.shape.items() if value != mine[name]]
    if differing:
        raise RatchetError(
            f"the vLLM server at {service.url} serves another model ({service.model}): {', '.join(differing)}. Start "
            "it with the model that the stage starts from."
        )


class PolicySampler:
    """Decodes with the model in training itself: there are no weights to bring anywhere."""

    positions = None

    def __init__(self, policy: Policy, batch_size: int) -> None:
        self.facts: dict[str, float] = {}
        self._policy = policy
        self._engine = TransformersEngine(policy.model, policy.tokenizer, batch_size)

    def generate(self, batches: Iterable[Sequence[Request]], sampling: Sampling) -> Iterator[Completion]:
        self._engine.model = self._policy.whole_model()
        for batch in batches:  # each decoded as one, so that what it says does not depend on the one before
            yield from self._engine.generate(batch, sampling)


class VllmSampler:
    """vLLM has a copy of the weights. Before every call it gets the present ones by `push(version)`, and shows that
    it has them: its log-probabilities of a few tokens are compared with the policy's. Every completion carries the
    version that sampled it."""

    def __init__(self, policy: Policy, engine: Any, push: Callable[[str], None]) -> None:
        self.positions: int = engine.positions
        self.facts: dict[str, float] = {}
        self._policy, self._engine, self._push = policy, engine, push
        self._pushes = 0
        self._session = ranks.broadcast(f"{time.time_ns():x}")  # a server may still hold another run's weights

    def generate(self, batches: Iterable[Sequence[Request]], sampling: Sampling) -> Iterator[Completion]:
        version = self._refresh()
        try:
            for completion in self._engine.generate(chain.from_iterable(batches), sampling):
                self._check_version(completion, version)
                yield completion
        finally:
            self._engine.sleep()

    def _refresh(self) -> str:
        started = time.perf_counter()
        self._pushes += 1
        version = f"{self._session}-{self._pushes}"
        self._engine.wake("weights")
        self._push(version)
        self._engine.wake("kv_cache")
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
        for completion in self._engine.generate(requests, Sampling(max_tokens=PROBE_RESPONSE)):
            self._check_version(completion, version)
            response, logprobs = np.array(completion.token_ids), np.array(completion.logprobs)
            samples.append(Sample(completion.key, prompts[completion.key], response, sampled_logprobs=logprobs))
        batch = collate(samples, self._policy.device)
        logprobs, _ = self._policy.score(batch, temperature=1.0)
        difference = float((logprobs - batch.sampled_logprobs).abs().mean())
        limit = PROBE_TOLERANCE[self._policy.hardware.dtype]
        if not difference <= limit:
            raise RatchetError(
                f"vLLM was given new weights, and its log-probabilities still differ from the policy's by "
                f"{difference:.3g} on average (rounding explains {limit:g}): it does not have them all. "
                "`--set training.engine=transformers` samples with the policy itself."
            )
        return difference

    def _check_version(self, completion: Completion, version: str) -> None:
        if completion.weight_version != version:
            raise RatchetError(
                f"vLLM sampled with weights {completion.weight_version!r} and not with {version!r}, which it was "
                "given. Was the server restarted, or does another run use it? Run the same command again to continue "
                "from the last checkpoint."
            )
