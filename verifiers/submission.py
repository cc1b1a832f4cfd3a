"""What a verifier is asked, and how it is to judge."""

from dataclasses import dataclass
from typing import Any, Literal

from ratchet.infra.problems import Problem
from ratchet.infra.recipe.recipe import Verification


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """What a recipe says of judging: of the verdicts all but `minimum_isolation`, which is of the machine.

    With `fraction` every test of a program is run, so that `Verdict.fraction` is exact; without it the first failed
    test settles the verdict. With `either` math is right when one of two verifiers accepts it. `total_s` are the
    seconds that all tests of a program may take; None: the judge's own measure.
    """

    fraction: bool = False
    either: bool = False
    total_s: float | None = None
    minimum_isolation: Literal["A", "B", "C"] = "C"

    @classmethod
    def of(cls, verification: Verification, **of_stage: Any) -> "JudgeSettings":
        either = verification.math == "either"
        return cls(either=either, minimum_isolation=verification.minimum_isolation, **of_stage)


EVERY_TEST = JudgeSettings(fraction=True)


@dataclass(frozen=True, slots=True)
class Submission:
    """What is to be judged: a response, or with `is_program` the program or the bare answer itself. `finished` False
    says that it was truncated at its token limit."""

    problem: Problem
    text: str
    finished: bool = True
    is_program: bool = False
    settings: JudgeSettings = JudgeSettings()
