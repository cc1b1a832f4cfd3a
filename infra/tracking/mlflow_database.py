"""MLflow's SQLite database in a home: made, moved with the home, recognized as that of another version."""

import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import mlflow
from mlflow import MlflowClient

from ratchet.infra.tracking.mirrored import FILES_FOLDER, state_file
from ratchet.infra.tracking.sqlite_files import copy_empty, keep_empty, set_aside_damaged

LOCATIONS = (("experiments", "artifact_location"), ("runs", "artifact_uri"), ("logged_models", "artifact_location"))
"""Columns in which the database has absolute addresses of files."""


def prepare_database(tracking_uri: str, journals: Path) -> None:
    """Create the SQLite store of a home, or move the files of one that was copied or moved. It is made under a
    temporary name, because MLflow cannot use a file in which it was interrupted. Everything that an earlier store
    received is sent again."""
    if not tracking_uri.startswith("sqlite:///"):
        return
    file = Path(tracking_uri.removeprefix("sqlite:///"))
    set_aside_damaged(file)
    if file.exists():
        if file.parent == journals.parent and "MLFLOW_DEFAULT_ARTIFACT_ROOT" not in os.environ:
            _take_files_along(file, (file.parent / FILES_FOLDER).as_uri())
    else:
        for journal in journals.glob("*.jsonl"):
            state_file(journal, "mlflow", tracking_uri).unlink(missing_ok=True)
        if copy_empty("mlflow", file, "experiments"):
            return
        fresh = file.with_name(file.name + ".new")
        for left in file.parent.glob(f"{fresh.name}*"):
            left.unlink()
        MlflowClient(f"sqlite:///{fresh}").search_experiments(max_results=1)
        with closing(sqlite3.connect(fresh)) as database, database:
            database.execute("DELETE FROM experiments")  # the default one names a folder here; MLflow makes it again
        keep_empty("mlflow", fresh, "experiments")
        os.replace(fresh, file)


def _take_files_along(database_file: Path, here: str) -> None:
    """Point the runs of a home that was copied or moved to their files in this home."""
    with closing(sqlite3.connect(database_file, timeout=60)) as database, database:
        placed = [row[0] or "" for row in database.execute("SELECT DISTINCT artifact_location FROM experiments")]
        for there in {place for place in placed if place.endswith(f"/{FILES_FOLDER}") and place != here}:
            for table, column in LOCATIONS:
                database.execute(
                    f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE substr({column} || '/', 1, ?) = ?",
                    (here, len(there) + 1, len(there) + 1, f"{there}/"),
                )


def in_other_version(error: Exception, tracking_uri: str) -> str:
    """Advice for a database that another version of MLflow wrote; empty for any other error."""
    versions = re.search(r"found version (\w+), but expected (\w+)", str(error))
    if not versions:
        return ""
    return (
        f"its database has the schema {versions[1]}, and MLflow {mlflow.__version__}, which is here, {versions[2]}. Of "
        f"an older one: `mlflow db upgrade {tracking_uri}`. Of a newer one: install the MLflow that wrote it, or move "
        "the file away: a new one is filled from the journals"
    )
