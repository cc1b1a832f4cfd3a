"""Difficulty of a problem: the teacher's failed attempts, scaled to eight."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from ratchet.data_curation.base.bounds import Difficulty
from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.curation_step import CurationStep, Rows, StepContext
from ratchet.data_curation.retry_timeouts import again
from ratchet.data_curation.split import Rejection, Split, partition
from ratchet.data_curation.teacher.attempts import ANSWERED, ROWS_AT_ONCE, teacher_columns, with_facts
from ratchet.verifiers.domains import code_of, domain_of
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.serving.pool import Pool
from ratchet.verifiers.submission import Submission

STEP = "difficulty"
RULES = ("no_attempt", "unsolved")


@dataclass(frozen=True)
class GradeDifficulty(CurationStep):
    """Judge the teacher's attempts; difficulty is the failures out of eight."""

    max_difficulty: Difficulty | None = None
    name: ClassVar[str] = STEP
    version: ClassVar[int] = 13
    needs: ClassVar[tuple[str, ...]] = ("attempts",)

    def parameters(self, context: StepContext) -> dict[str, Any]:
        most = context.curation.max_difficulty if self.max_difficulty is None else self.max_difficulty
        return {"max_difficulty": most, **context.judged()}

    def code(self, context: StepContext) -> Sequence[str]:
        return code_of([context.domain])

    def run(self, rows: Rows, context: StepContext) -> Iterable[Split]:
        attempts, total = context.attempt_batches(ROWS_AT_ONCE), context.count_attempts()
        most = self.parameters(context)["max_difficulty"]
        with context.open_pool(runs_programs=domain_of(context.domain).runs_programs) as pool:
            yield grade(rows.table(), attempts, pool, most, lambda judged: context.progress(judged, total))


@dataclass
class _Tally:
    """The attempts at one problem. `outcomes` leaves out the `unjudged` ones (infrastructure errors)."""

    outcomes: Counter[str] = field(default_factory=Counter)
    tokens: list[int] = field(default_factory=list)
    truncated: int = 0
    unjudged: int = 0
    refusal: str = ""

    def add(self, row: dict[str, Any], verdict: Verdict) -> None:
        """Count a judged row of the attempts."""
        if verdict.outcome is Outcome.INFRA_ERROR:
            self.unjudged += 1
            return
        # What grows without end meets its time or its memory limit first, whichever the machine is slower at.
        outcome = Outcome.FAILED if verdict.outcome is Outcome.TIMEOUT else verdict.outcome
        self.outcomes[outcome.value] += 1
        self.tokens.append(row["tokens"])
        self.truncated += row["finish_reason"] != "stop"


def grade(
    problems: pa.Table,
    attempts: Iterable[pa.RecordBatch],
    pool: Pool,
    max_difficulty: int,
    progress: Callable[[int], None] = lambda count: None,
) -> Split:
    """Judge every attempt; fill the `teacher_…` columns and `difficulty` (0 to 8), and the metadata's `difficulty`:
    outcomes, number of truncated attempts, and lengths in tokens.

    A truncated attempt is a failure. A problem above `max_difficulty` is rejected as `unsolved`, one whose every call
    the teacher refused as `no_attempt`.
    Infrastructure errors do not count as attempts; a problem with nothing else raises RatchetError. An attempt that
    exceeds its time limit is judged again with more (`patience`): the difficulty does not vary with the machine's load.
    """
    by_id = {problem.problem_id: problem for problem in from_table(problems)}
    tallies: dict[str, _Tally] = defaultdict(_Tally)
    judged = 0
    for batch in attempts:  # a batch at a time: all programs together may be larger than memory
        rows = []
        for row in batch.to_pylist():
            if row["finish_reason"] not in ANSWERED:
                tallies[row["problem_id"]].refusal = row["response"]
            elif row["problem_id"] in by_id:
                rows.append(row)
        for number, row in enumerate(rows):
            pool.submit(number, by_id[row["problem_id"]], row["response"], finished=row["finish_reason"] == "stop")
        late = []
        for number, verdict in pool.results():
            if verdict.outcome is Outcome.TIMEOUT:
                late.append(rows[number])
            else:
                tallies[rows[number]["problem_id"]].add(rows[number], verdict)
                progress(judged := judged + 1)
        submissions = [Submission(by_id[row["problem_id"]], row["response"], settings=pool.settings) for row in late]
        for row, verdict in zip(late, again(pool, submissions), strict=True):
            tallies[row["problem_id"]].add(row, verdict)
            progress(judged := judged + 1)
    ids = problems["problem_id"].to_pylist()
    facts = [_facts(problem_id, tallies[problem_id]) for problem_id in ids]
    verdicts = [_judge(fact, max_difficulty, tallies[name]) for name, fact in zip(ids, facts, strict=True)]
    return partition(STEP, RULES, with_facts(problems, STEP, facts), verdicts)


def _facts(problem_id: str, tally: _Tally) -> dict[str, Any]:
    attempts = tally.outcomes.total()
    if tally.unjudged and not attempts:
        raise RatchetError(
            f"Problem {problem_id}: none of its {tally.unjudged} teacher attempts could be judged. "
            "`ratchet doctor` says what is wrong with the sandbox."
        )
    passes = tally.outcomes[Outcome.PASSED.value]
    return teacher_columns(passes, attempts, tally.tokens) | {
        "outcomes": dict(sorted(tally.outcomes.items())),
        "truncated": tally.truncated,
        "unjudged": tally.unjudged,
        "tokens": sorted(tally.tokens),
    }


def _judge(fact: dict[str, Any], max_difficulty: int, tally: _Tally) -> Rejection | None:
    if fact["difficulty"] is None:
        return Rejection("no_attempt", {"reason": tally.refusal})
    return Rejection("unsolved", fact) if fact["difficulty"] > max_difficulty else None
