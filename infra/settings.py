"""Settings of this machine: directories, servers, launchers. None of them is part of a key."""

import importlib.metadata
import os
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from ratchet.verifiers.errors import RatchetError, nearest


@dataclass(frozen=True)
class Settings:
    """Settings of this machine, read from environment variables by `load_settings`."""

    home: Path
    """The directory of everything Ratchet writes (`RATCHET_HOME`, default `./.ratchet`)."""
    tracking_uri: str
    """MLflow's server or database without a password (`MLFLOW_TRACKING_URI`, default SQLite in the home)."""
    python: str
    """The interpreter of trainers and evaluators (`RATCHET_PYTHON`), possibly of another environment."""
    launcher: str = ""
    """A command that runs another one once on each machine of a process group (`RATCHET_LAUNCHER`,
    docs/reference/training.md)."""
    trackers: tuple[str, ...] = ("mlflow",)
    """Trackers that show runs: `mlflow`, `tensorboard`, `wandb` (`RATCHET_TRACKING`, separated by commas)."""
    slurm: Path | None = None
    """The head of SLURM batch scripts; with it, process groups run as SLURM jobs (`RATCHET_SLURM`)."""

    @property
    def artifacts(self) -> Path:
        return self.home / "artifacts"

    @property
    def journals(self) -> Path:
        return self.home / "tracking"

    @property
    def tensorboard(self) -> Path:
        return self.home / "tensorboard"

    @property
    def prefect_home(self) -> Path:
        return self.home / "prefect"

    @property
    def logs(self) -> Path:
        return self.home / "logs"


def own_mlflow(home: Path) -> str:
    """The address of the home's own MLflow, a SQLite database."""
    return f"sqlite:///{home / 'mlflow.db'}"


def load_settings(home: str | Path | None = None) -> Settings:
    """Read the settings. Raises RatchetError when the home, or a parent of it, is a file."""
    root = Path(home or os.environ.get("RATCHET_HOME") or ".ratchet").expanduser().resolve()
    for place in (root, *root.parents):
        if place.exists() and not place.is_dir():
            raise RatchetError(f"{place} is a file: --home (or RATCHET_HOME) takes a directory.")
    slurm = os.environ.get("RATCHET_SLURM")
    return Settings(
        home=root,
        tracking_uri=_tracking_uri() or own_mlflow(root),
        python=os.environ.get("RATCHET_PYTHON") or sys.executable,
        launcher=os.environ.get("RATCHET_LAUNCHER", ""),
        trackers=_trackers(),
        slurm=Path(slurm).expanduser().resolve() if slurm else None,
    )


TRACKERS = {"mlflow": "MLflow", "tensorboard": "TensorBoard", "wandb": "Weights & Biases"}


def _trackers() -> tuple[str, ...]:
    """The trackers in RATCHET_TRACKING. Raises RatchetError for one that is unknown or not installed."""
    names = tuple(filter(None, map(str.strip, os.environ.get("RATCHET_TRACKING", "").split(","))))
    for name in names:
        if name not in TRACKERS:
            raise RatchetError(f"RATCHET_TRACKING has no tracker {name!r}.{nearest(name, TRACKERS)}")
        try:
            importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            raise RatchetError(f"RATCHET_TRACKING names {name}, which is not installed: pip install {name}") from None
    return tuple(dict.fromkeys(names)) or ("mlflow",)


DRIVERS = {
    "postgresql": {"psycopg2": "psycopg2-binary", "psycopg": "psycopg"},
    "mysql": {"MySQLdb": "mysqlclient", "pymysql": "pymysql"},
    "mssql": {"pyodbc": "pyodbc"},
}
"""The modules through which SQLAlchemy reaches each kind of database, its default first, with their packages."""
DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
SERVERS = ("http", "https", "databricks", "uc")


def is_server(tracking_uri: str) -> bool:
    """True if a tracking address is that of a server, not of a database."""
    return tracking_uri.partition(":")[0] in SERVERS


def address_in(variable: str, password_in: str) -> str:
    """The address in an environment variable, which is recorded, shown and passed on. Raises RatchetError for one that
    contains a password, without showing it, and for one that cannot be read."""
    address = os.environ.get(variable, "")
    try:
        password = urlsplit(address).password
    except ValueError as error:
        raise RatchetError(f"{variable} is no address ({error}).") from error
    if password:
        raise RatchetError(
            f"{variable} contains a password, which logs and pages would show: put it into {password_in}."
        )
    return address


def _tracking_uri() -> str:
    """MLflow's address, if given. Raises RatchetError for anything but a server or a database without a password."""
    variable = "MLFLOW_TRACKING_URI"
    uri = address_in(variable, "MLFLOW_TRACKING_PASSWORD, with MLFLOW_TRACKING_USERNAME (PGPASSWORD for PostgreSQL)")
    if uri and uri.partition(":")[0].partition("+")[0] not in (*DATABASES, *SERVERS):
        raise RatchetError(
            f"{variable} is {uri!r}: write a server, http://HOST:5000, or a database, postgresql://USER@HOST/NAME or "
            "sqlite:////PATH."
        )
    dialect, _, driver = uri.partition(":")[0].partition("+")
    module = driver or next(iter(DRIVERS.get(dialect, {})), "")
    if dialect in DRIVERS and module in (known := DRIVERS[dialect]) and find_spec(module) is None:
        raise RatchetError(
            f"{variable} is a {dialect} database, whose module {module} is missing: pip install {known[module]}."
        )
    return uri
