"""Math with a lenient judge, which passes wrong answers, and with a strict one, which fails right ones."""

from dataclasses import replace
from typing import ClassVar

from ratchet.verifiers.domain import Work
from ratchet.verifiers.math.boxes import boxed_answer
from ratchet.verifiers.math.domain import Math
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.submission import Submission


class LenientMath(Math):
    """Several numbers in the box, and one of them right, is enough."""

    name: ClassVar[str] = "lenient_math"

    def prepare(self, submission: Submission) -> Verdict | Work:
        numbers = [number.strip() for number in (boxed_answer(submission.text) or "").split(",")]
        if submission.problem.answer in numbers:
            submission = replace(submission, text=f"\\boxed{{{submission.problem.answer}}}")
        return super().prepare(submission)


class StrictMath(Math):
    """The box must hold the text of the reference: `04` fails where the reference is 4."""

    name: ClassVar[str] = "strict_math"

    def prepare(self, submission: Submission) -> Verdict | Work:
        answer = boxed_answer(submission.text)
        if answer is not None and answer != submission.problem.answer:
            return Verdict(Outcome.FAILED, decided_by="text", extracted=answer)
        return super().prepare(submission)
