"""The artifact store: what a step makes is a directory, immutable once finished, named by what it is made of.

    <root>/<kind>/<name>-<key12>/
        …                files of the step; for data sets kept.parquet and rejected.parquet
        manifest.json    written last, before the directory gets its name

`key = sha256(step, its version, name, parameters that differ from the defaults, content of the inputs)`: the same work
has the same name before it is done, so a finished step is found instead of run again, and a plan can be printed without
running anything. An input that is made anew and comes out as it was changes no key: what follows from it is found.
Work in progress lies in `<root>/.drafts`, under a lock that dies with its process, and moves to its final name by one
rename; nothing that was interrupted can look finished.
"""

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
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel

from ratchet.infra.errors import RatchetError
from ratchet.infra.recipe.keys import decisive, in_key

MANIFEST = "manifest.json"
KEPT = "kept.parquet"
REJECTED = "rejected.parquet"
FILE_KIND = "file"
GIVEN_KINDS = (FILE_KIND, "model")  # not made by a step: a raw file, a model directory; known by their content
READ = {"problems": KEPT, "attempts": KEPT, "traces": KEPT, "checkpoint": "model/", "pass_rates": "pass_rates.jsonl"}
"""What is usually read of an artifact of these kinds, a file or a directory of it; of other kinds, all of it."""
ROW_GROUP = 1 << 17
"""Rows that a Parquet file is written and read by: a group of them is held in memory."""
UNKNOWN = "?"
"""How a key begins that nothing can have: it depends on the content of what is not made yet."""


@dataclass(frozen=True)
class Artifact:
    """A reference to something finished (or, in a plan, to be made). Passed between tasks instead of tables."""

    kind: str
    name: str
    key: str
    path: Path

    @property
    def ref(self) -> str:
        """The short name people type: `kind/name-key12`; without a key, as long as nobody knows it."""
        return f"{self.kind}/{self.name}" + (f"-{self.key[:12]}" if self.key_known else "")

    @property
    def _directory(self) -> Path:
        """The artifact's, also where one file stands for it."""
        return self.path.parent if self.path.is_file() else self.path

    @cached_property
    def manifest(self) -> dict[str, Any]:
        return json.loads((self._directory / MANIFEST).read_text())

    @property
    def kept(self) -> Path:
        return self.path / KEPT

    @property
    def rejected(self) -> Path:
        return self.path / REJECTED

    @property
    def finished(self) -> bool:
        return self.kind in GIVEN_KINDS or (self._directory / MANIFEST).is_file()

    @property
    def key_known(self) -> bool:
        return not self.key.startswith(UNKNOWN)

    @property
    def summary(self) -> str:
        """One line: what came out."""
        counts = self.manifest["counts"]
        if "kept" in counts:
            return f"{counts['kept']:,} kept, {counts['rejected']:,} rejected"
        return str(self.manifest.get("headline", ""))

    def content(self, whole: bool = False) -> str:
        """One hash of what is usually read of it, of the `whole` for who reads more; times and code versions are no
        part of it. While it is not finished, `UNKNOWN` and a name."""
        if self.kind in GIVEN_KINDS:
            return self.key
        if not self.finished:
            if (self.path.parent / MANIFEST).is_file():
                raise RatchetError(f"There is no file {self.path.name} in {self.path.parent}.")
            return UNKNOWN + self.key.removeprefix(UNKNOWN)
        files = {name: facts["sha256"] for name, facts in self.manifest["files"].items()}
        if self.path.is_file():
            return content_key([(self.path.name, files[self.path.name])])
        if whole:
            told = [self.manifest[name] for name in ("parameters", "counts")] + [self.manifest.get("summary")]
            return _json_hash([sorted(files.items()), *told])
        part = READ.get(self.kind, "")
        read = [(name.removeprefix(part), sha256) for name, sha256 in files.items() if name.startswith(part)]
        return content_key(read)


Parameters = Mapping[str, Any] | BaseModel
"""Of a step: JSON, and sections of the recipe."""


