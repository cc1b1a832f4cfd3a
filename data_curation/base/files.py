"""Files that are complete or absent: written durably and renamed, locked by a kernel lock, identified by their hash."""

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from ratchet.verifiers.errors import RatchetError

HALF_WRITTEN = ".tmp"
"""Suffix of a file that is being written."""
LOOKS, LOOK_S = 5, 0.02
"""Times that a locked file is looked at before it counts as held, and seconds after each."""


def is_locked(path: Path) -> bool:
    """True if a living process holds the kernel's lock on this file."""
    if not path.is_file():
        return False
    with open(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # on NFS, an exclusive one needs a file open for writing
        except BlockingIOError:
            return True
        return False


@contextmanager
def exclusive(lock_file: Path, does: str, wait: Callable[[str], None] | None = None) -> Iterator[None]:
    """Hold a lock that the kernel frees when its holder dies. If another process that `does` the same holds it, call
    `wait` and wait; without `wait`, raise RatchetError."""
    with open(lock_file, "a+") as lock:
        try:
            _lock(lock)
        except BlockingIOError as error:
            lock.seek(0)
            holder = f"Another run (process {lock.read().strip() or '?'}) {does}."
            if wait is None:
                raise RatchetError(f"{holder} Wait for it, or stop it.") from error
            wait(f"{holder} Waiting for it.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def _lock(file: IO[str]) -> None:
    """Lock a file exclusively. Raises BlockingIOError if another process holds it for longer than `is_locked` does."""
    for _ in range(LOOKS):
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOOK_S)
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def disk_errors(where: Path) -> Iterator[None]:
    """Turn the errors of a full or read-only disk into a RatchetError that says what to do."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        if full or error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            remedy = "Free some space" if full else "Make its folder writable for you"
            raise RatchetError(
                f"Cannot write {error.filename2 or error.filename or where}: {error.strerror}. {remedy} or set "
                "RATCHET_HOME to another disk, then run the same command again: finished steps are kept."
            ) from error
        raise


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name to write a file under. The file gets its own name, replacing the old one, when it is complete
    and durable."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}{HALF_WRITTEN}")
    try:
        yield temporary
        sync_path(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def user_cache() -> Path:
    """The folder of the user's cache that is Ratchet's: what any process can make again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ratchet"


def write_atomically(path: Path, text: str) -> None:
    """Write a text file that is complete or absent, durably."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def replace_directory(draft: Path, final: Path) -> None:
    """Make a directory durable and rename it to `final`, replacing an older one. Between the two renames `final` does
    not exist; it is never a mixture."""
    for path in (*draft.rglob("*"), draft):
        sync_path(path)
    final.parent.mkdir(parents=True, exist_ok=True)
    replaced = draft.with_name(draft.name + ".replaced")
    if final.exists():
        shutil.rmtree(replaced, ignore_errors=True)
        os.rename(final, replaced)
    os.rename(draft, final)
    sync_path(final.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def sha256_file(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def json_hash(value: Any) -> str:
    """The sha256 of a value as canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def content_key(files: Sequence[tuple[str, str]]) -> str:
    """One hash of (name, sha256) pairs, which identifies a directory of files wherever it is."""
    return hashlib.sha256(json.dumps(sorted(files)).encode()).hexdigest()


def hash_once(file: Path) -> str:
    """The file's sha256. An unchanged file is read once, also if the plan before a run asks for it too. Raises
    RatchetError for a file in the Hub's cache that differs from the downloaded one."""
    state = file.stat()
    return _hash_of_version(file, state.st_size, state.st_mtime_ns)


@lru_cache
def _hash_of_version(path: Path, size: int, modified_ns: int) -> str:
    sha256, stored = sha256_file(path), path.resolve()
    if stored.parent.name == "blobs" and not _is_called(stored, sha256):
        raise RatchetError(
            f"{path} is not what was downloaded: its content has another hash than its name in the Hub's cache. Delete "
            f"{stored} and run again: it is downloaded again."
        )
    return sha256


def _is_called(blob: Path, sha256: str) -> bool:
    """True if a file of the Hub's cache has the hash that it is named by: sha256, or for small files Git's of a blob;
    a mirror of the Hub may give the plain sha1, or no hash at all."""
    name = blob.name
    if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", name):
        return True
    if len(name) == 64:
        return name == sha256
    content = blob.read_bytes()
    heads = (b"blob %d\0" % len(content), b"")
    return name in [hashlib.sha1(head + content, usedforsecurity=False).hexdigest() for head in heads]


def sync_path(path: Path) -> None:
    """Make a file's content, or the names in a directory, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
