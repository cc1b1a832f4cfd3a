"""What a row's reference is: boxes by TeX's grammar, options, lists, placeholders, lost backslashes."""

import pytest

from ratchet.data_curation.read import read_problems
from ratchet.data_curation.readers.boxed import final_box
from ratchet.data_curation.rule_filter import filter_by_rules
from tests.data_curation.readers.files import SOLUTIONS, only, write_lines


@pytest.mark.parametrize(("solution", "answer"), SOLUTIONS["boxes"])
def test_the_last_box_by_the_grammar(solution, answer):
    assert final_box(solution) == answer


LAYOUTS = {
    "math": lambda value: {"problem": "Find $1+1$.", "answer": value},
    "expected": lambda value: {"problem": "Find $1+1$.", "expected_answer": value, "generated_solution": "\\boxed{3}"},
    "trl": lambda value: {"prompt": [{"role": "user", "content": "Find $1+1$."}], "ground_truth": value},
    "solution": lambda value: {"problem": "Find $1+1$.", "solution": f"So \\boxed{{{value}}}."},
    "verl": lambda value: {"prompt": "Find $1+1$.", "ability": "math", "reward_model": {"ground_truth": value}},
}


NONE = ["nan", "N/A", "", "None", r"$\text{N/A}$", "null", "-", "not found", "notfound", "?", "...", None, float("nan")]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("value", [*NONE, r"$\frac{1}{$"])
def test_placeholders_and_broken_references_are_set_aside_in_every_layout(tmp_path, layout, value):
    good = LAYOUTS[layout]("2")
    split = read_problems(write_lines(tmp_path / "m.jsonl", [good, LAYOUTS[layout](value)]), "math")
    ruled = filter_by_rules(split.kept)
    assert ruled.kept["answer"].to_pylist() == ["2"]
    (row,) = [*split.rejected.to_pylist(), *ruled.rejected.to_pylist()]
    assert row["source_id"] == "1" and row["rule"] in ("malformed", "no_answer", "unverifiable")


@pytest.mark.parametrize(
    ("row", "answer"),  # None: malformed
    [
        ({"answer": [[1, 0], [0, 1.5]]}, "[[1, 0], [0, 1.5]]"),
        ({"answer": [["1", "2"], ["3"]]}, None),
        ({"answer": [["1", "2"], ["3", "4"]]}, None),
        ({"answer": [["42"]]}, "42"),
        ({"answer": 6.02e23}, "602000000000000000000000"),
        ({"answer": 2.0**60}, "1152921504606846976"),
        ({"answer": [1, 2.5]}, "1, 2.5"),
        ({"answer": "N/A", "final_answer": "7"}, "7"),
        ({"answer": "nan", "expected_answer": 7}, "7"),
        ({"answer": [""], "ground_truth": "7"}, "7"),
        ({"answer": " ", "ground_truth": "7"}, "7"),
        ({"answer": float("nan"), "final_answer": "2"}, "2"),
        ({"problem": " ", "question": "Find 1+1.", "answer": "2"}, "2"),
    ],
)
def test_the_reference_of_a_list_or_of_the_first_column_with_a_value(tmp_path, row, answer):
    rows = [{"problem": "Find 1+1."} | row, {"problem": "Find 1+1.", "answer": "1"}]
    split = read_problems(write_lines(tmp_path / "m.jsonl", rows))
    assert split.kept["answer"].to_pylist() == ([answer] if answer else []) + ["1"]
    assert {*split.kept["prompt"].to_pylist()} == {"Find 1+1."}


@pytest.mark.parametrize("answer", ["Na", "\\{\\}", "\\infty", "0", "\\emptyset", "no solution", "unknown quantity"])
def test_short_answers_that_are_no_placeholders(tmp_path, answer):
    assert only(read_problems(write_lines(tmp_path / "m.jsonl", [LAYOUTS["math"](answer)]), "math")).answer == answer


@pytest.mark.parametrize(
    ("line", "prompt", "answer"),
    [
        (r'{"problem": "Find $\frac1 2\beta$.", "answer": "\frac{3}{4}"}', r"Find $\frac1 2\beta$.", r"\frac{3}{4}"),
        (r'{"problem": "$3 \times 4$?", "solution": "It is $\boxed{\frac{12}1}$."}', r"$3 \times 4$?", r"\frac{12}1"),
        (r'{"problem": "Find x.", "answer": "[\"\\frac{1}{2}\"]"}', "Find x.", r"\frac{1}{2}"),
    ],
)
def test_single_backslashes_are_restored(tmp_path, line, prompt, answer):
    (tmp_path / "m.jsonl").write_text(line)
    problem = only(read_problems(tmp_path / "m.jsonl", "math"))
    assert (problem.prompt, problem.answer) == (prompt, answer)
