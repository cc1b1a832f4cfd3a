"""The files that rows come in, whole and broken, whatever their names say. `test_layouts.py` has a row of each."""

import gzip
import json
import math
import tarfile
import zipfile
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.data_curation.base.metadata import cluster_of
from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.read import read_problems
from ratchet.data_curation.split import set_column
from ratchet.verifiers.errors import RatchetError
from tests.data_curation.readers.files import write_csv, write_json, write_lines

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
    "csv": lambda path: write_csv(path, ROWS),
    "tabs": lambda path: write_csv(path, ROWS, delimiter="\t", lineterminator="\n"),
    "semicolons in gzip": lambda path: path.write_bytes(
        gzip.compress(write_csv(path, ROWS, delimiter=";").read_bytes())
    ),
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


ROW = {"problem": "Add 1 and 1.", "answer": "2"}
TORN = gzip.compress(f"{json.dumps(ROW)}\n".encode() * 1000)[:-20]
CUT = json.dumps({"data": [ROW, ROW]}, indent=1)[:-5]
UNREAD = {"problem": 1, "answer": "1", "text": "Find 1."}
BROKEN = {  # how a file is written, and what is said of it
    "absent.json": (lambda path: None, "no such file"),
    "torn.json": (lambda path: path.write_text('[{"problem": "P"'), "not valid JSON"),
    "cut.json": (lambda path: path.write_text(CUT), "not valid JSON"),
    "torn.jsonl.gz": (lambda path: path.write_bytes(TORN), "cannot be read"),
    "torn.parquet": (lambda path: path.write_bytes(b"PAR1 nothing"), "cannot be read"),
    "splits.json": (lambda path: path.write_text(json.dumps({"train": [ROW], "test": [ROW]})), "lists train, test"),
    "indented.json": (
        lambda path: path.write_text(json.dumps({"train": [ROW], "dev": [ROW]}, indent=1)), "train, dev",
    ),
    "header.csv": (lambda path: path.write_text('"a"b,c\n1,2\n'), "its header is not valid CSV"),
    "empty.jsonl": (lambda path: path.write_text("\n\n"), "Is it the right file"),
    "unknown.json": (
        lambda path: write_json(path, [{"text": "P", "label": 1}]), "unknown math format, its columns are label, text",
    ),
    "unread.jsonl": (
        lambda path: write_lines(path, [UNREAD] * 3),
        "not one row.*problem: int instead of text.*answer, problem, text",
    ),
    "markup.json": (
        lambda path: path.write_text("<?xml version='1.0'?><rows/>"), "this is XML or HTML. Read are Parquet",
    ),
    "archive.json": (tarred, "this is a tar archive. Read are Parquet"),
    "page.json": (lambda path: path.write_bytes(b"%PDF-1.4 rows"), "this is a PDF. Read are Parquet"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_files_that_cannot_be_read_are_errors_that_name_them(name, tmp_path):
    write, message = BROKEN[name]
    write(tmp_path / name)
    with pytest.raises(RatchetError, match=f"(?s){name}.*{message}"):
        read_problems(tmp_path / name, "math")


@pytest.mark.parametrize(("metadata", "rejected"), [("{ }", 0), ("[1]", 1), ('"level 1"', 1), ("{", 1)])
def test_metadata_of_our_own_files_are_an_object(metadata, rejected, tmp_path):
    kept = read_problems(write_json(tmp_path / "m.json", ROWS), "math").kept
    pq.write_table(set_column(kept, "metadata", [metadata, *["{}"] * 4]), tmp_path / "kept.parquet")
    split = read_problems(tmp_path / "kept.parquet", "math")
    assert len(split.rejected) == rejected and "metadata" in str(split.rejected["evidence"].to_pylist() or "metadata")
    assert all(json.loads(text) == {} for text in split.kept["metadata"].to_pylist())


def test_what_curation_kept_can_be_read_again(tmp_path):
    split = read_problems(write_json(tmp_path / "m.json", [ROW]), "math")
    pq.write_table(split.kept, tmp_path / "kept.parquet")
    again = read_problems(tmp_path / "kept.parquet", "math")
    assert again.summary["files"] == {"kept.parquet (ratchet)": 1}
    assert again.kept.drop(["source", "source_id"]).equals(split.kept.drop(["source", "source_id"]))


def test_a_window_is_half_open_and_what_is_outside_is_told(tmp_path):
    days = ["2024-07-31", "2024-08-01", "2025-01-31", "2025-02-01", None]
    rows = [{"problem": f"P{i}?", "answer": "1", "date": day} for i, day in enumerate(days)]
    window = (date(2024, 8, 1), date(2025, 2, 1))
    split = read_problems(write_lines(tmp_path / "dated.jsonl", rows), "math", window=window)
    assert split.kept.column("prompt").to_pylist() == ["P1?", "P2?"]
    assert split.summary["dropped"] == {"malformed": 0, "other_domain": 0, "empty": 0, "outside_window": 3}


def test_a_conversation_alone_is_a_problem_and_its_reply_no_reference(tmp_path):
    turns = [{"role": "user", "content": "What is 1 + 1?"}, {"role": "assistant", "content": "So \\boxed{2}"}]
    (tmp_path / "rows.jsonl").write_text(json.dumps({"messages": turns}))
    (row,) = read_problems(tmp_path / "rows.jsonl", "math", {"prompt": "messages"}).kept.to_pylist()
    assert (row["prompt"], row["answer"]) == ("What is 1 + 1?", None)
    assert json.loads(row["metadata"]) == {"solution": "So \\boxed{2}"}


CHAT = [{"from": "human", "value": "Add 1 and 1."}, {"from": "assistant", "ground_truth": {"value": "2"}}]
ASKED = [{"role": "user", "content": "Add 1 and 1."}]
VERL = {"reward_model": {"ground_truth": "2"}, "prompt": ASKED, "ability": "math"}
LISTS = {  # the text of a file, and its rows: kept, malformed
    "a row under each name, as of BigCodeBench": (json.dumps({"a/1": ROW, "a/2": ROW}), 2, 0),
    "an indented row under each name": (json.dumps({"a/1": ROW, "a/2": ROW}, indent=1), 2, 0),
    "rows beside what is said of them, as of GAOKAO-Bench": (
        json.dumps({"keywords": "MCQ", "note": [{"by": "x"}], "example": [ROW, ROW]}, indent=1), 2, 0,
    ),
    "rows of several chapters": (json.dumps({"a": [ROW, ROW], "by": [{"name": "x"}], "b": [ROW]}, indent=1), 3, 0),
    "rows of several chapters on one line": (json.dumps({"easy": [ROW, ROW], "hard": [ROW]}), 3, 0),
    "a row under each name of several chapters": (json.dumps({"a": {"1": ROW, "2": ROW}, "b": {"1": ROW}}), 3, 0),
    "chapters of one row each": (json.dumps({"a": {"1": ROW}, "b": {"1": ROW}}, indent=1), 2, 0),
    "one row with lists of objects": (json.dumps(ROW | {"tests": [{"in": 1}], "more": [{"in": 1}]}), 1, 0),
    "rows in an object on one line": (json.dumps({"version": "1.0", "data": [ROW, ROW]}), 2, 0),
    "one row with a chat in it": (json.dumps(ROW | {"data": [{"role": "user", "content": "Subtract."}]}), 1, 0),
    "an indented row with a chat in it": (json.dumps({"messages": ASKED, "answer": "2"}, indent=1), 1, 0),
    "one row with a chat and an object": (json.dumps(VERL), 1, 0),
    "blank lines and a byte order mark": (f"\ufeff\n{json.dumps(ROW)}\n\n\n{json.dumps(ROW)}", 2, 0),
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
}  # fmt: skip


@pytest.mark.parametrize("what", LISTS)
def test_lists_are_chats_or_several_rows(what, tmp_path):
    text, kept, malformed = LISTS[what]
    (tmp_path / "rows.jsonl").write_text(text)
    split = read_problems(tmp_path / "rows.jsonl", "math")
    assert [(row["prompt"], row["answer"]) for row in split.kept.to_pylist()] == [("Add 1 and 1.", "2")] * kept
    assert [row["rule"] for row in split.rejected.to_pylist()] == ["malformed"] * malformed
    numbers = [*split.kept["source_id"].to_pylist(), *split.rejected["source_id"].to_pylist()]
    assert sorted(numbers) == [str(number) for number in range(kept + malformed)]


@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
def test_a_quote_that_is_not_closed_loses_only_its_own_row(tmp_path, delimiter):
    def read(*lines: str):
        text = "\n".join(["problem,answer", *lines]).replace(",", delimiter)
        (tmp_path / "rows.csv").write_text(text, newline="")
        split = read_problems(tmp_path / "rows.csv")
        said = [json.loads(evidence)["reason"] for evidence in split.rejected["evidence"].to_pylist()]
        return split.kept["prompt"].to_pylist(), said, split.summary["rows_in"]

    good = [f"How many are {n}?,{n}" for n in range(40)]
    long = ['"Find a,', "then b", 'in turn.",7', '"Points:', *(f"{n},{n}" for n in range(9)), 'How far?",5']
    for torn, lost in (([2], 1), ([2, 20], 2), ([2, 3, 4], 3), ([39], 1)):
        lines = [f'"{line}' if at in torn else line for at, line in enumerate(good)]
        kept, said, rows = read(*long, *lines)
        assert rows == 42 and len(kept) == 42 - lost
        places = [line + len(long) + 2 for line in torn]
        assert all(str(line) in reason for line, reason in zip(places, said, strict=True)), said
    # closed by another text in quotes
    kept, said, rows = read('"How many', *good[:30], '"Go, then stop.",3', *good[30:])
    assert len(kept) >= 40 and said


def test_a_value_that_python_cannot_hold_costs_its_row_at_most(tmp_path):
    raw = pa.array([b"good", b"\xff bad", b"good"])
    columns = {
        "problem": ["How much?", "How many?", "Who?"],
        "answer": ["1", "2", "3"],
        "note": pa.Array.from_buffers(pa.string(), 3, raw.buffers()),
        "date": pa.array([None, 0, 2**62], pa.timestamp("us")),
        "time": pa.array([0, 0, None], pa.timestamp("us", tz="Foo/Bar")),
    }
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    split = read_problems(tmp_path / "rows.parquet")
    assert split.kept["answer"].to_pylist() == ["1", "3"] and split.kept["released"].to_pylist() == [None, None]
    (evidence,) = map(json.loads, split.rejected["evidence"].to_pylist())
    assert evidence["field"] == "note" and evidence["reason"].startswith("not UTF-8 text") and evidence["row"] == 1


def test_of_two_values_with_one_name_none_is_taken(tmp_path):
    line = json.dumps(ROW)
    doubled = line.replace("}", ', "answer": ""}'), line.replace("}", ', "answer": "2"}')
    (tmp_path / "rows.jsonl").write_text("\n".join([line, *doubled]))
    split = read_problems(tmp_path / "rows.jsonl")
    assert split.kept["source_id"].to_pylist() == ["0", "2"]
    assert "the name 'answer' twice" in split.rejected["evidence"][0].as_py()
    (tmp_path / "rows.json").write_text(f'{{\n"1": {line}, "1": {line.replace("2", "3")}}}')
    table = pa.table([["Add."], ["2"], ["3"]], names=["problem", "answer", "answer"])
    pq.write_table(table, tmp_path / "rows.parquet")
    for name, said in (("rows.json", "the name '1' twice"), ("rows.parquet", "columns answer more than once")):
        with pytest.raises(RatchetError, match=said):
            read_problems(tmp_path / name)


def test_a_number_is_read_with_the_digits_that_it_was_written_with(tmp_path):
    single = pa.array([0.1, 1.5, None], pa.float32())
    pq.write_table(pa.table({"problem": ["How much?", "How many?", "Who?"], "answer": single}), tmp_path / "f.parquet")
    assert read_problems(tmp_path / "f.parquet").kept["answer"].to_pylist() == ["0.1", "1.5", None]
    row = {"problem": "Add.", "answer": 0.1 + 0.2}
    assert read_problems(write_json(tmp_path / "d.json", [row])).kept["answer"].to_pylist() == ["0.3"]


@pytest.mark.parametrize("as_json", [False, True])
def test_nan_is_no_value(tmp_path, as_json):
    """pandas writes it for a missing value, of texts too."""
    names = ("url", "released", "starter_code", "entry_point", "fn_name", "contest_id", "topic")
    case = json.dumps([{"input": "1\n", "output": "2\n"}])
    rows = [{"problem": f"Print {n}.", "tests": case} | dict.fromkeys(names, math.nan) for n in range(3)]
    rows[0] |= {"contest_id": 1520.0, "url": "https://x.org/1"} if as_json else {"contest_id": 1520.0}
    file = tmp_path / "rows.parquet"
    if as_json:
        write_json(file, [row | {"seen": {"by": [math.nan]}} for row in rows])
    else:
        pq.write_table(pa.Table.from_pylist(rows), file)
    split = read_problems(file, "code")
    assert len(split.kept) == 3
    assert split.kept["starter_code"].to_pylist() == split.kept["entry_point"].to_pylist() == [None] * 3
    assert [cluster_of(problem) for problem in from_table(split.kept)] == ["1520.0", None, None]
    assert not any("NaN" in text for text in split.kept["metadata"].to_pylist())


def test_half_a_surrogate_pair_in_a_column_that_is_not_read_costs_no_row(tmp_path):
    write_json(tmp_path / "rows.json", [{**ROW, "comment": "nice \ud83d"}, ROW])
    split = read_problems(tmp_path / "rows.json")
    assert [json.loads(text).get("comment") for text in split.kept["metadata"].to_pylist()] == ["nice \ufffd", None]
