"""Imitate the teacher's answers, including wrong ones, before reinforcement learning: the supervised start."""

import math
import time
from collections.abc import Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch

from ratchet.data_curation.base.prompts import PromptFormat, message_ids
from ratchet.data_curation.base.protocol import derive_seed
from ratchet.infra.recipe.training import WarmStart
from ratchet.training import ranks
from ratchet.training.checkpoint import Checkpoints, Stopped
from ratchet.training.losses.loss import part_of_step
from ratchet.training.policy import MicroBatch, Policy, Sample
from ratchet.training.step_logs import StepLog
from ratchet.verifiers.errors import RatchetError

REPORT_EVERY = 25
TOKENIZER_TEXTS = 3000
"""Number of traces from which a new model's vocabulary is learned."""
FINAL_RATE = 0.05
"""End of the cosine schedule as a share of the peak: the last steps still learn a little."""
CHECKPOINT_S = 600
"""Seconds between checkpoints; a killed warm start loses little more. 500 steps take minutes for a small model on short
traces, and hours for one of 7B parameters on long ones."""


def read_traces(path: Path) -> list[dict[str, str]]:
    """Rows {"prompt", "response"} of a step's traces. Raises RatchetError if there are none."""
    traces = pq.ParquetFile(path).read(columns=["prompt", "response"]).to_pylist()
    if not traces:
        raise RatchetError(f"{path}: no traces to learn from; raise training.warm_start.traces or check the teacher")
    return traces


def tokenizer_texts(traces: list[dict[str, str]], seed: int) -> list[str]:
    """Random traces, as texts from which a new model's tokenizer is trained."""
    chosen = np.random.default_rng(derive_seed(seed, "vocabulary")).permutation(len(traces))[:TOKENIZER_TEXTS]
    return [f"{traces[i]['prompt']}\n{traces[i]['response']}" for i in chosen]


def encode(
    traces: list[dict[str, str]], tokenizer, prompt_format: PromptFormat, positions: int | None = None,
    max_tokens: int | None = None, micro_batch_tokens: float = math.inf,
) -> tuple[list[Sample], list[dict[str, Any]]]:  # fmt: skip
    """Encode traces as token ids: prompts as in rollouts, responses with the end-of-sequence token. Returns also a
    decision for each trace that is longer than `max_tokens` or the model's `positions`. Raises RatchetError if none is
    left, or if one that is left does not fit into a micro-batch."""
    texts = list(dict.fromkeys(trace["prompt"] for trace in traces))
    asked = message_ids(tokenizer, texts, prompt_format)
    prompts = {text: np.array(ids, np.int32) for text, ids in zip(texts, asked, strict=True)}
    prefix = prompt_format.response_prefix
    distinct = list(dict.fromkeys(trace["response"] for trace in traces))
    encoded = tokenizer([text.removeprefix(prefix) for text in distinct], add_special_tokens=False).input_ids
    responses = {
        text: np.array([*ids, tokenizer.eos_token_id], np.int32) for text, ids in zip(distinct, encoded, strict=True)
    }
    samples = [Sample(i, prompts[t["prompt"]], responses[t["response"]]) for i, t in enumerate(traces)]
    limits = {"positions": positions, "max_tokens": max_tokens}
    name, limit = min(((n, v) for n, v in limits.items() if v is not None), key=itemgetter(1), default=("", math.inf))
    kept = [sample for sample in samples if len(sample) <= limit]
    if not kept:
        of = "the model's" if name == "positions" else "warm_start's"
        raise RatchetError(f"every trace is longer than {of} {limit} {name}: use a model or settings that take more")
    larger = [len(sample) for sample in kept if len(sample) > micro_batch_tokens]
    if larger:
        raise RatchetError(
            f"training.warm_start: {len(larger):,} of {len(samples):,} traces are longer than "
            f"hardware.micro_batch_tokens ({micro_batch_tokens}), the longest has {max(larger):,} tokens. Raise it, or "
            f"give warm_start.max_tokens: {micro_batch_tokens}, which leaves them out."
        )
    dropped = [
        {"step": 0, "rule": "trace_too_long", "row": s.index, "evidence": {"tokens": len(s), name: limit}}
        for s in samples
        if len(s) > limit
    ]
    return kept, dropped


