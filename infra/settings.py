"""What belongs to this machine and not to a recipe: where things are kept, and who is asked.

None of it enters a cache key: moving the store or the tracking server changes no result.
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from ratchet.infra.errors import RatchetError


@dataclass(frozen=True)
class Settings:
    home: Path
    """Everything Ratchet writes lies below it (`RATCHET_HOME`, default `.ratchet` here)."""
    tracking_uri: str
    """MLflow (`MLFLOW_TRACKING_URI`, default SQLite in the home)."""
    python: str
    """The interpreter that trainers and evaluators run under (`RATCHET_PYTHON`): may be another environment's."""
    launcher: str = ""
    """What runs a command once on each machine of a process group (`RATCHET_LAUNCHER`, docs/training.md)."""
    slurm: Path | None = None
    """The head of the batch scripts of SLURM jobs, in which process groups then run (`RATCHET_SLURM`)."""

    @property
    def artifacts(self) -> Path:
        return self.home / "artifacts"

    @property
    def journals(self) -> Path:
        return self.home / "tracking"

    @property
    def prefect_home(self) -> Path:
        return self.home / "prefect"

    @property
    def logs(self) -> Path:
        return self.home / "logs"


def load_settings(home: str | Path | None = None) -> Settings:
    """Raises RatchetError when the home is a file, or below one."""
    root = Path(home or os.environ.get("RATCHET_HOME") or ".ratchet").expanduser().resolve()
    for place in (root, *root.parents):
        if place.exists() and not place.is_dir():
            raise RatchetError(f"{place} is a file: --home (or RATCHET_HOME) takes the directory to keep things in.")
    slurm = os.environ.get("RATCHET_SLURM")
    return Settings(
        home=root,
        tracking_uri=os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{root / 'mlflow.db'}",
        python=os.environ.get("RATCHET_PYTHON") or sys.executable,
        launcher=os.environ.get("RATCHET_LAUNCHER", ""),
        slurm=Path(slurm).expanduser().resolve() if slurm else None,
    )
