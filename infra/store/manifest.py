"""Records of artifacts, the `manifest.json` of their directories: a class for each kind, with what its step
fills in (a `StepResult`). Unknown fields are ignored, so that a home of another version can be read.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict

from ratchet.data_curation.base.draft import DatasetResult, StepResult

if TYPE_CHECKING:
    from ratchet.infra.store.artifacts import Artifact


class FileFacts(BaseModel):
    """The size and hash of one file of an artifact."""

    model_config = ConfigDict(frozen=True)
    bytes: int
    sha256: str


class Manifest(StepResult):
    """Record of an artifact, of any kind."""

    result: ClassVar[type[StepResult]] = StepResult
    """Fields that the step fills in."""
    model_config = ConfigDict(frozen=True)
    kind: str
    name: str
    key: str
    step: str
    step_version: int = 0
    code: str = ""
    """The version of Ratchet that made the artifact."""
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
    """Time of the end, in seconds since 1970."""
    seconds: float = 0.0
    declaration: str = ""
    """Hash of the pre-registered experiment that the run belonged to."""

    def as_json(self) -> dict[str, Any]:
        """The manifest as it is in the file."""
        return self.model_dump(mode="json", exclude_unset=True)

    @classmethod
    def of(cls, artifact: "Artifact") -> Self:
        """Read the manifest of a finished artifact of this kind."""
        manifest = artifact.manifest
        assert isinstance(manifest, cls), f"{artifact.ref} is no {cls.__name__}"
        return manifest


class AttemptsResult(StepResult):
    endpoints: dict[str, Any] = {}
    """Parameters that the teacher's endpoint did not accept."""


class PromptComparison(BaseModel):
    """A comparison of the user turns of a warm start with those of training."""

    different: int
    of: int
    traces: str
    """An example as the traces word it."""
    training: str
    """The example in the recipe's template."""


class TracesResult(AttemptsResult):
    rejected: dict[str, int] = {}
    """Rows that were set aside, by rule."""
    prompts: PromptComparison | None = None


class CheckpointResult(StepResult):
    interventions: list[dict[str, Any]] = []
    """Lines of `decisions.jsonl`, as `AppliedIntervention.of` reads them."""


class EvaluationResult(StepResult):
    warnings: list[str] = []


class ReportResult(StepResult):
    summary_table: list[dict[str, Any]] = []


class GateResult(StepResult):
    passed: bool = False


class DatasetManifest(Manifest, DatasetResult):
    result = DatasetResult


class AttemptsManifest(Manifest, AttemptsResult):
    result = AttemptsResult


class TracesManifest(Manifest, TracesResult):
    result = TracesResult


class CheckpointManifest(Manifest, CheckpointResult):
    result = CheckpointResult


class EvaluationManifest(Manifest, EvaluationResult):
    result = EvaluationResult


class ReportManifest(Manifest, ReportResult):
    result = ReportResult


class GateManifest(Manifest, GateResult):
    result = GateResult


MANIFESTS: Mapping[str, type[Manifest]] = defaultdict(lambda: Manifest, {
    "problems": DatasetManifest, "attempts": AttemptsManifest, "traces": TracesManifest,
    "checkpoint": CheckpointManifest, "evaluation": EvaluationManifest, "report": ReportManifest, "gate": GateManifest,
})  # fmt: skip
"""Manifest class of each kind of artifact; `Manifest` for the others."""
