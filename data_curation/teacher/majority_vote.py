"""Vote of the majority: keep a math problem if the teacher's most frequent answer is the reference.

The verifier decides which answers match the reference, exactly as it does for a reward. The other answers are votes for
something else, and equal ones are counted together (`0.5` and `1/2` are one vote). Equality is not transitive (3.14159
and 3.14162 both round to 3.1416), so each class has a leader: the most frequent answer, of equals the first in
alphabetical order, takes all answers equal to it; then the next. The order of the answers does not matter.

An attempt that is truncated or has no answer votes for nothing, but counts among the attempts.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from ratchet.data_curation.curation_step import CurationStep, Rows, StepContext
from ratchet.data_curation.split import Rejection, Split, partition
from ratchet.data_curation.teacher.attempts import ANSWERED, ROWS_AT_ONCE, teacher_columns, with_facts
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.math.boxes import boxed_answer
from ratchet.verifiers.math.equivalence import equivalent, reference_fault, verify_answer
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.problem import Problem

STEP = "majority_vote"
Attempt = dict[str, Any]
"""A row of `ATTEMPTS_SCHEMA` with `answer` and `truncated` for `response`."""
Verify = Callable[[str, str], Verdict]
"""A function that gives the verdict on an answer and a reference."""
RULES = (
    "no_attempt", "unverifiable_reference", "no_answer", "undecided", "tie", "likely_wrong_reference", "no_majority"
)  # fmt: skip
CONFIDENT = 0.5
"""Share of all attempts that agree on a wrong answer above which the reference is probably wrong."""


@dataclass(frozen=True)
class MajorityVote(CurationStep):
    """Keep math problems whose reference is the teacher's most frequent answer."""

    name: ClassVar[str] = STEP
    version: ClassVar[int] = 14
    needs: ClassVar[tuple[str, ...]] = ("attempts",)

    def parameters(self, context: StepContext) -> dict[str, str]:
        return context.judged()

    def code(self, context: StepContext) -> Sequence[str]:
        return ()

    def run(self, rows: Rows, context: StepContext) -> Iterable[Split]:
        with _verifier(context) as verify:
            yield vote(rows.table(), context.attempt_batches(ROWS_AT_ONCE), verify)


@contextmanager
def _verifier(context: StepContext) -> Iterator[Verify]:
    """The verifier of answers: a pool where the recipe accepts either of two verifiers."""
    if context.verified == "strict":
        yield verify_answer
        return

    def verify(answer: str, reference: str) -> Verdict:
        (verdict,) = pool.run_programs([(Problem("vote", "math", "", answer=reference), answer)])
        if verdict.outcome is Outcome.INFRA_ERROR:
            raise RatchetError(f"The answer {answer[:60]!r} cannot be verified: {verdict.detail}.")
        return verdict

    with context.open_pool(workers=1) as pool:
        yield verify


@dataclass(frozen=True)
class Class:
    """Attempts that gave one answer. `right` is True if it is the reference; None if the verifier could not decide."""

    answer: str
    votes: int
    right: bool | None


def vote(problems: pa.Table, attempts: Iterable[pa.RecordBatch], verify: Verify = verify_answer) -> Split:
    """Fill the `teacher_…` columns and `difficulty`, and the metadata's `majority_vote`: the votes, the numbers of
    truncated and unanswered attempts, lengths in tokens, and who counted them.

    `teacher_tokens` is the mean length of all attempts, truncated ones included. Rules: `no_attempt` (the teacher
    refused every call), `unverifiable_reference`, `no_answer` (no attempt has one), `undecided` (the verifier cannot
    decide whether the most frequent answer is the reference), `tie` (the reference is among several most frequent
    answers), `likely_wrong_reference` (more than half of all attempts agree on something else), `no_majority` (the most
    frequent answer is wrong).
    """
    by_problem: dict[str, list[Attempt]] = defaultdict(list)
    refusals: dict[str, str] = {}
    for batch in attempts:
        for row in batch.to_pylist():
            if row["finish_reason"] not in ANSWERED:
                refusals[row["problem_id"]] = row["response"]
                continue
            row["truncated"] = row["finish_reason"] == "length"
            response = row.pop("response")  # long, and no longer needed
            by_problem[row["problem_id"]].append(row | {"answer": None if row["truncated"] else boxed_answer(response)})
    facts, verdicts = [], []
    for problem_id, reference in zip(*(problems[name].to_pylist() for name in ("problem_id", "answer")), strict=True):
        answers = by_problem[problem_id]
        classes = count_votes([attempt["answer"] for attempt in answers], reference, verify) if reference else []
        facts.append(_facts(answers, classes))
        verdicts.append(_judge(facts[-1], classes, reference, refusals.get(problem_id)))
    return partition(STEP, RULES, with_facts(problems, STEP, facts), verdicts)


