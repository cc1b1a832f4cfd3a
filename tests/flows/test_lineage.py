"""Lineage both ways: in the terminal, on MLflow's pages, in the report; and what two runs differ in."""

import hashlib
import io
import json
import random
import re

import pytest
from rich.console import Console

from ratchet.cli.inspection import lineage_tree
from ratchet.infra.settings import load_settings
from ratchet.infra.store.artifacts import FILE_KIND, ArtifactStore
from ratchet.infra.store.lineage import Lineage
from ratchet.infra.tracking.run_record import read_run
from ratchet.verifiers.errors import RatchetError
from tests.flows.commands import in_process

PAGE = re.compile(r"\(#/experiments/\d+/runs/([0-9a-f]{32})\)")


@pytest.fixture(scope="module")
def known(finished_home):
    return Lineage(ArtifactStore(load_settings(finished_home).artifacts))


@pytest.fixture(scope="module")
def mlflow(finished_home):
    from mlflow import MlflowClient

    return MlflowClient(load_settings(finished_home).tracking_uri)


def printed(known, artifact, down):
    """What the tree names: artifacts, and files by their hashes."""
    console = Console(record=True, width=10_000, file=io.StringIO())
    console.print(lineage_tree(known, [artifact], down))
    lines = re.findall(r"── (\S+)(?:  sha256 (\w+))?", console.export_text())
    return {sha256 or ref for ref, sha256 in lines}


def named(artifact):
    return artifact.key if artifact.kind == FILE_KIND else artifact.ref


def first_report(home):
    """That of the whole run: other tests have added to the home."""
    steps = read_run(min(load_settings(home).journals.glob("*.jsonl"))).steps
    return next(step.output for step in steps if step.output.kind == "report")


def test_fifty_artifacts_up_and_down_agree_and_raw_files_have_their_hash(finished_home, known):
    everything = list(known.known.values())
    chosen = random.Random(0).sample(everything, min(50, len(everything)))
    assert len(chosen) > 30
    up, down = ({named(a): printed(known, a, way) for a in everything} for way in (False, True))
    for artifact in chosen:
        me = named(artifact)
        for other in map(named, everything):
            assert (other in up[me]) == (me in down[other]), (me, other)
        if artifact.kind != FILE_KIND:
            assert all(named(a) in up[me] for a in known.store.ancestors([artifact]) if a.kind != "raw")
    files = [artifact for artifact in everything if artifact.kind == FILE_KIND]
    assert {file.name for file in files} >= {"math_raw.parquet", "code_benchmark.parquet"}
    for file in files:
        assert hashlib.sha256(file.path.read_bytes()).hexdigest() == file.key
    report = first_report(finished_home)
    assert all(file.key in up[report.ref] for file in files if known.used_by(file))


def test_the_terminal_goes_from_a_raw_file_to_the_scores_and_back(finished_home, known, tmp_path):
    raw = next(a for a in known.known.values() if a.name == "math_raw.parquet")
    copy = tmp_path / "elsewhere.parquet"
    copy.write_bytes(raw.path.read_bytes())
    for what in (raw.path, copy, raw.key[:10]):
        output = in_process("show", what, "--used-by", "--home", finished_home)
        assert re.search(r"evaluation/code-32-\w+  mini-math pass@1", output) and "scores reached." in output
    score = next(a for a in known.known.values() if a.ref.startswith("evaluation/code-32"))
    back = in_process("show", "evaluation/code", "--home", finished_home)
    assert f"{raw.path}  sha256 {raw.key}" in back and "checkpoint/math-24" in back and score.ref in back
    assert raw.key in in_process("show", "mini-seed1-pipeline", "--home", finished_home)
    with pytest.raises(RatchetError, match="was made from"):
        copy.write_bytes(b"another")
        in_process("show", copy, "--home", finished_home)


