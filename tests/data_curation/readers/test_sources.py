"""Names to files; the Hub is a small server here that speaks its protocol to the real client."""

import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ratchet.data_curation.read import read_files, read_problems
from ratchet.data_curation.readers.sources import local_files, source_names
from ratchet.data_curation.split import joined
from ratchet.infra.store.artifacts import ArtifactStore
from ratchet.verifiers.errors import RatchetError

ROW = json.dumps({"problem": "What is $1+1$?", "answer": "2"}).encode() + b"\n"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "README.md": b"# A set",
    "data/train-00000.jsonl": ROW,
    "data/train-00001.jsonl": ROW * 2,
    "data/test.jsonl": ROW,
}


class _Hub(BaseHTTPRequestHandler):
    def do_HEAD(self):
        self._answer()

    def do_GET(self):
        self._answer()

    def _answer(self):
        path = self.path.split("?")[0]
        if found := re.fullmatch(r"/datasets/org/set/resolve/\w+/(.+)", path):
            return self._send(FILES.get(found[1]), "text/plain")
        if path.startswith("/api/datasets/org/set/tree"):
            tree = [{"type": "file", "path": name, "size": len(data), "oid": "0" * 40} for name, data in FILES.items()]
            return self._send(json.dumps(tree).encode(), "application/json")
        if path.startswith("/api/datasets/org/set"):
            siblings = [{"rfilename": name} for name in FILES]
            return self._send(
                json.dumps({"id": "org/set", "sha": COMMIT, "siblings": siblings}).encode(), "application/json"
            )
        return self._send(None, "text/plain")

    def _send(self, data, kind):
        self.send_response(200 if data is not None else 404)
        if data is None:
            self.send_header("X-Error-Code", "RepoNotFound")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data or b"")))
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{hashlib.sha1(data or b"").hexdigest()}"')
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data or b"")

    def log_message(self, *_):
        pass


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


@pytest.fixture
def hub(monkeypatch, tmp_path):
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    yield server
    server.shutdown()
    server.server_close()


def test_a_name_on_the_hub_is_its_train_split_and_is_kept_for_later(hub, monkeypatch):
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


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("org/unknown", "the Hub does not provide it"),
        ("hf://datasets/org/set/data/valid.jsonl", "has no data/valid.jsonl. It has README.md, data/test.jsonl"),
        ("hf://set", "not a name on the Hub"),
    ],
)
def test_what_the_hub_does_not_have_is_said_with_advice(hub, name, message):
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
    assert [file.name for file in local_files("set/b.jsonl")] == ["b.jsonl"]
    assert [str(file) for file in local_files("set/absent.jsonl")] == ["set/absent.jsonl"]  # its reader will say so
    for nothing in ("set/*.csv", "set/deep/../empty"):
        (tmp_path / "set" / "empty").mkdir(exist_ok=True)
        with pytest.raises(RatchetError, match="no data files there"):
            local_files(nothing)
