"""The schema that an editor checks recipe files with."""

import jsonschema
import pytest
import yaml

from ratchet.infra.recipe.load import SHIPPED, _Loader, shipped_recipes
from ratchet.infra.recipe.schema import recipe_schema


def faults(recipe: dict) -> list[str]:
    """Each fault with its place; of a section with a short form, the faults of both forms."""
    errors = list(jsonschema.Draft202012Validator(recipe_schema()).iter_errors(recipe))
    for error in errors:
        errors.extend(error.context)
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in errors]


@pytest.mark.parametrize("name", shipped_recipes())
def test_every_shipped_recipe_is_valid(name):
    assert not faults(yaml.load((SHIPPED / f"{name}.yaml").read_text(encoding="utf-8"), _Loader))


def test_a_misspelled_field_and_a_wrong_type_are_found():
    stage = {"name": "math", "domain": "math", "max_response_tokens": 24, "steps": "many", "rolouts": 4}
    shown = " ".join(faults({"name": "x", "training": {"engine": "vllm", "stages": [stage]}}))
    assert "rolouts" in shown and "training.stages.0.steps" in shown
    by_name = {"stages": {"math-36": {"steps": 1}}}
    assert faults({"extends": "tiny", "set": ["seed=1"], "training": by_name, "on_cpu": {"training": by_name}}) == []


def test_fields_have_their_descriptions():
    stage = recipe_schema()["$defs"]["Stage"]["anyOf"][1]["properties"]
    assert "may not forget" in stage["keep"]["description"]
