"""One response to judge, and the settings of the judge."""

from dataclasses import dataclass
from typing import Literal

from ratchet.verifiers.problem import Problem


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """Settings of the judge, the same for all responses.

    With `fraction` every test of a program runs, so that `Verdict.fraction` is exact; without it the first failed test
    decides. With `either` a math answer is right if one of two verifiers accepts it. `total_s` limits the seconds for
    all tests of a program; None: the judge's default. `minimum_isolation` does not change verdicts. With `stated` a
    math or science response without a box is judged by the answer that it states otherwise ("The answer is 42.");
    rewards do not use it.
    """

    fraction: bool = False
    either: bool = False
    total_s: float | None = None
    minimum_isolation: Literal["A", "B", "C"] = "C"
    stated: bool = False


STATED = JudgeSettings(stated=True)
EVERY_TEST = JudgeSettings(fraction=True)


@dataclass(frozen=True, slots=True)
class Submission:
    """One response to judge, or with `is_program` the bare program or answer. `finished` is False if it was truncated
    at its token limit."""

    problem: Problem
    text: str
    finished: bool = True
    is_program: bool = False
    settings: JudgeSettings = JudgeSettings()
