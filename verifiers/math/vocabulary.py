"""Notation, words and units as data: `vocabulary.yaml`."""

from pathlib import Path
from typing import Any

import yaml

VOCABULARY: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("vocabulary.yaml").read_text(encoding="utf-8"))