def count_votes(answers: Iterable[str | None], reference: str, verify: Verify = verify_answer) -> list[Class]:
    """Classes of equal answers, most votes first; the reference's class, if any, has its most frequent spelling."""
    written = Counter(answer for answer in answers if answer is not None)
    ordered = sorted(written, key=lambda answer: (-written[answer], answer))
    matches = {answer: _matches(verify(answer, reference)) for answer in ordered}
    right = [answer for answer in ordered if matches[answer]]
    others = [answer for answer in ordered if not matches[answer]]
    classes = [Class(right[0], sum(written[answer] for answer in right), True)] if right else []
    while others:
        leader = others[0]
        members = [answer for answer in others if answer == leader or equivalent(leader, answer)]
        others = [answer for answer in others if answer not in members]
        undecided = any(matches[answer] is None for answer in members)
        classes.append(Class(leader, sum(written[answer] for answer in members), None if undecided else False))
    return sorted(classes, key=lambda group: -group.votes)  # stable: of equals the right one, then the leaders' order


def _matches(verdict: Verdict) -> bool | None:
    """None: the verifier cannot decide."""
    decided = verdict.outcome in (Outcome.PASSED, Outcome.FAILED) and verdict.decided_by != "cost"
    return verdict.passed if decided else None


def _facts(attempts: list[Attempt], classes: list[Class]) -> dict[str, Any]:
    passes = sum(group.votes for group in classes if group.right)
    return teacher_columns(passes, len(attempts), [attempt["tokens"] for attempt in attempts]) | {
        "votes": [[group.answer, group.votes] for group in classes],
        "truncated": sum(attempt["truncated"] for attempt in attempts),
        "unanswered": sum(attempt["answer"] is None and not attempt["truncated"] for attempt in attempts),
        "tokens": sorted(attempt["tokens"] for attempt in attempts),
        "counted_by": "+".join(sorted({attempt["counted_by"] for attempt in attempts})),
    }


def _judge(fact: dict[str, Any], classes: list[Class], reference: str, refusal: str | None) -> Rejection | None:
    attempts = fact["teacher_attempts"]
    evidence = {"reference": reference, "votes": fact["votes"], "attempts": attempts, "truncated": fact["truncated"]}
    if not attempts:
        return Rejection("no_attempt", {"reason": refusal})
    if fault := reference_fault(reference or ""):
        return Rejection("unverifiable_reference", evidence | {"fault": fault})
    if not classes:
        return Rejection("no_answer", evidence)
    first = classes[0]
    if first.right:
        tied = len(classes) > 1 and classes[1].votes == first.votes
        return Rejection("tie", evidence) if tied else None
    # Equal in the other direction: 0.333 for the reference 1/3 earns no reward, but does not contradict it either.
    if first.right is None or equivalent(reference, first.answer):
        return Rejection("undecided", evidence)
    if first.votes > CONFIDENT * attempts:
        note = f"{first.votes} of {attempts} attempts agree on {first.answer!r}: the reference is likely wrong"
        return Rejection("likely_wrong_reference", evidence | {"note": note})
    return Rejection("no_majority", evidence)
