"""GPQA, a user's own columns, and worked solutions. `test_layouts.py` has a row of each layout."""

import json

import pytest

from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.read import read_problems
from ratchet.data_curation.readers.references import retrieved
from ratchet.data_curation.rule_filter import filter_by_rules
from ratchet.verifiers.domains import domain_of
from tests.data_curation.readers.files import SOLUTIONS, write_json


def read(tmp_path, rows, columns=None):
    split = read_problems(write_json(tmp_path / "rows.json", rows), "science", columns)
    assert not len(filter_by_rules(split.kept).rejected)
    return from_table(split.kept)


def test_gpqa_has_the_right_answer_at_a_place_that_the_question_decides(tmp_path):
    rows = [
        {"Question": f"What is {n}?", "Correct Answer": "right", "Record ID": n}
        | {f"Incorrect Answer {i}": f"wrong {i}" for i in (1, 2, 3)} for n in range(40)
    ]  # fmt: skip
    problems = read(tmp_path, rows)
    assert [p.answer for p in problems] == [p.answer for p in read(tmp_path, rows[::-1])][::-1]
    assert {p.answer for p in problems} == set("ABCD")
    assert all(f"\n{p.answer}. right" in p.prompt and "wrong 3" in p.prompt for p in problems)
    assert json.loads(problems[7].metadata) == {"Record ID": 7}


@pytest.mark.parametrize(
    ("question", "answer", "unit"),  # None: an expression
    [
        ("Two blocks of mass m each hang on ropes. Find the tension in the upper one.", "$2mg$", None),
        ("Two cells of voltage V are in series. Find the total voltage in terms of V.", "$4V$", None),
        ("What is the molar heat capacity?", r"$\frac{3}{2}R$", None),
        ("Find the new period in terms of T.", "2.5 T", None),
        ("What is the mass of a half, if the whole has mass $m$?", r"\frac12 m", None),
        ("Find the area of a box with the sides $a$ and $b$.", "3ab", None),
        ("A mass m hangs on a rope. Find the force.", "2 m g", None),
        ("A cell has 12 V. Find the voltage of the other one.", "$4V$", "V"),
        ("A mass $m$ of 3 kg moves for 4 s. How far?", "12 m", "m"),
        ("Find the voltage V of the cell.", "1.1V", "V"),
        ("How much is it?", r"$4\,\mathrm{V}$", "V"),
        ("How large is the torque?", "12 N m", "N m"),
        ("Find the ratio.", "2.3 (dimensionless)", ""),
    ],
)
def test_the_letters_of_an_expression_are_no_unit(tmp_path, question, answer, unit):
    rows = [{"question": question, "answer": answer}]
    (problem,) = from_table(read_problems(write_json(tmp_path / "s.json", rows), "science").kept)
    if unit is None:
        assert (problem.prompt, problem.answer, problem.tests) == (question, answer, None)
    else:
        assert json.loads(problem.tests or "{}")["unit"] == unit
        assert problem.prompt == question + f"\n\nThe unit of the answer is {unit}." * bool(unit)


def test_columns_of_ones_own_with_a_unit(tmp_path):
    own = [{"ask": "How fast?", "speed": 3.5, "how": {"unit": "m/s"}}]
    [problem] = read(tmp_path, own, {"prompt": "ask", "answer": "speed", "tests": "how"})
    assert domain_of("science").template(problem) == "science_number"


@pytest.mark.parametrize(("solution", "reference"), SOLUTIONS["references"])
def test_the_reference_of_a_worked_solution(solution, reference):
    assert retrieved(solution) == reference
