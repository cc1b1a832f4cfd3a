"""Lineage in both directions, from the manifests of one store alone.

Artifacts of one kind and name with the same content count as one: a step that read one has read the other. A file is
known by its content, also when it was generated: the same file at two places is one.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ratchet.infra.store.artifacts import FILE_KIND, GIVEN_KINDS, Artifact, ArtifactStore, reached, resolve
from ratchet.verifiers.errors import RatchetError


class Lineage:
    """The relation of artifacts and those they were made from; `made_from` and `used_by` are its two directions, read
    once."""

    def __init__(self, store: ArtifactStore) -> None:
        self.store = store
        self.known: dict[str, Artifact] = {artifact.key: artifact for artifact in store.all() if _is_readable(artifact)}
        """Artifacts by key, oldest first: the store's, then the given files and models."""
        self._made_from: dict[str, dict[str, Artifact]] = defaultdict(dict)
        self._used_by: dict[str, dict[str, Artifact]] = defaultdict(dict)
        self.changed: set[tuple[str, str]] = set()
        """Pairs (input's key, output's key) where the input has since been made again with other content."""
        same: dict[tuple[str, str, str], list[Artifact]] = defaultdict(list)
        artifacts = list(self.known.values())
        for artifact in artifacts:
            for content in {artifact.content(), artifact.content(whole=True)}:
                same[artifact.kind, artifact.name, content].append(artifact)
            for name, facts in artifact.manifest.files.items() if artifact.kind == "raw" else ():
                file = Artifact(FILE_KIND, name, facts.sha256, artifact.path / name)
                self._link(artifact, self.known.setdefault(file.key, file))
        for artifact in artifacts:
            for facts in artifact.manifest.inputs:
                read, content = self._read(facts), facts.get("content", "")
                in_store = read.kind not in (*GIVEN_KINDS, "raw") and read.key in self.known
                if in_store and content not in (read.content(), read.content(whole=True)):
                    self.changed.add((read.key, artifact.key))
                for source in [read, *same[read.kind, read.name, content]]:
                    if source.key != artifact.key:
                        self._link(source, artifact)

    def made_from(self, artifact: Artifact) -> list[Artifact]:
        return list(self._made_from[artifact.key].values())

    def used_by(self, artifact: Artifact) -> list[Artifact]:
        return list(self._used_by[artifact.key].values())

    def behind(self, artifact: Artifact) -> list[Artifact]:
        """Everything that the artifact was made from."""
        return reached([artifact], self.made_from)[:-1]

    def ahead(self, artifact: Artifact) -> list[Artifact]:
        """Everything that was made from the artifact."""
        return reached([artifact], self.used_by)[:-1]

    def find(self, what: str) -> Artifact:
        """An artifact by any name that `resolve` takes, or a file anywhere, which is known by its content. Raises
        RatchetError for no match or several."""
        path = Path(what).expanduser()
        if path.is_file():
            inside = [a for a in self.known.values() if a.kind not in (FILE_KIND, "raw") and a.path.is_dir()]
            if not any(artifact.path.resolve() in path.resolve().parents for artifact in inside):
                key = self.store.file(path).key
                if key not in self.known:
                    raise RatchetError(f"Nothing in {self.store.root} was made from {path} (sha256 {key}).")
                return self.known[key]
        return resolve(what, self.known.values(), self.store.root)

    def _read(self, facts: dict[str, Any]) -> Artifact:
        """An input that a manifest names; for generated raw material, the file."""
        if facts["kind"] in GIVEN_KINDS:
            return self.known.setdefault(facts["key"], Artifact.of(facts))
        file, raw = Path(facts["path"]).name, self.known.get(facts["key"])
        if facts["kind"] == "raw" and raw and file in raw.manifest.files:
            return self.known[raw.manifest.files[file].sha256]
        return raw or self.store.locate(facts["kind"], facts["name"], facts["key"])

    def _link(self, read: Artifact, output: Artifact) -> None:
        self._made_from[output.key][read.key] = read
        self._used_by[read.key][output.key] = output


def _is_readable(artifact: Artifact) -> bool:
    """False for a damaged artifact, which `check` names where it is used."""
    try:
        return bool(artifact.manifest)
    except RatchetError:
        return False


def stages_up_to(checkpoint: Artifact, parents: Callable[[Artifact], Sequence[Artifact]]) -> list[Artifact]:
    """The checkpoints of the training stages that end in this one, in order, from the first after one that was deleted;
    empty if no stage trained it."""
    chain: list[Artifact] = []
    at: Artifact | None = checkpoint
    while at and at.kind == "checkpoint" and at.finished and at.manifest.step == "train":
        chain.insert(0, at)
        at = next((read for read in parents(at) if read.kind == "checkpoint"), None)
    return chain
