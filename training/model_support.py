"""Check, when a model is planned, that Ratchet computes the same as the model's own forward pass.

The embedded engine decodes with a cache and many rows, the trainer scores sequences packed or padded: three ways to the
same log-probabilities. Each is compared with the model's own forward pass, a sequence at a time, on a small twin of the
model (`infra.inference.twin`), with sequences beyond its sliding window and neighbors of other lengths.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, GenerationConfig

from ratchet.data_curation.base.protocol import Request, Sampling
from ratchet.infra.inference.model_code import stop_randomness
from ratchet.infra.inference.transformers_engine import TransformersEngine
from ratchet.infra.inference.twin import key as key_of
from ratchet.infra.inference.twin import small_twin
from ratchet.infra.recipe.training import Hardware
from ratchet.training.model import ScoredModel, check_attention
from ratchet.training.packing import Sample, collate
from ratchet.verifiers.errors import RatchetError

TOLERANCE = 1e-3
"""Nats by which float32 paths may differ; an ignored window or scale differs by tenths or more."""
PROMPTS, RESPONSE = (3, 17, 9), 12
"""Tokens of the prompts and responses compared: shorter and longer than the twin's window."""


@dataclass(frozen=True)
class Support:
    """Differences from the model's own forward pass, by path; "" if there are none."""

    engine: str
    padded: str
    packed: str


def support(config: Any) -> Support:
    """Compare Ratchet's paths with a model's own code. Raises RatchetError if they cannot be compared."""
    return _measured(key_of(config))


@cache
def _measured(config: str) -> Support:
    fields = json.loads(config)
    twin = small_twin(AutoConfig.for_model(fields.pop("model_type"), **fields))
    own = _own_forward(small_twin_eager(twin))
    return Support(
        engine=_difference(lambda: _decoded(twin), own),
        padded=_difference(lambda: _scored(twin, False), own),
        packed=_difference(lambda: _scored(twin, True), own),
    )


def small_twin_eager(twin: Any) -> Any:
    """The twin's weights with transformers' plain attention, which ignores no setting of the model."""
    eager = small_twin(twin.config, "eager")
    eager.load_state_dict(twin.state_dict())
    return eager


Logprobs = Callable[[list[int], int], torch.Tensor]


def _own_forward(model: Any) -> Logprobs:
    @torch.no_grad()
    def logprobs(ids: list[int], prompt: int) -> torch.Tensor:
        """Log-probabilities [response] of a whole sequence alone."""
        scores = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float().log_softmax(-1)
        return scores[prompt - 1 : -1].gather(-1, torch.tensor(ids[prompt:])[:, None]).squeeze(-1)

    return logprobs


def _ids(count: int, seed: int) -> list[int]:
    return np.random.default_rng(seed).integers(3, 150, size=count).tolist()


def _difference(path: Callable[[], list[tuple[list[int], int, torch.Tensor]]], own: Logprobs) -> str:
    try:
        largest = max(float((found - own(ids, prompt)).abs().max()) for ids, prompt, found in path())
    except RatchetError as error:
        return str(error)
    except Exception as error:  # each architecture has its own
        return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    return f"log-probabilities differ by up to {largest:.2g} nats" if not largest < TOLERANCE else ""


def _decoded(twin: Any) -> list[tuple[list[int], int, torch.Tensor]]:
    twin.generation_config = GenerationConfig()
    engine = TransformersEngine(twin.eval(), _NoTokenizer(), batch_size=2)
    prompts = [_ids(length, seed) for seed, length in enumerate(PROMPTS)]
    requests = [Request(i, i, prompt_ids=tuple(prompt)) for i, prompt in enumerate(prompts)]
    return [
        ([*prompts[each.key], *(each.token_ids or ())], len(prompts[each.key]), torch.tensor(each.logprobs))
        for each in engine.generate(requests, Sampling(max_tokens=RESPONSE))
    ]


def _scored(twin: Any, packed: bool) -> list[tuple[list[int], int, torch.Tensor]]:
    check_attention(twin, Hardware(packed=packed))
    stop_randomness(twin)
    sequences = [(_ids(length, seed), _ids(RESPONSE, seed + 9)) for seed, length in enumerate(PROMPTS)]
    samples = [Sample(i, np.array(p, np.int32), np.array(r, np.int32)) for i, (p, r) in enumerate(sequences)]
    with torch.no_grad():
        found, _ = ScoredModel(twin.train())(collate(samples, torch.device("cpu"), packed=packed), 1.0)
    return [
        ([*prompt, *response], len(prompt), part)
        for (prompt, response), part in zip(sequences, found.split(RESPONSE), strict=True)
    ]


class _NoTokenizer:
    eos_token_id = -1

    def decode(self, *_: Any, **__: Any) -> str:
        return ""


def check_support(path: str, config: Any, trained: bool, packed: bool, embedded: bool) -> None:
    """Raises RatchetError if a path that a recipe takes computes another model than the checkpoint: training, `packed`
    or padded, and the embedded engine."""
    found = support(config)
    name = f"{path} ({config.get_text_config(decoder=True).model_type})"
    if trained and packed and found.packed:
        raise RatchetError(
            f"{name} cannot be trained with packed sequences: {found.packed}. --set training.hardware.packed=false"
            + (f" does not help: {found.padded}" if found.padded else "")
        )
    if trained and not packed and found.padded:
        raise RatchetError(f"{name} cannot be trained: {found.padded} from its own forward pass.")
    if embedded and found.engine:
        raise RatchetError(
            f"the transformers engine cannot sample from {name}: {found.engine}. --set training.engine.kind=vllm, "
            "evaluation.engine.kind=vllm"
        )
