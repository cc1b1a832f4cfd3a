"""Majority vote: keep a math problem where the teacher's most frequent answer is the reference.

Votes are counted over equivalence classes made with the verifier (`0.5` and `1/2` are one vote). An attempt without an
answer votes for nothing but counts in the denominator, and a tie is a reason of its own, never settled by order.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa

from data_curation.split import Rejection, Split, partition, set_column
from verifiers.extraction import boxed_answer
from verifiers.math_equivalence import equivalence_classes, equivalent

STEP = "majority_vote"
RULES = ("no_answer", "tie", "no_majority", "contradicts_reference")
CONFIDENT = 0.5
"""A wrong answer that more than this share of all attempts agree on says that the reference may be wrong."""
LEVELS = 8
"""Difficulty is failures scaled to eight attempts, the paper's scale."""


def vote(problems: pa.Table, attempts: pa.Table) -> Split:
    """Fills `teacher_passes`, `teacher_attempts`, `teacher_tokens` (mean over attempts that ended) and `difficulty`.

    Rules: `no_answer` (no attempt has one), `tie` (the reference is among several most frequent answers),
    `contradicts_reference` (more than half of all attempts agree on something else: the reference is likely wrong),
    `no_majority` (the most frequent answer is wrong, without that confidence).
    """
    by_problem: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in attempts.to_pylist():
        by_problem[row["problem_id"]].append(row)
    tallies = [
        _tally(by_problem[problem_id], reference)
        for problem_id, reference in zip(
            problems.column("problem_id").to_pylist(), problems.column("answer").to_pylist(), strict=True
        )
    ]
    for name in ("teacher_passes", "teacher_attempts", "teacher_tokens", "difficulty"):
        problems = set_column(problems, name, [tally[name] for tally in tallies])
    return partition(STEP, RULES, problems, [_judge(tally) for tally in tallies])


def _tally(attempts: list[dict[str, Any]], reference: str) -> dict[str, Any]:
    finished = [row for row in attempts if row["finish_reason"] == "stop"]
    answers = [boxed_answer(row["response"]) if row["finish_reason"] == "stop" else None for row in attempts]
    classes = [members for members in equivalence_classes(answers) if answers[members[0]] is not None]
    classes.sort(key=lambda members: (-len(members), members[0]))
    right = next((members for members in classes if equivalent(reference, answers[members[0]])), [])
    failures = len(attempts) - len(right)
    return {
        "teacher_passes": len(right),
        "teacher_attempts": len(attempts),
        "teacher_tokens": sum(row["tokens"] for row in finished) / len(finished) if finished else None,
        "difficulty": round(LEVELS * failures / len(attempts)) if attempts else None,
        "votes": [(answers[members[0]], len(members)) for members in classes],
        "reference": reference,
    }


def _judge(tally: dict[str, Any]) -> Rejection | None:
    votes, passes, attempts = tally["votes"], tally["teacher_passes"], tally["teacher_attempts"]
    evidence = {"reference": tally["reference"], "votes": votes, "attempts": attempts}
    if not votes:
        return Rejection("no_answer", evidence)
    most = votes[0][1]
    if passes == most:
        tied = sum(count == most for _, count in votes) > 1
        return Rejection("tie", evidence) if tied else None
    if most > CONFIDENT * attempts:
        note = f"{most} of {attempts} attempts agree on {votes[0][0]!r}: the reference is likely wrong"
        return Rejection("contradicts_reference", evidence | {"note": note})
    return Rejection("no_majority", evidence)
