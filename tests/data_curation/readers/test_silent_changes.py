"""Values that reading would change without a word: separators, missing outputs, numbers of few digits."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.data_curation import read_problems
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.problem import problem_id


def read(tmp_path, row, domain="math"):
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    split = read_problems(tmp_path / "rows.jsonl", domain)
    return split.kept.to_pylist(), [json.loads(text)["reason"] for text in split.rejected["evidence"].to_pylist()]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x0b", "\x1c", "\x85"])
def test_a_separator_stays_one(tmp_path, separator):
    [problem], _ = read(tmp_path, {"problem": f"There are 5{separator}6 pens. How many?", "answer": "11"})
    assert problem["prompt"] == "There are 5\n6 pens. How many?"


@pytest.mark.parametrize("text", ["Operations:\neq a b", "Listing:\n\tfrac = x % 1", "Columns id\tau\tb"])
def test_a_line_end_or_a_tab_of_code_is_no_latex(tmp_path, text):
    [problem], _ = read(tmp_path, {"prompt": text, "tests": [{"input": "1", "output": "1"}]}, "code")
    assert problem["prompt"] == text


@pytest.mark.parametrize(
    ("tests", "kept"),
    [
        ([{"input": "1\n", "output": "2\n"}, {"input": "5\n", "output": None}], [("1\n", "2\n")]),
        ({"inputs": ["3\n", None], "outputs": ["6\n", None]}, [("3\n", "6\n")]),
        ({"inputs": "3\n", "outputs": "6\n"}, [("3\n", "6\n")]),
        ([{"input": None, "output": "2\n"}], [("", "2\n")]),
    ],
)
def test_a_missing_output_is_no_test_and_a_text_is_one(tmp_path, tests, kept):
    [problem], _ = read(tmp_path, {"prompt": "Add.", "tests": tests}, "code")
    assert [(test["input"], test["output"]) for test in json.loads(problem["tests"])] == kept


def test_a_bool_is_no_output(tmp_path):
    with pytest.raises(RatchetError, match="tests: bool instead of text"):
        read(tmp_path, {"prompt": "Add.", "tests": [{"input": "1", "output": True}]}, "code")


def test_a_number_is_read_with_the_digits_that_it_was_written_with(tmp_path):
    single = pa.array([0.1, 1.5, None], pa.float32())
    pq.write_table(
        pa.table({"problem": ["How much?", "How many?", "Who?"], "answer": single}), tmp_path / "rows.parquet"
    )
    assert read_problems(tmp_path / "rows.parquet").kept["answer"].to_pylist() == ["0.1", "1.5", None]
    assert read(tmp_path, {"problem": "Add.", "answer": 0.1 + 0.2})[0][0]["answer"] == "0.3"


@pytest.mark.parametrize(("one", "other"), [("5² + 1", "52 + 1"), ("2³ and 7", "23 and 7"), ("1½ + 1", "11⁄2 + 1")])
def test_other_numbers_are_other_problems(one, other):
    assert problem_id("math", one) != problem_id("math", other)
