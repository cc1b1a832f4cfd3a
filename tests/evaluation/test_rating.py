import math

import numpy as np
import pytest

from ratchet.evaluation.rating import map_rating

generator = np.random.default_rng(7)
PROBLEMS = generator.uniform(800, 3200, 160)


def test_map_rating_is_the_maximum_of_the_posterior():
    solved = generator.random(160) < 1 / (1 + 10 ** ((PROBLEMS - 1900) / 400))
    found = map_rating(PROBLEMS, solved, 1500, 500)

    def log_posterior(r):
        p = 1 / (1 + 10 ** ((PROBLEMS - r) / 400))
        return np.where(solved, np.log(p), np.log1p(-p)).sum() - (r - 1500) ** 2 / (2 * 500**2)

    grid = np.arange(500, 3500)
    assert abs(found.value - grid[np.argmax([log_posterior(r) for r in grid])]) <= 1
    h = 1.0
    second = (log_posterior(found.value + h) - 2 * log_posterior(found.value) + log_posterior(found.value - h)) / h**2
    assert found.standard_error == pytest.approx(1 / math.sqrt(-second), rel=1e-3)


def test_map_rating_covers_the_true_rating():
    """True ratings from the prior: then the posterior's 95 % are exact up to its shape."""
    covered = 0
    for _ in range(600):
        truth = generator.normal(1500, 500)
        solved = generator.random(160) < 1 / (1 + 10 ** ((PROBLEMS - truth) / 400))
        found = map_rating(PROBLEMS, solved)
        covered += abs(found.value - truth) <= 1.96 * found.standard_error
    assert 0.93 <= covered / 600 <= 0.97


def test_map_rating_is_finite_where_everything_or_nothing_is_solved():
    everything, nothing = map_rating([2000] * 5, [1] * 5), map_rating([2000] * 5, [0] * 5)
    assert nothing.value < 1500 < 2000 < everything.value < 3500
    assert map_rating([], []).value == pytest.approx(1500) and map_rating([], []).standard_error == 500
    with pytest.raises(ValueError):
        map_rating([1500], [1.2])
