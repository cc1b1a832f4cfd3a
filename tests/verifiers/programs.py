"""Programs that the tests judge, by name, and rows of theirs: those of the files beside this one."""

import json
from pathlib import Path
from typing import Any

import yaml


def programs(file: str) -> dict[str, Any]:
    return yaml.load(Path(__file__).with_name(f"{file}.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)


def rows(file: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(__file__).with_name(f"{file}.jsonl").read_text("utf-8").splitlines()]


LEGAL: dict[str, str] = programs("sandbox_legal")
FORGE: dict[str, str] = programs("sandbox_forge")["forge"]
