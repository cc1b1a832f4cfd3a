"""Each published format of math as a few rows of it, written down here; then what can be wrong with a file or a row."""

import gzip
import json
from datetime import date

import pyarrow.parquet as pq
import pytest

from ratchet.data_curation.read import read_problems
from ratchet.data_curation.rule_filter import filter_by_rules
from ratchet.verifiers.errors import RatchetError
from tests.data_curation.readers.files import only, reasons, write_json, write_lines, write_parquet


@pytest.mark.parametrize(
    ("row", "answer"),
    [
        ({"problem": "P?", "answer": "42", "difficulty": 5.0, "type": "Algebra"}, "42"),  # MATH
        ({"problem": "P?", "answer": "\\frac12", "solution": ""}, "\\frac12"),  # DeepScaleR
        ({"problem": "P?", "answer": 142.0, "url": "https://x.org"}, "142"),  # a number that was text once
        ({"problem": "P?", "answer": 0.5}, "0.5"),
        ({"problem": "P?", "answer": ["2"], "answer_type": "Numerical"}, "2"),  # OlympiadBench
        ({"problem": "P?", "answer": '["2", "2.0"]'}, "2"),  # a stringified list of accepted answers
        ({"problem": "P?", "answer": "[1, 2)"}, "[1, 2)"),  # an interval, not a list
        ({"problem": "P?", "solution": "so \\boxed{1} no, \\boxed{\\frac{1}{2}}.", "messages": []}, "\\frac{1}{2}"),
        ({"question": "P?", "expected_answer": "7"}, "7"),
        ({"ID": "2024-I-1", "Problem": "P?", "Solution": "So 33.", "Answer": 33}, "33"),  # AIME
        ({"problem": "P?", "answer": "['4', '4.0']"}, "4"),  # a Python literal
        ({"prompt": [{"role": "user", "content": "P?"}], "ground_truth": "9"}, "9"),  # TRL
        ({"content": "P?", "answer": "b ^ { 2 }", "steps": "…"}, "b ^ { 2 }"),  # carp_en
        ({"input": "P?", "target": 43.0, "type": "singleeq"}, "43"),  # MAWPS
        ({"question": "P?", "answer": "9 + 9 = <<9+9=18>>18\n#### 18"}, "18"),  # GSM8K
        ({"problem": "P?", "answer": "So it is $\\boxed{18}$."}, "18"),  # a worked solution as well
        ({"question": "P?", "golden": "18", "grade": 1}, "18"),  # CMATH
        ({"messages": [{"role": "user", "content": "P?"}, {"role": "assistant", "content": ""}], "answer": "3"}, "3"),
        (  # MathCoder
            {
                "messages": [{"role": "user", "content": [{"type": "text", "content": "P"}, {"text": "?"}]}],
                "ground_truth": {"solution": "…", "answer": "18"},
            },
            "18",
        ),
        ({"query": "P?", "response": "8.0", "equation": "- number0 number1"}, "8.0"),  # MSVAMP
        ({"informal_statement": "P?", "informal_solution": "None."}, None),  # PutnamBench: a proof
        ({"Problem_1": {"question": "P?", "answer": "16"}}, "16"),  # Odyssey-Math
        ([{"from": "human", "value": "P?"}, {"from": "assistant", "ground_truth": {"value": "4"}}], "4"),  # ORZ
        (
            {
                "problem": "P?",
                "solution": "\\boxed{7}",
                "messages": [{"role": "user", "content": "P?"}],
                "source": "cn_k12",
            },
            "7",
        ),
    ],
)
def test_math_formats(tmp_path, row, answer):
    problem = only(read_problems(write_json(tmp_path / "m.json", [row]), "math"))
    assert (problem.prompt, problem.answer, problem.domain) == ("P?", answer, "math")


def test_options_stand_under_the_statement_and_the_answer_is_a_letter(tmp_path):
    aqua = {"question": "P?", "options": ["A)1", "B)2"], "rationale": "…", "correct": "B"}
    problem = only(read_problems(write_lines(tmp_path / "a.jsonl", [aqua]), "math"))
    assert (problem.prompt, problem.answer) == ("P?\nA)1\nB)2", "B")
    mmlu = {"question": "P?", "choices": ["one", "two"], "answer": 0, "type": "algebra"}
    problem = only(read_problems(write_lines(tmp_path / "m.jsonl", [mmlu]), "math"))
    assert (problem.prompt, problem.answer) == ("P?\nA) one\nB) two", "A")


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({"options": ["(A)1", "(B)2"], "label": "B", "answer": None}, "(A)1\n(B)2"),  # AGIEval
        ({"options": "a ) 1 , b ) 2", "correct": "b"}, "a ) 1\nb ) 2"),  # MathQA
        ({"options": "['a ) 1', 'b ) 2']", "correct": "b"}, "a ) 1\nb ) 2"),
        ({"options": {"A": "1", "B": "2"}, "answer": "B"}, "A) 1\nB) 2"),
        (  # TAL-SCQ5K
            {"answer_option_list": [[{"aoVal": "A", "content": "1 "}], [{"aoVal": "B", "content": "2"}]],
             "answer_value": "B"},
            "A) 1\nB) 2",
        ),
    ],
)  # fmt: skip
def test_options_in_any_shape(tmp_path, options, answer):
    problem = only(read_problems(write_lines(tmp_path / "o.jsonl", [{"question": "P?", **options}]), "math"))
    assert problem.prompt == f"P?\n{answer}" and problem.answer in ("B", "b")


ROW = {"problem": "P?", "answer": "1"}


@pytest.mark.parametrize(
    ("value", "indent"),
    [
        ({"a/1": ROW, "a/2": ROW}, None),  # BigCodeBench: a row under each name
        ({"a/1": ROW, "a/2": ROW}, 1),
        ({"keywords": "MCQ", "note": [{"by": "x"}], "example": [ROW, ROW]}, 1),  # GAOKAO-Bench
    ],
)
def test_rows_inside_an_object(tmp_path, value, indent):
    (tmp_path / "m.json").write_text(json.dumps(value, indent=indent))
    split = read_problems(tmp_path / "m.json", "math")
    assert [row["source_id"] for row in split.kept.to_pylist()] == ["0", "1"] and not len(split.rejected)


def test_a_single_row_is_no_object_of_rows(tmp_path):
    row = {"reward_model": {"ground_truth": "1"}, "prompt": [{"role": "user", "content": "P?"}], "ability": "math"}
    assert only(read_problems(write_lines(tmp_path / "v.jsonl", [row]), "math")).prompt == "P?"


def test_an_object_cut_short_is_an_error_that_names_the_file(tmp_path):
    (tmp_path / "m.json").write_text(json.dumps({"data": [ROW, ROW]}, indent=1)[:-5])
    with pytest.raises(RatchetError, match=r"m\.json: not valid JSON"):
        read_problems(tmp_path / "m.json", "math")


def test_a_worked_solution_is_read_or_refused_wherever_a_reference_stands(tmp_path):
    prose = "First we look at the sum of the two numbers and see that it is even.\n" * 4
    rows = [{"problem": "P?", "answer": prose + "#### 18"}, {"problem": "Q?", "answer": prose}]
    split = read_problems(write_lines(tmp_path / "m.jsonl", rows), "math")
    assert split.kept["answer"].to_pylist() == ["18"]
    assert [(row, e["field"]) for row, e in reasons(split)] == [("1", "answer")]
    assert split.summary["unreadable"] == {"m.jsonl (math)": 1}
    chat = {"prompt": [{"role": "user", "content": "P?"}], "ability": "math"}
    verl = [chat | {"reward_model": {"ground_truth": prose + end}} for end in ("#### 18", "")]
    split = read_problems(write_lines(tmp_path / "v.jsonl", verl), "math")
    assert split.kept["answer"].to_pylist() == ["18"] and len(split.rejected) == 1


@pytest.mark.parametrize(
    ("solution", "answer"),
    [("6 + 3 = 9\n#### 9", "9"), ("So it is $\\boxed{9}$.", "9"), ("9.5", "9.5"), (9.0, "9"), ("true", "true"),
     ("It is nine, as said.", None), (["9", "8"], None)],
)  # fmt: skip
def test_a_solution_alone_is_a_reference_where_it_ends_in_one_or_is_one(tmp_path, solution, answer):
    path = write_json(tmp_path / "m.json", [{"problem": "P?", "solution": solution}])
    assert only(read_problems(path, "math")).answer == answer


def test_a_list_of_texts_is_of_accepted_answers_and_one_of_numbers_of_several_unknowns(tmp_path):
    rows = [{"original_text": "P?", "ans": answer} for answer in (["5", "five"], [5.0], [7200.0, 2.5])]
    split = read_problems(write_json(tmp_path / "m.json", rows), "math")
    assert split.kept["answer"].to_pylist() == ["5", "5", "7200, 2.5"]


def test_a_row_without_an_answer_is_for_the_rules_to_judge(tmp_path):
    nothing = ["", None, "notfound", float("nan")]
    rows = [{"problem": "Prove that 1 = 1.", "answer": ""}, *({"problem": "Find 1 + 1.", "answer": a} for a in nothing)]
    split = filter_by_rules(read_problems(write_lines(tmp_path / "m.jsonl", rows), "math").kept)
    assert [row["rule"] for row in split.rejected.to_pylist()] == ["proof", *["no_answer"] * 4] and not len(split.kept)


def test_what_no_reader_knows_becomes_metadata(tmp_path):
    problem = only(
        read_problems(write_json(tmp_path / "m.json", [{"problem": "P?", "answer": "1", "year": 1999}]), "math")
    )
    assert json.loads(problem.metadata) == {"year": 1999}


def test_numinamath_parquet_says_what_it_is_and_when(tmp_path):
    row = {
        "problem": "P?",
        "solution": "s",
        "answer": "3",
        "question_type": "MCQ",
        "source": "aops",
        "date": "2024-02-01",
    }
    split = read_problems(write_parquet(tmp_path / "numina.parquet", [row]), "math")
    problem = only(split)
    assert problem.released == date(2024, 2, 1)
    assert json.loads(problem.metadata) == {"solution": "s", "question_type": "MCQ", "source": "aops"}
    assert (problem.source, problem.source_id) == ("numina", "0")


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("truth", ["5", '["5"]', ["5", "5.0"]])
def test_verl_math_takes_the_users_turn_alone(tmp_path, truth, as_text):
    chat = [{"role": "system", "content": "When tackling … [ASSESS] …"}, {"role": "user", "content": "P?"}]
    row = {
        "data_source": "x",
        "prompt": json.dumps(chat) if as_text else chat,
        "ability": "math",
        "reward_model": json.dumps({"ground_truth": truth}) if as_text else {"ground_truth": truth, "style": "rule"},
    }
    problem = only(read_problems(write_parquet(tmp_path / "eurus.parquet", [row]), "math"))
    assert (problem.prompt, problem.answer) == ("P?", "5")


def test_what_curation_kept_can_be_read_again(tmp_path):
    split = read_problems(write_json(tmp_path / "m.json", [{"problem": "P?", "answer": "1"}]), "math")
    pq.write_table(split.kept, tmp_path / "kept.parquet")
    again = read_problems(tmp_path / "kept.parquet", "math")
    assert again.summary["files"] == {"kept.parquet (ratchet)": 1}
    assert again.kept.drop(["source", "source_id"]).equals(split.kept.drop(["source", "source_id"]))


def test_a_benchmark_keeps_items_without_answer_and_loses_its_templates(tmp_path):
    prompt = "Let x = 1. Find x + 1.\n\nPlease reason step by step, and put your final answer within \\boxed{}."
    path = write_json(tmp_path / "b.json", [{"problem": prompt, "answer": None}])
    assert only(read_problems(path, "math")).prompt == "Let x = 1. Find x + 1."


def test_files_that_cannot_be_read_are_errors_that_name_them(tmp_path):
    (tmp_path / "torn.json").write_text('[{"problem": "P"')
    (tmp_path / "torn.jsonl.gz").write_bytes(gzip.compress(b'{"problem": "P", "answer": "1"}\n' * 1000)[:-20])
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 nothing")
    (tmp_path / "empty.jsonl").write_text("\n\n")
    write_json(tmp_path / "unknown.json", [{"text": "P", "label": 1}])
    cases = {
        "absent.json": "no such file",
        "torn.json": "not valid JSON",
        "torn.jsonl.gz": "cannot be read",
        "torn.parquet": "cannot be read",
        "empty.jsonl": "Is it the right file",
        "unknown.json": "unknown math format, its columns are label, text",
    }
    for name, message in cases.items():
        with pytest.raises(RatchetError, match=f"(?s){name}.*{message}"):
            read_problems(tmp_path / name, "math")


def test_blank_lines_and_a_byte_order_mark_are_no_rows(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b'\n{"problem": "P?", "answer": "1"}\n\n\n{"problem": "Q?", "answer": "2"}')
    assert read_problems(path, "math").kept.column("source_id").to_pylist() == ["0", "1"]


def test_a_window_is_half_open_and_what_is_outside_is_told(tmp_path):
    days = ["2024-07-31", "2024-08-01", "2025-01-31", "2025-02-01", None]
    rows = [{"problem": f"P{i}?", "answer": "1", "date": day} for i, day in enumerate(days)]
    window = (date(2024, 8, 1), date(2025, 2, 1))
    split = read_problems(write_lines(tmp_path / "dated.jsonl", rows), "math", window=window)
    assert split.kept.column("prompt").to_pylist() == ["P1?", "P2?"]
    assert split.summary["dropped"] == {"malformed": 0, "other_domain": 0, "empty": 0, "outside_window": 3}
