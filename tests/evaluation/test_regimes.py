import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


def sampled(rates, seed):
    return [128] * len(rates), np.random.default_rng(seed).binomial(128, np.clip(rates, 0, 1))


def test_each_regime_is_recognised():
    base = np.random.default_rng(2).beta(0.3, 2, 120)
    unsolved = base < 0.01
    sharper = np.where(unsolved, base, np.clip(base * 4, 0, 0.95))
    wider = np.where(unsolved, 0.15, sharper)
    half_wide = np.where(unsolved & (np.arange(120) % 2 == 0), 0.15, sharper)
    cases = {
        "diminish": (base, sharper, np.where(base < 0.05, 0, sharper)),
        "plateau": (base, wider, wider),
        "sustained": (base, half_wide, wider),
        "unclear": (base, base, base),
    }
    for name, checkpoints in cases.items():
        found = regime(*(sampled(rates, i) for i, rates in enumerate(checkpoints)), k=64)
        assert found.regime == name, (name, found)
        assert found.confidence > (0.9 if name != "unclear" else 0.5)
        assert found.k == 64 and (found.gain_at_1 > 0.05) is (name != "unclear")


def test_confidence_falls_where_the_evidence_does():
    generator = np.random.default_rng(4)
    base = generator.beta(0.5, 2, 200)
    counts = [sampled(base + gain, i) for i, gain in enumerate((0, 0.02, 0.04))]
    few = [(n[:25], c[:25]) for n, c in counts]
    assert regime(*few, k=8).confidence < regime(*counts, k=8).confidence


def test_a_regime_needs_enough_responses():
    with pytest.raises(ValueError, match="64 responses"):
        regime(*[([128, 32], [5, 5])] * 3, k=64)
