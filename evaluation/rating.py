"""A Codeforces rating from solved problems with known ratings, by LiveCodeBench Pro's method (arXiv 2506.11928).

Not comparable with CodeElo's rating (arXiv 2501.01257), which is computed from places in contests: published "Elo"
columns mix both. LiveCodeBench Pro's gives DeepSeek-R1 1,100 to 1,500 by division, CodeElo's about 2,000.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

LOG10_400 = math.log(10) / 400


@dataclass(frozen=True)
class Rating:
    value: float
    standard_error: float
    problems: int


def map_rating(
    problem_ratings: Sequence[float], solved: Sequence[float], prior_mean: float = 1500.0, prior_sd: float = 500.0
) -> Rating:
    """The rating r that maximizes sum_i [y_i ln P_i + (1 - y_i) ln(1 - P_i)] - (r - prior_mean)^2 / (2 prior_sd^2),
    where P_i = 1 / (1 + 10^((rating_i - r) / 400)) is the probability of solving problem i.

    `solved` is y_i in [0, 1], shape [problems]: 0 or 1, or the share of responses that passed. The error is
    1 / sqrt(-L''), with -L'' = (ln 10 / 400)^2 sum P (1 - P) + 1 / prior_sd^2. The paper does not give its prior: these
    defaults are ours, and over 160 problems any prior_sd above 350 changes r by about 5 points.
    """
    ratings, y = np.asarray(problem_ratings, dtype=float), np.asarray(solved, dtype=float)
    if ratings.shape != y.shape or ((y < 0) | (y > 1)).any():
        raise ValueError("one share of solved responses in [0, 1] for each problem's rating")

    def slope(r: float) -> float:  # L' falls in r, so its zero is the maximum
        return float(LOG10_400 * (y - expit(LOG10_400 * (r - ratings))).sum() - (r - prior_mean) / prior_sd**2)

    # |L'| <= LOG10_400 * problems + prior pull: beyond this distance the prior wins.
    reach = LOG10_400 * max(y.size, 1) * prior_sd**2 + 1
    value = float(brentq(slope, prior_mean - reach, prior_mean + reach, xtol=1e-6))  # type: ignore[arg-type]
    p = expit(LOG10_400 * (value - ratings))
    curvature = LOG10_400**2 * float((p * (1 - p)).sum()) + 1 / prior_sd**2
    return Rating(value, 1 / math.sqrt(curvature), int(y.size))
