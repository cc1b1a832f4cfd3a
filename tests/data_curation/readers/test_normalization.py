"""Statements lose what data sets put around them, and every row of every file is accounted for."""

import pytest

from ratchet.data_curation.read import read_files, read_problems
from ratchet.data_curation.split import joined
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.problem import problem_id
from tests.data_curation.readers.files import write_json

BOXED = "Please reason step by step, and put your final answer within \\boxed{}."


def read(tmp_path, *prompts):
    rows = [{"problem": prompt, "answer": "1"} for prompt in prompts]
    return read_problems(write_json(tmp_path / "m.json", rows), "math")


def test_identity_follows_the_statement_and_not_its_wrapping(tmp_path):
    split = read(tmp_path, "Find x\u00a0+ 1.", f"Find x + 1.\n\n{BOXED}", "Find x + 2.")
    first, second, third = split.kept.column("problem_id").to_pylist()
    assert first == second == problem_id("math", "Find x + 1.") != third
    assert split.summary["templates_cut"] == {f"… {BOXED}": 1}
    assert split.summary["templates_shown"] == {f"… {BOXED}": f"m:1: … {BOXED}"}


def test_a_row_that_was_only_a_template_is_rejected(tmp_path):
    split = read(tmp_path, BOXED, *(f"Find x + {n}." for n in range(100)))
    assert (split.rejected.column("rule").to_pylist(), len(split.kept)) == (["empty"], 100)


def test_many_rows_that_lose_their_text_to_templates_are_an_error_with_an_example(tmp_path):
    with pytest.raises(RatchetError, match=r"m\.json: 2 of 100 rows lose more than half .* as templates: .*m:0: "):
        read(tmp_path, BOXED, BOXED, *(f"Find x + {n}." for n in range(98)))
    assert len(read(tmp_path, f"Find x + 1. {BOXED}").kept) == 1  # fixed words are none of the row's own


def test_every_row_of_every_file_is_accounted_for(tmp_path):
    files = [
        write_json(tmp_path / "a.json", [{"problem": "Find x + 1.", "answer": "1"}, {"problem": None}]),
        write_json(tmp_path / "b.json", [{"problem": BOXED, "answer": "1"}]),
    ]
    split = joined(read_files(files, "math", max_shortened=1))
    assert split.summary["rows_in"] == 3 and split.summary["dropped"] == {"malformed": 1, "other_domain": 0, "empty": 1}
    assert set(split.rejected.column("step").to_pylist()) == {"normalize"}
    assert split.summary["files"] == {"a.json (math)": 2, "b.json (math)": 1}


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x0b", "\x1c", "\x85"])
def test_a_separator_of_lines_stays_one(tmp_path, separator):
    split = read(tmp_path, f"There are 5{separator}6 pens. How many?")
    assert split.kept["prompt"].to_pylist() == ["There are 5\n6 pens. How many?"]


@pytest.mark.parametrize("text", ["Operations:\neq a b", "Listing:\n\tfrac = x % 1", "Columns id\tau\tb"])
def test_a_line_end_or_a_tab_of_code_is_no_latex(tmp_path, text):
    row = {"prompt": text, "tests": [{"input": "1", "output": "1"}]}
    assert read_problems(write_json(tmp_path / "c.json", [row]), "code").kept["prompt"].to_pylist() == [text]


@pytest.mark.parametrize(("one", "other"), [("5² + 1", "52 + 1"), ("2³ and 7", "23 and 7"), ("1½ + 1", "11⁄2 + 1")])
def test_other_numbers_are_other_problems(one, other):
    assert problem_id("math", one) != problem_id("math", other)
