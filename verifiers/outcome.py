"""Verdicts."""

from dataclasses import dataclass
from enum import Enum


class Outcome(str, Enum):
    """The outcome of judging a response."""

    PASSED = "passed"
    FAILED = "failed"
    UNPARSEABLE = "unparseable"  # no box, no code block, an unclosed think; or a problem that cannot be judged
    TIMEOUT = "timeout"
    INFRA_ERROR = "infra_error"  # a fault of this machine, retried, or of the problem's checker: no reward, never zero


@dataclass(frozen=True, slots=True)
class Verdict:
    """One judged response.

    `fraction` is the share of tests passed, in [0, 1] (math: 0 or 1). `decided_by` names what decided: the tier of the
    math comparison, or the failure of a program (`wrong_answer`, `runtime_error`, `compile_error`, `output_limit`,
    `memory_limit`, `time_limit`), or, with the reason in `detail`, `invalid_problem` or `checker`, where the problem
    itself is at fault. `extracted` is the judged answer or program.
    """

    outcome: Outcome
    fraction: float = 0.0
    decided_by: str = ""
    detail: str = ""
    extracted: str | None = None

    def __post_init__(self) -> None:
        if not self.detail.isascii():  # halves of surrogate pairs, which no file in UTF-8 can hold
            object.__setattr__(self, "detail", self.detail.encode("utf-8", "backslashreplace").decode())

    @property
    def passed(self) -> bool:
        return self.outcome is Outcome.PASSED