def batch_order(count: int, batch_size: int, seed: int, epoch: int = 0) -> list[np.ndarray]:
    """The order of an epoch over `count` traces, as batches of indices, random, without a smaller last batch unless it
    is the only one. Not sorted by length, although that would save padding: batches of one style of answering would
    pull the model back and forth."""
    parts = [seed, "warm start", epoch] if epoch else [seed, "warm start"]
    order = np.random.default_rng(derive_seed(*parts)).permutation(count)
    return [order[i : i + batch_size] for i in range(0, count - batch_size + 1, batch_size)] or [order]


def learning_rate(step: int, steps: int, settings: WarmStart) -> float:
    """The learning rate: linear warm-up, then a cosine down to `FINAL_RATE` of the peak at the last step. `step` counts
    from 0."""
    if step < settings.warmup_steps:
        return settings.learning_rate * (step + 1) / settings.warmup_steps
    progress = (step - settings.warmup_steps) / max(1, steps - 1 - settings.warmup_steps)
    share = FINAL_RATE + (1 - FINAL_RATE) * (1 + math.cos(math.pi * progress)) / 2
    return settings.learning_rate * share


def report_every(steps: int) -> int:
    """Steps between records, of which short warm starts have about fifty."""
    return min(REPORT_EVERY, max(1, steps // 50))


def train(
    settings: WarmStart, seed: int, samples: list[Sample], policy: Policy, checkpoints: Checkpoints, metrics: StepLog,
    first_step: int, state: Mapping[str, Any] = {},
) -> int:  # fmt: skip
    """Make the passes over the traces from `first_step` on; returns their number of steps. Collective. The last step
    always has a checkpoint, whose `state` goes on with the sums of the next record. Raises Stopped after a checkpoint
    if it was asked to end."""
    epochs = range(settings.epochs)
    batches = [batch for epoch in epochs for batch in batch_order(len(samples), settings.batch_size, seed, epoch)]
    watched = {"loss": 0.0, "tokens": 0.0}  # on this rank, since the last record
    if state:
        watched.update(state["watched"][policy.rank])
    since = saved = time.perf_counter()
    for step in range(first_step, len(batches)):
        batch = [samples[i] for i in batches[step]]
        tokens = sum(len(sample.response) for sample in batch)

        def loss(part: MicroBatch, logprobs: torch.Tensor, _: torch.Tensor, tokens: int = tokens) -> torch.Tensor:
            watched["loss"] -= float((logprobs.detach() * part.mask).sum())
            watched["tokens"] += float(part.mask.sum())
            return part_of_step(-logprobs, part.mask, tokens, policy.ranks)

        rate = learning_rate(step, len(batches), settings)
        norm = policy.update(policy.micro_batches(batch), loss, 1.0, rate)
        done = step + 1
        if done % report_every(len(batches)) == 0 or done == len(batches):
            everyone, seconds = ranks.gather(watched), time.perf_counter() - since
            total = {name: sum(each[name] for each in everyone) for name in watched}
            record = {
                "step": done, "steps": len(batches), "time": time.time(), "loss": total["loss"] / total["tokens"],
                "learning_rate": rate, "grad_norm": norm, "tokens_per_second": total["tokens"] / seconds,
                "seconds": seconds,
            }  # fmt: skip
            metrics.write(record)
            watched.update(loss=0.0, tokens=0.0)
            since = time.perf_counter()
        stop = checkpoints.stop_asked() and done < len(batches)
        if stop or done == len(batches) or ranks.broadcast(time.perf_counter() - saved >= CHECKPOINT_S):
            metrics.sync()
            checkpoints.save(done, {"watched": ranks.gather(watched)})
            saved = time.perf_counter()
        if stop:
            raise Stopped(done)
    return len(batches)
