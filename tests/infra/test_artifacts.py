import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from ratchet.data_curation.base.files import sha256_file
from ratchet.infra.store.artifacts import Artifact, ArtifactStore, artifact_key, reached
from ratchet.infra.store.manifest import DatasetManifest
from ratchet.verifiers.errors import RatchetError

ROWS = pa.table({"problem_id": ["a", "b", "c"]})


def make(
    store: ArtifactStore, parameters: dict, inputs: list[Artifact] | None = None, rejected: int = 1, name: str = "math"
) -> Artifact:
    target = store.locate("problems", name, artifact_key("rules", 1, name, parameters, inputs or []))
    with store.draft(target, resumable=False) as draft:
        draft.write_dataset(ROWS.slice(0, 3 - rejected), ROWS.slice(3 - rejected), rows_in=3)
        facts = {"step": "rules", "step_version": 1, "parameters": parameters, "inputs": inputs or []}
        return store.finish(target, draft, started_at=time.time(), **facts)


def test_the_same_work_has_the_same_key_and_any_difference_another(tmp_path):
    source = ArtifactStore(tmp_path).locate("raw", "x", "1" * 64)
    other = ArtifactStore(tmp_path).locate("raw", "x", "2" * 64)
    key = artifact_key("rules", 1, "math", {"a": 1, "b": [2]}, [source])
    assert key == artifact_key("rules", 1, "math", {"b": [2], "a": 1}, [source])
    assert len({
        key,
        artifact_key("rules", 2, "math", {"a": 1, "b": [2]}, [source]),
        artifact_key("rule", 1, "math", {"a": 1, "b": [2]}, [source]),
        artifact_key("rules", 1, "code", {"a": 1, "b": [2]}, [source]),
        artifact_key("rules", 1, "math", {"a": 1, "b": [3]}, [source]),
        artifact_key("rules", 1, "math", {"a": 1, "b": [2]}, [other]),
        artifact_key("rules", 1, "math", {"a": 1, "b": [2]}, []),
    }) == 7  # fmt: skip


def test_what_reads_the_same_content_has_the_same_key(tmp_path):
    store = ArtifactStore(tmp_path)
    planned = store.locate("problems", "math", artifact_key("rules", 1, "math", {"a": 2}, []))
    before = artifact_key("next", 1, "math", {}, [planned])
    assert before.startswith("?") and artifact_key("after", 1, "math", {}, [store.locate("x", "y", before)])[0] == "?"
    first, second, other = make(store, {"a": 1}), make(store, {"a": 2}), make(store, {"a": 3}, rejected=0)
    assert planned == second and first.key != second.key

    keys = [artifact_key("next", 1, "math", {}, [read]) for read in (first, second, other)]
    assert keys[0] == keys[1] != keys[2] and before != keys[1]
    wholes = {artifact_key("next", 1, "math", {}, [read], whole=[read]) for read in (first, second, other)}
    assert len(wholes) == 3, "of the whole, the parameters are a part"
    assert store.earlier_same(second) == first
    assert store.earlier_same(first) is None and store.earlier_same(other) is None


def test_a_checkpoint_is_known_by_its_model_and_so_is_a_copy_of_it(tmp_path):
    store = ArtifactStore(tmp_path)
    target = store.locate("checkpoint", "math-24", artifact_key("train", 1, "math-24", {}, []))
    with store.draft(target, resumable=True) as draft:
        (draft.path / "model").mkdir()
        (draft.path / "model" / "config.json").write_text("{}")
        (draft.path / "metrics.jsonl").write_text(json.dumps({"time": time.time()}))
        (draft.path / "model" / "weights.12.tmp").write_text("left by a process that was killed")
    with store.draft(target, resumable=True) as draft:
        facts = {"step": "train", "step_version": 1, "parameters": {}, "inputs": [], "started_at": time.time()}
        store.finish(target, draft, **facts)
    copy = shutil.copytree(target.path / "model", tmp_path / "copy")
    assert [file.name for file in copy.iterdir()] == ["config.json"]
    assert store.directory(copy, "model").content() == target.content() != target.content(whole=True)


