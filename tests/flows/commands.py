"""The command line in this process and in one of its own, and a home in which a small pipeline has run."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import pytest
from filelock import FileLock
from typer.testing import CliRunner

from ratchet.cli.main import app, main
from ratchet.infra.settings import load_settings
from ratchet.infra.tracking.events import start_mirror

ROOT = Path(__file__).resolve().parents[2]
MINI = ROOT / "tests" / "flows" / "mini.yaml"
OURS = ("cli", "data_curation", "evaluation", "flows", "infra", "ratchet", "tasks", "training", "verifiers")
OTHERS = (
    "datasets", "fastapi", "logging", "mlflow", "prefect", "pyarrow", "random", "recipes", "sitecustomize", "tasks",
    "tokenize", "torch", "uvicorn", "yaml",
)  # fmt: skip
PLANTED = {
    "HF_TOKEN": "hf_planted_token", "OPENAI_API_KEY": "sk-planted-openai", "AWS_SECRET_ACCESS_KEY": "planted-s3-secret",
    "RATCHET_JUDGE_TOKEN": "planted-judge", "RATCHET_ENGINE_TOKEN": "planted-engine", "WANDB_API_KEY": "planted-other",
}  # fmt: skip
"""In the environment of the finished run: tests/cli/test_secrets.py looks for them in all that it left."""
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Ratchet = Callable[..., "subprocess.CompletedProcess[str]"]


def in_process(*arguments: str | Path) -> str:
    """What a command prints; the error of one that is a mistake. The command line without a process of its own."""
    with patch.dict(os.environ):  # a command configures Prefect there
        done = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="session")
def typed() -> Ratchet:
    """As `ratchet`, without a process of its own: for what a command prints and how it ends."""

    def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        argv, handlers, code = ["ratchet", *map(str, arguments)], {s: signal.getsignal(s) for s in ENDING}, 0
        with patch.dict(os.environ, environment), patch.object(sys, "argv", argv):
            with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
                try:
                    main()
                except SystemExit as end:
                    code = end.code
                finally:
                    for number, handler in handlers.items():
                        signal.signal(number, handler)
        return subprocess.CompletedProcess(argv, int(code or 0), out.getvalue(), err.getvalue())

    return run


@pytest.fixture(scope="session")
def ratchet() -> Ratchet:
    """The command line as a user has it, in a process of its own."""

    def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "ratchet.cli.main", *map(str, arguments)],
            cwd=ROOT, capture_output=True, text=True, env={**os.environ, **environment},
        )  # fmt: skip

    return run


def lay_traps(folder: Path) -> Path:
    """A user's folder, in which names of packages of ours and of modules that we import are somebody's own."""
    trap = "raise RuntimeError('a file of the working directory was imported')\n"
    for package in OURS:
        (folder / package).mkdir()
        (folder / package / "__init__.py").write_text(trap)
    for module in OTHERS:
        (folder / f"{module}.py").write_text(trap)
    return folder


@pytest.fixture
def trapped(tmp_path: Path) -> Path:
    return lay_traps(tmp_path)


SERVER = """
import os, sys
from ratchet.cli.prefect_server import prefect_server
from ratchet.infra.settings import load_settings
with prefect_server(load_settings(sys.argv[1])):
    print(os.environ["PREFECT_API_URL"], flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="session")
def served(ratchet: Ratchet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ratchet]:
    """As `ratchet`, for tests that are not about Prefect or MLflow: one Prefect server for all commands, and no MLflow.
    A server and a mirror of its own are most of what a short command costs. Its directory is a trap: see
    tests/cli/test_commands.py."""
    command = [sys.executable, "-P", "-c", SERVER, str(tmp_path_factory.mktemp("served"))]
    folder = lay_traps(tmp_path_factory.mktemp("trapped"))
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin and server.stdout
        address = server.stdout.readline().strip()
        yield partial(ratchet, PREFECT_API_URL=address, RATCHET_TRACKING="tensorboard")
        server.stdin.close()


@pytest.fixture(scope="session")
def finished_home(ratchet: Ratchet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which the mini pipeline has run to its end: one for all of pytest's processes."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    home, databases = shared / "home", shared / "databases"
    with FileLock(shared / "home.lock"):
        if not databases.exists():
            done = ratchet("run", MINI, "--home", home, **PLANTED)
            assert done.returncode == 0, done.stdout + done.stderr
            assert start_mirror(load_settings(home)).wait() == 0
            shutil.copytree(home / "prefect", shared / "copying" / "prefect")
            shutil.copy(home / "mlflow.db", shared / "copying")
            (shared / "copying").rename(databases)
    return home


def copy_home(source: Path, target: Path) -> Path:
    """A copy of a home, or of a folder of it, without the files that other tests' commands write there and remove."""
    return Path(shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns(".drafts", "*.db-*")))


@pytest.fixture
def ready_home(finished_home: Path, tmp_path: Path) -> Path:
    """A home with nothing in it but databases: laying them out is most of the time of a short run."""
    return shutil.copytree(finished_home.parent / "databases", tmp_path / "home")
