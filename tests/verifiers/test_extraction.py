import pytest

from ratchet.verifiers import Problem, verify
from ratchet.verifiers.domain import Domain
from ratchet.verifiers.extraction import after_thinking, python_program
from ratchet.verifiers.math.boxes import boxed_answer
from ratchet.verifiers.math.final_answer import stated_answer
from tests.verifiers.programs import rows
from tests.work import grows_linearly

tagged_answer = Domain().extract
READ = {"after_thinking": after_thinking, "boxed_answer": boxed_answer, "python_program": python_program}
READ |= {"stated_answer": stated_answer, "tagged_answer": tagged_answer}


@pytest.mark.parametrize("row", rows("extraction"), ids=lambda row: ascii(row["response"])[:40])
def test_what_is_read_of_a_response(row):
    assert READ[row["read"]](row["response"]) == row["expected"]


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
    assert tagged_answer("<answer>" * 200_000) is None
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
        (stated_answer, "<answer>"),
        (stated_answer, '{"answer": '),
        (boxed_answer, "\\boxed{1}, "),
        (tagged_answer, "<answer>"),
    ):
        assert grows_linearly(read, text * 10_000), text
