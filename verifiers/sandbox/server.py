"""The judge's side of the sandbox: start a fork server, send it jobs, read what the solutions wrote."""

import dataclasses
import functools
import json
import marshal
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ratchet.verifiers import ROOT, child_source
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.sandbox import MESSAGE_BYTES, STOP, UNCONFINED, canaries, memory_group, runs
from ratchet.verifiers.sandbox.check_source import PreparedChecks
from ratchet.verifiers.sandbox.runs import (
    CheckExecution,
    Conversation,
    Execution,
    Limits,
    NativeRun,
    Report,
    Talker,
    TestRun,
)

_START_TIMEOUT_S = 60.0
_NO_SHARING = 2
"""The version of marshal in which equal lists stay two lists: tests share no arguments."""
_LOOK_S = 0.05
"""Seconds between two looks at a running process's report."""
# Nothing of ours is inherited; sets of strings iterate in the same order in every run; threads do not use up address
# space with a heap of 128 MB each; children need not repeat lazy linking.
_ENVIRONMENT = {
    "PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1", "LD_BIND_NOW": "1",
}  # fmt: skip


class SandboxFault(Exception):
    """A fault of this machine, not of the solution: the server died, or did not answer."""


LEVELS: dict[str, str] = {
    "A": "namespaces, a private root, landlock and seccomp",
    "B": "landlock (or a private root) and seccomp",
    "C": "seccomp; files that the user of the solutions may read are open to them",
    "D": "resource limits only, which confine nothing",
}
"""Isolation levels, best first, each beside resource limits and an unprivileged user."""
NOT_STOPPED = {"C": {"read a file of the host"}}
"""Canary attacks that a level is known to let through. Level D is not attacked."""
_CONFINING = ("namespaces", "landlock", "seccomp")  # what A, B and C add to the level below


@dataclass(frozen=True)
class OfferedIsolation:
    """This machine's best level whose canary attacks were stopped; its layers, outermost first; which attacks were
    stopped and which were not; what prevents better levels. `target` is the level to launch."""

    target: str
    level: str
    layers: tuple[str, ...]
    stopped: tuple[str, ...] = ()
    escaped: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.level}: {'+'.join(self.layers)}"


def require_isolation(minimum: str = "C", at_most: str = "A") -> OfferedIsolation:
    """The isolation that this machine offers, at level `at_most` or below. Attacks the sandbox once per process.

    Raises RatchetError if that is less than `minimum`. RATCHET_UNSAFE in the environment, which `ratchet --unsafe` sets
    for every process of a run, accepts anything, with a warning.
    """
    if not sys.platform.startswith("linux"):
        raise RatchetError(f"code is judged on Linux only, this is {sys.platform}: use a Linux machine or container")
    with _examining:
        machine = _examine(at_most)
    if machine.level <= minimum:
        return machine
    reasons = "".join(f"; {reason}" for reason in machine.lacking)
    offered = f"this machine offers {machine.level} ({LEVELS[machine.level]}){reasons}"
    if os.environ.get("RATCHET_UNSAFE"):
        risk = "it can read, change and send away everything that your user can"
        warnings.warn(f"--unsafe: code written by a model is not confined, {risk}; {offered}", stacklevel=2)
        return machine
    raise RatchetError(
        f"code written by a model must run on isolation level {minimum} ({LEVELS[minimum]}) or better, and {offered}. "
        "Allow user namespaces, a kernel with landlock, and seccomp filters in the container "
        "(docs/explanation/sandbox.md says how), lower verification.minimum_isolation, or, if the machine has "
        "nothing to lose, use `ratchet --unsafe …`."
    )


_examining = threading.Lock()


