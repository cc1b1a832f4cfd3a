"""One name resolver for all commands, and the JSON of `ratchet show`."""

import json
import re
import sys

import pytest

from ratchet.cli.terminal import console
from ratchet.data_curation.read import read_problems
from ratchet.infra.recipe import load_recipe
from ratchet.infra.settings import Settings, load_settings
from ratchet.infra.store.artifacts import Artifact, ArtifactStore
from ratchet.infra.tracking.events import Tracking
from ratchet.infra.tracking.run_record import find_run, get_run
from ratchet.tasks.step import write_splits
from ratchet.verifiers.errors import RatchetError
from tests.cli.test_gc import finished
from tests.flows.commands import in_process
from tests.tasks.test_registration import made


def test_show_prints_whole_names_and_facts_as_json(tmp_path):
    store = ArtifactStore(tmp_path / "artifacts")
    raw = finished(store, "raw" * 30)
    made = finished(store, "made", [raw])
    listed = json.loads(in_process("show", "--json", "--home", tmp_path))
    assert [(each["artifact"], each["key"], each["counts"]["kept"]) for each in listed] == [
        (raw.ref, raw.key, 1), (made.ref, made.key, 1),
    ]  # fmt: skip
    one = json.loads(in_process("show", "problems/ma", "--json", "--home", tmp_path))
    assert one["artifact"] == made.ref and one["manifest"]["key"] == made.key
    assert one["ancestors"] == [raw.facts] and one["path"] == str(made.path)


def test_a_run_at_work_is_shown_with_its_time_beside_the_plan(tmp_path):
    recipe = load_recipe("tests/flows/mini.yaml")
    tracking = Tracking(Settings(tmp_path, "", sys.executable, trackers=()), recipe.name)
    root = tracking.start_run("mini-seed1-pipeline", tags={"ratchet.flow": "pipeline"})
    tracking.event("text", root, text=recipe.model_dump_json(), name="recipe.json")
    first, second = (Artifact("checkpoint", name, name, tmp_path / name) for name in ("math-24", "code-32"))
    done = tracking.start_run("train math-24", parent=root, output=first)
    tracking.metrics(done, {"reward": 0.5}, step=2)
    tracking.event("end", done, status="FINISHED")
    tracking.metrics(tracking.start_run("train code-32", parent=root, output=second), {"reward": 0.5}, step=1)
    evaluated = Artifact("evaluation", "start", "start", tmp_path / "start")
    failed = tracking.start_run("evaluate start", parent=root, output=evaluated)
    tracking.event("end", failed, status="FAILED")
    shown = in_process("show", tracking.run_id, "--price", "2", "--home", tmp_path)
    assert f"{tracking.run_id}: running for " in shown and "unfinished: train code-32, evaluate start\n" in shown
    rows = {line.split()[0]: line.split()[1:] for line in shown.splitlines() if line}
    assert (rows["math-24"][0], rows["code-32"][0], rows["evaluations"][0]) == ("2/2", "1/2", "0/2")
    assert rows["code-32"][2] == rows["code-32"][4] == "s", "time so far, and left"
    so_far, planned = map(float, rows["total"][-2:])
    assert so_far == 0 < planned < 1, "a plan counts starts"
    total = json.loads(in_process("show", tracking.run_id, "--price", "2", "--json", "--home", tmp_path))["stages"][-1]
    assert (round(total["cost"], 2), round(total["planned_cost"], 2)) == (so_far, planned)
    tracking.close(wait_s=0)
    assert f"{tracking.run_id}: stopped after " in in_process("show", tracking.run_id, "--home", tmp_path)


