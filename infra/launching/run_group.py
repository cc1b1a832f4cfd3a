"""Launches a process group, follows it to its end, and reads how it ended."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ratchet.infra.launching.group import STATUS, ProcessGroup
from ratchet.infra.launching.launcher import Local
from ratchet.infra.launching.slurm import Slurm
from ratchet.verifiers.processes import last_lines

POLL_S = 0.2


@dataclass(frozen=True)
class GroupResult:
    """How a process group ended."""

    code: int
    state: str
    """`finished`, `failed`, `stopped` on request, or "" if it left no status."""
    message: str
    """The reason of a failure, or a warning."""
    log: Path

    @property
    def finished(self) -> bool:
        return self.state == "finished" and not self.code

    @property
    def reason(self) -> str:
        """Why it has not finished: its own words, or the end of its log."""
        if self.state == "failed":
            return self.message
        return f"ended with code {self.code} before it was finished. The end of {self.log}:\n{last_lines(self.log, 25)}"


def run_group(
    group: ProcessGroup, launcher: Local | Slurm, follow: Callable[[], object], say: Callable[[str], None]
) -> GroupResult:
    """Run a group to its end. `follow` is called while it runs and once after; `say` gets a message for each wait.
    Raises JobPreempted if the group loses its machines."""
    with launcher.launch(group, say) as running:
        while (code := running.poll()) is None:
            follow()
            time.sleep(POLL_S)
    follow()
    return GroupResult(code, *read_status(group.work), group.log)


def read_status(work: Path) -> tuple[str, str]:
    """State and message that a group left in its directory; empty if it left none."""
    if not (work / STATUS).is_file():
        return "", ""
    status = json.loads((work / STATUS).read_text())
    return status["state"], status["message"]
