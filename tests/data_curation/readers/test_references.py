"""What a row's reference is: boxes by TeX's grammar, options, lists, placeholders, lost backslashes."""

import json

import pytest

from ratchet.data_curation.read import read_problems
from ratchet.data_curation.readers.boxed import final_box
from ratchet.data_curation.rule_filter import filter_by_rules
from tests.data_curation.readers.files import only, write_lines


@pytest.mark.parametrize(
    ("solution", "answer"),
    [
        (r"Steps $\boxed{30}$ then add two, so $\boxed 32$.", "32"),
        (r"It is $\fbox{50}$.", "50"),
        (r"our answer is $\boxed 4$.", "4"),
        (r"so \boxed4.", "4"),
        (r"$\boxed \frac{1}{2}$", r"\frac{1}{2}"),
        (r"$\boxed{\left\{\frac{1}{2}, 2\right\}}$", r"\left\{\frac{1}{2}, 2\right\}"),
        (r"$\boxed{\boxed{5}}$", "5"),
        (r"$\boxed{a_{n_{k}}}$", "a_{n_{k}}"),
        (r"The roots are $\boxed{2}$, $\boxed{3}$ and $\boxed{5}$.", "2, 3, 5"),
        (r"$x=\boxed{2}$ and $y=\boxed{3}$.", "2, 3"),
        (r"the perimeter is \boxed{12} and the area is \boxed{9}.", "12, 9"),
        (r"\boxed{\frac{1}{2}} or \boxed{0.5}", r"\frac{1}{2}"),
        (r"First \boxed{3}. Then we add one: \boxed{4}.", "4"),
        (r"so \boxed{1}, no, \boxed{2}.", "2"),
        (r"\boxed{3} = \boxed{4}", "4"),
        (r"\boxed{3}. And \boxed{4", None),  # cut short
        (r"It is \boxed{}.", None),
        ("no box", None),
    ],
)
def test_the_last_box_by_the_grammar(solution, answer):
    assert final_box(solution) == answer


LAYOUTS = {
    "math": lambda value: {"problem": "Find $1+1$.", "answer": value},
    "expected": lambda value: {"problem": "Find $1+1$.", "expected_answer": value, "generated_solution": "\\boxed{3}"},
    "trl": lambda value: {"prompt": [{"role": "user", "content": "Find $1+1$."}], "ground_truth": value},
    "solution": lambda value: {"problem": "Find $1+1$.", "solution": f"So \\boxed{{{value}}}."},
    "verl": lambda value: {"prompt": "Find $1+1$.", "ability": "math", "reward_model": {"ground_truth": value}},
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "value", ["nan", "N/A", "", "None", "$\\text{N/A}$", "null", "-", "not found", "?", "$\\frac{1}{$", "..."]
)
def test_placeholders_and_broken_references_are_set_aside_in_every_layout(tmp_path, layout, value):
    good = LAYOUTS[layout]("2")
    split = read_problems(write_lines(tmp_path / "m.jsonl", [good, LAYOUTS[layout](value)]), "math")
    ruled = filter_by_rules(split.kept)
    assert ruled.kept["answer"].to_pylist() == ["2"]
    (row,) = [*split.rejected.to_pylist(), *ruled.rejected.to_pylist()]
    assert row["source_id"] == "1" and row["rule"] in ("malformed", "no_answer", "unverifiable")


@pytest.mark.parametrize("answer", ["Na", "\\{\\}", "\\infty", "0", "\\emptyset", "no solution", "unknown quantity"])
def test_short_answers_that_are_no_placeholders(tmp_path, answer):
    assert only(read_problems(write_lines(tmp_path / "m.jsonl", [LAYOUTS["math"](answer)]), "math")).answer == answer


def test_a_models_solution_is_never_a_reference(tmp_path):
    rows = [
        {"problem": "P?", "expected_answer": None, "generated_solution": "So \\boxed{3}."},
        {"problem": "P?", "expected_answer": "4", "generated_solution": "So \\boxed{3}."},
    ]
    assert read_problems(write_lines(tmp_path / "m.jsonl", rows), "math").kept["answer"].to_pylist() == [None, "4"]


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


