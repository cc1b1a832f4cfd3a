"""Every recipe's configuration, as DeepSpeed's own class reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ratchet.infra.recipe import load_recipe
from ratchet.infra.recipe.training import Hardware, Optimizer

RECIPES = sorted(Path(__file__).parents[2].glob("recipes/**/*.yaml"))


def read(hardware: Hardware, optimizer: Optimizer, copied_among: int = 1):
    """Raises ValueError for a key of the first level that DeepSpeed does not know: it would be ignored."""
    from deepspeed.runtime import constants
    from deepspeed.runtime.config import DeepSpeedConfig

    from ratchet.training.policy import configuration

    asked = configuration(hardware, optimizer, copied_among)
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
    assert config.zero_config.overlap_comm == (hardware.sharding == 3)
    assert config.zero_config.zero_hpz_partition_size == 1


def test_an_optimizer_beside_the_gpu():
    for sharded in ({"zero_stage": 2}, {"dtype": "bfloat16"}):  # which is sharded as by zero_stage 2
        offloaded = Hardware(**sharded, advanced={"cpu_offload": True})
        assert read(offloaded, Optimizer()).zero_config.offload_optimizer


def test_a_copy_on_each_machine_and_overlapped_gradients():
    shared = Hardware(zero_stage=3, dtype="bfloat16", machines=4, processes=8)
    zero = read(shared, Optimizer(), copied_among=shared.copied_among(15e9, 80e9, 4, 8)).zero_config
    assert (zero.zero_hpz_partition_size, zero.overlap_comm) == (8, True)
    assert shared.copied_among(15e9, 80e9, 3, 8) == 1, "few machines"
    assert shared.copied_among(80e9, 80e9, 4, 8) == 1, "much memory"
    assert shared.copied_among(15e9, None, 4, 8) == 1, "a CPU"
    for asked, copies in ((True, 8), (False, 1)):
        chosen = Hardware(zero_stage=3, machines=4, processes=8, advanced={"hierarchical": asked})
        assert chosen.copied_among(80e9, None, 4, 8) == copies
        assert chosen.copied_among(80e9, None, 1, 8) == 1, "one machine"
    assert Hardware(zero_stage=2, machines=4, processes=8).copied_among(15e9, 80e9, 4, 8) == 1
    overlapped = Hardware(zero_stage=1, dtype="bfloat16", advanced={"overlap_gradients": True})
    assert read(overlapped, Optimizer()).zero_config.overlap_comm
    for wrong in ({"zero_stage": 3}, {}):
        with pytest.raises(ValueError, match="overlap_gradients is for ZeRO 1 and 2"):
            Hardware(**wrong, advanced={"overlap_gradients": True})
    with pytest.raises(ValueError, match="needs zero_stage 3"):
        Hardware(zero_stage=2, advanced={"hierarchical": True})