def test_from_a_score_links_lead_back_to_the_raw_file(finished_home, mlflow, known):
    experiment = [mlflow.get_experiment_by_name("mini").experiment_id]
    runs = mlflow.search_runs(experiment, order_by=["start_time"], max_results=1000)
    root = next(run for run in runs if "mlflow.parentRunId" not in run.data.tags)
    first = [run for run in runs if root.info.run_id in (run.info.run_id, run.data.tags.get("mlflow.parentRunId"))]
    assert {run.info.status for run in first} == {"FINISHED"}
    notes = {run.info.run_id: run.data.tags.get("mlflow.note.content", "") for run in runs}
    artifact = {run.info.run_id: run.data.tags.get("ratchet.artifact", "") for run in runs}
    assert max(map(len, notes.values())) < 8000
    waiting = [run for run in notes if artifact[run].startswith("evaluation/start")][:1]
    seen = set(waiting)
    for run in waiting:  # grows
        waiting += (fresh := set(PAGE.findall(notes[run])) - seen)
        seen |= fresh
    assert any(artifact[run].startswith("problems/math-rules") for run in seen)
    raw = next(a for a in known.known.values() if a.name == "math_raw.parquet")
    assert any(raw.key in notes[run] for run in seen)
    assert raw.key in root.data.tags["mlflow.note.content"], "the run's page has the raw files, too"
    (score,) = (run for run in first if artifact[run.info.run_id].startswith("evaluation/code-32"))
    (model,) = mlflow.get_run(score.info.run_id).inputs.model_inputs
    assert mlflow.get_logged_model(model.model_id).name == "code-32"


def test_the_pages_of_a_run_lead_everywhere(finished_home, mlflow):
    runs = mlflow.search_runs([mlflow.get_experiment_by_name("mini").experiment_id], order_by=["start_time"])
    root = next(run for run in runs if "mlflow.parentRunId" not in run.data.tags)
    assert root.data.tags["ratchet.seed"] == "1" and "pass@1" in root.data.tags["ratchet.score"]
    note = root.data.tags["mlflow.note.content"]
    record = read_run(min(load_settings(finished_home).journals.glob("*.jsonl")))
    assert len(set(PAGE.findall(note))) == len(record.steps)
    report = first_report(finished_home)
    page = (report.path / "report.html").read_text()
    linked = set(re.findall(r'<a href="(\.\./\.\./[^"]+)"', page))
    assert linked and all((report.path / link).is_dir() for link in linked)
    assert len(linked) == len(record.steps) - 2, "all but the gate and the report itself"


def test_the_curriculum_is_one_curve_on_the_run(mlflow):
    runs = mlflow.search_runs([mlflow.get_experiment_by_name("mini").experiment_id], max_results=1000)
    for root in (run for run in runs if run.data.tags.get("ratchet.flow") == "pipeline"):
        for name, values in (("stage", [1, 1, 2, 2]), ("max_response_tokens", [24, 24, 32, 32])):
            points = sorted(mlflow.get_metric_history(root.info.run_id, f"curriculum/{name}"), key=lambda m: m.step)
            assert [(point.step, point.value) for point in points] == list(enumerate(values, 1))
        for name in ("reward", "pass_rate", "response_tokens", "truncated", "resets"):
            assert len(mlflow.get_metric_history(root.info.run_id, f"curriculum/{name}")) == 4
        assert len(mlflow.get_metric_history(root.info.run_id, "curriculum/math/reward")) >= 2


def test_the_last_checkpoint_is_registered_with_its_scores_and_the_gate_has_made_it_the_best(mlflow, known):
    for alias in ("candidate", "best"):
        version = mlflow.get_model_version_by_alias("mini", alias)
        assert version.tags["ratchet.artifact"].startswith("checkpoint/code-32")
        assert version.tags["ratchet.gate"].startswith("passed: mini-math pass@1")
        model = mlflow.get_logged_model(version.source.removeprefix("models:/"))
        assert model.name == "code-32"
        scored = {metric.key: metric.dataset_name for metric in model.metrics}
        assert scored["mini-math/pass_at_1"] == "problems/math_benchmark"
        assert scored["mini-code/pass_at_1"] == "problems/code_benchmark"
    (verdict,) = (a for a in known.known.values() if a.kind == "gate")
    assert json.loads((verdict.path / "gate.json").read_text())[1] == {"says": "no best before", "passed": True}


def test_rollouts_are_a_table_that_can_be_read(mlflow):
    runs = mlflow.search_runs([mlflow.get_experiment_by_name("mini").experiment_id], "tags.`ratchet.step` = 'train'")
    for run in runs:
        table = json.load(open(mlflow.download_artifacts(run.info.run_id, "samples.json")))
        assert {"prompt", "response", "reward", "outcome"} <= set(table["columns"]) and table["data"]
        assert json.loads(run.data.tags["mlflow.loggedArtifacts"]) == [{"path": "samples.json", "type": "table"}]
