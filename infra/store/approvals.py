"""A person's decisions at the gates of runs: one small file in the home for each.

A decision belongs to the content and not to the run: approved once, the same content passes in every run.
"""

import getpass
import time
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ValidationError

from ratchet.data_curation.base.files import content_key, write_atomically
from ratchet.infra.settings import Settings
from ratchet.infra.store.artifacts import Artifact
from ratchet.verifiers.errors import RatchetError


class Approval(BaseModel, frozen=True):
    """A gate that a run has reached, and the decision about it."""

    recipe: str
    gate: str
    """`curated`, `start`, or a stage."""
    key: str
    artifacts: tuple[str, ...]
    summary: str = ""
    run: str = ""
    """The beginning of the names of the last run that waited here; empty if none has."""
    flow_run: str = ""
    """The suspended run's id in Prefect."""
    approved: bool | None = None
    by: str = ""
    at: float = 0.0
    reason: str = ""

    def __str__(self) -> str:
        decision = "approved" if self.approved else "rejected"
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.at))
        return f"{self.gate} {decision} by {self.by}, {when}{f': {self.reason}' if self.reason else ''}"

    def decided(self, approved: bool, by: str = "", reason: str = "") -> "Approval":
        decision = {"approved": approved, "by": by or getpass.getuser(), "at": time.time(), "reason": reason}
        return self.model_copy(update=decision)


class Approvals:
    """The gates that runs of a home have reached."""

    def __init__(self, settings: Settings) -> None:
        self._folder = settings.home / "approvals"

    def of(self, recipe: str, gate: str, artifacts: Sequence[Artifact]) -> Approval:
        """The decision about this content at this gate, or an undecided one."""
        names = [(f"{artifact.kind}/{artifact.name}", artifact.content()) for artifact in artifacts]
        refs = tuple(artifact.ref for artifact in artifacts)
        undecided = Approval(recipe=recipe, gate=gate, key=content_key(names)[:12], artifacts=refs)
        file = self._file(undecided)
        return _read(file) if file.is_file() else undecided

    def all(self) -> list[Approval]:
        """All approvals, oldest first."""
        return [_read(file) for file in sorted(self._folder.glob("*.json"), key=lambda file: file.stat().st_mtime)]

    def save(self, approval: Approval) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self._file(approval), approval.model_dump_json(indent=1))

    def _file(self, approval: Approval) -> Path:
        return self._folder / f"{approval.recipe}-{approval.gate}-{approval.key}.json"


def _read(file: Path) -> Approval:
    try:
        return Approval.model_validate_json(file.read_bytes())
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, fault["loc"])) or "the file"
        raise RatchetError(f"{file}: {where}: {fault['msg']}. Repair it, or delete it and decide again.") from error
