import json

import pyarrow as pa
import pytest

from ratchet.evaluation.grading import GRADED_SCHEMA, RIGHT, Grading, answer_classes
from ratchet.evaluation.sampling import GENERATION_SCHEMA
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.serving.local_pool import VerifierPool

MATH = Problem("m", "math", "1 + 1?", answer="2")
CODE = Problem(
    "c", "code", "Add.", entry_point="solve", time_limit_s=2.0,
    tests=json.dumps([{"call": {"args": [[1, 2]], "kwargs": {}}, "output": 3}]),
)  # fmt: skip
RIGHT_CODE = "```python\ndef solve(xs):\n    return sum(xs)\n```"


@pytest.fixture(scope="module")
def pool():
    with VerifierPool(1) as pool:
        yield pool


def generations(*rows: tuple[str, str, str]) -> pa.Table:
    """(benchmark, text, finish reason); every benchmark has one problem, named by its first letter."""
    return pa.Table.from_pylist(
        [
            {"benchmark": b, "problem_id": b[0], "sample": i, "text": text, "finish_reason": finish, "tokens": 5}
            for i, (b, text, finish) in enumerate(rows)
        ],
        schema=GENERATION_SCHEMA,
    )


def grade(pool: VerifierPool, table: pa.Table, prefix: str = "") -> list[dict]:
    grading = Grading(pool, {"math": [MATH], "code": [CODE]}, dict.fromkeys(("math", "code"), prefix))
    grading.submit(table.to_pylist())
    grading.collect()
    graded = grading.graded(table)
    assert graded.schema == GRADED_SCHEMA and graded.select(GENERATION_SCHEMA.names).equals(table)
    return graded.to_pylist()


def test_every_kind_of_generation(pool):
    rows = grade(
        pool,
        generations(
            ("math", "so \\boxed{2}", "stop"),
            ("math", "so \\boxed{3}", "stop"),
            ("math", "no idea", "stop"),
            ("math", "so \\boxed{2}", "length"),
            ("math", "", "error"),
            ("code", RIGHT_CODE, "stop"),
            ("code", RIGHT_CODE.replace("sum", "max"), "stop"),
        ),
    )
    outcomes = ["passed", "failed", "unparseable", "failed", "infra_error", "passed", "failed"]
    assert [row["outcome"] for row in rows] == outcomes
    assert [row["fraction"] for row in rows] == [1, 0, 0, 0, 0, 1, 0]
    assert rows[1]["extracted"] == "3" and rows[4]["decided_by"] == "engine"
    assert [row["answer_class"] for row in rows] == [0, 1, None, None, None, None, None]


def test_what_the_prompt_began_is_part_of_what_is_judged(pool):
    thinking = generations(("math", "maybe \\boxed{2}", "stop"), ("math", "hm</think> \\boxed{2}", "stop"))
    assert [row["outcome"] for row in grade(pool, thinking, prefix="<think>\n")] == ["unparseable", "passed"]


def test_too_many_responses_without_a_verdict_stop_the_evaluation(pool):
    grading = Grading(pool, {"math": [MATH]}, {"math": ""})
    grading.submit(generations(("math", "\\boxed{2}", "stop"), ("math", "", "error")).to_pylist())
    grading.collect()
    grading.require_verdicts(0.5)
    with pytest.raises(RatchetError, match="math: 1 of 2 responses could not be sampled or judged"):
        grading.require_verdicts(0.05)
    grading.verdicts |= {("large", "l", sample): Verdict(Outcome.PASSED) for sample in range(998)}
    with pytest.raises(RatchetError, match="math: 1 of 2 responses"):  # hidden in no other benchmark's
        grading.require_verdicts(0.05)


def verdict(answer: str | None, outcome: Outcome = Outcome.FAILED) -> Verdict:
    return Verdict(outcome, extracted=answer)


def test_wrong_answers_are_one_class_however_they_are_written():
    classes = answer_classes(
        [
            verdict("1/2", Outcome.PASSED), verdict("0.5", Outcome.PASSED),
            verdict("\\frac{3}{4}"), verdict("0.75"), verdict(" 3/4 "), verdict("7"), verdict("7.0"),
        ]
    )  # fmt: skip
    assert classes == [RIGHT, RIGHT, 1, 1, 1, 2, 2]


def test_what_is_no_answer_does_not_vote():
    silent = [verdict(None), verdict("  "), verdict("3", Outcome.INFRA_ERROR), verdict("", Outcome.UNPARSEABLE)]
    assert answer_classes(silent) == [None] * 4


def test_hundreds_of_strange_answers_end_quickly():
    strange = [verdict("(" * (i % 50) + f"x^{{{i}}}\\sqrt{{" + str(i)) for i in range(300)]
    assert len(set(answer_classes(strange))) > 200
