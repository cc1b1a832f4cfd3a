"""Limits and results of tests in a sandbox."""

import dataclasses
import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ratchet.verifiers.sandbox import ASKED, STOPPED

LONGEST_REPORT_BYTES = 8 << 20
DETAIL_CHARACTERS = 300
"""Most characters of the reason why a test failed, which may be the program's text."""
ERROR_BYTES = 64 << 10
"""Most bytes read from a native program's standard error."""
_DECODE = json.JSONDecoder().decode


@dataclass(frozen=True)
class Limits:
    """Limits: seconds of CPU time plus sleep for one test and for all; CPU seconds of a check itself; bytes of memory,
    and of an interactor's."""

    test_s: float
    total_s: float
    memory_bytes: int
    output_bytes: int
    check_s: float = 0.0
    check_bytes: int = 0


@dataclass(frozen=True)
class TestRun:
    """The result of one test.

    `status`: `done`; `raised` (uncaught exception or non-zero exit); `exhausted` (MemoryError); `uncompilable`;
    `unprepared` (the prelude failed, before the solution); `exited` (the process ended with code 0 during the test);
    `died` (by a signal or a non-zero code); `flooded` (too much output); `timed_out`; `not_run`. `output` are the bytes
    on standard output, or the encoded value of a call (`harness._encode`). `seconds` is what the solution's process
    reports: for display, not for decisions.
    """

    __test__ = False  # not a pytest class
    status: str
    output: bytes = b""
    detail: str = ""
    seconds: float = 0.0
    loaded: bool = False
    """True if the test ran out of time while the machine was busy, which may be the reason."""


@dataclass(frozen=True)
class Execution:
    """The results of a batch of tests, and the seconds of CPU and sleep they took."""

    runs: list[TestRun]
    spent_s: float


@dataclass(frozen=True)
class CheckExecution:
    """The records of checks (`checking.run_checks`), each with whether the check used the program; the same for a check
    without a record; how the checks' process ended (`exited`, `timed_out`, `exhausted`); how the program ended, if by
    itself or at its limit; and the seconds it took."""

    records: list[tuple[bool, dict[str, Any]]]
    questioned: bool
    check_ended: str
    program: TestRun | None
    spent_s: float


@dataclass(frozen=True)
class Talker:
    """One end of a conversation: the `job` of a process in Python, with one test; or an open `executable`, its `kind`
    (`native.Workbench`), arguments, and files in its directory."""

    job: dict[str, Any] | None = None
    executable: int = -1
    kind: str = "program"
    argv: Sequence[str] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    owner: object = None
    """The owner of the executable, which keeps it open."""


@dataclass(frozen=True)
class Conversation:
    """The results of a program (None if its interactor ended first) and of the interactor, and the seconds it took."""

    program: TestRun | None
    interactor: TestRun
    spent_s: float


@dataclass(frozen=True)
class NativeRun:
    """A native program's end: `run`, of status `exited` for code 0; its exit code, negative for a signal; the beginning
    of its standard error, which only tools and checkers have; and the seconds it took."""

    run: TestRun
    code: int
    errors: bytes
    spent_s: float


def check_records(text: bytes) -> tuple[list[tuple[bool, dict[str, Any]]], bool]:
    """The `records` and `questioned` of a CheckExecution, from the report of the checks' process, which is ours."""
    *lines, last = text.split(b"\n")
    marked = [line.partition(b"{") for line in lines]
    return [(marks.endswith(ASKED), json.loads(brace + rest)) for marks, brace, rest in marked], last.endswith(ASKED)


def content(file: int, begin: int = 0, limit: int = 1 << 30) -> bytes:
    """The bytes of a file from `begin` on; its writer may truncate it meanwhile."""
    return os.pread(file, max(0, min(os.fstat(file).st_size - begin, limit)), begin)


class Report:
    """The report of a process, read as it grows; `runs` are the finished tests. It is untrusted: from the first invalid
    line on it counts as missing. What is read is a copy, see `Progress`."""

    def __init__(self, output: int, report: int, count: int, output_bytes: int) -> None:
        self._output, self._report = output, report
        self._count, self._output_bytes = count, output_bytes
        self._text, self._read, self._is_over = b"", 0, False
        self.runs: list[TestRun] = []

    def update(self, enough: Callable[[int, TestRun], bool] | None) -> bool:
        """Read on; returns True if a new run is `enough`."""
        fresh = content(self._report, self._read, LONGEST_REPORT_BYTES - self._read)
        self._read += len(fresh)
        *lines, self._text = (self._text + fresh).split(b"\n")
        number = len(self.runs)
        for line in lines:
            if not self._is_over and len(self.runs) < self._count:
                self._take(line)
        return enough is not None and any(enough(n, self.runs[n]) for n in range(number, len(self.runs)))

    def _take(self, line: bytes) -> None:
        try:
            record = _DECODE(line.decode())
            text = record.get("output")
            output = content(self._output, 0, self._output_bytes) if text is None else text.encode("latin-1")
            status, detail = str(record["status"])[:20], str(record.get("detail", ""))[:DETAIL_CHARACTERS]
            run = TestRun(status, output, detail, float(record.get("seconds", 0)))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
            self._is_over = True
            return
        if run.status in ("uncompilable", "unprepared") and not self.runs:
            self.runs = [dataclasses.replace(run, output=b"")] * self._count
        else:
            self.runs.append(TestRun("flooded", output) if len(output) >= self._output_bytes else run)

    def conclude(self, result: dict[str, Any]) -> None:
        """Add the test during which the process ended or was ended."""
        stopped = self._text == STOPPED and not self._is_over
        # A process that says it stopped before the first test is at fault all the same.
        if len(self.runs) == self._count or (self.runs and stopped) or result["ended"] in ("stopped", "over"):
            return
        code, output = os.waitstatus_to_exitcode(result["status"]), content(self._output, 0, self._output_bytes)
        ended, reason = result["ended"], ""
        if len(output) >= self._output_bytes:
            ended = "flooded"
        elif ended == "exited" and code in (-signal.SIGKILL, -signal.SIGXCPU):  # the kernel was first
            ended = "timed_out"
        elif ended == "exited" and code:
            reason = f"exit code {code}" if code > 0 else signal.Signals(-code).name
            ended = "flooded" if code == -signal.SIGXFSZ else "died"
        loaded = ended == "timed_out" and bool(result.get("loaded"))
        self.runs.append(TestRun(ended, output, reason, loaded=loaded))