def test_a_finished_artifact_is_found_and_explains_itself(tmp_path):
    store = ArtifactStore(tmp_path)
    made = make(store, {"a": 1})
    found = store.find("problems", "math", made.key)
    assert found == made
    assert found.manifest.counts == {"rows_in": 3, "kept": 2, "rejected": 1}
    assert found.manifest.files["kept.parquet"].bytes == made.kept.stat().st_size
    assert store.open(made.ref) == store.open(made.key[:8]) == store.open(str(made.path)) == made
    assert store.find("problems", "math", "0" * 64) is None


def test_in_the_directory_of_one_artifact_the_names_of_others_mean_those(tmp_path, monkeypatch):
    store = ArtifactStore(tmp_path)
    here, other = make(store, {"a": 1}), make(store, {"a": 2}, name="code")
    monkeypatch.chdir(here.path)
    beside = f"../{other.path.name}"
    for what in (other.ref, other.key, other.key[:8], "code", "problems/code", "problems/code-", beside):
        assert store.open(what) == other, what
    assert store.open(".") == store.open("kept.parquet") == here
    with pytest.raises(RatchetError, match="No artifact 'nothing'"):
        store.open("nothing")


def test_a_copy_beside_an_artifact_is_another_thing(tmp_path):
    made = make(store := ArtifactStore(tmp_path), {"a": 1})
    shutil.copytree(made.path, made.path.with_name(f"{made.path.name}.bak"))
    assert [*store.all()] == [made]
    assert store.open(made.ref) == store.open(made.key[:8]) == store.open(str(made.path)) == made


def test_rows_may_not_be_lost(tmp_path):
    store = ArtifactStore(tmp_path)
    target = store.locate("problems", "math", "3" * 64)
    with store.draft(target, resumable=False) as draft, pytest.raises(AssertionError, match="not 4 rows in"):
        draft.write_dataset(ROWS.slice(0, 2), ROWS.slice(2), rows_in=4)


def test_a_file_changed_afterwards_is_an_error_that_names_it(tmp_path):
    store = ArtifactStore(tmp_path)
    made = make(store, {"a": 1})
    with open(made.kept, "ab") as file:
        file.write(b"x")
    with pytest.raises(RatchetError, match=r"kept\.parquet is missing or was changed.*Delete"):
        store.find("problems", "math", made.key)


def test_a_manifest_of_another_version_is_read_and_an_unknown_field_is_not_written(tmp_path):
    made = make(store := ArtifactStore(tmp_path), {"a": 1})
    file = made.path / "manifest.json"
    facts = json.loads(file.read_text())
    file.write_text(json.dumps({name: facts[name] for name in facts if name != "own_code"} | {"newer": [1]}))
    read = store.find("problems", "math", made.key)
    assert read is not None and isinstance(read.manifest, DatasetManifest) and read.manifest.own_code == {}
    assert read.content(whole=True) == made.content(whole=True)
    with store.draft(store.locate("report", "r", "1" * 64), resumable=False) as draft:
        with pytest.raises(ValueError, match="sumary_table"):
            draft.result.sumary_table = []


def test_a_truncated_manifest_is_one_line_wherever_it_is_read(tmp_path):
    made = make(store := ArtifactStore(tmp_path), {"a": 1})
    (made.path / "manifest.json").write_text((made.path / "manifest.json").read_text()[:300])
    for read in (Artifact.content, lambda found: found.summary, store.parents):
        with pytest.raises(RatchetError, match=r"manifest\.json cannot be read \(.*line.*Delete .*math-.*run again"):
            read(store.locate("problems", "math", made.key))


def test_a_flipped_bit_is_found_before_a_step_reads_it(tmp_path):
    made = make(store := ArtifactStore(tmp_path), {"a": 1})
    for file in (made.rejected, made.kept):
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
        store = ArtifactStore(tmp_path)  # as in a later run
        store.check(made)  # it has its size
        if file == made.rejected:
            store.check_content(made)
        with pytest.raises(
            RatchetError, match=rf"{file.name} was changed after the step finished: its content.*Delete"
        ):
            store.check_content(made, whole=True)
    with pytest.raises(RatchetError, match=r"kept\.parquet was changed"):
        store.check_content(made)