def test_a_continued_stage_and_a_domain_that_is_elsewhere_are_shown_in_the_list_too(tmp_path):
    recipe = load_recipe("tests/flows/mini.yaml").model_dump(mode="json")
    recipe["training"]["stages"][0]["mix"] = {"sums": 1.0}  # a domain of a file that is not here
    tracking = Tracking(Settings(tmp_path, "", sys.executable, trackers=()), "mini")
    root = tracking.start_run("mini-seed1-pipeline", tags={"ratchet.flow": "pipeline"})
    tracking.event("text", root, text=json.dumps(recipe), name="recipe.json")
    stage = tracking.start_run("train math-24", parent=root, output=Artifact("checkpoint", "m", "m", tmp_path / "m"))
    began = json.loads((tmp_path / "tracking" / f"{root}.jsonl").read_text().splitlines()[-1])["time"]
    for step in range(1, 6):
        at = began + (1 if step > 3 else -100)  # the first three are of an earlier attempt
        tracking.event("metrics", stage, values={"reward": 0.5}, step=step, at=at)
    shown = in_process("show", root, "--home", tmp_path)
    assert "There is no domain 'sums'" in shown and re.search(r"math-24 +5/2", shown)
    assert find_run(load_settings(tmp_path), root).steps[0].training_steps == (4, 5)
    [listed] = json.loads(in_process("show", "runs", "--json", "--home", tmp_path))
    assert (listed["run"], listed["name"], listed["state"]) == (root, "mini-seed1-pipeline", "running for")
    assert f"{root}  mini-seed1-pipeline  " in in_process("show", "runs", "--home", tmp_path)
    with pytest.raises(RatchetError, match=rf"{root} \(mini-seed1-pipeline\)\. `ratchet show runs` lists all"):
        get_run(load_settings(tmp_path), "other")
    tracking.close(wait_s=0)


def test_runs_are_compared_two_at_a_time_also_where_a_score_has_no_error(tmp_path):
    settings, store, runs = load_settings(tmp_path), ArtifactStore(tmp_path / "artifacts"), []
    for value in (0.5, 1.0):
        point = {"value": value, "standard_error": None, "low": None, "high": None}
        scores = {"settings": {}, "benchmarks": {"one-question": {"pass_at": {"1": point}}}}
        tracking = Tracking(settings, "mini")
        root = tracking.start_run("mini-seed0-pipeline")
        tracking.start_run("evaluate start", parent=root, output=made(store, "evaluation", "start", [], scores))
        tracking.close(wait_s=0)
        runs.append(tracking.run_id)
    shown = in_process("compare", *runs, "--home", tmp_path)
    assert re.search(r"start one-question pass@1 +0\.500 ± – +1\.000 ± –", shown)
    for wrong in ((*runs, runs[0]), (*runs, "--allow-mismatch")):
        with pytest.raises(RatchetError, match="two at a time"):
            in_process("compare", *wrong, "--home", tmp_path)


def test_every_beginning_of_a_name_or_key_and_every_path_inside_is_enough(tmp_path):
    store = ArtifactStore(tmp_path / "artifacts")
    made, other = finished(store, "math"), finished(store, "math-rules")
    for what in (made.ref, made.key, made.key[:6], "math", "problems/math", made.path, made.kept):
        assert made.ref in in_process("show", what, "--home", tmp_path)
    assert other.ref in in_process("show", "problems/math-r", "--home", tmp_path)
    with pytest.raises(RatchetError, match=rf"'problems/mat' matches 2 artifacts: .*{re.escape(other.ref)}.*Name one"):
        in_process("show", "problems/mat", "--home", tmp_path)
    with pytest.raises(RatchetError, match="No artifact 'nope'"):
        in_process("show", "nope", "--home", tmp_path)
    with pytest.raises(RatchetError, match="has made pass_rates yet"):
        in_process("show", "pass_rates", "--home", tmp_path)
    newer = finished(store, "math", [other])
    shown = in_process("show", "problems/math", "--home", tmp_path)
    assert str(newer.path) in shown and str(made.path) not in shown
    assert "2 versions" in shown and made.ref in shown
    as_json = in_process("show", "problems/math", "--json", "--home", tmp_path)
    assert json.loads(as_json[as_json.index("{") :])["artifact"] == newer.ref  # behind the note on stderr


def test_the_reason_of_a_dropped_row_is_whole_in_a_narrow_terminal(tmp_path, monkeypatch):
    settings = load_settings(tmp_path)
    target = ArtifactStore(settings.artifacts).locate("problems", "math-normalize", "a" * 64)
    rows = [{"question": question, "answer": "12"} for question in ("What is it?", " ")]
    (tmp_path / "raw.jsonl").write_text("\n".join(map(json.dumps, rows)))
    split = read_problems(tmp_path / "raw.jsonl", "math")
    with ArtifactStore(settings.artifacts).draft(target, resumable=False) as draft:
        write_splits(draft, [split], 1.0)
        ArtifactStore(settings.artifacts).finish(
            target, draft, step="normalize", step_version=1, parameters={}, inputs=[], started_at=0
        )
    monkeypatch.setattr(console, "_width", 40)
    shown = in_process("show", target.ref, "--home", tmp_path)
    assert "raw:1  (no statement)\n    field question, file raw.jsonl," in shown
    assert "reason blank" in shown and "…" not in shown
