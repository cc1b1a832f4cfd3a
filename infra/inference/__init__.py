"""Inference engines behind one protocol."""

from pathlib import Path

KNOWN_MODELS = Path(__file__).with_name("known_models.yaml")
"""The shape of each model that shipped recipes start from, by its name."""
