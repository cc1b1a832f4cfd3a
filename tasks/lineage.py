"""The way back from an artifact to the raw files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ratchet.infra.artifacts import GIVEN_KINDS, Artifact, ArtifactStore


def ancestors(
    artifacts: Sequence[Artifact], store: ArtifactStore, used: Mapping[str, Sequence[Artifact]] = {}
) -> list[Artifact]:
    """Everything these were made from, themselves included, each once, raw files first. `used` says by key what a run
    reads where it differs from what a manifest says: the same content under another key."""
    found: dict[tuple[str, str], Artifact] = {}

    def visit(artifact: Artifact) -> None:
        if (artifact.kind, artifact.key) in found:
            return
        if artifact.kind not in GIVEN_KINDS and artifact.finished:
            for parent in used.get(artifact.key) or parents(artifact, store):
                visit(parent)
        found[artifact.kind, artifact.key] = artifact

    for artifact in artifacts:
        visit(artifact)
    return list(found.values())


def parents(artifact: Artifact, store: ArtifactStore) -> list[Artifact]:
    """What this finished artifact was made from, as its manifest says."""
    return [
        Artifact(facts["kind"], facts["name"], facts["key"], Path(facts["path"]))
        if facts["kind"] in GIVEN_KINDS
        else store.locate(facts["kind"], facts["name"], facts["key"])
        for facts in artifact.manifest["inputs"]
    ]