@functools.cache
def _examine(minimum: str, again: bool = True) -> OfferedIsolation:
    layers: tuple[str, ...] = ()
    with _Unproven() as sandbox:
        try:
            layers = tuple(sandbox.launch(minimum))
            escaped = canaries.escaped(sandbox.run) if _level_of(layers) != "D" else []
        except SandboxFault as fault:
            if again:  # something else may have killed it
                return _examine(minimum, again=False)
            if not layers:
                raise
            escaped = [f"crash the sandbox ({fault})"]
    level, layers_needed = _level_of(layers), _CONFINING[[*LEVELS].index(minimum) :]
    lacking = tuple(f"{layer} cannot be used" for layer in layers_needed if not any(layer in name for name in layers))
    if level == "D":
        return OfferedIsolation(minimum, level, layers, lacking=lacking)
    unexpected = [name for name in escaped if name not in NOT_STOPPED.get(level, ())]
    if not unexpected:
        stopped = tuple(name for name in canaries.NAMES if name not in escaped)
        return OfferedIsolation(minimum, level, layers, stopped, tuple(escaped), lacking)
    below = _examine(chr(ord(minimum) + 1))
    reason = f"with {'+'.join(layers)} a program could still {', '.join(unexpected)}"
    return dataclasses.replace(below, lacking=(*lacking, reason, *below.lacking))


def _level_of(layers: tuple[str, ...]) -> str:
    if "seccomp" not in layers:
        return "D"
    return "CBA"[("landlock" in layers) + ("private-root" in layers)]


