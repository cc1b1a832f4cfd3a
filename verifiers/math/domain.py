"""Math: a boxed final answer, compared with the reference answer by `equivalence.py`."""

from ratchet.verifiers.domain import Domain, Work
from ratchet.verifiers.math.equivalence import reference_fault, refused_number, verify_answer, verify_math
from ratchet.verifiers.math.final_answer import judged_as_stated
from ratchet.verifiers.math.second_verifier import second_opinion
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.submission import Submission


class Math(Domain):
    name = "math"
    templates = {"math": "{prompt}\n\nReason step by step and put the final answer in \\boxed{{}}."}
    answers_vote = True
    compares_math = True
    curation = "ratchet.data_curation.domains.math:MATH"

    def fault(self, problem: Problem) -> str:
        answered = isinstance(problem.answer, str) and problem.answer.strip()
        return "" if answered else "it has no reference answer"

    def reference_fault(self, problem: Problem) -> str:
        return self.fault(problem) or reference_fault(problem.answer or "")

    def refused_number(self, problem: Problem) -> str:
        return refused_number(problem.answer or "")

    def prepare(self, submission: Submission) -> Verdict | Work:
        return judged_as_stated(submission, self._judged)

    def _judged(self, submission: Submission) -> Verdict | Work:
        problem, text = submission.problem, submission.text
        reference, question = problem.answer or "", problem.prompt or ""
        if submission.is_program:
            verdict = verify_answer(text, reference, question=question)
        else:
            verdict = verify_math(text, reference, submission.finished, question)
        refused = verdict.outcome is Outcome.FAILED and verdict.extracted and verdict.decided_by != "question"
        return second_opinion(problem, reference, verdict) if submission.settings.either and refused else verdict
