"""What is recorded of an artifact, in the `manifest.json` of its directory: a class for each kind.

Unknown fields are ignored when a manifest is read, so that a home of another version can be read; they are refused when
one is written.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from ratchet.infra.store.artifacts import Artifact


class FileFacts(BaseModel):
    model_config = ConfigDict(frozen=True)
    bytes: int
    sha256: str


class Manifest(BaseModel):
    """What is recorded of every artifact."""

    model_config = ConfigDict(frozen=True)
    kind: str
    name: str
    key: str
    step: str
    step_version: int = 0
    code: str = ""
    """Version of Ratchet that made it."""
    own_code: dict[str, str] = {}
    """Hash of each module of the user's own that the step ran."""
    parameters: dict[str, Any]
    inputs: list[dict[str, str]]
    """`Artifact.facts` of each input, with its `content`."""
    counts: dict[str, int]
    files: dict[str, FileFacts]
    versions: dict[str, Any] = {}
    """Versions of the libraries that decide results."""
    started_at: float = 0.0
    finished_at: float = 0.0
    """Seconds since 1970."""
    seconds: float = 0.0
    declaration: str = ""
    """Hash of the pre-registered experiment that the run belonged to."""
    headline: str = ""
    """The result in one line."""
    metrics: dict[str, float | int | None] = {}
    shown: list[str] = []
    """Files for a person to look at."""
    isolation: str = ""
    """How the programs that the step judged were confined."""

    def as_json(self) -> dict[str, Any]:
        """As it is in the file."""
        return self.model_dump(mode="json", exclude_unset=True)

    @classmethod
    def of(cls, artifact: "Artifact") -> Self:
        """The manifest of a finished artifact of this kind."""
        manifest = artifact.manifest
        assert isinstance(manifest, cls), f"{artifact.ref} is no {cls.__name__}"
        return manifest


class DatasetManifest(Manifest):
    summary: dict[str, Any] | None = None
    """Counts of a curation step: `rows_in`, `rows_out`, `dropped` by rule, and the step's own."""


class AttemptsManifest(Manifest):
    endpoints: dict[str, Any] = {}
    """What the teacher's endpoint did not accept."""


class PromptComparison(BaseModel):
    """User turns of a warm start beside those of training."""

    different: int
    of: int
    traces: str
    """An example, as the traces word it."""
    training: str
    """The same in the recipe's template."""


class TracesManifest(AttemptsManifest):
    rejected: dict[str, int] = {}
    """Rows that were set aside, by rule."""
    prompts: PromptComparison | None = None


class CheckpointManifest(Manifest):
    interventions: list[dict[str, Any]] = []
    """Lines of `decisions.jsonl`, as `AppliedIntervention.of` reads them."""


class EvaluationManifest(Manifest):
    warnings: list[str] = []


class ReportManifest(Manifest):
    summary_table: list[dict[str, Any]] = []


class GateManifest(Manifest):
    passed: bool


MANIFESTS: Mapping[str, type[Manifest]] = {
    "problems": DatasetManifest, "attempts": AttemptsManifest, "traces": TracesManifest,
    "checkpoint": CheckpointManifest, "evaluation": EvaluationManifest, "report": ReportManifest, "gate": GateManifest,
}  # fmt: skip
"""By kind of artifact; `Manifest` for the others."""


def manifest_class(kind: str) -> type[Manifest]:
    return MANIFESTS.get(kind, Manifest)
