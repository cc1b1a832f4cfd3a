import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import coverage
from ratchet.evaluation.pass_at_k import pass_at_k_table
from ratchet.evaluation.regimes import pass_at_k_bound, regime

questions = st.lists(st.tuples(st.integers(2, 12), st.integers(0, 12)), min_size=1, max_size=20)


@given(questions)
@settings(deadline=None, max_examples=60)
def test_the_bound_is_that_of_the_formula_and_is_met_at_two(pairs):
    n, c = [n for n, _ in pairs], [min(c, n) for n, c in pairs]
    rate = np.array(c) / np.array(n)
    noise = (rate * (1 - rate) / (np.array(n) - 1)).mean()
    for k in (2, 3, 16):
        formula = 1 - max((1 - rate.mean()) ** 2 + rate.var() - noise, 0) ** (k / 2)
        assert pass_at_k_bound(n, c, k) == pytest.approx(formula, abs=1e-7)
    assert pass_at_k_bound(n, c, 2) == pytest.approx(pass_at_k_table(n, c)[:, 1].mean(), abs=1e-12)
    assert math.isnan(pass_at_k_bound(n, c, 1))


def test_no_true_pass_at_k_exceeds_the_bound_and_the_biased_one_is_lower():
    generator = np.random.default_rng(0)
    for a, b in ((0.2, 0.8), (1, 1), (2, 5)):
        rho = generator.beta(a, b, 50_000)
        c = generator.binomial(16, rho)
        for k in (2, 4, 16):
            bound = pass_at_k_bound([16] * len(c), c, k)
            assert (1 - (1 - rho) ** k).mean() <= bound + 0.005
            biased = 1 - ((1 - c.mean() / 16) ** 2 + (c / 16).var()) ** (k / 2)
            assert biased < bound


def sampled(rates, generator, n=16):
    """(passed, graded) by question of n responses to each."""
    passed = generator.binomial(n, np.clip(rates, 0, 1))
    return {str(question): (int(c), n) for question, c in enumerate(passed)}


def test_each_regime_is_recognised():
    generator = np.random.default_rng(2)
    base = np.where(np.arange(300) % 2, 0.5, 0.0)  # half of the questions are out of reach
    sharper, early, wider = base * 1.9, np.where(base, 0.95, 0.1), np.where(base, 0.95, 0.3)
    cases = {
        "diminish": (base, sharper, sharper),
        "plateau": (base, wider, wider),
        "sustained": (base, early, wider),
        "unclear": (base, base, base),
        "at ceiling": (base * 0 + 0.8, base * 0 + 0.9, base * 0 + 0.95),
    }
    for name, checkpoints in cases.items():
        found = regime(*(sampled(rates, generator, 32) for rates in checkpoints), k=16)
        assert found.regime == name, (name, found)
    assert found.gain_at_1.difference == pytest.approx(0.15, abs=0.02) and found.late.questions == 300


@pytest.mark.parametrize(("questions", "clustered"), [(30, False), (120, True)])
@pytest.mark.parametrize("world", coverage.CLAIMS)
def test_false_claims_are_rare(world, questions, clustered):
    sets = 120
    # 5 %, and three standard errors of the simulations.
    assert coverage.false_claims(world, questions, 8, clustered, sets) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / sets)


def test_three_of_thirty_questions_that_become_solved_are_no_diminishing():
    generator = np.random.default_rng(0)
    base = np.where(np.arange(30) < 15, 0.0, generator.beta(1, 1, 30))
    last = np.where(np.arange(30) < 3, 0.4, np.minimum(2 * base, 1))
    assert regime(*(sampled(p, generator, 128) for p in (base, last, last)), k=64).regime != "diminish"


def test_a_regime_needs_enough_responses():
    with pytest.raises(ValueError, match="64 responses"):
        regime(*[{"a": (5, 128), "b": (5, 32)}] * 3, k=64)
