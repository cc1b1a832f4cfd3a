import numpy as np
import pytest

from ratchet.evaluation.regimes import regime
from research import coverage


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
        assert found == name


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
    assert regime(*(sampled(p, generator, 128) for p in (base, last, last)), k=64) != "diminish"


def test_a_regime_needs_enough_responses():
    with pytest.raises(ValueError, match="64 responses"):
        regime(*[{"a": (5, 128), "b": (5, 32)}] * 3, k=64)
