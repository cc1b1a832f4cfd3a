"""What is deleted from a home, and what never is."""

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from mlflow import MlflowClient

from ratchet.infra.settings import load_settings
from ratchet.infra.store.artifacts import Artifact, ArtifactStore, artifact_key
from ratchet.infra.tracking.events import Tracking, read_state
from ratchet.infra.tracking.garbage import delete, find_garbage
from ratchet.infra.tracking.mirror import mirror
from ratchet.infra.tracking.mirrored import FILES_FOLDER
from ratchet.infra.tracking.run_record import all_runs
from ratchet.verifiers.errors import RatchetError
from tests.flows.commands import in_process
from tests.tasks.test_registration import made
from tests.waiting import PATIENCE_S


def finished(store: ArtifactStore, name: str, inputs: Sequence[Artifact] = ()) -> Artifact:
    target = store.locate("problems", name, artifact_key("rules", 1, name, {}, inputs))
    with store.draft(target, resumable=True) as draft:
        table = pa.table({"problem_id": [name]})
        draft.write_dataset(table, table.slice(1), rows_in=1)
        return store.finish(target, draft, step="rules", step_version=1, parameters={}, inputs=inputs, started_at=0)


@pytest.fixture
def home(tmp_path: Path, monkeypatch) -> Path:
    """Two finished runs that share the artifact `raw`; the old one also made `old`. Each has left a draft."""
    monkeypatch.setattr("ratchet.infra.tracking.events.start_mirror", lambda *_: subprocess.Popen(["true"]))
    settings = load_settings(tmp_path)
    store = ArtifactStore(settings.artifacts)
    raw = finished(store, "raw")
    for name, days in (("old", 40), ("new", 0)):
        tracking = Tracking(settings, name)
        root = tracking.start_run(f"{name}-seed0-curate")
        tracking.metrics(root, {"math-60/pass@1": 0.25})
        made, half = finished(store, name, [raw]), store.locate("checkpoint", name, name[0] * 64)
        for output, inputs in ((raw, []), (made, [raw]), (half, [made])):
            tracking.start_run(output.name, parent=root, output=output, inputs=inputs)
        with store.draft(half, resumable=True) as draft:
            (draft.path / "weights").write_text("1234567")
        tracking.close(wait_s=PATIENCE_S)
        (settings.journals / f"{tracking.run_id}.state.json").write_text('{"complete": true, "runs": {}}')
        then = time.time() - days * 86400
        os.utime(settings.journals / f"{tracking.run_id}.jsonl", (then, then))
    (settings.artifacts / ".drafts" / "problems-nobody-000000000000").mkdir()
    return tmp_path


def names(home: Path) -> set[str]:
    """Of artifacts and drafts, without their keys."""
    return {path.name.rpartition("-")[0] for path in (home / "artifacts").glob("*/*") if path.is_dir()}


def test_only_what_no_kept_run_refers_to_is_deleted_and_only_when_asked(home):
    everything = {"raw", "old", "new", "checkpoint-old", "checkpoint-new", "problems-nobody"}
    assert names(home) == everything
    listed = in_process("gc", "--older-than", "30", "--home", home)
    assert "3 directories, 1 runs" in listed and "dry run; pass --delete" in listed and names(home) == everything
    assert "1 directories, 0 runs, 0 bytes: deleted" in in_process("gc", "--delete", "--home", home)
    assert names(home) == everything - {"problems-nobody"}
    assert "deleted" in in_process("gc", "--forget", "old-seed0-curate", "--delete", "--home", home)
    assert names(home) == {"raw", "new", "checkpoint-new"}
    assert [run.name for run in all_runs(load_settings(home))] == ["new-seed0-curate"]
    assert in_process("gc", "--older-than", "30", "--home", home) == "Nothing to delete.\n"


def test_a_copied_home_deletes_nothing_of_the_first(home, tmp_path_factory):
    copy = shutil.copytree(home, tmp_path_factory.mktemp("copy") / "home", copy_function=shutil.copy2)
    made = [step.output.path for run in all_runs(load_settings(copy)) for step in run.steps]
    assert len(made) == 6 and all(copy in path.parents for path in made)
    in_process("gc", "--older-than", "30", "--delete", "--home", copy)
    assert "old" in names(home) and names(copy) == {"raw", "new", "checkpoint-new"}


def test_nothing_is_deleted_while_a_run_is_at_work_and_no_draft_that_a_process_fills(home):
    store = ArtifactStore(home / "artifacts")
    with store.draft(store.locate("problems", "nobody", "0" * 64), resumable=True):
        assert "Nothing to delete" in in_process("gc", "--home", home)
    tracking = Tracking(load_settings(home), "third")
    tracking.start_run("third-seed0-curate")
    with pytest.raises(RatchetError, match="A run is active"):
        in_process("gc", "--older-than", "0", "--delete", "--home", home)
    tracking.close(wait_s=PATIENCE_S)
    assert "old" in names(home)
    with pytest.raises(RatchetError, match="No run 'nope'"):
        in_process("gc", "--forget", "nope", "--home", home)


def test_what_an_unfinished_run_has_read_is_kept_with_what_is_behind_it(home):
    settings = load_settings(home)
    store = ArtifactStore(settings.artifacts)
    tracking = Tracking(settings, "third")
    root = tracking.start_run("third-seed0-train")
    output = store.locate("checkpoint", "third", "3" * 64)
    tracking.start_run("third", parent=root, output=output, inputs=[store.open("problems/old")])
    tracking.close(wait_s=PATIENCE_S)
    in_process("gc", "--forget", "old-seed0-curate", "--forget", "new-seed0-curate", "--delete", "--home", home)
    assert names(home) == {"raw", "old"}


