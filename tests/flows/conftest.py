import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MINI = ROOT / "tests" / "flows" / "mini.yaml"
Ratchet = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def ratchet() -> Ratchet:
    """The command line as a user has it, in a process of its own."""

    def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "flows.cli", *map(str, arguments)],
            cwd=ROOT, capture_output=True, text=True, env={**os.environ, **environment}, timeout=600,
        )  # fmt: skip

    return run


@pytest.fixture(scope="session")
def finished_home(ratchet: Ratchet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which the mini pipeline has run to its end."""
    home = tmp_path_factory.mktemp("home")
    done = ratchet("run", MINI, "--home", home)
    assert done.returncode == 0, done.stdout + done.stderr
    return home
