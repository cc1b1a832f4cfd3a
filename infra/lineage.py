"""Lineage both ways, from the manifests of one store alone: what an artifact was made from, and what was made from it.

An artifact that was made again and came out the same stands beside the first, because whoever read the one has read the
other. A file is known by its content, a generated one too: the same file at two places is one.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from ratchet.infra.artifacts import FILE_KIND, GIVEN_KINDS, Artifact, ArtifactStore
from ratchet.infra.errors import RatchetError

SHOWN = 12
"""How many candidates an error names."""


class Lineage:
    """Both directions are one relation, read once: what is behind a thing has that thing ahead."""

    def __init__(self, store: ArtifactStore) -> None:
        self.store = store
        # What is damaged is left out; `check` names it where it is used.
        whole = (artifact for artifact in store.all() if artifact.manifest.keys() >= {"files", "inputs", "counts"})
        self.known: dict[str, Artifact] = {artifact.key: artifact for artifact in whole}
        """By key, oldest first: what the store has made, then the files and models that were given."""
        self._made_from: dict[str, dict[str, Artifact]] = defaultdict(dict)
        self._used_by: dict[str, dict[str, Artifact]] = defaultdict(dict)
        self.changed: set[tuple[str, str]] = set()
        """Keys of what was read and has been made again since, otherwise, and of what was made from it before."""
        same: dict[tuple[str, str, str], list[Artifact]] = defaultdict(list)
        made = list(self.known.values())
        for artifact in made:
            for content in {artifact.content(), artifact.content(whole=True)}:
                same[artifact.kind, artifact.name, content].append(artifact)
            for name, facts in artifact.manifest["files"].items() if artifact.kind == "raw" else ():
                self._link(artifact, self._file(name, facts["sha256"], artifact.path / name))
        for artifact in made:
            for facts in artifact.manifest["inputs"]:
                read, content = self._read(facts), facts.get("content", "")
                if self._made(read) and content not in (read.content(), read.content(whole=True)):
                    self.changed.add((read.key, artifact.key))
                for each in [read, *same[read.kind, read.name, content]]:
                    if each.key != artifact.key:
                        self._link(each, artifact)

    def made_from(self, artifact: Artifact) -> list[Artifact]:
        return list(self._made_from[artifact.key].values())

    def used_by(self, artifact: Artifact) -> list[Artifact]:
        return list(self._used_by[artifact.key].values())

    def behind(self, artifact: Artifact) -> list[Artifact]:
        """Everything it was made from, nearest first."""
        return _reached(artifact, self.made_from)

    def ahead(self, artifact: Artifact) -> list[Artifact]:
        """Everything that was made from it, nearest first."""
        return _reached(artifact, self.used_by)

    def find(self, what: str) -> Artifact:
        """By `kind/name-key12`, a beginning of it or of its key, a name, a path in the store, or a file anywhere, which
        is known by its content. Raises RatchetError when nothing is meant, or several things are."""
        path = Path(what).expanduser()
        if path.exists() and (found := self._at(path)):
            return found
        ways: tuple[Callable[[Artifact], bool], ...] = (
            lambda a: what in (a.ref, a.key),
            lambda a: len(what) >= 6 and a.key.startswith(what),
            lambda a: what in (a.name, f"{a.kind}/{a.name}"),
            lambda a: a.ref.startswith(what),
        )
        for meant in ways:
            candidates = [artifact for artifact in self.known.values() if meant(artifact)]
            if len(candidates) == 1:
                return candidates[0]
            if candidates:
                more = f" and {len(candidates) - SHOWN} more" if len(candidates) > SHOWN else ""
                listed = ", ".join(artifact.ref for artifact in candidates[-SHOWN:])
                raise RatchetError(f"{what!r} is {len(candidates)} artifacts: {listed}{more}. Say which.")
        raise RatchetError(f"No artifact {what!r} in {self.store.root}. `ratchet show` lists what there is.")

    def _at(self, path: Path) -> Artifact | None:
        made = {artifact.path.resolve(): artifact for artifact in self.known.values()}
        inside = next((made[p] for p in (path.resolve(), *path.resolve().parents) if p in made), None)
        if inside and not (inside.kind == "raw" and path.is_file()):
            return inside
        if not path.is_file():
            return None
        key = self.store.file(path).key
        if key not in self.known:
            raise RatchetError(f"Nothing in {self.store.root} was made from {path} (sha256 {key}).")
        return self.known[key]

    def _read(self, facts: dict[str, Any]) -> Artifact:
        """What an input was, as a manifest says; of raw material that was generated, the file."""
        if facts["kind"] in GIVEN_KINDS:
            given = Artifact(facts["kind"], facts["name"], facts["key"], Path(facts["path"]))
            return self.known.setdefault(given.key, given)
        file, raw = Path(facts["path"]).name, self.known.get(facts["key"])
        if facts["kind"] == "raw" and raw and file in raw.manifest["files"]:
            return self.known[raw.manifest["files"][file]["sha256"]]
        return raw or self.store.locate(facts["kind"], facts["name"], facts["key"])

    def _made(self, artifact: Artifact) -> bool:
        return artifact.kind not in (*GIVEN_KINDS, "raw") and artifact.key in self.known

    def _file(self, name: str, sha256: str, path: Path) -> Artifact:
        return self.known.setdefault(sha256, Artifact(FILE_KIND, name, sha256, path))

    def _link(self, read: Artifact, made: Artifact) -> None:
        self._made_from[made.key][read.key] = read
        self._used_by[read.key][made.key] = made


def _reached(start: Artifact, following: Callable[[Artifact], Sequence[Artifact]]) -> list[Artifact]:
    found: dict[str, Artifact] = {start.key: start}
    for artifact in (queue := [start]):  # grows
        fresh = [each for each in following(artifact) if each.key not in found]
        found |= {each.key: each for each in fresh}
        queue += fresh
    return queue[1:]


def scores(artifacts: Iterable[Artifact]) -> list[Artifact]:
    return [artifact for artifact in artifacts if artifact.kind == "evaluation" and artifact.finished]


def stages_up_to(checkpoint: Artifact, parents: Callable[[Artifact], Sequence[Artifact]]) -> list[Artifact]:
    """The checkpoints of the training stages that end in this one, in order; empty if no stage trained it."""
    chain: list[Artifact] = []
    at: Artifact | None = checkpoint
    while at and at.kind == "checkpoint" and at.manifest["step"] == "train":
        chain.insert(0, at)
        at = next((read for read in parents(at) if read.kind == "checkpoint"), None)
    return chain