class Sandbox:
    """One fork server. Not thread-safe. Starts on first use and restarts after a fault.

    It is a fresh interpreter, never a fork of the caller, which may hold expected answers, locks and a GPU. It runs on
    the best level that this machine offers, none below `minimum`; tests force a lower one with `at_most`.

    With `work`, a module and the argument of its function `work`, its processes do that instead of running programs. It
    needs no proof: level B, with `site` readable and the variables `inherited` in the environment.
    """

    def __init__(
        self, minimum: str = "C", at_most: str = "A", *, work: tuple[str, str] | None = None, site: Sequence[str] = (),
        inherited: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.minimum, self.at_most = minimum, at_most
        self.work = work
        self.site = site or [*dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))]
        self.inherited = inherited
        self.native: list[str] | None = None
        """Paths that compilers read, for a server of native programs (`native.py`)."""
        self.beside: Sandbox | None = None
        """A server of native programs, closed with this one."""
        self.isolation = ""
        """The level and its layers, once started."""
        self._process: subprocess.Popen | None = None
        self._channel: socket.socket | None = None

    def start(self) -> None:
        """Start the server if it is not running. Raises RatchetError if the machine offers less than demanded."""
        if self._process is not None and self._process.poll() is None:
            return
        if self.work:
            self.launch("B")
        else:
            self._launch_proven(require_isolation(self.minimum, self.at_most))

    def _launch_proven(self, machine: OfferedIsolation) -> None:
        if self.launch(machine.target) != list(machine.layers):
            raise SandboxFault("the sandbox server started with other layers than before")
        self.isolation = str(machine)

    def launch(self, level: str) -> list[str]:
        """Start the server with those of a level's layers that work here, proven or not, and return them."""
        self.close()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        configuration = {
            "judge_pid": os.getpid(), "channel": theirs.fileno(), "root": ROOT, "level": level, "site": self.site,
            "work": self.work, "native": self.native, "mount_point": os.path.realpath(tempfile.gettempdir()),
            "memory_group": None if self.work else os.environ.get(memory_group.NAMED_BY),
        }  # fmt: skip
        options = ["-P"] if self.work else ["-P", "-s", "-S"]
        program = child_source("ratchet.verifiers.sandbox.zygote")
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, *options, "-c", program, json.dumps(configuration)],
                pass_fds=[theirs.fileno()],
                env=_ENVIRONMENT | {name: os.environ[name] for name in self.inherited if name in os.environ},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,  # Ctrl-C in the terminal is for the trainer, which then closes us
            )
        self._channel = ours
        self._channel.settimeout(_START_TIMEOUT_S)
        try:
            answer = self._answer()
        except TimeoutError as error:
            raise SandboxFault("the sandbox server does not answer") from error
        if answer["no_group"]:
            self.close()
            raise RatchetError(f"{memory_group.NAMED_BY} names no control group for memory: {answer['no_group']}")
        return answer["layers"]

    def run(
        self, source: str, tests: list[dict[str, Any]], limits: Limits, *, entry_point: str | None, prelude: str | None,
        modules: Mapping[str, str] = MappingProxyType({}), enough: Callable[[int, TestRun], bool] | None = None,
    ) -> Execution:  # fmt: skip
        """Run one program on tests in one process; a test is `{"kind": "stdin", "input": str}`, `{"kind": "call",
        "args": list, "kwargs": dict, "exact": bool}`, or a checker's (`code.checkers`). It can import `modules`, texts
        by name. Ends the process as soon as `enough` of a test's position and its run is true. Raises SandboxFault; the
        next call then starts another server."""
        job = {"source": source, "tests": tests, "entry_point": entry_point, "prelude": prelude, "modules": {**modules}}
        # The process writes its inputs itself: they may be longer than any output may be.
        longest = max(4 * len(test.get("input", "")) for test in tests)
        with _files(job, None, None, None) as files:
            report = Report(files[1], files[3], len(tests), limits.output_bytes)
            result = self._ask(files, len(tests), limits, longest, lambda: report.update(enough))
            report.update(None)
            report.conclude(result)
        return Execution(report.runs + [TestRun("not_run")] * (len(tests) - len(report.runs)), result["spent_s"])

    def check(
        self, source: str, checks: PreparedChecks, limits: Limits, *, entry_point: str, prelude: str | None,
        to_first_failure: bool, is_apart: bool = False,
    ) -> CheckExecution:  # fmt: skip
        """Run checks, each with `check(candidate)`, in a process apart from the program that they call; limits of a
        test apply to a check. With `is_apart` a check does not see changes of arguments in calls whose value it uses.
        Raises SandboxFault."""
        program = {"source": source, "tests": [], "entry_point": entry_point, "prelude": prelude}
        job = {**vars(checks), "entry_point": entry_point, "prelude": prelude,
               "to_first_failure": to_first_failure, "is_apart": is_apart}  # fmt: skip
        with _files(program, None, None, job, None, None) as files:
            result = self._ask(files, len(checks.codes), limits, 0, lambda: False)
            report = Report(files[1], files[2], 1, limits.output_bytes)
            report.update(None)
            report.conclude(result)
            records, questioned = runs.check_records(runs.content(files[5]))
        ended = report.runs[0] if report.runs else None
        return CheckExecution(records, questioned, result["check_ended"], ended, result["spent_s"])

    def converse(
        self, program: Talker, interactor: Talker, limits: Limits, accepting: Iterable[int] = ()
    ) -> Conversation:
        """Run a program whose standard input and output are the interactor's output and input. `limits.check_s` are the
        CPU seconds of the interactor. When it ends with a code that is `accepting`, the program has to end too. Raises
        SandboxFault."""
        sides = (program, interactor)
        orders = [{"kind": s.kind, "argv": s.argv, "files": [*s.files]} if s.job is None else None for s in sides]
        contents = [(side.job, None, None, *side.files.values()) for side in sides]
        # The last is in no process: each of theirs could be written to, and what is read of it would count.
        with _files(*contents[0], *contents[1], None) as (*files, unused):
            sent, reports, first = [*files, unused], [], 0
            for side, content in zip(sides, contents, strict=True):
                if side.job is None:
                    sent[first + 2] = side.executable
                report = files[first + 2] if side.job is not None else unused
                reports.append((Report(unused, report, 1, limits.output_bytes), files[first + 1]))
                first += len(content)
            order = {"joined": orders, "program_files": len(contents[0]), "accepting": [*accepting]}
            result = self._ask(sent, 1, limits, 0, lambda: False, order)
            for side, (report, failure) in zip(sides, reports, strict=True):
                if side.job is None and (reason := runs.content(failure)):
                    raise SandboxFault(f"{side.argv[0]} cannot be run: {reason.decode()}")
                report.update(None)
            (program_report, _), (interactor_report, _) = reports
            program_report.conclude(result)
            interactor_report.conclude({"ended": result["check_ended"], "status": result["check_status"]})
        ended = program_report.runs[0] if result["ended"] != "over" else None
        return Conversation(ended, interactor_report.runs[0], result["spent_s"])

    def run_native(
        self, kind: str, executable: int, argv: list[str], stdin: bytes, limits: Limits,
        files: Mapping[str, bytes] | None = None, result: str = "",
    ) -> NativeRun:  # fmt: skip
        """Run the program in the open file `executable` as `kind` (`native.Workbench`), with `stdin` on standard input
        and `files` in its directory; `result` names a file there that is its output instead. Raises SandboxFault."""
        files = files or {}
        order = {"kind": kind, "argv": argv, "result": result, "files": [*files]}
        with _files(stdin, None, None, None, *files.values(), None) as (*opened, copy):
            opened.insert(4, executable)
            answer = self._ask([*opened, copy], 1, limits, 0, lambda: False, {"native": order})
            if failure := runs.content(opened[3]):
                raise SandboxFault(f"{argv[0]} cannot be run: {failure.decode()}")
            report = Report(opened[1], copy, 1, limits.output_bytes)
            report.conclude(answer)
            code = os.waitstatus_to_exitcode(answer["status"])
            errors = runs.content(opened[2], 0, runs.ERROR_BYTES)
            return NativeRun(report.runs[0], code, errors, answer["spent_s"])

    def _ask(
        self, files: list[int], count: int, limits: Limits, longest: int, is_enough: Callable[[], bool],
        more: Mapping[str, Any] = MappingProxyType({}),
    ) -> dict[str, Any]:  # fmt: skip
        """Send the job; returns the server's result."""
        self.start()
        file_bytes = max(runs.LONGEST_REPORT_BYTES + limits.output_bytes, longest)
        message = json.dumps({**vars(limits), "tests": count, "file_bytes": file_bytes, **more}).encode()
        deadline = time.monotonic() + 60.0 + 30.0 * limits.total_s
        result = None
        try:
            assert self._channel is not None
            socket.send_fds(self._channel, [message], files)
            self._channel.settimeout(_LOOK_S)
            while result is None:
                try:
                    result = self._answer()
                except TimeoutError:
                    if time.monotonic() > deadline:
                        raise SandboxFault("the sandbox server does not answer") from None
                    if is_enough():
                        self._channel.send(STOP)
        except (SandboxFault, OSError) as error:
            self.close()
            if isinstance(error, SandboxFault):
                raise
            raise SandboxFault(f"the connection to the sandbox server broke: {error}") from error
        except BaseException:  # such as Ctrl-C: what the server still sends would answer the next job
            self.close()
            raise
        for status, ended in (("status", "ended"), ("check_status", "check_ended")):
            code = os.waitstatus_to_exitcode(result.get(status, 0))
            if result.get(ended) == "exited" and code == -UNCONFINED:
                raise SandboxFault("a process could not be confined")
            if result.get(ended) == "exited" and code == -signal.SIGKILL and result["spent_s"] < limits.total_s:
                raise SandboxFault("something killed a process of the sandbox")
        return result

    def _answer(self) -> dict[str, Any]:
        assert self._channel is not None
        message = self._channel.recv(MESSAGE_BYTES)
        if not message:
            raise SandboxFault("the sandbox server ended; standard error has its last message")
        return json.loads(message)

    def close(self) -> None:
        """Stop the server and everything it started. Safe to call twice."""
        if self.beside is not None:
            self.beside.close()
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            # The server sees the end of the channel; killing the guardian first would only race with that.
            try:
                self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Unproven(Sandbox):
    """A sandbox that canaries attack: it does not restart."""

    def start(self) -> None:
        if self._process is None or self._process.poll() is not None:
            raise SandboxFault("the sandbox server went down")


@contextmanager
def _files(*contents: Any) -> Iterator[list[int]]:
    """Files in memory, each with bytes, or with a marshaled job, or empty for None."""
    files: list[int] = []
    try:
        for content in contents:
            files.append(os.memfd_create("job"))
            text = b"" if content is None else content
            if not isinstance(text, bytes):
                text = marshal.dumps(content, _NO_SHARING)
            written = 0
            while written < len(text):
                written += os.pwrite(files[-1], text[written:], written)
        yield files
    finally:
        for file in files:
            os.close(file)
