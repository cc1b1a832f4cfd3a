"""Every recipe's configuration, as DeepSpeed's own class reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ratchet.infra.recipe import load_recipe
from ratchet.infra.recipe.training import Hardware, Optimizer

RECIPES = sorted(Path(__file__).parents[2].glob("recipes/**/*.yaml"))


def read(hardware: Hardware, optimizer: Optimizer, **changes):
    """Raises ValueError for a key of the first level that DeepSpeed does not know: it would be ignored."""
    from deepspeed.runtime import constants
    from deepspeed.runtime.config import DeepSpeedConfig

    from ratchet.training.policy import configuration

    asked = configuration(hardware, optimizer) | changes
    if unknown := asked.keys() - {"zero_optimization"} - {v for v in vars(constants).values() if isinstance(v, str)}:
        raise ValueError(f"DeepSpeed knows no {unknown}")
    return DeepSpeedConfig(asked)


@pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.stem)
def test_a_recipes_configuration(file):
    training = load_recipe(str(file)).training
    hardware, optimizer = training.hardware, training.advanced.optimizer
    config = read(hardware, optimizer)
    assert config.zero_optimization_stage == hardware.sharding
    assert config.bfloat16_config.enabled == (hardware.dtype == "bfloat16")
    assert config.grad_accum_dtype == "fp32" and not config.managed_gradient_accumulation
    assert config.zero_allow_untested_optimizer and not config.zero_force_ds_cpu_optimizer
    assert config.gradient_clipping == (optimizer.max_gradient_norm if hardware.sharding else 0)
    offload = config.zero_config.offload_optimizer
    assert (offload is not None) == hardware.advanced.cpu_offload


def test_what_deepspeed_refuses_or_would_ignore():
    hardware, optimizer = Hardware(zero_stage=3), Optimizer()
    for wrong in ({"zero_optimization": {"stage": 4}}, {"zero_optimization": {"stagee": 3}}, {"gradient_clip": 1.0}):
        with pytest.raises(ValueError, match=r"stage|clip"):
            read(hardware, optimizer, **wrong)
    assert read(Hardware(zero_stage=2, advanced={"cpu_offload": True}), optimizer).zero_config.offload_optimizer
