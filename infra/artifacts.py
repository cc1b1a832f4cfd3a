"""The artifact store: what a step makes is a directory, immutable once finished, named by what it is made of.

    <root>/<kind>/<name>-<key12>/
        …                files of the step; for data sets kept.parquet and rejected.parquet
        manifest.json    written last, before the directory gets its name

`key = sha256(step, step version, resolved parameters, input keys)`: the same work has the same name before it
is done, so a finished step is found instead of run again, and a plan can be printed without running anything. Work
in progress lies in `<root>/.drafts`, under a lock that dies with its process, and moves to its final name by one
rename; nothing that was interrupted can look finished.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.infra.errors import RatchetError

MANIFEST = "manifest.json"
KEPT = "kept.parquet"
REJECTED = "rejected.parquet"
FILE_KIND = "file"
GIVEN_KINDS = (FILE_KIND, "model")  # not made by a step: a raw file, a model directory; known by their content


@dataclass(frozen=True)
class Artifact:
    """A reference to something finished (or, in a plan, to be made). Passed between tasks instead of tables."""

    kind: str
    name: str
    key: str
    path: Path

    @property
    def ref(self) -> str:
        """The short name people type: `kind/name-key12`."""
        return f"{self.kind}/{self.name}-{self.key[:12]}"

    @cached_property
    def manifest(self) -> dict[str, Any]:
        return json.loads((self.path / MANIFEST).read_text())

    @property
    def kept(self) -> Path:
        return self.path / KEPT

    @property
    def rejected(self) -> Path:
        return self.path / REJECTED

    @property
    def finished(self) -> bool:
        return self.kind in GIVEN_KINDS or (self.path / MANIFEST).is_file()


def artifact_key(step: str, step_version: int, parameters: Mapping[str, Any], inputs: Sequence[Artifact]) -> str:
    """sha256 over canonical JSON; parameters must be JSON (resolved, no defaults left out)."""
    made_of = {"step": step, "version": step_version, "parameters": parameters, "inputs": [a.key for a in inputs]}
    return hashlib.sha256(json.dumps(made_of, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


@dataclass
class Draft:
    """A directory being filled. `counts` and `extra` go into the manifest."""

    path: Path
    counts: dict[str, int] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)

    def write_dataset(self, kept: pa.Table, rejected: pa.Table, rows_in: int) -> None:
        """Write the two sides of a step. Raises when they do not partition the input: a lost row is our defect."""
        if len(kept) + len(rejected) != rows_in:
            raise AssertionError(
                f"{self.path.name}: {len(kept)} kept + {len(rejected)} rejected is not {rows_in} rows in"
            )
        pq.write_table(kept, self.path / KEPT)
        pq.write_table(rejected, self.path / REJECTED)
        self.counts.update(rows_in=rows_in, kept=len(kept), rejected=len(rejected))

    @contextmanager
    def dataset_writer(self, kept: pa.Schema, rejected: pa.Schema) -> Iterator[Callable[[pa.Table, pa.Table], None]]:
        """As `write_dataset`, for a step that goes through its rows in batches: call with both sides of each."""
        counts = {"rows_in": 0, "kept": 0, "rejected": 0}
        with (
            pq.ParquetWriter(self.path / KEPT, kept) as goes_on,
            pq.ParquetWriter(self.path / REJECTED, rejected) as out,
        ):

            def write(kept_rows: pa.Table, rejected_rows: pa.Table) -> None:
                for name, writer, rows in (("kept", goes_on, kept_rows), ("rejected", out, rejected_rows)):
                    if len(rows):
                        writer.write_table(rows)
                    counts[name] += len(rows)
                    counts["rows_in"] += len(rows)

            yield write
        self.counts.update(counts)


class ArtifactStore:
    def __init__(self, root: Path) -> None:
        self.root = root

    def locate(self, kind: str, name: str, key: str) -> Artifact:
        """Where the artifact with this key is, or will be."""
        return Artifact(kind, name, key, self.root / kind / f"{name}-{key[:12]}")

    def find(self, kind: str, name: str, key: str) -> Artifact | None:
        """The finished artifact, or None. A directory that was damaged afterwards is an error, never a hit."""
        artifact = self.locate(kind, name, key)
        if not artifact.path.exists():
            return None
        self.check(artifact)
        return artifact

    def check(self, artifact: Artifact) -> None:
        """Raise RatchetError unless the manifest is readable, is this key's, and every file has its recorded size."""
        advice = f"Delete {artifact.path} and run again: only this step and what depends on it is redone."
        try:
            manifest = artifact.manifest
            files = manifest["files"]
            key = manifest["key"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RatchetError(f"{artifact.path / MANIFEST} cannot be read ({error}). {advice}") from error
        if key != artifact.key:
            raise RatchetError(f"{artifact.path} belongs to key {key[:12]}, not {artifact.key[:12]}. {advice}")
        for name, facts in files.items():
            file = artifact.path / name
            if not file.is_file() or file.stat().st_size != facts["bytes"]:
                raise RatchetError(f"{file} is missing or was changed after the step finished. {advice}")

    def file(self, path: str | Path) -> Artifact:
        """A raw input file as an artifact: its key is the hash of its content. A link keeps its own name: in the Hub's
        cache, what it points to is called after its hash."""
        file = Path(path).expanduser()
        try:
            state = file.stat()
            return Artifact(
                FILE_KIND, file.name, _known_hash(file, state.st_size, state.st_mtime_ns), Path(os.path.abspath(file))
            )
        except OSError as error:
            raise RatchetError(f"Cannot read the input file {path}: {error.strerror}. Check the path.") from error

    def directory(self, path: Path, kind: str) -> Artifact:
        """A directory that was given, as an artifact: its key is the hash of its files, sub-directories aside."""
        files = sorted(file for file in path.iterdir() if file.is_file())
        facts = [(f.name, _known_hash(f, f.stat().st_size, f.stat().st_mtime_ns)) for f in files]
        return Artifact(kind, path.resolve().name or kind, content_key(facts), path.resolve())

    def open(self, ref: str) -> Artifact:
        """By `kind/name-key12` (or a unique beginning of the key, or a path). Raises RatchetError when unknown."""
        for artifact in self.all():
            if ref in (artifact.ref, str(artifact.path)) or (len(ref) >= 6 and artifact.key.startswith(ref)):
                return artifact
        raise RatchetError(f"No artifact {ref!r} in {self.root}. `ratchet show` lists what there is.")

    def all(self) -> Iterator[Artifact]:
        """Every finished artifact, oldest first."""
        found = []
        for manifest_file in self.root.glob(f"*/*/{MANIFEST}"):
            try:
                manifest = json.loads(manifest_file.read_text())
                artifact = self.locate(manifest["kind"], manifest["name"], manifest["key"])
            except (OSError, ValueError, KeyError):
                continue  # `check` names damaged ones when they are used
            found.append((manifest.get("finished_at", 0), artifact.ref, artifact))
        yield from (artifact for _, _, artifact in sorted(found))

    @contextmanager
    def draft(self, target: Artifact, *, resumable: bool) -> Iterator[Draft]:
        """Fill a draft, then call `finish`. A resumable draft keeps what an interrupted run left in it."""
        path = self.root / ".drafts" / f"{target.kind}-{target.name}-{target.key[:12]}"
        with disk_errors(self.root):
            path.mkdir(parents=True, exist_ok=True)
        with _exclusive(path.with_name(path.name + ".lock"), target):
            if not resumable:
                shutil.rmtree(path)
                path.mkdir()
            with disk_errors(self.root):
                yield Draft(path)

    def finish(self, target: Artifact, draft: Draft, *, step: str, step_version: int, parameters: Mapping[str, Any],
               inputs: Sequence[Artifact], started_at: float) -> Artifact:  # fmt: skip
        """Write the manifest, make everything durable, and give the directory its name."""
        finished_at = time.time()
        files = {}
        for file in sorted(p for p in draft.path.rglob("*") if p.is_file() and p.name != MANIFEST):
            files[str(file.relative_to(draft.path))] = {"bytes": file.stat().st_size, "sha256": sha256_file(file)}
        manifest = {
            "kind": target.kind,
            "name": target.name,
            "key": target.key,
            "step": step,
            "step_version": step_version,
            "code": code_version(),
            "parameters": parameters,
            "inputs": [{"kind": a.kind, "name": a.name, "key": a.key, "path": str(a.path)} for a in inputs],
            "counts": draft.counts,
            "files": files,
            "versions": library_versions(),
            "started_at": started_at,
            "finished_at": finished_at,
            "seconds": round(finished_at - started_at, 3),
            **draft.extra,
        }
        with disk_errors(self.root):
            (draft.path / MANIFEST).write_text(json.dumps(manifest, indent=1, ensure_ascii=False))
            for file in draft.path.rglob("*"):
                sync_path(file)
            sync_path(draft.path)
            target.path.parent.mkdir(parents=True, exist_ok=True)
            replaced = draft.path.with_name(draft.path.name + ".replaced")
            if target.path.exists():  # made again: between the two renames there is none, never a mixture
                shutil.rmtree(replaced, ignore_errors=True)
                os.rename(target.path, replaced)
            os.rename(draft.path, target.path)
            sync_path(target.path.parent)
            shutil.rmtree(replaced, ignore_errors=True)
        return target


@contextmanager
def _exclusive(lock_file: Path, target: Artifact) -> Iterator[None]:
    """One process at a time makes an artifact. The lock is the kernel's: it is gone when its holder is."""
    with open(lock_file, "a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            raise RatchetError(
                f"Another run (process {lock.read().strip() or '?'}) is making {target.ref}. Wait for it, or stop it."
            ) from error
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


@contextmanager
def disk_errors(where: Path) -> Iterator[None]:
    """Turn a full disk or a read-only one into a message a person can act on."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EFBIG):
            raise RatchetError(
                f"Cannot write {error.filename or where}: {error.strerror}. Free some space or set RATCHET_HOME to "
                "another disk, then run the same command again: finished steps are kept."
            ) from error
        raise


def write_atomically(path: Path, text: str) -> None:
    """A file that is either the old one or the new one, whatever happens in between."""
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def sha256_file(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_key(files: Sequence[tuple[str, str]]) -> str:
    """One hash of (name, sha256) pairs: what a directory of files is known by, wherever it lies."""
    return hashlib.sha256(json.dumps(sorted(files)).encode()).hexdigest()


@lru_cache
def _known_hash(path: Path, size: int, modified_ns: int) -> str:
    """A run is planned before it starts: its input files are read once for both."""
    return sha256_file(path)


def sync_path(path: Path) -> None:
    """Have the kernel write a file, or the names in a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@cache
def code_version() -> str:
    """The git commit (with `+changes` when the tree differs from it), or the installed version."""
    root = Path(__file__).resolve().parent.parent
    try:
        git = ["git", "-C", str(root)]
        commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changed = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True, text=True, check=True)
        return commit[:12] + ("+changes" if changed.stdout.strip() else "")
    except (OSError, subprocess.CalledProcessError):
        return version("ratchet-rl")


@cache
def library_versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in ("torch", "transformers", "deepspeed", "pyarrow", "datasketch", "math-verify", "prefect", "mlflow"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions
