import json
import subprocess
import sys

import pytest

from ratchet.data_curation.trace_files import read_traces
from ratchet.examples.word_problems.solutions import solved, steps_of


@pytest.mark.parametrize(
    "equation, steps",
    [
        ("X=((32.0+42.0)-35.0)", ["32 + 42 = 74", "74 - 35 = 39"]),
        ("x = 3*6", ["3 * 6 = 18"]),
        ("X=1.08+4.80", ["1.08 + 4.8 = 5.88"]),
        ("X=(1215.0*1000.0)", ["1215 * 1000 = 1215000"]),
    ],
)
def test_a_line_for_each_operation_in_the_order_of_the_brackets(equation, steps):
    found = steps_of(equation)
    assert found and found[0] == steps and f"{found[1]:.10g}" == steps[-1].split()[-1]


@pytest.mark.parametrize(
    "equation",
    [
        "X=5.0",
        "X=0.32=0.21",
        "X=1.0/3.0",
        "X=1/0",
        "X=1+1+1+1+1",
        "Y=1+1",
        "X=2**9",
        "X=__import__('os')",
        "X=",
        "X=(",
        "X=9**9**9",
    ],
)
def test_other_equations_give_no_solution(equation):
    assert steps_of(equation) is None


def test_an_answer_that_contradicts_its_equation_is_left_out():
    row = {"original_text": "How many?", "equation": "X=(4.0+7.0)", "ans": 11.0}
    assert solved(row) == {"question": "How many?", "answer": "11", "solution": "4 + 7 = 11"}
    assert solved({**row, "ans": 12.0}) is solved({**row, "ans": "eleven"}) is None


def test_the_file_is_read_as_traces(tmp_path):
    rows = [
        {"original_text": "How many are 4 and 7?", "equation": "X=(4.0+7.0)", "ans": 11.0},
        {"original_text": "?", "equation": "X=1", "ans": 1},
    ]
    (tmp_path / "trainset.json").write_text(json.dumps(rows))
    command = [sys.executable, "-m", "ratchet.examples.word_problems.solutions", "trainset.json"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "1 of 2 problems, 1 left out" in said
    (trace,), rejected = read_traces(tmp_path / "solutions.jsonl", "s", "math", lambda problem: problem.prompt, {})
    assert not rejected and trace.prompt == "How many are 4 and 7?" and trace.response == "4 + 7 = 11\n\\boxed{11}"


def test_another_file_is_refused(tmp_path):
    (tmp_path / "other.json").write_text('[{"question": "?"}]')
    command = [sys.executable, "-m", "ratchet.examples.word_problems.solutions", "other.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode and "not a list of problems" in done.stderr and not (tmp_path / "solutions.jsonl").exists()
