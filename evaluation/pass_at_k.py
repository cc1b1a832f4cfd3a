"""Estimators of pass@k (one of k responses is right), pass^k (all are), maj@k (the majority is), and a
right one as the one with the highest reward (best@k).

Throughout, n is the number of graded responses to one question and c the number of them that passed.
"""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike

NAN = float("nan")


def pass_at_every_k(n: int, c: int) -> np.ndarray:
    """Unbiased estimates of pass@1 … pass@n for one question, shape [n] (Chen et al. 2021, arXiv 2107.03374, equation
    1).

    With f_k = C(n-c, k) / C(n, k), the chance that k responses drawn without replacement are all wrong, f_0 = 1 and
    f_k = f_{k-1} (n-c-k+1) / (n-k+1). Every factor lies in [0, 1], so nothing overflows at any n.
    """
    if not 0 <= c <= n:
        raise ValueError(f"{c} of {n} responses cannot have passed")
    k = np.arange(1, n + 1)
    return 1.0 - np.cumprod(np.maximum(n - c - k + 1, 0) / (n - k + 1))


def pass_at_k_table(n: ArrayLike, c: ArrayLike) -> np.ndarray:
    """Estimates of `pass_at_every_k` for many questions, shape [questions, max n]; NaN beyond a question's own n.

    Questions with the same n and c share one computation, so the cost hardly grows with their number.
    """
    n, c = np.asarray(n, dtype=np.int64), np.asarray(c, dtype=np.int64)
    if ((c < 0) | (c > n)).any():
        raise ValueError("more responses passed than were graded, or fewer than none")
    width = int(n.max(initial=0))
    counts, question = np.unique(n * (width + 1) + c, return_inverse=True)
    table = np.full((counts.size, width), NAN)
    for row, count in zip(table, counts.tolist(), strict=True):
        total, passed = divmod(count, width + 1)
        row[:total] = pass_at_every_k(total, passed)
    return table[question]


def all_pass_table(n: ArrayLike, c: ArrayLike) -> np.ndarray:
    """Unbiased estimates of pass^1 … pass^n, C(c, k) / C(n, k): the chance that k responses drawn without replacement
    are all right (Yao et al. 2024, arXiv 2406.12045). Shape and NaN as in `pass_at_k_table`."""
    return 1.0 - pass_at_k_table(n, np.asarray(n) - np.asarray(c))


def majority_at_k(votes: Sequence[tuple[Hashable | None, bool]], k: int, draws: int = 100) -> float:
    """Estimate maj@k of one question: the share of right majorities among `draws` seeded subsets of k responses.

    `votes` are (equivalence class, True if that response is right). A response without an answer has class None and
    does not vote. On a tie the value is the mean, over the tied classes, of the share of right responses in each.
    Without any vote it is 0. Random subsets instead of the first k, because the order of samples carries no
    information; with k = n there is one subset. NaN when k > n.
    """
    if k < 1:
        raise ValueError(f"maj@{k} is undefined: k starts at 1")
    if k > len(votes):
        return NAN
    order = np.random.default_rng(0).random((draws if k < len(votes) else 1, len(votes))).argsort(axis=1)
    chosen = np.zeros(order.shape)  # [subsets, votes], 1 where a response belongs to the subset
    np.put_along_axis(chosen, order[:, :k], 1, axis=1)
    classes = {answer: i for i, answer in enumerate(dict.fromkeys(a for a, _ in votes if a is not None))}
    member = np.zeros((len(votes), max(len(classes), 1)))  # [votes, classes]
    for row, (answer, _) in enumerate(votes):
        if answer is not None:
            member[row, classes[answer]] = 1
    right = member * np.array([r for _, r in votes], dtype=float).reshape(-1, 1)
    count, right_count = chosen @ member, chosen @ right  # [subsets, classes]
    tied = (count == count.max(axis=1, keepdims=True)) & (count > 0)
    share = np.divide(right_count, count, out=np.zeros_like(count), where=tied)
    return float((share.sum(axis=1) / np.maximum(tied.sum(axis=1), 1)).mean())
