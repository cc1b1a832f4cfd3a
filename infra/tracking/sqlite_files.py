"""Replace damaged SQLite files of Prefect and MLflow, and copy empty ones instead of migrating."""

import os
import shutil
import sqlite3
from contextlib import closing, suppress
from importlib.metadata import version
from pathlib import Path

from ratchet.data_curation.base.files import replacing, user_cache


def set_aside_damaged(database: Path) -> None:
    """Rename a file that is no longer an SQLite database: the pages of Prefect and MLflow are not worth a run."""
    try:
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as opened:
            opened.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.OperationalError:  # absent, locked, or unreadable
        return
    except sqlite3.DatabaseError:
        for part in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.replace(f"{database}{part}", f"{database}.damaged{part}")


def _empty(package: str) -> Path:
    """The user's cached database of this version of the package, with all tables and no rows."""
    return user_cache() / f"{package}-{version(package)}.db"


def _require_empty(database: Path, table: str) -> None:
    """Raises sqlite3.Error unless the database has this table, and no rows in it."""
    with closing(sqlite3.connect(database)) as opened:
        if opened.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone():
            raise sqlite3.IntegrityError(f"{database} has rows in {table}")


def copy_empty(package: str, database: Path, table: str) -> bool:
    """Start a database as a copy of the cached one: the package's migrations take seconds. False without a cached
    database in which this table is empty."""
    try:
        for part in ("-wal", "-shm", "-journal"):  # of a lost database: SQLite would replay them into the new one
            Path(f"{database}{part}").unlink(missing_ok=True)
        with replacing(database) as draft:
            shutil.copyfile(_empty(package), draft)
            _require_empty(draft, table)
    except (OSError, RuntimeError, sqlite3.Error):  # no cache, or no home directory
        return False
    return True


def keep_empty(package: str, database: Path, table: str) -> None:
    """Cache a database if the package has just created it and this table is still empty."""
    created = f"{database.absolute().as_uri()}?mode=ro"
    with suppress(OSError, RuntimeError, sqlite3.Error):
        _empty(package).parent.mkdir(parents=True, exist_ok=True)
        with replacing(_empty(package)) as draft:
            with closing(sqlite3.connect(created, uri=True)) as source, closing(sqlite3.connect(draft)) as copy:
                source.backup(copy)
            _require_empty(draft, table)
