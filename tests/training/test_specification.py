"""A process group's specification has what its work reads of a recipe."""

import json

import pytest

from ratchet.infra.recipe import load_recipe
from ratchet.training.specification import TrainingSpec
from ratchet.verifiers.errors import RatchetError


def test_the_work_on_a_stage_knows_no_other_stage_and_is_read_back_the_same(tmp_path):
    recipe = load_recipe("tiny")
    first, second, *_ = recipe.training.stages
    spec = TrainingSpec.of(recipe, kind="stage", stage=second.name, work_dir=tmp_path, model_dir="model")
    (tmp_path / "spec.json").write_text(spec.model_dump_json())
    assert TrainingSpec.read(tmp_path / "spec.json") == spec and spec.stage == second
    assert first.name not in spec.model_dump_json() and "curation" not in json.loads(spec.model_dump_json())


def test_a_specification_with_a_whole_recipe_is_read(tmp_path):
    recipe = load_recipe("tiny")
    name, file = recipe.training.stages[1].name, tmp_path / "spec.json"
    facts = {"kind": "stage", "stage": name, "work_dir": str(tmp_path), "recipe": recipe.model_dump(mode="json")}
    file.write_text(json.dumps(facts))
    assert TrainingSpec.read(file) == TrainingSpec.of(recipe, kind="stage", stage=name, work_dir=tmp_path)
    file.write_text(json.dumps({**facts, "stage": "missing"}))
    with pytest.raises(RatchetError, match="tiny has no stage 'missing'"):
        TrainingSpec.read(file)


@pytest.mark.parametrize(("model", "on_hub"), [("Qwen/Qwen2.5-0.5B", True), ("gpt2", True), ("/no/model", False),
                                               ("./model", False), ("here", False)])  # fmt: skip
def test_a_model_of_the_hub_is_no_missing_file(tmp_path, monkeypatch, model, on_hub):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    recipe = load_recipe("tiny")
    stage = recipe.training.stages[0].name
    spec = TrainingSpec.of(recipe, kind="stage", stage=stage, work_dir=tmp_path, model_dir=model)
    assert ("model_dir" not in spec.files) == on_hub
