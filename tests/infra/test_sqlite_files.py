"""Which databases are cached, and what a copy of one starts with."""

import sqlite3
from contextlib import closing
from pathlib import Path

from ratchet.infra.tracking.sqlite_files import copy_empty, keep_empty


def database(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as made, made:
        for statement in statements:
            made.execute(statement)
    return path


def test_only_an_empty_database_with_tables_is_cached_and_copied(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    table, copy = "CREATE TABLE runs (id)", tmp_path / "copy.db"
    absent, bare = tmp_path / "absent.db", database(tmp_path / "bare.db")
    full = database(tmp_path / "full.db", table, "INSERT INTO runs VALUES (1)")
    for other in (absent, bare, full):
        keep_empty("pytest", other, "runs")
        assert not copy_empty("pytest", copy, "runs")
    assert not absent.exists() and not list((tmp_path / "cache" / "ratchet").iterdir()) and not copy.exists()
    keep_empty("pytest", database(tmp_path / "new.db", table), "runs")
    assert copy_empty("pytest", copy, "runs")
    [cached] = (tmp_path / "cache" / "ratchet").iterdir()
    cached.write_bytes(b"")
    assert not copy_empty("pytest", tmp_path / "second.db", "runs")


def test_what_is_left_of_a_lost_database_is_not_replayed_into_its_copy(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    keep_empty("pytest", database(tmp_path / "new.db", "PRAGMA journal_mode=WAL", "CREATE TABLE runs (id)"), "runs")
    lost = tmp_path / "lost.db"
    with closing(sqlite3.connect(lost)) as opened:
        opened.executescript("PRAGMA journal_mode=WAL; CREATE TABLE runs (id); INSERT INTO runs VALUES (1)")
        wal = Path(f"{lost}-wal").read_bytes()
    lost.unlink()
    Path(f"{lost}-wal").write_bytes(wal)
    assert copy_empty("pytest", lost, "runs")
    with closing(sqlite3.connect(lost)) as opened:
        assert opened.execute("SELECT * FROM runs").fetchall() == []
