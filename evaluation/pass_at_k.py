"""How often k responses contain a right one: pass@k, and how often their vote is right: maj@k.

Throughout, n is the number of graded responses to one question and c the number of them that passed.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np


def pass_at_every_k(n: int, c: int) -> np.ndarray:
    """Unbiased pass@1 … pass@n of one question, shape [n] (Chen et al. 2021, arXiv 2107.03374, equation 1).

    With f_k = C(n-c, k) / C(n, k), the chance that k responses drawn without replacement are all wrong, f_0 = 1 and
    f_k = f_{k-1} (n-c-k+1) / (n-k+1). Every factor lies in [0, 1], so nothing overflows at any n.
    """
    if not 0 <= c <= n:
        raise ValueError(f"{c} of {n} responses cannot have passed")
    k = np.arange(1, n + 1)
    return 1.0 - np.cumprod(np.maximum(n - c - k + 1, 0) / (n - k + 1))


def pass_at_k(n: int, c: int, k: int) -> float:
    """Unbiased pass@k of one question; NaN when k > n, where no unbiased estimator exists."""
    if k < 1:
        raise ValueError(f"pass@{k} means nothing: k starts at 1")
    every = pass_at_every_k(n, c)
    return float(every[k - 1]) if k <= n else float("nan")


def pass_at_k_by_subsampling(
    passed: Sequence[Sequence[bool]], k: int, draws: int = 100, seed: int = 0
) -> tuple[float, float]:
    """AceReason's estimator (arXiv 2505.16400, section 4.4): draw k responses of each question without replacement,
    ask whether any is right, average over questions, then over `draws` repetitions.

    Returns the mean and its Monte-Carlo standard error (NaN with one draw). The expectation is exactly that of
    `pass_at_k`; it is here for comparison with published numbers. NaN when any question has fewer than k responses.
    """
    rows = [np.asarray(row, dtype=bool) for row in passed]
    if not rows or min(map(len, rows)) < k:
        return float("nan"), float("nan")
    generator = np.random.default_rng(seed)
    means = np.array([np.mean([generator.permutation(row)[:k].any() for row in rows]) for _ in range(draws)])
    return float(means.mean()), float(means.std(ddof=1) / np.sqrt(draws)) if draws > 1 else float("nan")


def majority_correctness(votes: Sequence[tuple[Hashable | None, bool]]) -> float:
    """Is the most frequent answer right? `votes` are (equivalence class, is that response right).

    A response without an answer has class None and does not vote. Tied classes share the result: the value is the
    mean over the tied classes of the share of right responses in each. No votes at all is 0.
    """
    return float(_majority(votes, np.arange(len(votes))[None, :])[0])


def majority_at_k(votes: Sequence[tuple[Hashable | None, bool]], k: int, draws: int = 100, seed: int = 0) -> float:
    """maj@k of one question: `majority_correctness` averaged over `draws` seeded subsets of k responses.

    Subsets, not the first k, because the order of samples says nothing. With k = n there is one subset. NaN when k > n.
    """
    if k < 1:
        raise ValueError(f"maj@{k} means nothing: k starts at 1")
    if k >= len(votes):
        return majority_correctness(votes) if k == len(votes) else float("nan")
    order = np.random.default_rng(seed).random((draws, len(votes))).argsort(axis=1)
    return float(_majority(votes, order[:, :k]).mean())


def _majority(votes: Sequence[tuple[Hashable | None, bool]], subsets: np.ndarray) -> np.ndarray:
    """The vote of each subset; `subsets` are row numbers of `votes`, shape [subsets, k]. Shape [subsets]."""
    classes = {answer: i for i, answer in enumerate(dict.fromkeys(a for a, _ in votes if a is not None))}
    member = np.zeros((len(votes), max(len(classes), 1)))  # [votes, classes]
    for row, (answer, _) in enumerate(votes):
        if answer is not None:
            member[row, classes[answer]] = 1
    right = member * np.array([r for _, r in votes], dtype=float)[:, None]
    count, right_count = member[subsets].sum(axis=1), right[subsets].sum(axis=1)  # [subsets, classes]
    tied = (count == count.max(axis=1, keepdims=True)) & (count > 0)
    share = np.divide(right_count, count, out=np.zeros_like(count), where=tied)
    return share.sum(axis=1) / np.maximum(tied.sum(axis=1), 1)