def test_what_the_next_gate_compares_with_is_kept(home):
    settings = load_settings(home)
    store, passed = ArtifactStore(settings.artifacts), []
    tracking = Tracking(settings, "third")
    root = tracking.start_run("third-seed0-train")
    for name in ("first", "best", "later"):
        checkpoint = made(store, "checkpoint", f"{name}-model", [store.open("problems/raw")], name)
        evaluation = made(store, "evaluation", f"{name}-scores", [checkpoint], {})
        verdict = made(store, "gate", "mini", [evaluation, *passed[-1:]], [], passed=name != "later")
        passed += [evaluation] * (name != "later")
        for output in (checkpoint, evaluation, verdict):
            tracking.start_run(output.name, parent=root, output=output)
    tracking.close(wait_s=PATIENCE_S)
    (settings.journals / f"{tracking.run_id}.state.json").write_text('{"complete": true, "runs": {}}')
    in_process("gc", "--forget", "third-seed0-train", "--delete", "--home", home)
    assert {name for name in names(home) if "model" in name or "scores" in name} == {"best-model", "best-scores"}
    assert [store.parents(verdict)[0] for verdict in store.all("gate/*")] == passed[1:]


def test_a_run_that_mlflow_has_not_received_is_kept(home):
    for state in (home / "tracking").glob("*.state.json"):
        state.unlink()
    said = in_process("gc", "--older-than", "30", "--delete", "--home", home)
    assert "old-seed0-curate is kept. MLflow" in said and "1 directories, 0 runs" in said and "old" in names(home)


def test_a_run_that_begins_during_the_deletion_ends_it(home, monkeypatch):
    settings = load_settings(home)
    found, begun = find_garbage(settings, older_than_days=0), []
    monkeypatch.setattr(ArtifactStore, "remove", lambda *_: begun.append(Tracking(settings, "third")))
    with pytest.raises(RatchetError, match="A run is active"):
        delete(settings, found)
    assert len(begun) == 1 and len(list(all_runs(settings))) == 2


def test_an_interrupted_deletion_is_continued(home, monkeypatch):
    monkeypatch.setattr("shutil.rmtree", lambda path: (_ for _ in ()).throw(KeyboardInterrupt))
    store = ArtifactStore(home / "artifacts")
    old = store.open("problems/old")
    with pytest.raises(KeyboardInterrupt):
        store.remove(old.path)
    monkeypatch.undo()
    assert not old.path.exists() and [path.suffix for path in store.unfinished()].count(".removed") == 1
    store.remove(finished(store, "old", [store.open("problems/raw")]).path)  # made again, deleted again
    (leftover := store._drafts / "problems-raw-000000000000.replaced").mkdir()
    with store.draft(store.locate("problems", "raw", "0" * 64), resumable=True):
        store.remove(leftover)
        assert leftover.with_name("problems-raw-000000000000.lock").exists()
    (store._drafts / "problems-gone-000000000000.removed").mkdir()
    in_process("gc", "--delete", "--home", home)
    assert not list((home / "artifacts" / ".drafts").glob("*.removed"))


def test_the_pages_of_a_forgotten_run_go_with_it(home, monkeypatch):
    """Those that TensorBoard and Weights & Biases have made, in the places that these choose."""
    for module in ("tensorboard", "wandb"):
        pytest.importorskip(module)
    monkeypatch.setenv("WANDB_MODE", "offline")
    settings = load_settings(home)
    ids = {run.name: run.run_id for run in all_runs(settings)}
    old, new = ids["old-seed0-curate"], ids["new-seed0-curate"]
    places = {"tensorboard": settings.tensorboard, "wandb": home}
    for tracker, place in places.items():
        mirror(tracker, settings.journals, str(place))
        for run in (old, new):  # nobody writes the ends of these runs
            assert list((home / tracker).glob(f"*-{run}")), tracker
    in_process("gc", "--forget", "old-seed0-curate", "--delete", "--home", home)
    for tracker in places:
        assert not list((home / tracker).glob(f"*-{old}")) and list((home / tracker).glob(f"*-{new}"))


def test_a_forgotten_run_leaves_nothing_in_the_homes_mlflow(home):
    settings = load_settings(home)
    for state in settings.journals.glob("*.state.json"):
        state.unlink()
    assert mirror("mlflow", settings.journals, settings.tracking_uri)
    [old] = [run.run_id for run in all_runs(settings) if run.name == "old-seed0-curate"]
    listed = read_state(settings, old)["runs"]
    (files := home / FILES_FOLDER / listed[old] / "artifacts").mkdir(parents=True, exist_ok=True)
    (files / "rollouts.json").write_text("private")
    settings.logs.mkdir(exist_ok=True)
    (log := settings.logs / f"problems-{ArtifactStore(settings.artifacts).open('problems/old').path.name}.log").touch()
    in_process("gc", "--forget", "old-seed0-curate", "--delete", "--home", home)
    client = MlflowClient(settings.tracking_uri)
    assert {client.get_run(each).info.lifecycle_stage for each in listed.values()} == {"deleted"}
    assert not files.exists() and not log.exists() and len([*all_runs(settings)]) == 1
