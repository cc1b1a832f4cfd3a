import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.pass_at_k import (
    majority_at_k,
    majority_correctness,
    pass_at_every_k,
    pass_at_k,
    pass_at_k_by_subsampling,
)

counts = st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))


@given(counts)
def test_pass_at_k_is_the_share_of_subsets_with_a_right_response(nc):
    n, c = nc
    right = [True] * c + [False] * (n - c)
    for k in range(1, n + 1):
        subsets = [any(subset) for subset in combinations(right, k)]
        assert pass_at_k(n, c, k) == pytest.approx(sum(subsets) / len(subsets), abs=1e-12)


@given(st.integers(1, 3000), st.data())
@settings(max_examples=30, deadline=None)
def test_pass_at_k_is_exact_where_floating_binomials_overflow(n, data):
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    exact = 1 - Fraction(math.comb(n - c, k), math.comb(n, k))
    assert pass_at_k(n, c, k) == pytest.approx(float(exact), rel=1e-9, abs=1e-12)


def test_hand_worked():
    assert pass_at_k(4, 1, 2) == pytest.approx(1 / 2)  # 1 - C(3,2)/C(4,2) = 1 - 3/6
    assert pass_at_k(16, 4, 1) == pytest.approx(1 / 4)
    assert pass_at_every_k(3, 1) == pytest.approx([1 / 3, 2 / 3, 1])
    assert pass_at_every_k(5, 0).tolist() == [0.0] * 5
    assert pass_at_every_k(5, 5).tolist() == [1.0] * 5


def test_k_beyond_n_is_undefined_not_one():
    assert math.isnan(pass_at_k(10, 0, 200))
    assert math.isnan(pass_at_k(10, 10, 11))
    assert math.isnan(pass_at_k_by_subsampling([[True] * 4, [True] * 3], 4)[0])
    assert math.isnan(majority_at_k([("a", True)], 2))


@pytest.mark.parametrize("n, c, k", [(3, 4, 1), (3, -1, 1), (3, 1, 0)])
def test_impossible_counts_are_refused(n, c, k):
    with pytest.raises(ValueError):
        pass_at_k(n, c, k)


@pytest.mark.parametrize("k", [1, 2, 8, 16])
def test_subsampling_estimates_the_same_number(k):
    generator = np.random.default_rng(5)
    passed = [generator.random(16) < p for p in generator.beta(0.5, 0.5, size=40)]
    mean, monte_carlo_error = pass_at_k_by_subsampling(passed, k, draws=400, seed=1)
    unbiased = np.mean([pass_at_k(16, int(row.sum()), k) for row in passed])
    assert abs(mean - unbiased) <= 4 * monte_carlo_error + 1e-12
    if k == 16:
        assert monte_carlo_error == 0  # all responses are drawn every time


def test_majority_by_hand():
    assert majority_correctness([("7", True), ("7", True), ("8", False)]) == 1
    assert majority_correctness([("7", True), ("8", False)]) == 0.5  # a tie is shared, not won by the first
    assert majority_correctness([("7", True), ("8", False), ("9", False)]) == pytest.approx(1 / 3)
    assert majority_correctness([(None, False), (None, False), ("7", True)]) == 1  # no answer, no vote
    assert majority_correctness([(None, False)]) == 0


@given(st.lists(st.sampled_from([("a", True), ("b", False), ("c", False), (None, False)]), min_size=3, max_size=6))
@settings(max_examples=25, deadline=None)
def test_majority_at_k_averages_over_subsets(votes):
    every = [majority_correctness(subset) for subset in combinations(votes, 2)]
    spread = np.std(every) / np.sqrt(2000)
    assert abs(majority_at_k(votes, 2, draws=2000) - np.mean(every)) <= 5 * spread + 1e-12
    assert majority_at_k(votes, len(votes)) == majority_correctness(votes)
