import gzip
import json
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.data_curation.decontamination.files import PREFIX, decontaminate_files
from ratchet.data_curation.tokens import cut
from ratchet.verifiers.errors import RatchetError

ITEM = "A wheel of radius 7 rolls along a straight road for 12 turns. How far from its start does it stop?"
OTHER_ITEM = r"Find all pairs of integers $(x, y)$ with $\dfrac{1}{x} + \dfrac{1}{y} = \dfrac{1}{2021}$ and $x \le y$."
TEMPLATE = "\nPlease reason step by step, and put your final answer within \\boxed{}."
COPY = "Today: a wheel of radius $7$ rolls along a straight road for $12$ turns; how far from its start does it stop?"
CLEAN = "Nothing of this has anything to do with the problems that are held out, whatever they may be about."


@pytest.fixture
def benchmark_file(tmp_path) -> Path:
    path = tmp_path / "held_out.json"
    path.write_text(
        json.dumps([{"problem": ITEM + TEMPLATE, "answer": "1"}, {"problem": None}, {"problem": OTHER_ITEM}])
    )
    return path


def rows(path: Path) -> list[dict]:
    return pq.read_table(path).to_pylist()


def test_parquet_keeps_its_columns_and_gains_the_evidence(tmp_path, benchmark_file):
    own = pa.table(
        {
            "id": pa.array([10, 11, 12, 13], pa.int16()),
            "prompt": pa.array([
                [{"role": "system", "content": ITEM}, {"role": "user", "content": text}] if text else None
                for text in (CLEAN, COPY, None, OTHER_ITEM)
            ]),
            "tags": [["a"], [], None, ["b", "c"]],
            PREFIX + "coverage": [9.0, 9.0, 9.0, 9.0],  # of an earlier run
            PREFIX + "note": ["mine"] * 4,
        }
    )  # fmt: skip
    pq.write_table(own, tmp_path / "rows.parquet")
    summary = decontaminate_files([tmp_path / "rows.parquet"], [benchmark_file], tmp_path / "out")
    kept, rejected = rows(tmp_path / "out" / "kept.parquet"), rows(tmp_path / "out" / "rejected.parquet")
    assert pq.read_schema(tmp_path / "out" / "kept.parquet").field("id").type == pa.int16()
    mine = own.drop([PREFIX + "coverage"]).to_pylist()
    assert [{name: row[name] for name in mine[0]} for row in kept + rejected] == [mine[0], mine[1], mine[2], mine[3]]
    assert kept[0][PREFIX + "coverage"] == 0.0 and kept[0][PREFIX + "item"] is None
    assert [(r[PREFIX + "row"], r[PREFIX + "rule"]) for r in rejected] == [(1, "ngram"), (2, "malformed"), (3, "ngram")]
    evidence = json.loads(rejected[0][PREFIX + "evidence"])
    assert (evidence["benchmark"], evidence["item"]) == ("held_out", "0")
    assert cut(COPY, evidence["span"]) == evidence["text"] and cut(ITEM, evidence["item_span"]) == evidence["item_text"]
    assert summary["rows_in"] == 4 and summary["items"] == 2 and summary["items_without_text"] == ["held_out:1"]
    assert summary["self_test"]["recall"] == 1.0 and summary["self_test"]["unprotected"] == []


def test_chats_are_found_under_their_usual_names(tmp_path, benchmark_file):
    answer = {"from": "gpt", "value": ITEM}
    chats = [[{"from": "human", "value": text}, answer] for text in (CLEAN, COPY)] + [[answer]]
    pq.write_table(pa.table({"conversations": chats}), tmp_path / "rows.parquet")
    turns = [[{"role": "system", "content": ITEM}, {"role": "user", "content": text}] for text in (CLEAN, COPY)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"messages": chat, "id": "x"}) + "\n" for chat in turns))
    decontaminate_files([tmp_path / "rows.parquet", tmp_path / "rows.jsonl"], [benchmark_file], tmp_path / "out")
    rejected = rows(tmp_path / "out" / "rejected.parquet")
    assert [(row[PREFIX + "file"], row[PREFIX + "row"], row[PREFIX + "rule"]) for row in rejected] == [
        ("rows.parquet", 1, "ngram"), ("rows.parquet", 2, "malformed"), ("rows.jsonl", 1, "ngram"),
    ]  # fmt: skip


def said(*texts: str) -> list[dict]:
    return [{"role": role, "content": text} for text in texts for role, text in (("user", text), ("assistant", "Yes."))]


