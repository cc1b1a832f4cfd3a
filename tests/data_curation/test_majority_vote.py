import json

import pyarrow as pa
import pytest

from data_curation.majority_vote import vote
from data_curation.teacher_attempts import ATTEMPTS_SCHEMA
from infra.problems import to_table


def judged(reference: str, responses: list[str], finish: str = "stop"):
    problems = to_table([{"problem_id": "p", "domain": "math", "prompt": "?", "answer": reference}])
    attempts = pa.Table.from_pylist(
        [
            {"problem_id": "p", "sample": i, "response": r, "finish_reason": finish, "tokens": 100 + i}
            for i, r in enumerate(responses)
        ],
        schema=ATTEMPTS_SCHEMA,
    )
    split = vote(problems, attempts)
    return split.kept.to_pylist(), split.rejected.to_pylist()


def boxes(*answers: str) -> list[str]:
    return [f"so \\boxed{{{answer}}}" for answer in answers]


def test_equal_answers_written_differently_are_one_vote():
    kept, _ = judged("1/2", boxes("0.5", "\\frac{1}{2}", "3", "3", "\\frac12"))
    assert (kept[0]["teacher_passes"], kept[0]["teacher_attempts"]) == (3, 5)
    assert kept[0]["difficulty"] == round(8 * 2 / 5)
    assert kept[0]["teacher_tokens"] == pytest.approx(102)


@pytest.mark.parametrize(
    ("responses", "rule"),
    [
        (["no answer here"] * 4, "no_answer"),
        (boxes("5", "5", "6", "6"), "tie"),
        (boxes("5", "6", "6", "7", "8"), "no_majority"),
        (boxes("5", "6", "6", "6"), "contradicts_reference"),
        ([*boxes("6", "6"), *["nothing"] * 3], "no_majority"),
    ],
)
def test_each_rule(responses, rule):
    kept, (rejected,) = judged("5", responses)
    assert not kept and rejected["rule"] == rule
    assert json.loads(rejected["evidence"])["attempts"] == len(responses)


def test_a_likely_wrong_reference_is_said():
    _, (rejected,) = judged("5", boxes("6", "6", "6", "5"))
    assert "the reference is likely wrong" in json.loads(rejected["evidence"])["note"]


def test_an_attempt_cut_at_the_limit_has_no_vote_and_counts():
    _, (rejected,) = judged("5", boxes("5", "5"), finish="length")
    assert rejected["rule"] == "no_answer"


def test_one_right_answer_among_wrong_ones_that_differ_is_a_tie():
    _, (rejected,) = judged("5", boxes("5", "6", "7"))
    assert rejected["rule"] == "tie"
