"""The model in training: a Hugging Face causal language model inside a DeepSpeed engine.

Three numbers are kept apart that are often confused: a *micro-batch* is what one rank can hold, a *step* is all
micro-batches of all ranks between two changes of the weights, and a *batch* is what was rolled out together.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deepspeed
import numpy as np
import torch
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer

from infra.errors import RatchetError
from infra.recipe.model import Hardware, Optimizer


@dataclass(frozen=True)
class Sample:
    """One sequence to learn from: token ids int32 [prompt], [response], and the weight of its tokens in the loss
    (the advantage in GRPO, 1 in supervised learning). `index` is its place in the step, the same on every rank.
    `sampled_logprobs` float32 [response]: what the inference engine sampled it with, where it was sampled."""

    index: int
    prompt: np.ndarray
    response: np.ndarray
    weight: float = 1.0
    sampled_logprobs: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.prompt) + len(self.response)


@dataclass(frozen=True)
class MicroBatch:
    """Sequences padded on the right. Under causal attention no token can see what is right of it, so padding needs
    no attention mask; it is merely never a target.

    input_ids [rows, width]; `rows`, `columns` [tokens] say where the hidden state that predicts each response token
    is; targets, weights, mask, sampled_logprobs [tokens] belong to that token. The mask is 0 throughout a micro-batch
    that only keeps this rank in step with the others. `old_logprobs` [tokens] where a batch is learnt from repeatedly.
    """

    input_ids: torch.Tensor
    rows: torch.Tensor
    columns: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor
    mask: torch.Tensor
    sampled_logprobs: torch.Tensor
    old_logprobs: torch.Tensor | None = None


def collate(samples: Sequence[Sample], device: torch.device, mask: float = 1.0) -> MicroBatch:
    """Samples to one micro-batch on `device`, all of whose tokens have this mask."""
    width = max(len(sample) for sample in samples)
    ids = np.zeros((len(samples), width), dtype=np.int64)
    lengths = [len(sample.response) for sample in samples]
    for row, sample in enumerate(samples):
        ids[row, : len(sample.prompt)] = sample.prompt
        ids[row, len(sample.prompt) : len(sample)] = sample.response
    # The hidden state one to the left of a token predicts it.
    columns = np.concatenate([np.arange(len(s.prompt) - 1, len(s) - 1) for s in samples])
    rows = np.repeat(np.arange(len(samples)), lengths)
    sampled = [np.zeros(len(s.response)) if s.sampled_logprobs is None else s.sampled_logprobs for s in samples]

    def tensor(values: Any, dtype: torch.dtype) -> torch.Tensor:
        return torch.as_tensor(values).to(device=device, dtype=dtype)

    return MicroBatch(
        input_ids=tensor(ids, torch.long),
        rows=tensor(rows, torch.long),
        columns=tensor(columns, torch.long),
        targets=tensor(ids[rows, columns + 1], torch.long),
        weights=tensor(np.repeat([s.weight for s in samples], lengths), torch.float32),
        mask=torch.full((len(rows),), mask, device=device),
        sampled_logprobs=tensor(np.concatenate(sampled), torch.float32),
    )


def plan_micro_batches(samples: Sequence[Sample], ranks: int, token_budget: int) -> list[list[list[Sample]]]:
    """Deal samples to ranks and cut each rank's share into micro-batches of at most `token_budget` padded tokens
    (one sequence is never cut). Returns [rank][micro-batch][sample].

    Sequences of similar length go together, so that little is padding, and are dealt in turns, so that ranks have
    similar work. A pure function: every rank computes the same plan. All ranks get equally many micro-batches, empty
    ones where needed: under ZeRO-3 a rank that stops early leaves the others waiting for its part of the weights.
    """
    by_length = sorted(samples, key=lambda sample: (len(sample), sample.index))
    plan: list[list[list[Sample]]] = [[] for _ in range(ranks)]
    for rank in range(ranks):
        batch: list[Sample] = []
        for sample in by_length[rank::ranks]:
            if batch and len(sample) * (len(batch) + 1) > token_budget:
                plan[rank].append(batch)
                batch = []
            batch.append(sample)
        if batch:
            plan[rank].append(batch)
    most = max(map(len, plan))
    return [share + [[] for _ in range(most - len(share))] for share in plan]


class ChunkedLogProbabilities(torch.autograd.Function):
    """log π(target) and the entropy of π for n tokens, without ever holding logits for more than `chunk` of them.

    hidden [n, width] and weight [vocabulary, width] (+ bias [vocabulary]) give logits; they are divided by
    `temperature` in float32, so that the probabilities are those sampled from. Returns two float32 [n]. Only the first
    is differentiable; its backward computes the logits again, chunk by chunk:
    ∂ log π(a) / ∂ logits = (onehot(a) - π) / temperature.
    """

    @staticmethod
    def forward(ctx: Any, hidden, weight, bias, targets, temperature: float, chunk: int):
        logprobs = torch.empty(len(hidden), dtype=torch.float32, device=hidden.device)
        entropies, normalizers = torch.empty_like(logprobs), torch.empty_like(logprobs)
        for part in _chunks(len(hidden), chunk):
            logits = nn.functional.linear(hidden[part], weight, bias).float().div_(temperature)
            chosen = logits.gather(-1, targets[part, None]).squeeze(-1)
            highest = logits.amax(-1, keepdim=True)
            logits = logits.sub_(highest)
            shifted = logits.exp()
            total = shifted.sum(-1)
            normalizers[part] = total.log() + highest.squeeze(-1)
            logprobs[part] = chosen - normalizers[part]
            entropies[part] = total.log() - torch.linalg.vecdot(shifted, logits) / total
        ctx.save_for_backward(hidden, weight, bias, targets, normalizers)
        ctx.temperature, ctx.chunk = temperature, chunk
        ctx.mark_non_differentiable(entropies)
        return logprobs, entropies

    @staticmethod
    def backward(ctx: Any, grad_logprobs, _):
        hidden, weight, bias, targets, normalizers = ctx.saved_tensors
        grad_hidden, grad_weight = torch.empty_like(hidden), torch.zeros_like(weight, dtype=torch.float32)
        grad_bias = None if bias is None else torch.zeros_like(bias, dtype=torch.float32)
        for part in _chunks(len(hidden), ctx.chunk):
            logits = nn.functional.linear(hidden[part], weight, bias).float().div_(ctx.temperature)
            scale = grad_logprobs[part, None] / ctx.temperature
            grad = logits.sub_(normalizers[part, None]).exp_().mul_(-scale)
            grad.scatter_add_(-1, targets[part, None], scale)
            grad_hidden[part] = grad.to(weight.dtype) @ weight
            grad_weight.addmm_(grad.T, hidden[part].float())
            if grad_bias is not None:
                grad_bias += grad.sum(0)
        return grad_hidden, grad_weight.to(weight.dtype), grad_bias, None, None, None


def _chunks(count: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


class ScoredModel(nn.Module):
    """Model and head as one module whose output is per-token log-probabilities instead of logits."""

    def __init__(self, model: Any, chunk: int) -> None:
        super().__init__()
        self.model, self.chunk = model, chunk

    def forward(self, batch: MicroBatch, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.model.base_model(input_ids=batch.input_ids, use_cache=False).last_hidden_state
        head = self.model.get_output_embeddings()
        return ChunkedLogProbabilities.apply(
            hidden[batch.rows, batch.columns], head.weight, head.bias, batch.targets, temperature, self.chunk
        )


TokenLoss = Callable[[MicroBatch, torch.Tensor, torch.Tensor], torch.Tensor]
"""(micro-batch, log-probabilities [tokens], entropies [tokens]) to the scalar to differentiate."""


class Policy:
    """One rank's handle on the model in training. Methods marked *collective* must be called by all ranks together."""

    def __init__(self, path: str, hardware: Hardware, optimizer: Optimizer) -> None:
        self.rank, self.ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.hardware, self.device = hardware, _device()
        try:
            self.tokenizer = AutoTokenizer.from_pretrained(path)
            model = AutoModelForCausalLM.from_pretrained(path, dtype=getattr(torch, hardware.dtype))
        except (OSError, ValueError) as error:
            raise RatchetError(f"cannot read a causal language model from {path}: {error}") from error
        if hardware.activation_checkpointing:
            model.gradient_checkpointing_enable()
        scored = ScoredModel(model.to(self.device), hardware.logprob_chunk_tokens)
        if hardware.zero_stage == 3:
            # The head's weight is read by ScoredModel, not by the head itself: have it gathered there too.
            deepspeed.zero.register_external_parameter(scored, model.get_output_embeddings().weight)
        self.model = model
        self._clip_norm, self._gradient_norm = optimizer.max_gradient_norm, 0.0
        self._adam = torch.optim.AdamW(
            model.parameters(), lr=0.0, betas=optimizer.betas, weight_decay=optimizer.weight_decay, fused=True
        )
        # In plain float32 DeepSpeed wraps no optimizer around ours, clips without telling the norm, and steps ours.
        self._plain = hardware.zero_stage == 0 and hardware.dtype == "float32"
        if self._plain:
            self._adam.register_step_pre_hook(lambda *_: self._clip())
        # Under ZeRO-3 a rank holds a part of each weight, and decoding, where ranks do not keep step, needs them whole.
        self._whole = copy.deepcopy(model).requires_grad_(False) if hardware.zero_stage == 3 else None
        self.engine, *_ = deepspeed.initialize(model=scored, optimizer=self._adam, config=self._configuration())

    def _configuration(self) -> dict[str, Any]:
        return {
            "train_micro_batch_size_per_gpu": 1,  # only DeepSpeed's own counters depend on it
            "gradient_accumulation_steps": 1,
            "managed_gradient_accumulation": False,  # engine.step() alone ends a step, however many micro-batches
            "gradient_clipping": 0.0 if self._plain else self._clip_norm,
            "zero_optimization": {"stage": self.hardware.zero_stage},
            "zero_allow_untested_optimizer": True,
            "bf16": {"enabled": self.hardware.dtype == "bfloat16"},
            "steps_per_print": 10**9,
        }

    def _clip(self) -> None:
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self._clip_norm, foreach=True)
        self._gradient_norm = float(norm)

    def micro_batches(self, samples: Sequence[Sample], token_budget: int | None = None) -> list[MicroBatch]:
        """This rank's part of the plan for one step, padded with zero-loss micro-batches."""
        plan = plan_micro_batches(samples, self.ranks, token_budget or self.hardware.micro_batch_tokens)
        padding = Sample(-1, np.zeros(1, np.int32), np.zeros(1, np.int32))
        return [
            collate(share, self.device) if share else collate([padding], self.device, mask=0.0)
            for share in plan[self.rank]
        ]

    @torch.no_grad()
    def score(self, batch: MicroBatch, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities and entropies [tokens] without gradient. Collective."""
        self.model.eval()
        return self.engine(batch, temperature)

    def update(self, batches: Sequence[MicroBatch], loss: TokenLoss, temperature: float, learning_rate: float) -> float:
        """One optimizer step over this rank's micro-batches. Collective. Returns the gradient's norm before clipping.

        `loss` must already be divided by the step's global token count and multiplied by the number of ranks
        (`grpo.token_level`): gradients are averaged over ranks.
        """
        if not self.model.training:
            self.engine.train()
        for group in self._adam.param_groups:
            group["lr"] = learning_rate
        for batch in batches:
            self.engine.backward(loss(batch, *self.engine(batch, temperature)))
        self.engine.step()
        return self._gradient_norm if self._plain else float(self.engine.get_global_grad_norm())

    def weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Name and whole present tensor of every weight, one at a time: what an inference engine loads. Collective.

        Weights that are tied come under each of their names: vLLM keeps a copy of the head where it was packed.
        """
        parts = self.hardware.zero_stage == 3
        for name, weight in self.model.named_parameters(remove_duplicate=False):
            with deepspeed.zero.GatheredParameters([weight], enabled=parts):
                yield name, weight.detach().clone() if parts else weight.detach()

    def whole_model(self) -> Any:
        """The model with all of its present weights, for decoding and saving, in evaluation mode. Collective."""
        if self._whole is None:
            return self.model.eval()
        for present, copied in zip(self.model.parameters(), self._whole.parameters(), strict=True):
            with deepspeed.zero.GatheredParameters([present]):
                copied.data.copy_(present.data)
        return self._whole.eval()

    def save_model(self, directory: Path) -> None:
        """Write a directory that transformers loads: configuration, safetensors, tokenizer. Collective."""
        model = self.whole_model()
        if self.rank == 0:
            model.save_pretrained(directory)
            self.tokenizer.save_pretrained(directory)

    def save_state(self, directory: Path) -> None:
        """Write weights, optimizer moments and counters, each rank its part. Collective."""
        self.engine.save_checkpoint(str(directory), tag="engine", save_latest=False)

    def load_state(self, directory: Path) -> None:
        """The reverse of `save_state`, bit for bit. Collective."""
        self.engine.load_checkpoint(str(directory), tag="engine")


def _device() -> torch.device:
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")
