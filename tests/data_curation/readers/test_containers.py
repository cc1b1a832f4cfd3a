"""The files that rows come in, whatever their names say."""

import json
import tarfile
import zipfile

import pyarrow as pa
import pytest

from ratchet.data_curation.read import read_problems
from ratchet.data_curation.rule_filter import filter_by_rules
from ratchet.verifiers.errors import RatchetError

ROWS = [{"problem": f"What is {number} plus 2?", "answer": str(number + 2)} for number in range(5)]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS)


def arrow(path, new):
    table = pa.Table.from_pylist(ROWS)
    with pa.OSFile(str(path), "wb") as sink, new(sink, table.schema) as writer:
        writer.write_table(table)


def compressed(path):
    with pa.output_stream(str(path), compression="zstd") as sink:
        sink.write(LINES.encode())


def zipped(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("rows.jsonl", LINES)


WRITE = {
    "file.arrow": lambda path: arrow(path, pa.ipc.new_file),
    "stream.arrow": lambda path: arrow(path, pa.ipc.new_stream),
    "rows.jsonl.zst": compressed,
    "rows.zip": zipped,
    "one_after_another.json": lambda path: path.write_text("".join(map(json.dumps, ROWS))),
}


@pytest.mark.parametrize("name", WRITE)
def test_rows_are_read_from(name, tmp_path):
    WRITE[name](tmp_path / name)
    kept = read_problems(tmp_path / name, "math").kept.to_pylist()
    assert [(row["prompt"], row["answer"]) for row in kept] == [(row["problem"], row["answer"]) for row in ROWS]


def tarred(path):
    (path.parent / "inner.json").write_text(LINES)
    with tarfile.open(path, "w") as archive:
        archive.add(path.parent / "inner.json", "inner.json")


OTHERS = {
    "XML or HTML": lambda path: path.write_text("<?xml version='1.0'?><rows/>"),
    "a tar archive": tarred,
    "a PDF": lambda path: path.write_bytes(b"%PDF-1.4 rows"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_is_no_table_is_named(what, tmp_path):
    OTHERS[what](tmp_path / "rows.json")
    with pytest.raises(RatchetError, match=f"rows.json: this is {what}. Read are Parquet"):
        read_problems(tmp_path / "rows.json", "math")


def read(tmp_path, *rows, columns=None):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_problems(path, "math", columns)


def test_a_conversation_alone_is_a_problem_and_its_reply_no_reference(tmp_path):
    turns = [{"role": "user", "content": "What is 1 + 1?"}, {"role": "assistant", "content": "So \\boxed{2}"}]
    (row,) = read(tmp_path, {"messages": turns}, columns={"prompt": "messages"}).kept.to_pylist()
    assert (row["prompt"], row["answer"]) == ("What is 1 + 1?", None)
    assert json.loads(row["metadata"]) == {"solution": "So \\boxed{2}"}


def test_places_for_numbers_are_filled_or_the_row_is_malformed(tmp_path):
    with_numbers = {"question": "Tom has number0 apples and number1 pears. How many?", "answer": "5", "Numbers": "2 3"}
    split = read(tmp_path, with_numbers, {name: with_numbers[name] for name in ("question", "answer")})
    assert [row["prompt"] for row in split.kept.to_pylist()] == ["Tom has 2 apples and 3 pears. How many?"]
    (rejected,) = split.rejected.to_pylist()
    assert rejected["rule"] == "malformed" and "'number0' stands for a number" in rejected["evidence"]


def test_options_that_the_reader_appends_are_recognized(tmp_path):
    options = {"question": "How much is 3 + 4?", "options": ["A)5", "B)7", "C)9", "D)11", "E)12"], "correct": "B"}
    (rejected,) = filter_by_rules(read(tmp_path, options).kept).rejected.to_pylist()
    assert rejected["rule"] == "multiple_choice" and json.loads(rejected["evidence"])["options"][1] == "B)7"


def test_a_picture_that_is_an_input_is_missing(tmp_path):
    kept = read(tmp_path, {"problem": "How many apples are in <image1>?", "answer": "5"}).kept
    (rejected,) = filter_by_rules(kept).rejected.to_pylist()
    assert rejected["rule"] == "figure"


KEPT = [
    "Show all the target keys of the game. How many keys are there if 3 rows have 4 keys each?",
    "A test has ten true or false questions. What is the minimum number of answers that a student needs to pass?",
    "A program outputs TRUE or FALSE. How many programs of 3 lines output TRUE?",
]


@pytest.mark.parametrize("statement", KEPT)
def test_words_of_a_rule_that_ask_for_something_else_drop_nothing(statement, tmp_path):
    kept = read(tmp_path, {"problem": statement, "answer": "12"}).kept
    assert filter_by_rules(kept).kept.num_rows == 1
