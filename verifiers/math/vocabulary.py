"""Notation, words and units as data: `vocabulary.yaml`."""

from pathlib import Path
from typing import Any

from ratchet.verifiers.yaml_files import load_yaml

VOCABULARY: dict[str, Any] = load_yaml(Path(__file__).with_name("vocabulary.yaml"))
