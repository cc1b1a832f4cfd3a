"""The rules that make a recipe smaller, the local Hub, and a rehearsal from end to end (at night)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ratchet.infra.recipe import load_recipe
from ratchet.infra.recipe.load import shipped_recipes
from ratchet.infra.store.artifacts import Artifact
from ratchet.rehearsal.hub import hub
from ratchet.rehearsal.loopback import serving
from ratchet.rehearsal.mechanisms import Evidence, mechanisms
from ratchet.rehearsal.samples import ROWS, collect, on_hub
from ratchet.rehearsal.smaller import BATCH, smaller
from ratchet.verifiers.errors import RatchetError

TRANSFORMERS = {"kind": "transformers"}
ROW = '{"problem": "p", "answer": "1"}\n'


@pytest.mark.parametrize("name", shipped_recipes())
def test_every_shipped_recipe_becomes_smaller_and_stays_valid(name):
    recipe = load_recipe(name)
    smaller(recipe, {}, recipe.training.hardware.processes, TRANSFORMERS)
    small, changes = smaller(recipe, {}, 2, TRANSFORMERS)
    assert small.training.hardware.ranks <= 2 and all(change.before != change.after for change in changes)
    for before, after in zip(recipe.training.stages, small.training.stages, strict=True):
        assert after.max_response_tokens <= max(32, before.max_response_tokens // 128)
        assert after.prompts_per_batch <= BATCH and after.steps <= before.steps
        assert (after.mix, after.loss, after.advantage, after.truncation) == (
            before.mix, before.loss, before.advantage, before.truncation
        )  # fmt: skip
        assert [i.when.trigger[0] for i in after.interventions] == [i.when.trigger[0] for i in before.interventions]


def test_schedules_reach_their_last_value_before_a_plateau_can_end_the_stage():
    recipe, rows = load_recipe("acereason-7b"), {"code": 24}
    stage = smaller(recipe, rows, 2, TRANSFORMERS)[0].training.stages[4]
    assert isinstance(stage.temperature, tuple)
    last_begins = (len(stage.temperature) - 1) * rows["code"] // stage.prompts_per_batch + 1
    assert last_begins < 2 * stage.validate_every <= stage.steps


@pytest.mark.parametrize(("name", "settings"), [
    ("acereason-7b", ["training.stages.0.lr_scheduler_type=linear", "training.stages.0.warmup_steps=20"]),
    ("7b-8gpu", ["training.warm_start={files: [t.jsonl], traces: 20000, batch_size: 512}"]),
])  # fmt: skip
def test_what_must_be_below_a_reduced_count_is_reduced_too(name, settings):
    training = smaller(load_recipe(name, settings), {}, 2, TRANSFORMERS)[0].training
    start, stage = training.warm_start, training.stages[0]
    assert start.batch_size == 16 if start else 0 < stage.warmup_steps <= stage.steps / 4


@pytest.mark.parametrize("name", ["tiny", "acereason-7b", "prorl-1.5b"])
def test_where_nothing_has_run_no_mechanism_was_seen(tmp_path, name):
    table = mechanisms(load_recipe(name), Evidence(tmp_path, []))
    assert len(table) > 40 and not [mechanism for mechanism in table if mechanism.seen]


@pytest.mark.parametrize(("credits", "seen"), [((0.2, 0.0), True), ((0.0, 0.0), False)])
def test_graded_rewards_are_seen_in_the_stage_or_in_another(tmp_path, credits, seen):
    evidence, recipe = Evidence(tmp_path, []), load_recipe("prorl-1.5b")
    for stage, credit in zip(recipe.training.stages, credits, strict=False):
        artifact = Artifact("checkpoint", stage.name, stage.name, tmp_path / stage.name)
        artifact.path.mkdir()
        for empty in ("decisions.jsonl", "samples.jsonl"):
            (artifact.path / empty).touch()
        steps = [
            {"pass_rate": 0.5, "reward": 0.5, "truncated": 0.0, "code/pass_rate": 0.5, "code/truncated": 0.25}
            | {"code/reward": 0.5 + more - stage.unfinished_penalty * 0.25}
            for more in (0.0, credit)
        ]  # fmt: skip
        (artifact.path / "metrics.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
        evidence.artifacts["checkpoint", stage.name] = artifact
    rows = {row.name: row for row in mechanisms(recipe, evidence)}
    first, second = (rows[f"{stage.name}: graded rewards: code"] for stage in recipe.training.stages[:2])
    assert first.seen is second.seen is seen
    assert not seen or second.evidence == "no credit beyond the pass rate here; up to 0.200 in run-1"


def test_a_local_hub_serves_the_hubs_own_client(tmp_path):
    data = tmp_path / "hub/datasets/owner/set/data"
    data.mkdir(parents=True)
    (data / "train.jsonl").write_text('{"problem": "What is 1 + 1?", "answer": "2"}\n')
    code = (
        "from ratchet.data_curation.readers.sources import local_files; print(local_files('owner/NAME')[0].read_text())"
    )
    with serving(hub(tmp_path / "hub")) as address:
        environment = {**os.environ, "HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "0"}
        present, absent = (
            subprocess.run(
                [sys.executable, "-P", "-c", code.replace("NAME", name)],
                env=environment,
                capture_output=True,
                text=True,
            )
            for name in ("set", "none")
        )
    assert json.loads(present.stdout)["answer"] == "2", present.stderr
    assert absent.returncode and "the Hub does not provide it (404" in absent.stderr


def test_samples_are_the_users_or_the_first_rows_and_a_missing_set_says_what_to_do(tmp_path, monkeypatch):
    (tmp_path / "rows.jsonl").write_text(ROW * 2 * ROWS)
    recipe = load_recipe("own-data", ["curation.math.inputs=[owner/set]", "evaluation.after=[]"])
    assert on_hub(recipe) == {"owner/set": ["owner/set"]}
    monkeypatch.setattr("ratchet.rehearsal.samples.local_files", lambda path: [tmp_path / "rows.jsonl"])
    collect(recipe, None, False, tmp_path / "first")
    assert len((tmp_path / "first/datasets/owner/set/rows.jsonl").read_text().splitlines()) == ROWS
    collect(recipe, tmp_path / "first", False, tmp_path / "second")
    assert (tmp_path / "second/datasets/owner/set/rows.jsonl").is_file()

    def unavailable(path: str) -> list[Path]:
        raise RatchetError(f"{path}: the Hub does not provide it.")

    monkeypatch.setattr("ratchet.rehearsal.samples.local_files", unavailable)
    with pytest.raises(RatchetError, match="SAMPLES/datasets/owner/set/FILE"):
        collect(recipe, None, False, tmp_path / "third")


def test_files_of_ones_own_are_read_in_part_and_absent_ones_are_asked_for(tmp_path):
    train, test, absent = (tmp_path / name for name in ("train.jsonl", "test.jsonl", "absent.jsonl"))
    train.write_text(ROW * 2 * ROWS)
    test.write_text(ROW)
    recipe = load_recipe("own-data", [f"curation.math.inputs=[{train}]", f"curation.math.benchmarks=[{test}]"])
    own = collect(recipe, None, False, tmp_path / "hub").curation["math"]
    assert [Path(path).name for path in (*own.inputs, *own.benchmarks)] == ["train.jsonl", "test.jsonl"]
    assert [len(Path(path).read_text().splitlines()) for path in (*own.inputs, *own.benchmarks)] == [ROWS, 1]

    recipe = load_recipe("own-data", [f"curation.math.inputs=[{absent}]"])
    with pytest.raises(RatchetError, match=r"SAMPLES/files/absent\.jsonl"):
        collect(recipe, None, False, tmp_path / "second")
    (tmp_path / "samples/files").mkdir(parents=True)
    train.rename(tmp_path / "samples/files/absent.jsonl")
    assert collect(recipe, tmp_path / "samples", False, tmp_path / "third").curation["math"].inputs != (str(absent),)

    nothing = recipe.model_copy(update={"name": "mine", "curation": load_recipe("own-data").curation})
    with pytest.raises(RatchetError, match=r"curation\.math\.inputs is empty"):
        collect(nothing, None, False, tmp_path / "fourth")


@pytest.mark.parametrize("name", ["own-data", "word-problems-smollm2"])
def test_recipes_that_leave_files_to_their_user_have_bundled_ones(name, tmp_path):
    recipe = collect(load_recipe(name), None, False, tmp_path)
    (own,) = recipe.curation.values()
    paths = [*own.inputs, *own.benchmarks, *(benchmark.path for benchmark in recipe.evaluation.benchmarks)]
    assert len(paths) == 3 and all(Path(path).is_file() and Path(path).is_relative_to(tmp_path) for path in paths)
