"""verl's configuration with the overrides of each stage. Arguments: directories of stages. Prints what was composed."""

import json
import sys
from pathlib import Path

from hydra import compose, initialize_config_module
from omegaconf import OmegaConf
from verl.utils.config import omega_conf_to_dataclass


def main(*directories):
    printed = {}
    with initialize_config_module("verl.trainer.config", version_base=None):
        for directory in map(Path, directories):
            data = f"data.train_files={directory}/train.parquet"
            lines = (directory / "overrides.txt").read_text().splitlines()
            config = compose("ppo_trainer", [*lines, data, "actor_rollout_ref.model.path=m"])
            omega_conf_to_dataclass(config.algorithm)  # refuses values of a wrong type
            printed[directory.name] = OmegaConf.to_container(config, resolve=True)
    print(json.dumps(printed))


if __name__ == "__main__":
    main(*sys.argv[1:])
