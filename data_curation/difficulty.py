"""Difficulty of a code problem: how many of the teacher's programs fail its tests, on a scale of eight."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from data_curation.split import Rejection, Split, partition, set_column
from infra.errors import RatchetError
from infra.problems import from_table
from verifiers.outcome import Outcome
from verifiers.tickets import Pool

STEP = "difficulty"
RULES = ("unsolved",)
LEVELS = 8


def grade(
    problems: pa.Table,
    attempts: pa.Table,
    pool: Pool,
    max_difficulty: int,
    progress: Callable[[int, int], None] | None = None,
) -> Split:
    """Judge every attempt; fill `teacher_passes`, `teacher_attempts`, `teacher_tokens` and `difficulty` (0 to 8).

    A problem above `max_difficulty` is rejected as `unsolved`. Verdicts that are our machine's fault leave the count of
    attempts; a problem with nothing else raises RatchetError, because its difficulty is not known.
    """
    by_id = {problem.problem_id: problem for problem in from_table(problems)}
    rows = [row for row in attempts.to_pylist() if row["problem_id"] in by_id]
    for number, row in enumerate(rows):
        pool.submit(number, by_id[row["problem_id"]], row["response"], finished=row["finish_reason"] == "stop")
    outcomes: dict[str, list[tuple[Outcome, dict[str, Any]]]] = defaultdict(list)
    for judged, (number, verdict) in enumerate(pool.results(), start=1):
        outcomes[rows[number]["problem_id"]].append((verdict.outcome, rows[number]))
        if progress and judged % 100 == 0:
            progress(judged, len(rows))
    facts = [_facts(problem_id, outcomes[problem_id]) for problem_id in problems.column("problem_id").to_pylist()]
    for name in ("teacher_passes", "teacher_attempts", "teacher_tokens", "difficulty"):
        problems = set_column(problems, name, [fact[name] for fact in facts])
    verdicts = [Rejection("unsolved", fact) if fact["difficulty"] > max_difficulty else None for fact in facts]
    return partition(STEP, RULES, problems, verdicts)


def _facts(problem_id: str, judged: list[tuple[Outcome, dict[str, Any]]]) -> dict[str, Any]:
    valid = [(outcome, row) for outcome, row in judged if outcome is not Outcome.INFRA_ERROR]
    if not valid:
        raise RatchetError(
            f"Problem {problem_id}: none of its {len(judged)} teacher attempts could be judged. "
            "`ratchet doctor` says what is wrong with the sandbox."
        )
    passes = sum(outcome is Outcome.PASSED for outcome, _ in valid)
    finished = [row["tokens"] for _, row in valid if row["finish_reason"] == "stop"]
    return {
        "teacher_passes": passes,
        "teacher_attempts": len(valid),
        "teacher_tokens": sum(finished) / len(finished) if finished else None,
        "difficulty": round(LEVELS * (len(valid) - passes) / len(valid)),
    }
