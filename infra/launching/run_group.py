"""Launch a process group, follow it to its end, and read its result."""

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ratchet.infra.launching.group import BEGINS, STATUS, ProcessGroup
from ratchet.infra.launching.launcher import Local
from ratchet.infra.launching.slurm import Slurm

POLL_S = 0.2
LAUNCHER_PREFIX = re.compile(r"^[EWI]\d{4} \S+ \d+ \S+\] ?", re.MULTILINE)


@dataclass(frozen=True)
class GroupResult:
    """The end of a process group."""

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
        """The reason why the group has not finished: its own message, or the end of its log."""
        if self.state == "failed":
            return self.message
        said = last_output(self.log)
        end = rank_error(said) or "\n".join(said.splitlines()[-25:]) or "(no output)"
        return f"ended with code {self.code} before it was finished. From {self.log}:\n{end}"


def last_output(log: Path) -> str:
    """The output of the last group that was started with this log: those before it may have failed otherwise."""
    text = log.read_text(errors="replace") if log.is_file() else ""
    _, marker, after = text.rpartition(BEGINS)
    return after.partition("\n")[2] if marker else text


def rank_error(text: str) -> str:
    """The end of the traceback of the rank that failed first, which torch's launcher logs; "" if it logged none."""
    _, marker, after = LAUNCHER_PREFIX.sub("", text).rpartition("terminated with the following error:\n")
    return "\n".join(after.split("\n\n")[0].splitlines()[-8:]) if marker else ""


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
    """The state and the message that a group left in its directory; empty if it left none."""
    if not (work / STATUS).is_file():
        return "", ""
    status = json.loads((work / STATUS).read_text())
    return status["state"], status["message"]