def test_every_turn_of_a_user_is_compared(tmp_path):
    again = "Why is that so, and where does it say that in the book about the sea?"
    chats = [said(CLEAN, again), said(again, COPY, CLEAN), said(COPY)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"messages": chat}) + "\n" for chat in chats))
    shots = [{"role": "user", "content": CLEAN}, {"role": "assistant", "content": "\\boxed{2}"}]
    items = [[*shots, {"role": "user", "content": ITEM}], said(OTHER_ITEM, again)]
    (tmp_path / "items.json").write_text(json.dumps([{"messages": item} for item in items]))
    summary = decontaminate_files([tmp_path / "rows.jsonl"], [tmp_path / "items.json"], tmp_path / "out")
    assert summary["items_without_text"] == [] and summary["dropped"]["malformed"] == 0
    assert [row[PREFIX + "row"] for row in rows(tmp_path / "out" / "kept.parquet")] == [0], (
        "worked examples are no item"
    )


def test_files_of_a_folder_or_an_archive_are_all_read(tmp_path, benchmark_file):
    folder = tmp_path / "rows"
    folder.mkdir()
    (folder / "a.jsonl").write_text((json.dumps({"problem": CLEAN}) + "\n") * 3)
    with zipfile.ZipFile(folder / "b.zip", "w") as archive:
        for name, more in (("x", 1), ("y", "k")):
            pq.write_table(pa.table({"problem": [CLEAN, COPY], name: [more] * 2}), tmp_path / "one.parquet")
            archive.write(tmp_path / "one.parquet", f"{name}.parquet")
        archive.writestr("z.jsonl", json.dumps({"problem": CLEAN, "z": 2.5}))
    summary = decontaminate_files([folder], [str(benchmark_file)], tmp_path / "out")
    kept = rows(tmp_path / "out" / "kept.parquet")
    assert (summary["rows_in"], summary["rejected"]) == (8, 2)
    assert [(row["x"], row["y"], row["z"]) for row in kept[3:]] == [
        (1, None, None),
        (None, "k", None),
        (None, None, 2.5),
    ]


def test_text_that_is_not_utf8_costs_its_row(tmp_path, benchmark_file):
    raw = pa.array([CLEAN.encode(), CLEAN.encode() + b"\xff"])
    pq.write_table(pa.table({"problem": pa.Array.from_buffers(pa.string(), 2, raw.buffers())}), tmp_path / "u.parquet")
    summary = decontaminate_files([tmp_path / "u.parquet"], [benchmark_file], tmp_path / "out")
    assert (summary["kept"], summary["dropped"]["malformed"]) == (1, 1)


def test_long_whole_numbers_among_fractions_keep_their_digits(tmp_path, benchmark_file):
    lines = [json.dumps({"problem": CLEAN, "id": number}) + "\n" for number in (2**60 + 1, 1.5)]
    (tmp_path / "both.jsonl").write_text("".join(lines))
    decontaminate_files([tmp_path / "both.jsonl"], [benchmark_file], tmp_path / "out")
    assert [row["id"] for row in rows(tmp_path / "out" / "kept.parquet")] == [str(2**60 + 1), "1.5"]
    inputs = [tmp_path / name for name in ("long.jsonl", "short.jsonl")]
    for path, line in zip(inputs, lines, strict=True):
        path.write_text(line)
    with pytest.raises(RatchetError, match=r"long.jsonl: Integer value 1152921504606846977 .*one at a time"):
        decontaminate_files(inputs, [benchmark_file], tmp_path / "more")


def test_json_lines_of_any_kind_are_accounted_for(tmp_path, benchmark_file):
    lines = [
        json.dumps({"question": CLEAN, "level": 1, "extra": {"a": 1}, "mixed": "x", "date": "2024-01-05T00:00:00"}),
        "{not json",
        json.dumps({"question": COPY, "level": 2.5, "extra": None, "mixed": 3, "date": None}),
        json.dumps([1]),
        json.dumps({"question": "   ", "level": None, "big": 10**30}),
        json.dumps({"question": CLEAN + " Again.", "date": "2024-09-01", "other": "\ud83d"}),
        json.dumps({"question": CLEAN + " Once more.", "date": "soon"}),
    ]
    with gzip.open(tmp_path / "rows.jsonl.gz", "wt") as file:
        file.write("\n".join(lines))
    summary = decontaminate_files([tmp_path / "rows.jsonl.gz"], [benchmark_file], tmp_path / "out")
    kept, rejected = rows(tmp_path / "out" / "kept.parquet"), rows(tmp_path / "out" / "rejected.parquet")
    assert [row[PREFIX + "row"] for row in kept] == [0, 5, 6]
    assert kept[0]["level"] == 1.0 and json.loads(kept[0]["extra"]) == {"a": 1} and json.loads(kept[0]["mixed"]) == "x"
    assert [(row[PREFIX + "row"], row[PREFIX + "rule"]) for row in rejected] == [
        (1, "malformed"), (2, "ngram"), (3, "malformed"), (4, "malformed"),
    ]  # fmt: skip
    assert json.loads(rejected[3]["big"]) == 10**30 and json.loads(kept[1]["other"]) == "\ud83d"
    assert summary["columns_as_json"] == ["big", "extra", "mixed", "other"]


