import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratchet.data_curation.base.problem_table import to_table
from ratchet.data_curation.teacher.attempts import ATTEMPTS_SCHEMA
from ratchet.data_curation.teacher.majority_vote import count_votes, vote
from ratchet.verifiers.math.equivalence import equivalent, verify_answer


def judged(reference: str, *attempts: tuple[str, str, int]):
    """The vote of attempts: response, finish reason and tokens."""
    problems = to_table([{"problem_id": "p", "domain": "math", "prompt": "?", "answer": reference}])
    rows = [
        {"problem_id": "p", "sample": i, "response": response, "finish_reason": reason, "tokens": tokens,
         "counted_by": "teacher"} for i, (response, reason, tokens) in enumerate(attempts)
    ]  # fmt: skip
    split = vote(problems, pa.Table.from_pylist(rows, schema=ATTEMPTS_SCHEMA).to_batches(2))
    return split.kept.to_pylist(), split.rejected.to_pylist()


def boxes(*answers: str) -> list[str]:
    return [f"so \\boxed{{{answer}}}" for answer in answers]


def test_equal_answers_written_differently_are_one_vote():
    answers = boxes("0.5", "\\frac{1}{2}", "3", "3", "\\frac12")
    (kept,), _ = judged("1/2", *((text, "stop", 100 + i) for i, text in enumerate(answers)))
    assert (kept["teacher_passes"], kept["teacher_attempts"], kept["difficulty"]) == (3, 5, round(8 * 2 / 5))
    assert kept["teacher_tokens"] == pytest.approx(102)


@pytest.mark.parametrize(
    ("reference", "responses", "reason", "rule"),
    [
        ("5", ["no answer here"] * 4, "stop", "no_answer"),
        ("5", boxes("5", "5"), "length", "no_answer"),  # a truncated attempt has no vote, and counts
        ("5", boxes("5", "5", "6", "6"), "stop", "tie"),
        ("5", boxes("5", "6", "7"), "stop", "tie"),
        ("5", boxes("5", "6", "6", "7", "8"), "stop", "no_majority"),
        ("5", [*boxes("6", "6"), *["nothing"] * 3], "stop", "no_majority"),
        ("5", boxes("5", "6", "6", "6"), "stop", "likely_wrong_reference"),
        ("1/3", boxes("0.333", "0.333", "0.333", "1/3"), "stop", "undecided"),  # rounded, not contradicted
        ("\\boxed{", boxes("7", "7", "7"), "stop", "unverifiable_reference"),
    ],
)
def test_each_rule(reference, responses, reason, rule):
    kept, (rejected,) = judged(reference, *((text, reason, 9) for text in responses))
    evidence = json.loads(rejected["evidence"])
    assert not kept and rejected["rule"] == rule and evidence["attempts"] == len(responses)
    assert ("the reference is likely wrong" in evidence.get("note", "")) == (rule == "likely_wrong_reference")


def test_a_problem_that_the_teacher_refuses_says_why():
    _, (rejected,) = judged("5", *[("maximum context length", "refused", 0)] * 4)
    assert (rejected["rule"], json.loads(rejected["evidence"])) == ("no_attempt", {"reason": "maximum context length"})


def test_an_attempt_that_was_cut_is_a_failure_as_long_as_it_is():
    rows = [("stop", 10), ("stop", 20), ("length", 100), ("length", 110)]
    (kept,), _ = judged("5", *((boxes("5")[0], reason, tokens) for reason, tokens in rows))
    assert (kept["teacher_passes"], kept["difficulty"], kept["teacher_tokens"]) == (2, 4, 60)
    said = json.loads(kept["metadata"])["majority_vote"]
    assert (said["truncated"], said["tokens"], said["votes"]) == (2, [10, 20, 100, 110], [["5", 2]])


def test_no_chain_of_roundings_joins_answers_that_differ():
    # Each step of the chain is an equality for the verifier, its ends are not.
    assert equivalent("50", "50%") and equivalent("50%", "0.5") and not equivalent("50", "0.5")
    assert equivalent("3.14159", "3.1416") and equivalent("3.1416", "3.14162") and not equivalent("3.14159", "3.14162")
    assert [(c.answer, c.votes) for c in count_votes(["50", "50", "50%", "0.5", "0.5"], "7")] == [("0.5", 3), ("50", 2)]
    # The reference takes what the verifier accepts for it, not what is equal to something it accepts.
    classes = {c.answer: (c.votes, c.right) for c in count_votes(["50", "50", "50%", "0.5"], "50")}
    assert classes["50"][1] and "0.5" in classes


ANSWERS = ["1/2", "0.5", "\\frac{1}{2}", "50%", "50", "0.3", "0.333", "1/3", "x+1", "1+x", "(1,2)", "7", None]


@given(st.lists(st.sampled_from(ANSWERS), max_size=8), st.sampled_from(ANSWERS[:-1]), st.randoms())
@settings(max_examples=60)
def test_votes_do_not_depend_on_order_and_each_answer_votes_once(answers, reference, random):
    straight = count_votes(answers, reference)
    shuffled = list(answers)
    random.shuffle(shuffled)
    assert count_votes(shuffled, reference) == straight
    assert sum(group.votes for group in straight) == sum(answer is not None for answer in answers)
    assert sum(bool(group.right) for group in straight) <= 1
    for group in straight:
        assert bool(group.right) == verify_answer(group.answer, reference).passed
