"""Programs that the tests judge, by name: those of the YAML files beside this one."""

from pathlib import Path
from typing import Any

import yaml


def programs(file: str) -> dict[str, Any]:
    return yaml.load(Path(__file__).with_name(f"{file}.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)


LEGAL: dict[str, str] = programs("sandbox_legal")
FORGE: dict[str, str] = programs("sandbox_forge")["forge"]
