import subprocess
import sys

import pytest
from pydantic import ValidationError

from infra.errors import RatchetError
from infra.recipe import Recipe, load_recipe
from infra.recipe.load import SHIPPED

RECIPES = sorted(str(path.relative_to(SHIPPED).with_suffix("")) for path in SHIPPED.rglob("*.yaml"))


@pytest.mark.parametrize("name", RECIPES)
def test_every_shipped_recipe_loads_and_survives_a_round_trip(name):
    recipe = load_recipe(name)
    assert Recipe.model_validate(recipe.model_dump(mode="json")) == recipe


def test_recipes_are_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        load_recipe("tiny").seed = 3


def test_overrides_reach_lists_and_are_parsed_as_yaml():
    recipe = load_recipe("tiny", ["training.stages.0.steps=20", "seed=3", "curation.math.inputs=[a.json, b.json]"])
    assert recipe.training.stages[0].steps == 20
    assert recipe.seed == 3
    assert recipe.curation.math.inputs == ("a.json", "b.json")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.stages.0.stps=3", r"training\.stages\.0\.stps: unknown key\. Did you mean 'steps'"),
        ("curation.math.decontaminate.covrage=0.1", r"Did you mean 'coverage'"),
        ("traning.x=1", r"traning: unknown key\. Did you mean 'training'"),
        ("model.grow.layer=2", r"Did you mean 'layers'"),
        ("training.stages.9.steps=1", r"'9' must be a number from 0 to 5"),
        ("training.stages.0.steps=many", r"training\.stages\.0\.steps: .*integer.*'many'"),
        ("evaluation.after=[nowhere]", r"evaluation\.after names 'nowhere'"),
        ("training.stages.1.name=math-36", r"stage names must be unique"),
        ("seed", r"write key\.path=value"),
        ("seed.x=1", r"has no fields"),
    ],
)
def test_a_mistake_is_named_with_its_field(override, message):
    with pytest.raises(RatchetError, match=message):
        load_recipe("tiny", [override])


def test_a_domain_keeps_its_ngram_when_another_field_is_set():
    recipe = Recipe.model_validate({"name": "x", "curation": {"code": {"decontaminate": {"preset": "paper"}}}})
    assert recipe.curation.code.decontaminate.ngram == 14


def test_files_that_are_no_recipes(tmp_path):
    with pytest.raises(RatchetError, match="Did you mean 'tiny'"):
        load_recipe("tinny")
    broken = tmp_path / "broken.yaml"
    broken.write_text("name: [")
    with pytest.raises(RatchetError, match=r"broken\.yaml is not valid YAML"):
        load_recipe(broken)
    broken.write_text("- a list")
    with pytest.raises(RatchetError, match="a recipe is a mapping"):
        load_recipe(broken)


def test_reading_a_recipe_imports_nothing_heavy():
    code = (
        "import sys; from infra.recipe import load_recipe; load_recipe('tiny'); "
        "print([m for m in ('torch', 'prefect', 'mlflow', 'transformers', 'pandas', 'pyarrow') if m in sys.modules])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=SHIPPED.parent
    )
    assert answer.stdout.strip() == "[]"


def test_acereason_has_the_numbers_of_the_paper():
    stages = load_recipe("acereason-7b").training.stages
    assert [s.max_response_tokens for s in stages] == [8192, 16384, 24576, 24000, 32768, 32768]
    assert [s.domain for s in stages] == ["math", "math", "math", "code", "code", "math"]
    assert [s.rollouts for s in stages] == [8, 16, 16, 8, (8, 16), 16]
    assert [s.learning_rate for s in stages] == [1e-6, 1e-6, 1e-6, 5e-6, 5e-6, 1e-6]
    assert [s.max_pass_rate for s in stages] == [None, None, 6 / 16, None, None, 6 / 16]
    assert {s.prompts_per_batch for s in stages} == {128}
    assert stages[3].max_difficulty == 5 and stages[4].drop_easy_each_epoch
    assert load_recipe("acereason-14b").training.stages[3].max_difficulty == 7


def test_an_engine_may_be_named_alone_and_settings_that_would_do_nothing_are_refused():
    assert load_recipe("tiny", ["training.engine=vllm"]).training.engine.kind == "vllm"
    served = load_recipe("tiny", ["training.engine={kind: vllm, placement: service, weight_transfer: gloo}"])
    assert load_recipe("tiny", [f"training.engine={served.training.engine.model_dump_json()}"]) == served
    with pytest.raises(RatchetError, match="tensor_parallel, weight_transfer: only"):
        load_recipe("tiny", ["training.engine={kind: vllm, weight_transfer: nccl, tensor_parallel: 2}"])
