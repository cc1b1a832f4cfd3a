"""A stage's folder of checkpoints, for processes that do not import torch."""

import shutil
from pathlib import Path

CHECKPOINTS = "checkpoints"


def checkpoint_steps(directory: Path) -> dict[int, Path]:
    """The checkpoints by step, in order."""
    names = {path.name.removeprefix("step-"): path for path in sorted(directory.glob("step-*"))}
    return {int(number): path for number, path in names.items() if number.isdigit()}


def keep_newest(directory: Path, count: int) -> None:
    """Delete all but the `count` newest checkpoints of a finished stage, and what else is in the folder."""
    kept = list(checkpoint_steps(directory).values())[-count:] if count else []
    for path in directory.glob("*") if kept else ():
        if path.is_file():
            path.unlink()
        elif path not in kept:
            shutil.rmtree(path)
    if not kept:
        shutil.rmtree(directory, ignore_errors=True)
