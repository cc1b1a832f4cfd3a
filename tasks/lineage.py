"""The way back from an artifact to the raw files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ratchet.infra.artifacts import GIVEN_KINDS, Artifact, ArtifactStore


def ancestors(artifacts: Sequence[Artifact], store: ArtifactStore) -> list[Artifact]:
    """Everything these were made from, themselves included, each once, raw files first."""
    found: dict[tuple[str, str], Artifact] = {}

    def visit(artifact: Artifact) -> None:
        if (artifact.kind, artifact.key) in found:
            return
        if artifact.kind not in GIVEN_KINDS and artifact.finished:
            for parent in parents(artifact, store):
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
