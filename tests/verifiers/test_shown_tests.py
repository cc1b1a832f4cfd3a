"""Tests in prompts: what a problem's templates show of them, and that what is shown holds."""

import pytest

from ratchet.data_curation.base.prompts import PromptFormat, template_fault, user_message
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.problem import Problem

SHOW = PromptFormat.model_validate({"code": "{prompt}|{tests}", "code_with_starter": "{prompt}|{examples}"})


def shown(*tests: dict, entry_point: str | None = "add", **fields: str) -> str:
    problem = Problem.of("code", "Add.", tests=tests, entry_point=entry_point, **fields)
    return user_message(problem, SHOW).partition("|")[2]


def test_calls_are_shown_as_assertions_that_python_accepts():
    text = shown(
        {"call": {"args": [1, [2]], "kwargs": {"deep": True}}, "output": [1, 2]},
        {"call": {"args": ['"\n'], "kwargs": {}}, "output": None},
    )
    assert text == "assert add(1, [2], deep=True) == [1, 2]\nassert add('\"\\n') == None"
    compile(text, "shown", "exec")


def test_a_check_is_shown_with_the_name_of_the_solution_and_what_it_needs():
    check = "import math\ndef check(candidate):\n    for x in (1, 2):\n        assert math.isclose(candidate(x), x)"
    text = shown({"check": check}, entry_point="Solution().same")
    assert text == "import math\nfor x in (1, 2):\n    assert math.isclose(Solution().same(x), x)"


def test_a_program_is_shown_input_and_output():
    text = shown({"input": "1 2\n", "output": "3\n"}, {"input": "", "output": "0"}, entry_point=None)
    assert text == "Input:\n1 2\n\nOutput:\n3\n\nInput:\n\n\nOutput:\n0"


def test_examples_are_the_first_test_only():
    tests = [{"call": {"args": [n], "kwargs": {}}, "output": n} for n in range(3)]
    assert shown(*tests, starter_code="def add(n):") == "assert add(0) == 0"


@pytest.mark.parametrize(("domain", "template", "fault"), [
    ("code", "{tests}", ""),
    ("math", "{prompt} {tests}", "{tests} is not filled in, only {prompt}, {starter_code};"),
    ("code", "Solve it.", "it has none of {prompt}, {starter_code}, {examples}, {tests}"),
])  # fmt: skip
def test_a_template_names_what_its_domain_can_show(domain: str, template: str, fault: str):
    assert template_fault(template, domain_of(domain).placeholders).startswith(fault)
    assert bool(fault) == bool(template_fault(template, domain_of(domain).placeholders))
