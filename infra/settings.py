"""Settings of this machine: directories, servers, launchers. None of them is part of a key."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from ratchet.verifiers.errors import RatchetError


@dataclass(frozen=True)
class Settings:
    home: Path
    """The directory of everything Ratchet writes (`RATCHET_HOME`, default `./.ratchet`)."""
    tracking_uri: str
    """MLflow's server or database without a password (`MLFLOW_TRACKING_URI`, default SQLite in the home)."""
    python: str
    """The interpreter of trainers and evaluators (`RATCHET_PYTHON`), possibly of another environment."""
    launcher: str = ""
    """Runs a command once on each machine of a process group (`RATCHET_LAUNCHER`, docs/training.md)."""
    slurm: Path | None = None
    """The head of SLURM batch scripts; with it, process groups run as SLURM jobs (`RATCHET_SLURM`)."""

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
    """Raises RatchetError when the home, or a parent of it, is a file."""
    root = Path(home or os.environ.get("RATCHET_HOME") or ".ratchet").expanduser().resolve()
    for place in (root, *root.parents):
        if place.exists() and not place.is_dir():
            raise RatchetError(f"{place} is a file: --home (or RATCHET_HOME) takes a directory.")
    slurm = os.environ.get("RATCHET_SLURM")
    return Settings(
        home=root,
        tracking_uri=_tracking_uri() or f"sqlite:///{root / 'mlflow.db'}",
        python=os.environ.get("RATCHET_PYTHON") or sys.executable,
        launcher=os.environ.get("RATCHET_LAUNCHER", ""),
        slurm=Path(slurm).expanduser().resolve() if slurm else None,
    )


DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
SERVERS = ("http", "https", "databricks", "uc")


def is_server(tracking_uri: str) -> bool:
    return tracking_uri.partition(":")[0] in SERVERS


def without_login(address: str, variable: str) -> tuple[str, str, str]:
    """An address without its login, the user, and the password. Only the address is recorded, shown or passed on.
    Raises RatchetError when `variable` is no address."""
    try:
        parts = urlsplit(address)
    except ValueError as error:
        raise RatchetError(f"{variable} is no address ({error}).") from error
    login, _, host = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    return urlunsplit(parts._replace(netloc=host)) if login else address, unquote(user), unquote(password)


def _tracking_uri() -> str:
    """MLflow's address, if given. A password in it moves to the variable that its client reads, so that no log, process
    list or deployment shows it. Raises RatchetError for anything but a server or a database."""
    variable = "MLFLOW_TRACKING_URI"
    uri = os.environ.get(variable, "")
    address, user, password = without_login(uri, variable)
    scheme = uri.partition(":")[0].partition("+")[0]
    if uri and scheme not in (*DATABASES, *SERVERS):
        raise RatchetError(
            f"{variable} is {address!r}: write a server, http://HOST:5000, or a database, postgresql://USER@HOST/NAME "
            "or sqlite:////PATH."
        )
    if scheme in ("http", "https") and user:
        given_login = {"MLFLOW_TRACKING_USERNAME": user, "MLFLOW_TRACKING_PASSWORD": password}
        os.environ |= {name: value for name, value in given_login.items() if value}
    elif not password:
        return uri
    elif scheme == "postgresql":
        address = address.replace("://", f"://{quote(user)}@", 1)
        os.environ["PGPASSWORD"] = password
    else:
        raise RatchetError(f"{variable} contains a password, which logs would show: put it into the client's own file.")
    os.environ[variable] = address
    return address