def test_stopped_and_called_again_many_rows_of_several_inputs_keep_their_order(tmp_path, benchmark_file):
    texts = [f"{CLEAN} Number {i}." if i % 1000 else COPY for i in range(20_000)]
    pq.write_table(pa.table({"text": texts, "n": range(20_000)}), tmp_path / "a.parquet")
    (tmp_path / "b.json").write_text(json.dumps([{"text": OTHER_ITEM, "more": True}]))
    arguments, seen = ([tmp_path / "a.parquet", tmp_path / "b.json"], [benchmark_file], tmp_path / "out"), []

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        decontaminate_files(*arguments, progress=stop)
    assert list(tmp_path.glob(".out.partial/*")) and not (tmp_path / "out").exists()
    summary = decontaminate_files(*arguments, progress=lambda done, total: seen.append((done, total)))
    assert not list(tmp_path.glob(".out*"))
    kept, rejected = rows(tmp_path / "out" / "kept.parquet"), rows(tmp_path / "out" / "rejected.parquet")
    assert [row["n"] for row in kept] == [i for i in range(20_000) if i % 1000]
    assert [row["n"] for row in rejected] == [*range(0, 20_000, 1000), None] and rejected[-1]["more"] is True
    assert seen[-1] == (20_001, 20_001) and len(seen) > 2
    assert summary["items_hit_most"] == [["held_out", "0", 20], ["held_out", "2", 1]]


def test_an_output_that_exists_is_not_touched(tmp_path, benchmark_file):
    (tmp_path / "rows.jsonl").write_text(json.dumps({"statement": COPY, "odd": CLEAN}))
    first = decontaminate_files([tmp_path / "rows.jsonl"], [benchmark_file], tmp_path / "out")
    assert json.loads((tmp_path / "out" / "summary.json").read_text()) == first
    made = (tmp_path / "out" / "kept.parquet").stat().st_mtime_ns
    with pytest.raises(RatchetError, match="out exists"):
        decontaminate_files([tmp_path / "rows.jsonl"], [benchmark_file], tmp_path / "out")
    assert (tmp_path / "out" / "kept.parquet").stat().st_mtime_ns == made
    other = decontaminate_files([tmp_path / "rows.jsonl"], [benchmark_file], tmp_path / "odd", text_column="odd")
    assert (first["rejected"], other["rejected"]) == (1, 0)


@pytest.mark.parametrize(
    ("name", "content", "column", "message"),
    [
        ("rows.json", '[{"idea": "x"}]', None, "rows.json: none of its columns has a usual name.*idea"),
        ("rows.json", '[{"text": 3}]', None, "rows.json: none of its columns"),
        ("rows.json", '[{"text": "a"}]', "txt", "rows.json: there is no column 'txt'"),
        ("rows.json", '[{"text": "a", "n": 3}]', "n", "column 'n' is int64"),
        ("rows.jsonl", "{broken", None, "no row of it can be read"),
        ("rows.parquet", "PAR1 and no more", None, "rows.parquet: cannot be read"),
    ],
)
def test_an_unusable_file_is_named_and_nothing_is_left(tmp_path, benchmark_file, name, content, column, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(RatchetError, match=message):
        decontaminate_files([tmp_path / name], [benchmark_file], tmp_path / "out", text_column=column)
    with pytest.raises(RatchetError, match=r"nowhere.json"):
        decontaminate_files([tmp_path / "nowhere.json"], [benchmark_file], tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted({name, benchmark_file.name})


@pytest.mark.parametrize(
    "columns", [{"stem": "odd"}, {"problem": "odd"}, {"stem": "odd", "n": 1}, {"n": 1, "text": "odd"}]
)
def test_a_benchmark_may_or_may_not_have_the_named_column(tmp_path, columns):
    text = "In how many ways can seven distinct books be placed on two shelves of a library?"
    item = {name: text if value == "odd" else value for name, value in columns.items()}
    (tmp_path / "bench.jsonl").write_text(json.dumps(item))
    (tmp_path / "rows.jsonl").write_text(json.dumps({"stem": text}) + "\n" + json.dumps({"stem": "What is 3 times 4?"}))
    arguments = ([tmp_path / "rows.jsonl"], [tmp_path / "bench.jsonl"], tmp_path / "out")
    summary = decontaminate_files(*arguments, text_column="stem")
    assert summary["dropped"]["ngram"] == 1
    (tmp_path / "bench.jsonl").write_text(json.dumps({"stem": 3, "problem": text}))  # no text in it: the usual one
    assert decontaminate_files(*arguments[:2], tmp_path / "more", text_column="stem")["dropped"]["ngram"] == 1
