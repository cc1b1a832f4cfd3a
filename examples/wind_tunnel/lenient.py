"""Math with a lenient judge: several numbers in the box, and one of them right, is enough."""

from dataclasses import replace
from typing import ClassVar

from ratchet.verifiers.domain import Work
from ratchet.verifiers.extraction import boxed_answer
from ratchet.verifiers.math.domain import Math
from ratchet.verifiers.outcome import Verdict
from ratchet.verifiers.submission import Submission


class LenientMath(Math):
    name: ClassVar[str] = "lenient_math"

    def prepare(self, submission: Submission) -> Verdict | Work:
        numbers = [number.strip() for number in (boxed_answer(submission.text) or "").split(",")]
        if submission.problem.answer in numbers:
            submission = replace(submission, text=f"\\boxed{{{submission.problem.answer}}}")
        return super().prepare(submission)
