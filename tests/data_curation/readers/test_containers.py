"""The files that rows come in, whatever their names say."""

import csv
import gzip
import json
import tarfile
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.data_curation.read import read_problems
from ratchet.data_curation.rule_filter import filter_by_rules
from ratchet.verifiers.errors import RatchetError

ROWS = [{"problem": f'What is "{number}"\nplus 2?', "answer": str(number + 2)} for number in range(5)]
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


def separated(path, **options):
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, list(ROWS[0]), **options)
        writer.writeheader()
        writer.writerows(ROWS)
    return path


WRITE = {  # by a name that says nothing to the reader
    "parquet": lambda path: pq.write_table(pa.Table.from_pylist(ROWS), path),
    "arrow file": lambda path: arrow(path, pa.ipc.new_file),
    "arrow stream": lambda path: arrow(path, pa.ipc.new_stream),
    "json": lambda path: path.write_text(json.dumps(ROWS)),
    "json values one after another": lambda path: path.write_text("".join(map(json.dumps, ROWS))),
    "json lines": lambda path: path.write_text(LINES),
    "json lines in gzip": lambda path: path.write_bytes(gzip.compress(LINES.encode())),
    "json lines in zstd": compressed,
    "zip": zipped,
    "csv": separated,
    "tabs": lambda path: separated(path, delimiter="\t", lineterminator="\n"),
    "semicolons in gzip": lambda path: path.write_bytes(gzip.compress(separated(path, delimiter=";").read_bytes())),
}


@pytest.mark.parametrize("kind", WRITE)
def test_rows_are_read_from(kind, tmp_path):
    path = tmp_path / ("rows.zip" if kind == "zip" else "rows")
    WRITE[kind](path)
    kept = read_problems(path, "math").kept.to_pylist()
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


def test_a_conversation_alone_is_a_problem_and_its_reply_no_reference(tmp_path):
    turns = [{"role": "user", "content": "What is 1 + 1?"}, {"role": "assistant", "content": "So \\boxed{2}"}]
    (tmp_path / "rows.jsonl").write_text(json.dumps({"messages": turns}))
    (row,) = read_problems(tmp_path / "rows.jsonl", "math", {"prompt": "messages"}).kept.to_pylist()
    assert (row["prompt"], row["answer"]) == ("What is 1 + 1?", None)
    assert json.loads(row["metadata"]) == {"solution": "So \\boxed{2}"}


CHAT = [{"from": "human", "value": "Add 1 and 1."}, {"from": "assistant", "ground_truth": {"value": "2"}}]
ROW = {"problem": "Add 1 and 1.", "answer": "2"}
LISTS = {  # the text of a file, and its rows: kept, malformed
    "chats in an array": (json.dumps([CHAT, CHAT]), 2, 0),
    "an indented array of chats": (json.dumps([CHAT, CHAT], indent=1), 2, 0),
    "one chat": (json.dumps(CHAT), 1, 0),
    "a chat a line": (f"{json.dumps(CHAT)}\n" * 3, 3, 0),
    "a chat a line, one of another shape": (f"{json.dumps(CHAT)}\n[1, 2]\n{json.dumps(CHAT)}\n", 2, 1),
    "a chat a line, the first one torn": (f"{json.dumps(CHAT)[:30]}\n{json.dumps(CHAT)}\n", 1, 1),
    "a chat a line, the second one torn": (f"{json.dumps(CHAT)}\n{json.dumps(CHAT)[:30]}\n{json.dumps(CHAT)}\n", 2, 1),
    "an array of rows a line": (f"{json.dumps([ROW, ROW])}\n{json.dumps([ROW])}\n", 3, 0),
    "an array of arrays of rows": (json.dumps([[ROW, ROW], [ROW]], indent=1), 3, 0),
    "an array, then a row": (f"{json.dumps([ROW])}\n{json.dumps(ROW)}\n", 2, 0),
    "rows with a column that chats have": (json.dumps([ROW | {"from": "a book"}] * 2), 2, 0),
}


@pytest.mark.parametrize("what", LISTS)
def test_lists_are_chats_or_several_rows(what, tmp_path):
    text, kept, malformed = LISTS[what]
    (tmp_path / "rows.jsonl").write_text(text)
    split = read_problems(tmp_path / "rows.jsonl", "math")
    assert [(row["prompt"], row["answer"]) for row in split.kept.to_pylist()] == [("Add 1 and 1.", "2")] * kept
    assert [row["rule"] for row in split.rejected.to_pylist()] == ["malformed"] * malformed


def test_options_that_the_reader_appends_are_recognized(tmp_path):
    options = {"question": "How much is 3 + 4?", "options": ["A)5", "B)7", "C)9", "D)11", "E)12"], "correct": "B"}
    (tmp_path / "rows.json").write_text(json.dumps([options]))
    (rejected,) = filter_by_rules(read_problems(tmp_path / "rows.json", "math").kept).rejected.to_pylist()
    assert rejected["rule"] == "multiple_choice" and json.loads(rejected["evidence"])["options"][1] == "B)7"
