"""Names to files; the Hub is the rehearsal's, which speaks its protocol to the real client."""

import json
import re

import pytest

from ratchet.data_curation.read import read_files, read_problems
from ratchet.data_curation.readers.sources import NotFetched, held_out_splits, local_files, source_names
from ratchet.data_curation.split import joined
from ratchet.infra.store.artifacts import ArtifactStore
from ratchet.rehearsal.hub import hub
from ratchet.rehearsal.loopback import serving
from ratchet.verifiers.errors import RatchetError

ROW = json.dumps({"problem": "What is $1+1$?", "answer": "2"}).encode() + b"\n"
FILES = {
    "README.md": b"# A set",
    "data/train-00000.jsonl": ROW,
    "data/train-00001.jsonl": ROW * 2,
    "data/test.jsonl": ROW,
}


def test_files_of_one_name_are_told_apart_by_what_stands_before_it(tmp_path):
    files = [tmp_path / name for name in ("a/x/train.jsonl", "b/x/train.jsonl.gz", "b/test.json")]
    for rows, file in enumerate(files, start=1):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(ROW * rows)
    assert source_names(files) == ["a/x/train", "b/x/train", "test"] and source_names(files[1:]) == ["train", "test"]
    assert len(set(source_names(files[:1] * 2))) == 1  # the same file: nothing tells it from itself
    split = joined(read_files(files, "math"))
    assert split.kept.column("source").to_pylist() == ["a/x/train", *["b/x/train"] * 2, *["test"] * 3]
    assert split.summary["files"] == {
        "a/x/train.jsonl (math)": 1, "b/x/train.jsonl.gz (math)": 2, "test.json (math)": 3,
    }  # fmt: skip


def test_files_of_one_folder_that_differ_in_their_ending_only_keep_it(tmp_path):
    files = [tmp_path / name for name in ("test.csv", "train.csv", "train.jsonl", "train.jsonl.gz")]
    assert source_names(files) == ["test", "train.csv", "train.jsonl", "train.jsonl.gz"]


def test_a_folder_with_a_file_for_each_problem_is_one_data_set(tmp_path):
    """As the published MATH is laid out."""
    for kind in ("algebra", "geometry"):
        for number in range(4):
            file = tmp_path / "train" / kind / f"{number}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps({"problem": f"What is {number} in {kind}?", "answer": str(number)}, indent=1))
    broken = {
        "algebra/2": ('{"problem": "What', "line", "not valid JSON"),
        "algebra/3": (ROW.decode() * 2, "rows", "more than"),
        "geometry/1": ("<html>", "file", "this is XML or HTML"),
    }
    before = ArtifactStore(tmp_path / "home").file(tmp_path / "train")
    for name, (text, _, _) in broken.items():
        (tmp_path / "train" / f"{name}.json").write_text(text)
    (tmp_path / "train" / "README.md").write_text("MATH")
    assert local_files(tmp_path / "train") == [tmp_path / "train"]
    assert ArtifactStore(tmp_path / "home").file(tmp_path / "train").key != before.key
    split = read_problems(tmp_path / "train")
    names = ["algebra/0", "algebra/1", "geometry/0", "geometry/2", "geometry/3"]
    assert split.kept.column("source_id").to_pylist() == names and {*split.kept["source"].to_pylist()} == {"train"}
    assert split.rejected.column("source_id").to_pylist() == [*broken]
    for name, evidence in zip(broken, split.rejected["evidence"].to_pylist(), strict=True):
        fault, (_, field, reason) = json.loads(evidence), broken[name]
        assert (fault["file"], fault["row"], fault["field"]) == (f"{name}.json", 0, field) and reason in fault["reason"]
    (tmp_path / "train" / "more.jsonl").write_bytes(ROW)
    assert len(local_files(tmp_path / "train")) == 9, "a file of rows among them: each file is a data set"


def test_a_folder_of_files_with_many_rows_is_several_data_sets(tmp_path):
    for name in ("test", "train"):
        (tmp_path / f"{name}.json").write_text(json.dumps([json.loads(ROW)] * 2))
    assert [file.name for file in local_files(tmp_path)] == ["test.json", "train.json"]
    assert [file.name for file in held_out_splits(str(tmp_path))] == ["test.json"]
    assert not held_out_splits(str(tmp_path / "test.json"))
    (tmp_path / "train.json").rename(tmp_path / "more.json")
    assert not held_out_splits(str(tmp_path))


@pytest.fixture
def served(monkeypatch, tmp_path):
    for name, content in FILES.items():
        file = tmp_path / "hub/datasets/org/set" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    with serving(hub(tmp_path / "hub")) as address:
        monkeypatch.setenv("HF_ENDPOINT", address)
        yield