def test_an_input_is_read_once_in_a_process(tmp_path, monkeypatch):
    made = make(first := ArtifactStore(tmp_path), {"a": 1})
    read = []
    monkeypatch.setattr(
        "ratchet.infra.store.artifacts.sha256_file", lambda file: read.append(file.name) or sha256_file(file)
    )
    first.check_content(made, whole=True)  # it wrote them itself
    (again := ArtifactStore(tmp_path)).check_content(made)
    again.check_content(made, whole=True)
    assert read == ["kept.parquet", "rejected.parquet"]


def test_an_error_inside_a_draft_leaves_nothing_that_looks_finished(tmp_path):
    store = ArtifactStore(tmp_path)
    target = store.locate("problems", "math", "4" * 64)
    with pytest.raises(ValueError), store.draft(target, resumable=False) as draft:
        draft.write_dataset(ROWS, ROWS.slice(0, 0), rows_in=3)
        raise ValueError
    assert store.find("problems", "math", target.key) is None
    assert list(store.all()) == []


def test_only_a_resumable_draft_keeps_what_was_left(tmp_path):
    store = ArtifactStore(tmp_path)
    target = store.locate("attempts", "math", "5" * 64)
    for resumable, expected in ((True, []), (True, ["journal"]), (False, []), (False, [])):
        with store.draft(target, resumable=resumable) as draft:
            assert [p.name for p in draft.path.iterdir()] == expected
            (draft.path / "journal").write_text("paid for")


HOLDER = """
import sys, time
from pathlib import Path
from ratchet.infra.store.artifacts import ArtifactStore
store = ArtifactStore(Path(sys.argv[1]))
with store.draft(store.locate("problems", "math", "6" * 64), resumable=True) as draft:
    (draft.path / "kept.parquet").write_text("half")
    print("held", flush=True)
    time.sleep(60)
"""


def test_two_processes_cannot_make_the_same_artifact_and_a_killed_one_leaves_no_lock(tmp_path):
    store = ArtifactStore(tmp_path)
    target = store.locate("problems", "math", "6" * 64)
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline().strip() == "held"
        with pytest.raises(RatchetError, match=f"process {holder.pid}"), store.draft(target, resumable=True):
            pass
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert store.find("problems", "math", target.key) is None
    with store.draft(target, resumable=True) as draft:
        assert (draft.path / "kept.parquet").read_text() == "half"


def test_an_input_file_is_known_by_its_content(tmp_path):
    store = ArtifactStore(tmp_path / "store")
    (tmp_path / "a.json").write_text("[1]")
    (tmp_path / "b.json").write_text("[1]")
    assert store.file(tmp_path / "a.json").key == store.file(tmp_path / "b.json").key
    (tmp_path / "b.json").write_text("[2]")
    assert store.file(tmp_path / "a.json").key != store.file(tmp_path / "b.json").key
    with pytest.raises(RatchetError, match=r"nowhere\.json"):
        store.file(tmp_path / "nowhere.json")


@pytest.mark.parametrize("name", ["caf\udce9.jsonl", "caf\udce9/a.json", "d/caf\udce9.json"])
def test_a_name_that_no_record_can_hold_is_refused(tmp_path, name):
    file = tmp_path / "given" / name
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    store, given = ArtifactStore(tmp_path / "store"), tmp_path / "given" / name.split("/")[0]
    with pytest.raises(RatchetError, match=r"caf\\udce9.*: this name is not in UTF-8. Rename it"):
        store.file(given)
    with pytest.raises(RatchetError, match="Rename it"):
        store.directory(file.parent, "model")


def test_a_walk_ends_where_artifacts_lead_to_each_other():
    one, other = (Artifact("checkpoint", name, name, Path(name)) for name in ("one", "other"))
    assert reached([one], lambda artifact: [other] if artifact is one else [one]) == [other, one]
