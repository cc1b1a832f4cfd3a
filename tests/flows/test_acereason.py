"""The recipes of AceReason plan and are estimated where there is no network."""

import pytest

from ratchet.infra.inference.models import read_config
from ratchet.infra.recipe import load_recipe
from ratchet.training.shape import Shape
from tests.flows.commands import planned

PARAMETERS = {
    "acereason-1.5b": 1.777e9,
    "acereason-7b": 7.62e9,
    "acereason-14b": 14.77e9,
    "acereason-32b-math": 32.76e9,
}


@pytest.fixture(autouse=True)
def no_network(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # where nobody answers
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_shape_of_each_start_model_is_shipped(name):
    shape = Shape.of(read_config(load_recipe(name).model.path).to_dict())
    assert shape.parameters == pytest.approx(PARAMETERS[name], rel=0.001)  # as the Hub counts them


@pytest.mark.parametrize("name", ["acereason-7b", "acereason-32b-math"])
def test_it_plans(name, tmp_path):
    recipe = load_recipe(name)
    _, titles, faults = planned(recipe, tmp_path)
    assert [f"evaluate {label}" for label in recipe.evaluation.after] == [t for t in titles if t.startswith("evaluate")]
    assert sum("files are not downloaded yet" in fault for fault in faults) == 1
