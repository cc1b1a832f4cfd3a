"""What belongs to this machine and not to a recipe: where things are kept, and who is asked.

None of it enters a cache key: moving the store or the tracking server changes no result.
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from ratchet.infra.errors import RatchetError


@dataclass(frozen=True)
class Settings:
    home: Path
    """Everything Ratchet writes lies below it (`RATCHET_HOME`, default `.ratchet` here)."""
    tracking_uri: str
    """MLflow (`MLFLOW_TRACKING_URI`, default SQLite in the home): a server or a database, with no password in it."""
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
    without_login(os.environ.get("OPENLINEAGE_URL", ""), "OPENLINEAGE_URL")  # a mistake is told now
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
    """An address, the user and the password that were written in it. What is recorded, shown or handed to other
    programs is the address. Raises RatchetError when `variable` holds no address."""
    try:
        parts = urlsplit(address)
    except ValueError as error:
        raise RatchetError(f"{variable} is no address ({error}).") from error
    login, _, host = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    return urlunsplit(parts._replace(netloc=host)) if login else address, unquote(user), unquote(password)


def _tracking_uri() -> str:
    """Where MLflow is, if that is said. A password in it moves to the variable that its client reads, so that no log,
    process list or deployment has it. Raises RatchetError for what is neither a server nor a database."""
    variable = "MLFLOW_TRACKING_URI"
    given = os.environ.get(variable, "")
    address, user, password = without_login(given, variable)
    scheme = given.partition(":")[0].partition("+")[0]
    if given and scheme not in (*DATABASES, *SERVERS):
        raise RatchetError(
            f"{variable} is {address!r}: write a server, http://HOST:5000, or a database, postgresql://USER@HOST/NAME "
            "or sqlite:////PATH."
        )
    if scheme in ("http", "https") and user:
        given_login = {"MLFLOW_TRACKING_USERNAME": user, "MLFLOW_TRACKING_PASSWORD": password}
        os.environ |= {name: value for name, value in given_login.items() if value}
    elif not password:
        return given
    elif scheme == "postgresql":
        address = address.replace("://", f"://{quote(user)}@", 1)
        os.environ["PGPASSWORD"] = password
    else:
        raise RatchetError(
            f"{variable} has a password in it, which logs would show: put it into the client's own file."
        )
    os.environ[variable] = address
    return address
