"""Pack token sequences into the micro-batches of one optimizer step on each rank, and make their tensors."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ratchet.infra.inference.attention import Prompts


@dataclass(frozen=True)
class Sample:
    """One sequence to learn from: token ids int32 [prompt], [response], and its tokens' weight in the loss (the
    advantage in GRPO, 1 in supervised learning). `index` is its place in the step, the same on every rank.
    `sampled_logprobs` float32 [response]: the inference engine's, if it was sampled. `old_logprobs` float32 [response]:
    the trainer's before an earlier step, if it was carried over. `domain`: its problem's, for metrics."""

    index: int
    prompt: np.ndarray
    response: np.ndarray
    weight: float = 1.0
    sampled_logprobs: np.ndarray | None = None
    old_logprobs: np.ndarray | None = None
    domain: str = ""

    def __len__(self) -> int:
        return len(self.prompt) + len(self.response)


@dataclass(frozen=True)
class MicroBatch:
    """A micro-batch of sequences in one of two layouts.

    Padded on the right, input_ids [sequences, width]: causal attention never sees padding, so it needs no mask and is
    just never a target. Packed, input_ids [1, tokens]: `position_ids` [1, tokens] restart at 0 with every sequence, and
    `sequences` has their lengths; both are None if padded. Consecutive sequences with the same prompt have it once:
    `prompts` has each prompt's length with those of its responses, in order; None if every sequence is whole.

    `rows`, `columns` [tokens] locate the hidden state that predicts each response token, in whole sequences; targets,
    weights, mask, sampled_logprobs, old_logprobs [tokens] belong to that token. The mask is all 0 in a micro-batch that
    only keeps this rank in step with the others. `old_logprobs` is None until computed, NaN at tokens where it is
    unknown.
    """

    input_ids: torch.Tensor
    position_ids: torch.Tensor | None
    rows: torch.Tensor
    columns: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor
    mask: torch.Tensor
    sampled_logprobs: torch.Tensor
    lengths: tuple[int, ...]  # response tokens of each sequence
    indices: tuple[int, ...]  # `Sample.index` of each sequence
    domains: tuple[str, ...]  # `Sample.domain` of each sequence
    sequences: tuple[int, ...] | None = None
    prompts: Prompts | None = None
    old_logprobs: torch.Tensor | None = None


def collate(samples: Sequence[Sample], device: torch.device, mask: float = 1.0, packed: bool = False) -> MicroBatch:
    """One micro-batch on `device`, all of whose tokens have this mask."""
    lengths = [len(sample.response) for sample in samples]
    if packed:
        starts = np.cumsum([0, *(len(sample) for sample in samples)])
        rows_of, width, height = np.zeros(len(samples), np.int64), int(starts[-1]), 1
    else:
        starts = np.zeros(len(samples) + 1, np.int64)
        rows_of, width, height = np.arange(len(samples)), max(map(len, samples)), len(samples)
    ids = np.zeros((height, width), dtype=np.int64)
    positions = np.zeros((height, width), dtype=np.int64)
    for row, start, sample in zip(rows_of, starts, samples, strict=False):
        ids[row, start : start + len(sample)] = np.concatenate([sample.prompt, sample.response])
        positions[row, start : start + len(sample)] = np.arange(len(sample))
    prompts: list[tuple[int, tuple[int, ...]]] = []
    first = np.ones(width, bool)  # not of a prompt that is in the row already
    for i, (start, sample) in enumerate(zip(starts, samples, strict=False)):
        if i and np.array_equal(sample.prompt, samples[i - 1].prompt):
            first[start : start + len(sample.prompt)] = not packed
            prompts[-1] = prompts[-1][0], (*prompts[-1][1], lengths[i])
        else:
            prompts.append((len(sample.prompt), (lengths[i],)))
    # The hidden state left of a token predicts it; the first token of a sequence is never a target.
    columns = np.concatenate(
        [start + np.arange(len(s.prompt) - 1, len(s) - 1) for start, s in zip(starts, samples, strict=False)]
    )
    rows = np.repeat(rows_of, lengths)
    sampled = [np.zeros(len(s.response)) if s.sampled_logprobs is None else s.sampled_logprobs for s in samples]
    old = None
    if any(s.old_logprobs is not None for s in samples):
        old = [np.full(len(s.response), np.nan) if s.old_logprobs is None else s.old_logprobs for s in samples]

    def tensor(values: Any, dtype: torch.dtype) -> torch.Tensor:
        return torch.as_tensor(values).to(device=device, dtype=dtype)

    return MicroBatch(
        input_ids=tensor(ids[:, first], torch.long),
        position_ids=tensor(positions[:, first], torch.long) if packed else None,
        sequences=tuple(map(len, samples)) if packed else None,
        prompts=tuple(prompts) if packed and not first.all() else None,
        rows=tensor(rows, torch.long), columns=tensor(columns, torch.long),
        targets=tensor(ids[rows, columns + 1], torch.long),
        weights=tensor(np.repeat([s.weight for s in samples], lengths), torch.float32),
        mask=torch.full((len(rows),), mask, device=device),
        sampled_logprobs=tensor(np.concatenate(sampled), torch.float32),
        old_logprobs=None if old is None else tensor(np.concatenate(old), torch.float32),
        lengths=tuple(lengths), indices=tuple(sample.index for sample in samples),
        domains=tuple(sample.domain for sample in samples),
    )  # fmt: skip


WHOLE = 3
"""Most tokens of a micro-batch in attention per token of its budget."""
PIECES = 4
"""Divisor of a rank's share: groups that cost more than the quotient are split. With 128 groups of 8 responses up to 8K
on 128 ranks, the busiest rank then has 1.05 of the mean; with whole groups, 1.18."""


def plan_micro_batches(
    samples: Sequence[Sample], ranks: int, token_budget: int, packed: bool = False, even: float = math.inf
) -> list[list[list[Sample]]]:
    """Assign samples to ranks and divide each rank's share into micro-batches of at most `token_budget` tokens, padding
    included (a sequence is never divided). Returns [rank][micro-batch][sample].

    Padded: sequences of similar length are put together, and given to the ranks in turn, so that two ranks' tokens
    differ by less than the longest sequence. Packed: sequences with the same prompt are put together, and ranks get
    about the same arithmetic. `even`: tokens of a sequence at which its attention costs as much as the rest.

    A pure function: every rank computes the same plan. All ranks get equally many micro-batches, empty ones if needed:
    under ZeRO-3 the others wait for a missing rank's part of the weights.
    """
    if packed:
        plan = [_packed(share, token_budget) for share in _shares(samples, ranks, even)]
    else:
        by_length = sorted(samples, key=lambda sample: (len(sample), sample.index))
        plan = [_padded(by_length[rank::ranks], token_budget) for rank in range(ranks)]
    most = max(map(len, plan))
    return [share + [[] for _ in range(most - len(share))] for share in plan]


def _padded(share: Sequence[Sample], budget: int) -> list[list[Sample]]:
    """Micro-batches of the samples, which are sorted by length."""
    batches: list[list[Sample]] = []
    for sample in share:
        if not batches or len(sample) * (len(batches[-1]) + 1) > budget:
            batches.append([])
        batches[-1].append(sample)
    return batches


def _packed(share: Sequence[Sequence[Sample]], budget: int) -> list[list[Sample]]:
    """Micro-batches of about the same number of tokens. The samples of a group share their prompt, but attention sees
    whole sequences: at most `WHOLE` times the budget."""
    all_tokens = sum(len(group[0].prompt) + sum(len(s.response) for s in group) for group in share)
    count = math.ceil(all_tokens / budget)
    batches: list[list[Sample]] = []
    tokens = whole = 0
    for group in share:
        for sample in group:
            added = len(sample.response if sample is not group[0] else sample)
            full = len(batches) < count and tokens * count >= all_tokens
            if not batches or full or tokens + added > budget or whole + len(sample) > WHOLE * budget:
                batches.append([])
                tokens, whole, added = 0, 0, len(sample)
            batches[-1].append(sample)
            tokens += added
            whole += len(sample)
    return batches


def _shares(samples: Sequence[Sample], ranks: int, even: float) -> list[list[list[Sample]]]:
    """Each rank's groups of samples, by prompt. What costs most is assigned first, to the rank with the least so far;
    costly groups are divided before."""
    groups: dict[bytes, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.prompt.tobytes(), []).append(sample)

    def cost(group: Sequence[Sample]) -> float:
        prompt = _cost(len(group[0].prompt), even)
        return prompt + sum(_cost(len(sample), even) - prompt for sample in group)

    most = sum(map(cost, groups.values())) / ranks / PIECES
    pieces: list[tuple[int, list[Sample]]] = []
    for place, group in enumerate(groups.values()):
        count = min(len(group), math.ceil(cost(group) / most))
        by_length = sorted(group, key=len)
        pieces += [(place, by_length[first::count]) for first in range(count)]
    loads: list[float] = [0.0] * ranks
    shares: list[dict[int, list[Sample]]] = [{} for _ in range(ranks)]
    for place, piece in sorted(pieces, key=lambda each: -cost(each[1])):
        least = loads.index(min(loads))
        loads[least] += cost(piece)
        shares[least].setdefault(place, []).extend(piece)
    return [[sorted(group, key=lambda s: s.index) for _, group in sorted(share.items())] for share in shares]


def _cost(tokens: int, even: float) -> float:
    return tokens * (1 + tokens / even)
