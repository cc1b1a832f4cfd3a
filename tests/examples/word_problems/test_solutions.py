import json
import subprocess
import sys

import pytest

from ratchet.data_curation.trace_files import read_traces
from ratchet.examples.word_problems.solutions import solved

ROW = {"original_text": "How many?", "equation": "X=(4.0+7.0)", "ans": 11.0}
COMMAND = [sys.executable, "-m", "ratchet.examples.word_problems.solutions", "trainset.json", "testset.json"]


@pytest.mark.parametrize(
    "equation, answer, steps",
    [
        ("X=((32.0+42.0)-35.0)", 39.0, ["32 + 42 = 74", "74 - 35 = 39"]),
        ("x = 3*6", "18", ["3 * 6 = 18"]),
        ("X=(9.0-(2.0*3.0))/3.0", 1.0, ["2 * 3 = 6", "9 - 6 = 3", "3 / 3 = 1"]),
    ],
)
def test_a_line_for_each_operation_in_the_order_of_the_brackets(equation, answer, steps):
    found = solved({**ROW, "equation": equation, "ans": answer})
    assert found == {"question": "How many?", "answer": steps[-1].split()[-1], "solution": "\n".join(steps)}


@pytest.mark.parametrize(
    "equation",
    [
        "X=11.0", "X=0.32=0.21", "X=33.0/3.0/1.1", "X=22.0/4.0*2.0", "X=100.0-89.0", "X=60.0+50.0-99.0",
        "X=1.0-2.0+12.0", "X=11/0", "X=7+1+1+1+1", "Y=4+7", "X=2**3+3", "X=__import__('os')", "X=", "X=(", "X=9**9**9",
    ],
)  # fmt: skip
def test_other_equations_give_no_solution(equation):
    assert solved({**ROW, "equation": equation}) is None


def test_an_answer_that_contradicts_its_equation_is_left_out():
    assert solved(ROW) == {"question": "How many?", "answer": "11", "solution": "4 + 7 = 11"}
    assert solved({**ROW, "ans": 12.0}) is solved({**ROW, "ans": "eleven"}) is None


def test_the_files_are_read_as_traces(tmp_path):
    rows = [{**ROW, "original_text": "How many are 4 and 7?"}, {"original_text": "?", "equation": "X=1", "ans": 1}]
    (tmp_path / "trainset.json").write_text(json.dumps(rows))
    (tmp_path / "testset.json").write_text(json.dumps(rows[1:]))
    said = subprocess.run(COMMAND, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "train.jsonl: 1 of 2 problems, 1 left out" in said and "test.jsonl: 0 of 1" in said
    (trace,), rejected = read_traces(tmp_path / "train.jsonl", "s", "math", lambda problem: problem.prompt, {})
    assert not rejected and trace.prompt == "How many are 4 and 7?" and trace.response == "4 + 7 = 11\n\\boxed{11}"


def test_another_file_is_refused(tmp_path):
    (tmp_path / "trainset.json").write_text('[{"question": "?"}]')
    done = subprocess.run(COMMAND, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode and "no list of problems" in done.stderr and not (tmp_path / "train.jsonl").exists()
