"""Verdicts that a busy machine does not change: a program that exceeds its time limit is judged again with more time.

Limits count CPU time, but neighbors on the same core or cache make a program take more of it, up to some 1.8 times. A
program near its limit would pass on a quiet machine and fail on a busy one, and every later step would read that.
"""

from collections.abc import Sequence
from dataclasses import replace

from ratchet.verifiers.code.problem import DEFAULT_TIME_LIMIT_S, budget_s
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.serving.pool import Pool, gather
from ratchet.verifiers.submission import JudgeSettings, Submission

WIDER = 2.0
"""Factor on the limit, more than neighbors can cost."""


def patient(pool: Pool, submissions: Sequence[Submission], wider: float = WIDER) -> list[Verdict]:
    """The verdicts, in order. Timeouts are judged once more, after the others, with `wider` times the limits. Raises
    RatchetError where the machine cannot confine code."""
    verdicts = gather(pool.begin, submissions)
    late = [number for number, verdict in enumerate(verdicts) if verdict.outcome is Outcome.TIMEOUT]
    for number, verdict in zip(late, again(pool, [submissions[number] for number in late], wider), strict=True):
        verdicts[number] = verdict
    return verdicts


def again(pool: Pool, submissions: Sequence[Submission], wider: float = WIDER) -> list[Verdict]:
    """The verdicts with `wider` times the limits."""
    return gather(pool.begin, [_widened(submission, wider) for submission in submissions])


def unhurried(settings: JudgeSettings, problem: Problem) -> JudgeSettings:
    """`settings` with more time for all tests of a problem together; the limit of each test is the problem's."""
    return replace(settings, total_s=WIDER * budget_s(problem.time_limit_s or DEFAULT_TIME_LIMIT_S))


def _widened(submission: Submission, wider: float) -> Submission:
    limit_s = wider * (submission.problem.time_limit_s or DEFAULT_TIME_LIMIT_S)
    problem = replace(submission.problem, time_limit_s=limit_s)
    return replace(submission, problem=problem, settings=unhurried(submission.settings, problem))