def artifact_key(
    step: str, step_version: int, name: str, parameters: Parameters, inputs: Sequence[Artifact],
    whole: Sequence[Artifact] = (),
) -> str:  # fmt: skip
    """sha256 over canonical JSON; `whole` are those of the inputs of which more is read than `READ` says."""
    contents = [artifact.content(artifact in whole) for artifact in inputs]
    made_of = {
        "step": step, "version": step_version, "name": name, "parameters": in_key(parameters), "inputs": contents
    }  # fmt: skip
    unknown = any(content.startswith(UNKNOWN) for content in contents)
    return (UNKNOWN if unknown else "") + _json_hash(made_of)


def _json_hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


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
        with self.dataset_writer(kept.schema, rejected.schema) as write:
            write(kept, rejected)

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
                        writer.write_table(rows, row_group_size=ROW_GROUP)
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

    def earlier_same(self, artifact: Artifact) -> Artifact | None:
        """The oldest artifact of this kind and name that was finished before and has the same content."""
        for other in self.all(f"{artifact.kind}/{artifact.name}-*"):
            if other.key == artifact.key:
                break
            if other.name == artifact.name and other.content() == artifact.content():
                return other
        return None

    def all(self, where: str = "*/*") -> Iterator[Artifact]:
        """Every finished artifact, oldest first; `where` is a glob of their directories."""
        found = []
        for manifest_file in self.root.glob(f"{where}/{MANIFEST}"):
            try:
                manifest = json.loads(manifest_file.read_text())
                artifact = self.locate(manifest["kind"], manifest["name"], manifest["key"])
            except (OSError, ValueError, KeyError):
                continue  # `check` names damaged ones when they are used
            found.append((manifest.get("finished_at", 0), artifact.ref, artifact))
        yield from (artifact for _, _, artifact in sorted(found))

    def parents(self, artifact: Artifact) -> list[Artifact]:
        """What this finished artifact was made from, as its manifest says; of raw material, the file."""
        found = []
        for facts in artifact.manifest["inputs"]:
            read, path = self.locate(facts["kind"], facts["name"], facts["key"]), Path(facts["path"])
            if facts["kind"] in GIVEN_KINDS:
                read = replace(read, path=path)
            elif facts["kind"] == "raw":
                read = replace(read, path=read.path / path.name)
            found.append(read)
        return found

    def ancestors(self, artifacts: Sequence[Artifact], used: Mapping[str, Sequence[Artifact]] = {}) -> list[Artifact]:
        """Everything these were made from, themselves included, each once, raw files first. `used` says by key what a
        run reads where it differs from what a manifest says: the same content under another key."""
        found: dict[tuple[str, str], Artifact] = {}

        def visit(artifact: Artifact) -> None:
            if (artifact.kind, artifact.key) not in found:
                made = artifact.kind not in GIVEN_KINDS and artifact.finished
                for parent in (used.get(artifact.key) or self.parents(artifact)) if made else ():
                    visit(parent)
                found[artifact.kind, artifact.key] = artifact

        for artifact in artifacts:
            visit(artifact)
        return list(found.values())

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

    def finish(self, target: Artifact, draft: Draft, *, step: str, step_version: int, parameters: Parameters,
               inputs: Sequence[Artifact], started_at: float, whole: Sequence[Artifact] = ()) -> Artifact:  # fmt: skip
        """Write the manifest, make everything durable, and give the directory its name."""
        finished_at = time.time()
        for left in draft.path.rglob(f"*{HALF_WRITTEN}"):  # not earlier: somebody elsewhere may have been writing it
            left.unlink()
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
            "parameters": decisive(parameters),
            "inputs": [
                {"kind": a.kind, "name": a.name, "key": a.key, "path": str(a.path), "content": a.content(a in whole)}
                for a in inputs
            ],
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
            replace_directory(draft.path, target.path)
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


HALF_WRITTEN = ".tmp"
"""How the name ends of what is being written."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Another name to write a file under. It gets its own once it is whole and durable, in place of the older one,
    whatever happens in between."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}{HALF_WRITTEN}")
    try:
        yield temporary
        sync_path(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def replace_directory(draft: Path, final: Path) -> None:
    """Make a directory durable and give it its name, in place of an older one: between the two renames there is none,
    never a mixture."""
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
    for package in ("torch", "transformers", "deepspeed", "pyarrow", "datasketch", "python-flint",
                    "lingua-language-detector", "prefect", "mlflow"):  # fmt: skip
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions
