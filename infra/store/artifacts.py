"""The artifact store: the output of a step is a directory, immutable once finished, named by what it was made from.

    <root>/<kind>/<name>-<key12>/
        …                the step's files; for data sets kept.parquet and rejected.parquet
        manifest.json    written last, before the directory gets its name

`key = sha256(step, its version, name, parameters that differ from the defaults, content of the inputs, the user's own
code that it runs)`. The key is known before the work is done, so a finished step is found instead of run again, and a
plan needs no run. An input that is made again with the same content changes no key.
Work in progress is in `<root>/.drafts`, under a lock that dies with its process, and gets its final name by one rename:
an interrupted step cannot look finished.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from ratchet.data_curation.base.draft import KEPT, REJECTED, Draft
from ratchet.data_curation.base.files import (
    HALF_WRITTEN,
    content_key,
    disk_errors,
    exclusive,
    hash_once,
    is_locked,
    json_hash,
    replace_directory,
    sha256_file,
)
from ratchet.infra.keys import decisive, in_key
from ratchet.infra.store.manifest import MANIFESTS, FileFacts, Manifest
from ratchet.infra.store.versions import code_version, library_versions
from ratchet.verifiers.errors import RatchetError

MANIFEST = "manifest.json"
DECLARATION = "RATCHET_DECLARATION"
"""The environment variable with the hash of the pre-registered experiment that a run belongs to."""
FILE_KIND = "file"
GIVEN_KINDS = (FILE_KIND, "model")  # not made by a step: a raw file or a model directory, identified by its content
READ = {"problems": KEPT, "attempts": KEPT, "traces": KEPT, "checkpoint": "model/", "pass_rates": "pass_rates.jsonl"}
"""The file or directory that a step usually reads from an input of this kind; from other kinds, everything."""
UNKNOWN = "?"
"""First character of a key that depends on content not made yet."""
SHOWN = 12
"""Most candidates listed for an ambiguous name."""


@dataclass(frozen=True)
class Artifact:
    """A reference to a finished artifact, or in a plan to a future one. Tasks pass these instead of tables."""

    kind: str
    name: str
    key: str
    path: Path

    @classmethod
    def of(cls, facts: Mapping[str, str]) -> "Artifact":
        return cls(facts["kind"], facts["name"], facts["key"], Path(facts["path"]))

    @property
    def facts(self) -> dict[str, str]:
        """The reference as JSON; `of` is the inverse."""
        return {"kind": self.kind, "name": self.name, "key": self.key, "path": str(self.path)}

    @property
    def ref(self) -> str:
        """The name people type, `kind/name-key12`; without the key while it is unknown."""
        return f"{self.kind}/{self.name}" + (f"-{self.key[:12]}" if self.key_known else "")

    @property
    def directory(self) -> Path:
        """The directory of the artifact, or of the raw material that it is one file of."""
        return self.path.parent if self.path.is_file() else self.path

    @cached_property
    def manifest(self) -> Manifest:
        """The artifact's manifest. Raises RatchetError if it is damaged."""
        try:
            facts = json.loads((self.directory / MANIFEST).read_text())
            return MANIFESTS[self.kind].model_validate(facts)
        except ValidationError as error:
            fields = ", ".join(".".join(map(str, fault["loc"])) or "all" for fault in error.errors())
            raise RatchetError(f"{self.directory / MANIFEST} cannot be read ({fields}). {self.advice}") from error
        except ValueError as error:
            raise RatchetError(f"{self.directory / MANIFEST} cannot be read ({error}). {self.advice}") from error

    @property
    def advice(self) -> str:
        """Advice for a damaged artifact."""
        return f"Delete {self.directory} and run again: only this step and what depends on it is redone."

    @property
    def model_directory(self) -> Path:
        """The model of a checkpoint, or the given model."""
        return self.path if self.kind == "model" else self.path / "model"

    @property
    def kept(self) -> Path:
        return self.path / KEPT

    @property
    def rejected(self) -> Path:
        return self.path / REJECTED

    @property
    def finished(self) -> bool:
        return self.kind in GIVEN_KINDS or (self.directory / MANIFEST).is_file()

    @property
    def key_known(self) -> bool:
        return not self.key.startswith(UNKNOWN)

    @property
    def summary(self) -> str:
        """The result in one line."""
        counts, headline = self.manifest.counts, self.manifest.headline
        if "kept" in counts:
            return f"{counts['kept']:,} kept, {counts['rejected']:,} rejected" + (headline and f"; {headline}")
        return headline

    def content(self, whole: bool = False) -> str:
        """One hash of the part in `READ`, or of the `whole`; times and code versions do not count. Before the artifact
        is finished, `UNKNOWN` and its key."""
        if self.kind in GIVEN_KINDS:
            return self.key
        if not self.finished:
            if (self.path.parent / MANIFEST).is_file():
                raise RatchetError(f"There is no file {self.path.name} in {self.path.parent}.")
            return UNKNOWN + self.key.removeprefix(UNKNOWN)
        files = {name: facts.sha256 for name, facts in self.manifest.files.items()}
        if self.path.is_file():
            return content_key([(self.path.name, files[self.path.name])])
        if whole:
            summary = getattr(self.manifest, "summary", None)
            return json_hash([sorted(files.items()), self.manifest.parameters, self.manifest.counts, summary])
        part = READ.get(self.kind, "")
        return content_key([(n.removeprefix(part), sha256) for n, sha256 in files.items() if n.startswith(part)])


Parameters = Mapping[str, Any] | BaseModel
"""A step's parameters: JSON and recipe sections."""


def artifact_key(
    step: str, step_version: int, name: str, parameters: Parameters, inputs: Sequence[Artifact],
    whole: Sequence[Artifact] = (), code: Mapping[str, str] = {},
) -> str:  # fmt: skip
    """The sha256 over canonical JSON; `whole` are the inputs of which the step reads more than `READ` says, `code` is
    the result of `own_code`."""
    contents = [artifact.content(artifact in whole) for artifact in inputs]
    made_of = {
        "step": step, "version": step_version, "name": name, "parameters": in_key(parameters), "inputs": contents
    }  # fmt: skip
    made_of |= {"own_code": code} if code else {}
    unknown = any(content.startswith(UNKNOWN) for content in contents)
    return (UNKNOWN if unknown else "") + json_hash(made_of)


def matches(what: str, artifacts: Sequence[Artifact]) -> list[Artifact]:
    """The artifacts named by `kind/name-key12`, by a path in them, by the beginning of their key (six digits or more),
    by their name, or by the beginning of `kind/name-key12`: the first of these rules that names any decides."""
    path = Path(what).expanduser().resolve()
    around = (path, *path.parents) if path.exists() else (path,)  # in an artifact's directory, any name is a path in it
    rules: tuple[Callable[[Artifact], bool], ...] = (
        lambda a: what in (a.ref, a.key),
        lambda a: a.path.resolve() in around,
        lambda a: len(what) >= 6 and a.key.startswith(what),
        lambda a: what in (a.name, f"{a.kind}/{a.name}"),
        lambda a: a.ref.startswith(what),
    )
    return next((named for rule in rules if (named := [artifact for artifact in artifacts if rule(artifact)])), [])


def resolve(what: str, artifacts: Iterable[Artifact], root: Path) -> Artifact:
    """The only artifact that `matches` gives. Raises RatchetError for none or several."""
    match matches(what, list(artifacts)):
        case [artifact]:
            return artifact
        case []:
            raise RatchetError(f"No artifact {what!r} in {root}. `ratchet show` lists the artifacts.")
        case several:
            more = f" and {len(several) - SHOWN} more" if len(several) > SHOWN else ""
            listed = ", ".join(artifact.ref for artifact in several[-SHOWN:])
            raise RatchetError(
                f"{what!r} matches {len(several)} artifacts: {listed}{more}. Name one; the newest is {several[-1].ref}."
            )


