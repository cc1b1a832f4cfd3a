"""Imitate the teacher's answers, including wrong ones, before reinforcement learning: the supervised start."""

import math
import time
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
CHECKPOINT_EVERY = 500
"""Steps between checkpoints; a killed warm start loses at most this many."""


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
    traces: list[dict[str, str]], tokenizer, prompt_format: PromptFormat, positions: int | None = None
) -> tuple[list[Sample], list[dict[str, Any]]]:
    """Encode traces as token ids: prompts as in rollouts, responses with the end-of-sequence token. Returns also a
    decision for each trace that does not fit into the model's `positions`. Raises RatchetError if none fits."""
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
    too_long = [sample for sample in samples if positions is not None and len(sample) > positions]
    if len(too_long) == len(samples):
        raise RatchetError(f"every trace is longer than the model's {positions} positions: use a model that has more")
    dropped = [
        {"step": 0, "rule": "trace_too_long", "row": s.index, "evidence": {"tokens": len(s), "positions": positions}}
        for s in too_long
    ]
    return [sample for sample in samples if positions is None or len(sample) <= positions], dropped


def batch_order(count: int, batch_size: int, seed: int) -> list[np.ndarray]:
    """The order of one epoch over `count` traces, as batches of indices, random, without a smaller last batch unless it
    is the only one. Not sorted by length, although that would save padding: batches of one style of answering would
    pull the model back and forth."""
    order = np.random.default_rng(derive_seed(seed, "warm start")).permutation(count)
    return [order[i : i + batch_size] for i in range(0, count - batch_size + 1, batch_size)] or [order]


def learning_rate(step: int, steps: int, settings: WarmStart) -> float:
    """The learning rate: linear warm-up, then a cosine down to `FINAL_RATE` of the peak at the last step. `step` counts
    from 0."""
    if step < settings.warmup_steps:
        return settings.learning_rate * (step + 1) / settings.warmup_steps
    progress = (step - settings.warmup_steps) / max(1, steps - 1 - settings.warmup_steps)
    share = FINAL_RATE + (1 - FINAL_RATE) * (1 + math.cos(math.pi * progress)) / 2
    return settings.learning_rate * share


def train(
    settings: WarmStart, seed: int, samples: list[Sample], policy: Policy, checkpoints: Checkpoints, metrics: StepLog,
    first_step: int,
) -> int:  # fmt: skip
    """Make one pass over the traces from `first_step` on; returns its number of steps. Collective. The last step always
    has a checkpoint. Raises Stopped after a checkpoint if it was asked to end."""
    batches = batch_order(len(samples), settings.batch_size, seed)
    watched, since = {"loss": 0.0, "tokens": 0.0}, time.perf_counter()  # on this rank, since the last report
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
        if done % min(REPORT_EVERY, max(1, len(batches) // 50)) == 0 or done == len(batches):
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
        if stop or done % CHECKPOINT_EVERY == 0 or done == len(batches):
            metrics.sync()
            checkpoints.save(done, {})
        if stop:
            raise Stopped(done)
    return len(batches)
