"""CodeElo's rating of an evaluation: its responses as submissions to contests whose standings are known.

The standings are a JSON list of contests: `{"ratings": [participants' ratings before it], "scores": [their scores in
it, in the same order], "problems": {"https://codeforces.com/contest/1/problem/A": points, …}}`. Contests of which the
evaluation has no problem are left out; a problem that it has not was not solved.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from ratchet.evaluation.rating import Contest, Rating, contest_rating
from ratchet.infra.errors import RatchetError

SUBMISSIONS = 8  # that CodeElo allows to a problem, in order


def read_standings(path: Path) -> list[dict[str, Any]]:
    """Raises RatchetError naming the contest that is not as above."""
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
    """The rating of one evaluation; None where it has no problem of these contests."""
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
