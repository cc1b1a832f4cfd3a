import json
from pathlib import Path

import pytest

from ratchet.verifiers import Problem, verify
from ratchet.verifiers.extraction import after_thinking, python_program
from ratchet.verifiers.math.boxes import boxed_answer
from ratchet.verifiers.math.final_answer import stated_answer
from tests.work import grows_linearly

ROWS = [json.loads(line) for line in Path(__file__).with_name("extraction.jsonl").read_text("utf-8").splitlines()]
READ = {"boxed_answer": boxed_answer, "python_program": python_program, "stated_answer": stated_answer}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: ascii(row["response"])[:40])
def test_what_is_read_of_a_response(row):
    assert READ[row["read"]](row["response"]) == row["expected"]


def test_reads_after_the_last_closed_thinking():
    assert after_thinking("<think>x</think>y") == "y"
    assert after_thinking("y") == "y"
    assert after_thinking("<think>x") is None
    assert after_thinking("<THINK>x</Think>y") == "y"


@pytest.mark.parametrize(
    ("response", "outcome", "is_boxed"),
    [("So x = 4.", "passed", False), ("It is 5.", "failed", False), ("\\boxed{4}", "passed", True)],
)
@pytest.mark.parametrize("domain", ["math", "science"])
def test_a_verdict_says_that_its_answer_had_no_box(domain, response, outcome, is_boxed):
    verdict = verify(Problem.of(domain, answer="4"), response)
    assert verdict.outcome.value == outcome
    assert ("without a box" in verdict.detail) is not is_boxed


def test_long_hostile_responses_are_read_in_linear_time():
    assert boxed_answer("\\boxed{" * 20_000) is None
    assert python_program("```\n" * 30_001) is None
    for read, text in (
        (boxed_answer, "\\boxed{"),
        (boxed_answer, "{"),
        (python_program, "```\n"),
        (python_program, " "),
        (python_program, '```python\n"""\n'),
        (python_program, '```python\n"""\n```\n'),
        (python_program, "~~~\n```\n"),
        (python_program, ">"),
        (python_program, "> ```\n```\n"),
        (stated_answer, "the answer is "),
        (stated_answer, ", so "),
        (stated_answer, "**1** "),
        (stated_answer, "$$ x "),
        (boxed_answer, "\\boxed{1}, "),
    ):
        assert grows_linearly(read, text * 10_000), text