def reached(starts: Iterable[Artifact], following: Callable[[Artifact], Sequence[Artifact]]) -> list[Artifact]:
    """Artifacts reached from these through `following`, each once, after those that it leads to."""
    seen, order = set[tuple[str, str]](), list[Artifact]()

    def visit(artifact: Artifact) -> None:
        if (artifact.kind, artifact.key) not in seen:
            seen.add((artifact.kind, artifact.key))
            for further in following(artifact):
                visit(further)
            order.append(artifact)

    for start in starts:
        visit(start)
    return order


class ArtifactStore:
    """The artifacts below one directory: find, open, make and delete them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._intact: set[Path] = set()

    @property
    def _drafts(self) -> Path:
        return self.root / ".drafts"

    def locate(self, kind: str, name: str, key: str) -> Artifact:
        """The present or future place of the artifact with this key."""
        return Artifact(kind, name, key, self.root / kind / f"{name}-{key[:12]}")

    def find(self, kind: str, name: str, key: str) -> Artifact | None:
        """The finished artifact, or None. A directory that was damaged afterwards is an error, never found."""
        artifact = self.locate(kind, name, key)
        if not artifact.path.exists():
            return None
        self.check(artifact)
        return artifact

    def check(self, artifact: Artifact) -> None:
        """Raise RatchetError unless the manifest is readable and has this key, and every file has its recorded size."""
        advice = artifact.advice
        try:
            files, key = artifact.manifest.files, artifact.manifest.key
        except OSError as error:
            raise RatchetError(f"{artifact.path / MANIFEST} cannot be read ({error}). {advice}") from error
        if key != artifact.key:
            raise RatchetError(f"{artifact.path} belongs to key {key[:12]}, not {artifact.key[:12]}. {advice}")
        for name, facts in files.items():
            file = artifact.path / name
            if not file.is_file() or file.stat().st_size != facts.bytes:
                raise RatchetError(f"{file} is missing or was changed after the step finished. {advice}")

    def check_content(self, artifact: Artifact, whole: bool = False) -> None:
        """Raise RatchetError unless the files that a step reads of its input have their recorded hashes. Each file is
        read once in a process."""
        if artifact.kind in GIVEN_KINDS:
            return
        single = artifact.path.name if artifact.path.is_file() else ""
        part = single or ("" if whole else READ.get(artifact.kind, ""))
        for name, facts in artifact.manifest.files.items():
            file = artifact.directory / name
            if not name.startswith(part) or file in self._intact:
                continue
            if not file.is_file() or sha256_file(file) != facts.sha256:
                raise RatchetError(f"{file} was changed after the step finished: its content is not the recorded one. "
                                   f"{artifact.advice}")  # fmt: skip
            self._intact.add(file)

    def check_unchanged(self, artifact: Artifact) -> None:
        """Raise RatchetError if a given file or model has another content than when its key was computed. One that is
        gone was read while it was there."""
        if artifact.kind not in GIVEN_KINDS or not artifact.path.exists():
            return
        is_file = artifact.kind == FILE_KIND
        now = self.file(artifact.path) if is_file else self.directory(artifact.path, artifact.kind)
        if now.key != artifact.key:
            raise RatchetError(
                f"{artifact.path} has changed while it was read. Run again when it is complete; with its earlier "
                "content, a training stage and an evaluation continue where they are."
            )

    def damage(self, contents: bool = False) -> Iterator[str]:
        """Faults of finished artifacts, those with an unreadable manifest included; with `contents`, every
        file is read."""
        for manifest_file in sorted(self.root.glob(f"*/*/{MANIFEST}")):
            directory = manifest_file.parent
            try:
                manifest = Artifact(directory.parent.name, directory.name, "", directory).manifest
                artifact = self.locate(manifest.kind, manifest.name, manifest.key)
                self.check(replace(artifact, path=directory))
                if contents:
                    self.check_content(replace(artifact, path=directory), whole=True)
            except (RatchetError, OSError) as error:
                yield str(error)

    def file(self, path: str | Path) -> Artifact:
        """A raw input file, or a folder, as an artifact: its key is the hash of the content. A link keeps its own name,
        because the Hub's cache names the target after its hash."""
        file = Path(path).expanduser()
        try:
            inside = sorted(path for path in file.rglob("*") if path.is_file()) if file.is_dir() else ()
            _check_names(Path(os.path.abspath(file)), *inside)
            names = [(str(path.relative_to(file)), hash_once(path)) for path in inside]
            key = content_key(names) if inside else hash_once(file)
            return Artifact(FILE_KIND, file.name, key, Path(os.path.abspath(file)))
        except OSError as error:
            raise RatchetError(f"Cannot read the input file {path}: {error.strerror}. Check the path.") from error

    def directory(self, path: Path, kind: str) -> Artifact:
        """A given directory as an artifact: its key is the hash of its files, without subdirectories."""
        files = sorted(file for file in path.iterdir() if file.is_file())
        _check_names(path.resolve(), *files)
        key = content_key([(file.name, hash_once(file)) for file in files])
        return Artifact(kind, path.resolve().name or kind, key, path.resolve())

    def open(self, what: str) -> Artifact:
        """A finished artifact by any name that `resolve` takes. Raises RatchetError when unknown or ambiguous."""
        return resolve(what, self.all(), self.root)

    def earlier_same(self, artifact: Artifact) -> Artifact | None:
        """The oldest earlier artifact of this kind and name with the same content."""
        for other in self.all(f"{artifact.kind}/{artifact.name}-*"):
            if other.key == artifact.key:
                break
            if other.name == artifact.name and other.content() == artifact.content():
                return other
        return None

    def all(self, where: str = "*/*") -> Iterator[Artifact]:
        """Every finished artifact, oldest first; `where` is a glob of their directories. Damaged ones are skipped;
        `check` names them when they are used."""
        artifacts = []
        for manifest_file in self.root.glob(f"{where}/{MANIFEST}"):
            try:
                manifest = json.loads(manifest_file.read_text())
                artifact = self.locate(manifest["kind"], manifest["name"], manifest["key"])
            except (OSError, ValueError, KeyError):
                continue
            if artifact.path != manifest_file.parent:  # the user's copy of it, which no step finds
                continue
            artifacts.append((manifest.get("finished_at", 0), artifact.ref, artifact))
        yield from (artifact for _, _, artifact in sorted(artifacts))

    def named(self, facts: Mapping[str, str]) -> Artifact:
        """The artifact in this store that has these `facts`, of a manifest or a journal; of raw material it may be one
        file. They name other places if the home was moved."""
        artifact, path = self.locate(facts["kind"], facts["name"], facts["key"]), Path(facts["path"])
        if facts["kind"] in GIVEN_KINDS:
            return replace(artifact, path=path)
        return artifact if path.name == artifact.path.name else replace(artifact, path=artifact.path / path.name)

    def parents(self, artifact: Artifact) -> list[Artifact]:
        """The inputs recorded in a finished artifact's manifest."""
        return [self.named(facts) for facts in artifact.manifest.inputs]

    def ancestors(
        self, artifacts: Sequence[Artifact], also_read: Mapping[str, Sequence[Artifact]] = {}
    ) -> list[Artifact]:
        """Artifacts and everything they were made from, each once, raw files first. `also_read` maps keys to the inputs
        that a run really gave, where a manifest names another artifact with the same content."""

        def made_from(artifact: Artifact) -> Sequence[Artifact]:
            has_manifest = artifact.kind not in GIVEN_KINDS and artifact.finished
            return (also_read.get(artifact.key) or self.parents(artifact)) if has_manifest else ()

        return reached(artifacts, made_from)

    @contextmanager
    def draft(
        self, target: Artifact, *, resumable: bool, wait: Callable[[str], None] | None = None
    ) -> Iterator[Draft[Any]]:
        """Open a draft to fill before `finish` is called. A resumable draft keeps what an interrupted run left in it.
        If another process fills it, call `wait` and wait until it has ended: the artifact may be there then. Without
        `wait`, raise RatchetError."""
        path = self._drafts / f"{target.kind}-{target.name}-{target.key[:12]}"
        with disk_errors(self.root):
            self._drafts.mkdir(parents=True, exist_ok=True)
        with exclusive(_lock_of(path), f"is making {target.ref}", wait):
            if not resumable:
                shutil.rmtree(path, ignore_errors=True)
            with disk_errors(self.root):
                path.mkdir(exist_ok=True)
                yield Draft(path, MANIFESTS[target.kind].result())

    def finish(self, target: Artifact, draft: Draft[Any], *, step: str, step_version: int, parameters: Parameters,
               inputs: Sequence[Artifact], started_at: float, whole: Sequence[Artifact] = (),
               code: Mapping[str, str] = {}) -> Artifact:  # fmt: skip
        """Write the manifest, make everything durable, and give the directory its name."""
        finished_at = time.time()
        for left in draft.path.rglob(f"*{HALF_WRITTEN}"):  # only now: another process may have been writing it
            left.unlink()
        files: dict[str, FileFacts] = {}
        for file in sorted(p for p in draft.path.rglob("*") if p.is_file() and p.name != MANIFEST):
            name = str(file.relative_to(draft.path))
            files[name] = FileFacts(bytes=file.stat().st_size, sha256=sha256_file(file))
        manifest = MANIFESTS[target.kind](
            kind=target.kind,
            name=target.name,
            key=target.key,
            step=step,
            step_version=step_version,
            code=code_version(),
            own_code=dict(code),
            parameters=decisive(parameters),
            inputs=[artifact.facts | {"content": artifact.content(artifact in whole)} for artifact in inputs],
            counts=draft.counts,
            files=files,
            versions=library_versions(),
            started_at=started_at,
            finished_at=finished_at,
            seconds=round(finished_at - started_at, 3),
            **({"declaration": declaration} if (declaration := os.environ.get(DECLARATION)) else {}),
            **draft.result.model_dump(exclude_unset=True),
        )
        content = json.dumps(manifest.as_json(), indent=1, ensure_ascii=False)
        with disk_errors(self.root):
            (draft.path / MANIFEST).write_text(content)
            replace_directory(draft.path, target.path)
        self._intact |= {target.path / name for name in files}
        return target

    def unfinished(self) -> list[Path]:
        """Drafts that no process is filling, and directories whose deletion was interrupted."""
        drafts = sorted(path for path in self._drafts.glob("*") if path.is_dir())
        return [path for path in drafts if not is_locked(_lock_of(path))]

    def remove(self, directory: Path) -> None:
        """Delete an artifact or a draft. Interrupted, it leaves an unfinished directory, never half an artifact."""
        gone = self._drafts / f"{directory.parent.name}-{directory.name}.removed"
        if directory.parent != self._drafts:
            self._drafts.mkdir(exist_ok=True)
            if gone.exists():  # left of an earlier deletion
                shutil.rmtree(gone)
            os.rename(directory, gone)
            directory = gone
        shutil.rmtree(directory)
        directory.with_name(directory.name + ".lock").unlink(missing_ok=True)


def _check_names(*paths: Path) -> None:
    """Raises RatchetError for a name that no record can hold."""
    for path in map(str, paths):
        if path.encode(errors="ignore").decode() != path:
            raise RatchetError(f"{path!a}: this name is not in UTF-8. Rename it.")


def _lock_of(draft: Path) -> Path:
    return draft.with_name(draft.name.removesuffix(".replaced") + ".lock")
