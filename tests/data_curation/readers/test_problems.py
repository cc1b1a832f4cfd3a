"""Files of math problems, whole and broken. `test_layouts.py` has a row of each layout."""

import gzip
import json
from datetime import date

import pyarrow.parquet as pq
import pytest

from ratchet.data_curation.read import read_problems
from ratchet.data_curation.rule_filter import filter_by_rules
from ratchet.verifiers.errors import RatchetError
from tests.data_curation.readers.files import only, reasons, write_json, write_lines

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


def test_a_row_without_an_answer_is_for_the_rules_to_judge(tmp_path):
    nothing = ["", None, "notfound", float("nan")]
    rows = [{"problem": "Prove that 1 = 1.", "answer": ""}, *({"problem": "Find 1 + 1.", "answer": a} for a in nothing)]
    split = filter_by_rules(read_problems(write_lines(tmp_path / "m.jsonl", rows), "math").kept)
    assert [row["rule"] for row in split.rejected.to_pylist()] == ["proof", *["no_answer"] * 4] and not len(split.kept)


def test_what_curation_kept_can_be_read_again(tmp_path):
    split = read_problems(write_json(tmp_path / "m.json", [{"problem": "P?", "answer": "1"}]), "math")
    pq.write_table(split.kept, tmp_path / "kept.parquet")
    again = read_problems(tmp_path / "kept.parquet", "math")
    assert again.summary["files"] == {"kept.parquet (ratchet)": 1}
    assert again.kept.drop(["source", "source_id"]).equals(split.kept.drop(["source", "source_id"]))


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
