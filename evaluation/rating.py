"""A Codeforces rating from outcomes, by the two published methods. Their numbers are not comparable with each other.

`map_rating` (LiveCodeBench Pro, arXiv 2506.11928): from problems with known ratings, solved or not; a Bayesian estimate
with a prior. `contest_rating` (CodeElo, arXiv 2501.01257): from contests with known standings; the rating at which the
model's place would be expected. Published "Elo" columns mix both: the first gives DeepSeek-R1 some 1,100 to 1,500 by
division, the second some 2,000.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from pydantic import BaseModel, Field, TypeAdapter, ValidationError, model_validator
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


class Contest(BaseModel):
    """One contest as it ended."""

    ratings: Annotated[tuple[float, ...], Field(min_length=1)]
    """Of the participants, before it."""
    scores: tuple[float, ...]
    """Theirs in it, in the same order."""
    problems: dict[str, float]
    """Points by the problem's address."""

    @model_validator(mode="after")
    def _of_the_same_participants(self) -> "Contest":
        if len(self.ratings) != len(self.scores):
            raise ValueError(f"there are {len(self.ratings)} ratings and {len(self.scores)} scores")
        return self

    def score(self, tries: Mapping[str, Sequence[bool]]) -> float:
        """The score of the model: by the problem's address its submissions in order, of which those before the first
        right one cost points. At most all points are lost."""
        total = 0.0
        for problem, points in self.problems.items():
            right = next((i for i, outcome in enumerate(tries.get(problem, ())) if outcome), None)
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


def contest_rating(contests: Sequence[Contest], tries: Sequence[Mapping[str, Sequence[bool]]]) -> Rating:
    """CodeElo: the mean over contests of `Contest.performance`; the error is that of a mean over contests.

    `tries[i]` are the outcomes of the model's submissions to each problem of contest i, in order (CodeElo takes 8).
    """
    values = [contest.performance(contest.score(t)) for contest, t in zip(contests, tries, strict=True)]
    if not values:
        raise ValueError("a rating needs a contest")
    error = float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan
    return Rating(float(np.mean(values)), error, len(values))


def read_standings(path: Path) -> list[Contest]:
    """The standings of contests: a JSON list of `{"ratings": [participants' ratings before it], "scores": [their scores
    in it, in the same order], "problems": {"https://codeforces.com/contest/1/problem/A": points, …}}`. Raises
    RatchetError naming the contest that is not like that."""
    try:
        return TypeAdapter(list[Contest]).validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error)}
        where = ", ".join([str(path), *(f"contest {number}" for number in first["loc"][:1])])
        raise RatchetError(
            f"{where}: {first['msg']}. Give a list of contests, each with as many numbers in ratings as in scores, and "
            "points by address of the problem."
        ) from error


def rating_in_contests(directory: Path, benchmark: str, contests: Sequence[Contest]) -> Rating | None:
    """The rating of one evaluation, whose responses are submissions; None where it has no problem of these contests.
    Contests of which it has none are left out; a problem that it has not was not solved."""
    wanted = [("benchmark", "=", benchmark)]
    columns = ["problem_id", "sample", "outcome"]
    rows = pd.read_parquet(directory / "generations.parquet", columns=columns, filters=wanted)
    asked = pd.read_parquet(directory / "questions.parquet", columns=["problem_id", "source_url"], filters=wanted)
    rows = rows[rows.outcome != "infra_error"].merge(asked, on="problem_id").sort_values("sample", kind="stable")
    right = (rows.outcome == "passed").groupby(rows.source_url)
    tries = {str(problem): outcomes[:SUBMISSIONS] for problem, outcomes in right.agg(list).items()}
    known = [contest for contest in contests if contest.problems.keys() & tries.keys()]
    return contest_rating(known, [tries] * len(known)) if known else None