def test_lists_hold_all_answers_where_the_row_says_so(tmp_path):
    rows = [
        {"Question": "P?", "Answer": "[2, 3]", "Answer_type": "list of integer"},
        {"Question": "P?", "Answer": "[2, 3]", "Answer_type": "Interval"},
        {"Question": "P?", "final_answer": ["2", "-2"], "is_multiple_answer": True},
        {"Question": "P?", "final_answer": ["2", "2.0"], "is_multiple_answer": False},
    ]
    split = read_problems(write_lines(tmp_path / "m.jsonl", rows), "math")
    assert split.kept["answer"].to_pylist() == ["2, 3", "[2, 3]", "2, -2", "2"]


FOUR = ["9", "90", "19", "99"]
CHOICES = {
    "MMLU": {"question": "Q?", "choices": FOUR, "answer": 1},
    "MMLU as CSV": {"question": "Q?", "A": "9", "B": "90", "C": "19", "D": "99", "answer": "B"},
    "ARC": {"question": "Q?", "choices": {"text": FOUR, "label": ["1", "2", "3", "4"]}, "answerKey": "2"},
    "ARC as JSON lines": {
        "question": {"stem": "Q?", "choices": [{"text": t, "label": n} for t, n in zip(FOUR, "ABCD", strict=True)]},
        "answerKey": "B",
    },
    "RACE": {"question": "Q?", "options": FOUR, "answer": "B"},
    "options by column": {"question": "Q?", "option_a": "9", "option_b": "90", "option_c": "19", "answer": "90"},
    "a letter with its text": {"question": "Q?", "options": FOUR, "answer": "(B) 90"},
    "as text": {"question": "Q?", "options": json.dumps(FOUR), "answer": "B"},
    "TruthfulQA": {"question": "Q?", "mc1_targets": {"choices": FOUR, "labels": [0, 1, 0, 0]}},
    "numbers as options": {"question": "Q?", "options": [9, 90, 19, 99], "answer": "90"},
    "Open-Reasoner-Zero": {
        "prompt": [{"from": "user", "value": "Q?\n\nA. 9\nB. 90"}],
        "final_answer": "B",
        "choices": {"A": "9", "B": "90"},
    },
    "LogiQA": {"context": "Boats.", "query": "Q?", "options": FOUR, "correct_option": 1},
}


@pytest.mark.parametrize("layout", CHOICES)
@pytest.mark.parametrize("domain", ["math", "science"])
def test_options_in_both_domains_that_have_them(tmp_path, domain, layout):
    problem = only(read_problems(write_lines(tmp_path / "o.jsonl", [CHOICES[layout]]), domain))
    assert problem.answer == "B" and "Q?" in problem.prompt
    mark = "." if domain == "science" else ")"
    assert f"A{mark} 9\nB{mark} 90\nC{mark} 19" in problem.prompt or layout == "Open-Reasoner-Zero"
    assert ("Boats." in problem.prompt) == (layout == "LogiQA")


def test_options_that_the_statement_lists_are_not_listed_again(tmp_path):
    row = {"question": "Q?\nA. 9\nB. 90", "options": ["A. 9", "B. 90"], "answer": "B"}
    for domain in ("math", "science"):
        assert only(read_problems(write_lines(tmp_path / "o.jsonl", [row]), domain)).prompt == row["question"]


def test_columns_that_name_different_options_make_a_row_malformed(tmp_path):
    rows = [{"question": "Q?", "options": FOUR, "answer": "D", "answer_index": 1}, CHOICES["RACE"]]
    split = read_problems(write_lines(tmp_path / "o.jsonl", rows), "science")
    (row,) = split.rejected.to_pylist()
    assert json.loads(row["evidence"])["reason"] == "answer_index names option B but answer names option D"
