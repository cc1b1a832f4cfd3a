"""Inference engines behind one protocol."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

KNOWN_MODELS = Path(__file__).with_name("known_models.yaml")
"""The shape of each model that shipped recipes start from, by its name."""
UNUSED_LIBRARIES = ("mlflow", "scipy", "sklearn")
"""Libraries that DeepSpeed and transformers import if installed, for features not used here: they take half of the
start-up time."""


def hide_unused_libraries() -> None:
    """Make the unused libraries impossible to import in this process, unless they are imported already."""
    for name in UNUSED_LIBRARIES:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]


@contextmanager
def unused_libraries_hidden() -> Iterator[None]:
    """Hide the unused libraries while the block runs, for a process that needs them later."""
    hidden = [name for name in UNUSED_LIBRARIES if name not in sys.modules]
    hide_unused_libraries()
    try:
        yield
    finally:
        for name in hidden:
            sys.modules.pop(name, None)