def test_a_name_on_the_hub_is_its_train_split_and_is_kept_for_later(served, monkeypatch):
    files = local_files("org/set")
    assert [file.name for file in files] == ["train-00000.jsonl", "train-00001.jsonl"]
    assert sum(len(read_problems(file, "math").kept) for file in files) == 3
    assert [file.name for file in local_files("hf://datasets/org/set/data/test.jsonl")] == ["test.jsonl"]
    given = [ArtifactStore(files[0].parent / "store").file(file).path for file in files]
    assert source_names(given) == ["train-00000", "train-00001"]
    assert source_names([given[0], given[0].parents[5] / "datasets--org--b/snapshots/1/data/train-00000.jsonl"]) == [
        "set/data/train-00000", "b/data/train-00000",
    ]  # fmt: skip
    assert [file.name for file in local_files("hf://org/set@main/data/train-*1.jsonl")] == ["train-00001.jsonl"]
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert local_files("org/set") == files


SHARDS = tuple(f"data/train-0000{number}-of-00003.jsonl" for number in range(3))
FROM_ONE = tuple(f"part-{number}-of-2.jsonl" for number in (1, 2))


@pytest.mark.parametrize(("cached", "name", "found"), [
    (SHARDS, "org/set", 3),
    (SHARDS[:2], "org/set", "the cache lacks data/train-00002-of-00003.jsonl"),
    (SHARDS[1:], "hf://org/set/data/train-*.jsonl", "the cache lacks data/train-00000-of-00003.jsonl"),
    (SHARDS[1:2], "hf://org/set/data/train-00001-of-00003.jsonl", 1),
    (FROM_ONE, "org/set", 2),
    (FROM_ONE[1:], "org/set", "the cache lacks part-1-of-2.jsonl"),
    (["data/test-00000-of-00001.jsonl"], "org/set", "the cache has data/test-00000-of-00001.jsonl, which is no train"),
    (["data/test-00000-of-00001.jsonl"], "hf://org/set/data/test-*.jsonl", 1),
    (["data.jsonl"], "org/set", 1),
])  # fmt: skip
def test_without_a_network_part_of_a_data_set_is_not_taken_for_it(tmp_path, monkeypatch, cached, name, found):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    root = tmp_path / "datasets--org--set"
    for file, content in [("refs/main", b"a" * 40), *((f"snapshots/{'a' * 40}/{file}", ROW) for file in cached)]:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_bytes(content)
    if isinstance(found, int):
        assert len(local_files(name)) == found
    else:
        with pytest.raises(NotFetched, match=re.escape(found)):
            local_files(name)


def test_a_connection_that_is_lost_on_the_way_gives_no_part_of_a_data_set(served, monkeypatch):
    from huggingface_hub import HfApi

    fetch = HfApi.hf_hub_download

    def losing(api, filename, **place):
        if filename.endswith("1.jsonl"):
            raise ConnectionError("connection reset by peer")
        return fetch(api, filename=filename, **place)

    monkeypatch.setattr(HfApi, "hf_hub_download", losing)
    with pytest.raises(NotFetched, match="connection reset by peer"):
        local_files("org/set")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("org/unknown", "the Hub does not provide it"),
        ("hf://datasets/org/set/data/valid.jsonl", "has no data/valid.jsonl. It has README.md, data/test.jsonl"),
        ("hf://set", "not a name on the Hub"),
    ],
)
def test_what_the_hub_does_not_have_is_said_with_advice(served, name, message):
    with pytest.raises(RatchetError, match=re.escape(message)):
        local_files(name)


def test_without_a_network_the_error_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(RatchetError, match=r"org/set: no such file here.*HF_ENDPOINT.*hf download"):
        local_files("org/set")


def test_files_directories_and_globs(tmp_path, monkeypatch):
    for name in ("b.jsonl", "a.parquet", "deep/c.json.gz", "notes.txt", "dataset_info.json"):
        (tmp_path / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "set" / name).touch()
    monkeypatch.chdir(tmp_path)
    assert [file.name for file in local_files("set")] == ["a.parquet", "b.jsonl", "c.json.gz"]
    assert [file.name for file in local_files("set/*.jsonl")] == ["b.jsonl"]
    assert [file.name for file in local_files("se*/de*")] == ["c.json.gz"], "the files of a folder that matches"
    assert [file.name for file in local_files("set/b.jsonl")] == ["b.jsonl"]
    assert [str(file) for file in local_files("set/absent.jsonl")] == ["set/absent.jsonl"]  # its reader will say so
    for nothing in ("set/*.csv", "set/deep/../empty"):
        (tmp_path / "set" / "empty").mkdir(exist_ok=True)
        with pytest.raises(RatchetError, match="no data files there"):
            local_files(nothing)
