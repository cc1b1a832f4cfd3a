"""The SQLite files of Prefect and MLflow, which are made again where they are damaged."""

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path


def set_aside_damaged(database: Path) -> None:
    """Give an SQLite file that is none any more another name: what Prefect and MLflow show is not worth a run."""
    try:
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as opened:
            opened.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.OperationalError:  # absent, locked, or not to be read
        return
    except sqlite3.DatabaseError:
        for part in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.replace(f"{database}{part}", f"{database}.damaged{part}")
