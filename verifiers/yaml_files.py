"""YAML files, parsed by libyaml where PyYAML has it: every process that starts reads several."""

from pathlib import Path
from typing import Any

import yaml

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_yaml(file: Path) -> Any:
    """The data of a YAML file. Raises yaml.YAMLError if it is none."""
    return yaml.load(file.read_text(encoding="utf-8"), _Loader)  # a safe loader
