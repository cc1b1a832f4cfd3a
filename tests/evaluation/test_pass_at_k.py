import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratchet.evaluation.pass_at_k import all_pass_table, majority_at_k, pass_at_every_k, pass_at_k_table

counts = st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))


@given(counts)
def test_pass_at_k_and_pass_hat_k_are_shares_of_subsets(nc):
    n, c = nc
    right = [True] * c + [False] * (n - c)
    all_pass = all_pass_table([n], [c])[0]
    for k in range(1, n + 1):
        subsets = list(combinations(right, k))
        assert pass_at_every_k(n, c)[k - 1] == pytest.approx(np.mean([any(subset) for subset in subsets]), abs=1e-12)
        assert all_pass[k - 1] == pytest.approx(np.mean([all(subset) for subset in subsets]), abs=1e-12)


@given(st.lists(counts, max_size=12))
def test_the_table_is_every_question_by_itself(questions):
    table = pass_at_k_table([n for n, _ in questions], [c for _, c in questions])
    assert table.shape == (len(questions), max((n for n, _ in questions), default=0))
    for row, (n, c) in zip(table, questions, strict=True):
        assert row[:n].tolist() == pass_at_every_k(n, c).tolist() and np.isnan(row[n:]).all()


@given(st.integers(1, 3000), st.data())
@settings(max_examples=30)
def test_pass_at_k_is_exact_where_floating_binomials_overflow(n, data):
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    exact = 1 - Fraction(math.comb(n - c, k), math.comb(n, k))
    assert pass_at_every_k(n, c)[k - 1] == pytest.approx(float(exact), rel=1e-9, abs=1e-12)


def test_k_beyond_n_is_undefined_not_one():
    assert np.isnan(pass_at_k_table([10, 12], [10, 0])[0, 10:]).all()
    assert math.isnan(majority_at_k([("a", True)], 2))


@pytest.mark.parametrize("n, c", [(3, 4), (3, -1)])
def test_impossible_counts_are_refused(n, c):
    with pytest.raises(ValueError):
        pass_at_every_k(n, c)
    with pytest.raises(ValueError):
        pass_at_k_table([n, 9], [c, 1])


def majority_of_all(votes) -> float:
    return majority_at_k(votes, len(votes))


def test_majority_by_hand():
    assert majority_of_all([("7", True), ("7", True), ("8", False)]) == 1
    assert majority_of_all([("7", True), ("8", False)]) == 0.5  # a tie is shared, not won by the first
    assert majority_of_all([("7", True), ("8", False), ("9", False)]) == pytest.approx(1 / 3)
    assert majority_of_all([(None, False), (None, False), ("7", True)]) == 1  # no answer, no vote
    assert majority_of_all([(None, False)]) == 0


@given(st.lists(st.sampled_from([("a", True), ("b", False), ("c", False), (None, False)]), min_size=3, max_size=6))
@settings(max_examples=25)
def test_majority_at_k_averages_over_subsets(votes):
    every = [majority_of_all(subset) for subset in combinations(votes, 2)]
    spread = np.std(every) / np.sqrt(2000)
    assert abs(majority_at_k(votes, 2, draws=2000) - np.mean(every)) <= 5 * spread + 1e-12
