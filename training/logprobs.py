"""Compute log-probabilities and entropies of chosen tokens, for any vocabulary, in memory that does not grow with
it."""

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from ratchet.infra.inference.matmul import by_onednn, logits, onednn
from ratchet.infra.inference.model_code import own_logits

TILES = {"cpu": (1024, 4096), "cuda": (4096, 16_384)}
"""Tokens and vocabulary entries of the logits that exist at once, by device: tokens x vocabulary is never held. On a
CPU they should fit into its cache; on a GPU small products wait for their launches (docs/evidence/results.md)."""

OWN_LOGITS = 2**27
"""Most logits that exist at once if a model's own code computes them: 0.5 GiB; a backward pass needs a few times
that."""


class ChunkedLogProbabilities(torch.autograd.Function):
    """A function for log π(target) and the entropy of π for n tokens; no more than `chunk` x `columns` logits ever
    exist.

    hidden [n, width] and weight [vocabulary, width] (+ bias [vocabulary]) give logits z; they are divided by
    `temperature` in float32, so that the probabilities are those sampled from; with `rounded` they are first rounded to
    the weight's type. Returns two float32 [n].

    Forward: log Σ exp z and Σ p z in one pass over the tiles, with a running maximum (Milakov and Gimelshein 2018,
    arXiv 1805.02867). Backward: each tile's logits again, and with p = softmax z
        ∂ log π(a) / ∂z = onehot(a) - p        ∂H / ∂z = -p (log p + H)
    Products accumulate in float32.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden, weight, bias, targets, temperature: float, chunk: int, columns: int, rounded: bool = False
    ):
        logprobs = torch.empty(len(hidden), dtype=torch.float32, device=hidden.device)
        entropies, normalizers = torch.empty_like(logprobs), torch.empty_like(logprobs)
        for rows in _slices(len(hidden), chunk):
            chosen = torch.zeros(len(targets[rows]), dtype=torch.float32, device=hidden.device)
            before = None  # per row, over the tiles so far: max z, Σ exp(z - max), Σ (z - max) exp(z - max)
            for tile in _slices(len(weight), columns):
                logits = _logits(hidden[rows], weight, bias, tile, temperature, rounded)
                inside, places = _inside(targets[rows], tile)
                chosen = torch.where(inside, logits.gather(-1, places[:, None]).squeeze(-1), chosen)
                highest = logits.amax(-1) if before is None else torch.maximum(before[0], logits.amax(-1))
                logits = logits.sub_(highest[:, None])
                shifted = logits.exp()
                total, weighted = shifted.sum(-1), torch.linalg.vecdot(shifted, logits)
                if before is not None:
                    lower = before[0] - highest
                    weighted = (before[2] + lower * before[1]) * lower.exp() + weighted
                    total = before[1] * lower.exp() + total
                before = highest, total, weighted
            assert before is not None, "a vocabulary has tokens"
            highest, total, weighted = before
            normalizers[rows] = total.log() + highest
            logprobs[rows] = chosen - normalizers[rows]
            entropies[rows] = total.log() - weighted / total
        ctx.save_for_backward(hidden, weight, bias, targets, normalizers, entropies)
        ctx.temperature, ctx.chunk, ctx.columns, ctx.rounded = temperature, chunk, columns, rounded
        ctx.set_materialize_grads(False)  # an unused entropy costs no backward pass
        return logprobs, entropies

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any):
        grad_logprobs, grad_entropies = grad_outputs
        hidden, weight, bias, targets, normalizers, entropies = ctx.saved_tensors
        grad_hidden = torch.zeros_like(hidden, dtype=torch.float32)
        grad_weight = torch.empty_like(weight)
        grad_bias = None if bias is None else torch.empty_like(bias)
        if grad_logprobs is None:
            grad_logprobs = torch.zeros_like(normalizers)
        for tile in _slices(len(weight), ctx.columns):
            grad_tile = torch.zeros_like(weight[tile], dtype=torch.float32)
            grad_tile_bias = torch.zeros(len(grad_tile), device=weight.device)
            for rows in _slices(len(hidden), ctx.chunk):
                logits = _logits(hidden[rows], weight, bias, tile, ctx.temperature, ctx.rounded)
                scale = grad_logprobs[rows, None] / ctx.temperature
                logprobs = logits.sub_(normalizers[rows, None])
                if grad_entropies is None:
                    grad = logprobs.exp_().mul_(-scale)
                else:
                    slope = logprobs.add(entropies[rows, None]).mul_(grad_entropies[rows, None] / ctx.temperature)
                    grad = logprobs.exp_().mul_(slope.add_(scale).neg_())
                inside, columns = _inside(targets[rows], tile)
                grad.scatter_add_(-1, columns[:, None], torch.where(inside[:, None], scale, 0.0))
                _add_product(grad_hidden[rows], grad, weight[tile], weight)
                _add_product(grad_tile, grad.T, hidden[rows], weight)
                if bias is not None:
                    grad_tile_bias += grad.sum(0)
            grad_weight[tile] = grad_tile
            if grad_bias is not None:
                grad_bias[tile] = grad_tile_bias
        return grad_hidden.to(hidden.dtype), grad_weight, grad_bias, None, None, None, None, None


def own_logprobs(
    model: Any, hidden: torch.Tensor, targets: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities and entropies of a model that does more than multiply with its head's weight: its own code from
    the head on computes a few tokens at a time, and their logits [tokens, vocabulary] again in the backward pass."""
    rows = max(1, OWN_LOGITS // model.config.get_text_config().vocab_size)

    def part(hidden: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logprobs = (own_logits(model, hidden) / temperature).log_softmax(-1)
        entropies = torch.special.entr(logprobs.exp()).sum(-1)  # 0 for what the model's code rules out
        return logprobs.gather(-1, targets[:, None]).squeeze(-1), entropies

    parts = [
        checkpoint(part, *each, use_reentrant=False)
        for each in zip(hidden.split(rows), targets.split(rows), strict=True)
    ]
    logprobs, entropies = zip(*parts, strict=True)
    return torch.cat(logprobs), torch.cat(entropies)


def _slices(count: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def _logits(hidden, weight, bias, tile: slice, temperature: float, rounded: bool) -> torch.Tensor:
    """float32 [rows, tile], which the caller may overwrite."""
    scores = logits(hidden, weight[tile], None if bias is None else bias[tile], rounded)
    return scores if temperature == 1 else scores.div_(temperature)


def _inside(targets: torch.Tensor, tile: slice) -> tuple[torch.Tensor, torch.Tensor]:
    """Mask of the targets in this tile, and their columns there (any column for the others)."""
    inside = (targets >= tile.start) & (targets < tile.stop)
    return inside, (targets - tile.start).clamp(0, tile.stop - tile.start - 1)


def _add_product(total: torch.Tensor, grad: torch.Tensor, other: torch.Tensor, weight: torch.Tensor) -> None:
    """total += grad @ other in float32, multiplied like `weight`; rounding each tile's share to 16 bits would bias the
    sum."""
    if other.is_cuda and other.dtype != torch.float32:  # tensor cores take 16-bit factors and keep a 32-bit sum
        torch.addmm(total, grad.to(other.dtype), other, out_dtype=torch.float32, out=total)
    elif by_onednn(weight, torch.float32):
        total += onednn(grad, other.float().T)
    else:
        total.addmm_(grad, other.float())
