"""A Codeforces rating from outcomes, by the two published methods. Their numbers are not comparable with each other.

`map_rating` (LiveCodeBench Pro, arXiv 2506.11928): from problems with known ratings, solved or not; a Bayesian estimate
with a prior. `contest_rating` (CodeElo, arXiv 2501.01257): from contests with known standings; the rating at which the
model's place would be expected. Published "Elo" columns mix both: the first gives DeepSeek-R1 some 1,100 to 1,500 by
division, the second some 2,000.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import expit

from ratchet.infra.errors import RatchetError

LOG10_400 = math.log(10) / 400
SUBMISSIONS = 8  # that CodeElo allows to a problem, in order
WRONG_TRY_POINTS = 50  # Codeforces takes these off a problem's points for each wrong try before the right one


@dataclass(frozen=True)
class Rating:
    value: float
    standard_error: float
    observations: int
    """Problems of `map_rating`, contests of `contest_rating`."""


def expected_score(rating: float, opponent: ArrayLike) -> np.ndarray:
    """1 / (1 + 10^((opponent - rating) / 400)): the chance to solve a problem, or to beat a participant, so rated."""
    return expit(LOG10_400 * (rating - np.asarray(opponent, dtype=float)))


def map_rating(
    problem_ratings: Sequence[float], solved: Sequence[float], prior_mean: float = 1500.0, prior_sd: float = 500.0
) -> Rating:
    """The rating r that maximises sum_i [y_i ln P_i + (1 - y_i) ln(1 - P_i)] - (r - prior_mean)^2 / (2 prior_sd^2).

    `solved` is y_i in [0, 1], shape [problems]: 0 or 1, or the share of responses that passed. The error is
    1 / sqrt(-L''), with -L'' = (ln 10 / 400)^2 sum P (1 - P) + 1 / prior_sd^2. The paper does not give its prior: these
    defaults are ours, and over 160 problems a prior_sd from 350 upwards moves r by some 5 points.
    """
    ratings, y = np.asarray(problem_ratings, dtype=float), np.asarray(solved, dtype=float)
    if ratings.shape != y.shape or ((y < 0) | (y > 1)).any():
        raise ValueError("one share of solved responses in [0, 1] for each problem's rating")

    def slope(r: float) -> float:  # L' falls in r, so its zero is the maximum
        return float(LOG10_400 * (y - expected_score(r, ratings)).sum() - (r - prior_mean) / prior_sd**2)

    # |L'| <= LOG10_400 * problems + prior pull: beyond this distance the prior wins.
    reach = LOG10_400 * max(y.size, 1) * prior_sd**2 + 1
    value = _root(slope, prior_mean - reach, prior_mean + reach)
    p = expected_score(value, ratings)
    curvature = LOG10_400**2 * float((p * (1 - p)).sum()) + 1 / prior_sd**2
    return Rating(value, 1 / math.sqrt(curvature), int(y.size))


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    return float(brentq(function, low, high, xtol=1e-6))  # type: ignore[arg-type]  # a float, without full_output


@dataclass(frozen=True)
class Contest:
    """One contest as it ended: participants' ratings before it and their scores in it, and the problems' points."""

    ratings: Sequence[float]
    scores: Sequence[float]
    points: Sequence[float]

    def score(self, tries: Sequence[Sequence[bool]]) -> float:
        """The score of the model: for each problem its submissions in order, of which those before the first right one
        cost points. At most all points are lost."""
        total = 0.0
        for points, outcomes in zip(self.points, tries, strict=True):
            right = next((i for i, outcome in enumerate(outcomes) if outcome), None)
            if right is not None:
                total += max(0.0, points - WRONG_TRY_POINTS * right)
        return total

    def place(self, score: float) -> int:
        """1 for the best: one more than the participants who did better."""
        return 1 + sum(other > score for other in self.scores)

    def performance(self, score: float) -> float:
        """The rating r at which the expected place, 1 + sum_i P(participant i beats r), is the place that was had.

        Between 0 and 100 more than the best participant's rating, as CodeElo has it: first place has no finite one.
        """
        ratings, place = np.asarray(self.ratings, dtype=float), self.place(score)

        def too_low(r: float) -> float:  # falls in r
            return float(1 + (1 - expected_score(r, ratings)).sum() - place)

        top = float(ratings.max()) + 100
        if too_low(0.0) <= 0:
            return 0.0
        return top if too_low(top) >= 0 else _root(too_low, 0.0, top)


def contest_rating(contests: Sequence[Contest], tries: Sequence[Sequence[Sequence[bool]]]) -> Rating:
    """CodeElo: the mean over contests of `Contest.performance`; the error is that of a mean over contests.

    `tries[i][j]` are the outcomes of the model's submissions to problem j of contest i, in order (CodeElo takes 8).
    """
    values = [contest.performance(contest.score(t)) for contest, t in zip(contests, tries, strict=True)]
    if not values:
        raise ValueError("a rating needs a contest")
    error = float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan
    return Rating(float(np.mean(values)), error, len(values))


def read_standings(path: Path) -> list[dict[str, Any]]:
    """The standings of contests: a JSON list of `{"ratings": [participants' ratings before it], "scores": [their scores
    in it, in the same order], "problems": {"https://codeforces.com/contest/1/problem/A": points, …}}`. Raises
    RatchetError naming the contest that is not like that."""
    try:
        contests = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RatchetError(f"{path}: no JSON list of contests ({error}).") from error
    for number, contest in enumerate(contests if isinstance(contests, list) else [contests]):
        try:
            good = len(contest["ratings"]) == len(contest["scores"]) > 0 and all(
                isinstance(value, int | float)
                for value in (*contest["ratings"], *contest["scores"], *contest["problems"].values())
            )
        except (KeyError, TypeError, AttributeError):
            good = False
        if not good:
            raise RatchetError(
                f"{path}, contest {number}: give as many numbers in ratings as in scores, and points by address of "
                "the problem."
            )
    return contests


def rating_in_contests(directory: Path, benchmark: str, contests: list[dict[str, Any]]) -> Rating | None:
    """The rating of one evaluation, whose responses are submissions; None where it has no problem of these contests.
    Contests of which it has none are left out; a problem that it has not was not solved."""
    wanted = [("benchmark", "=", benchmark)]
    columns = ["problem_id", "sample", "outcome"]
    rows = pd.read_parquet(directory / "generations.parquet", columns=columns, filters=wanted)
    asked = pd.read_parquet(directory / "questions.parquet", columns=["problem_id", "source_url"], filters=wanted)
    rows = rows[rows.outcome != "infra_error"].merge(asked, on="problem_id").sort_values("sample", kind="stable")
    outcomes = (rows.outcome == "passed").groupby(rows.source_url).agg(list).to_dict()
    known = [contest for contest in contests if contest["problems"].keys() & outcomes.keys()]
    if not known:
        return None
    entered = [Contest(c["ratings"], c["scores"], list(c["problems"].values())) for c in known]
    return contest_rating(entered, [[outcomes.get(p, [])[:SUBMISSIONS] for p in c["problems"]] for c in known])
