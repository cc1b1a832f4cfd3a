"""The judge's side of the sandbox: start a fork server, send it work, get back what the solution wrote."""

import dataclasses
import functools
import json
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ratchet.infra.errors import RatchetError
from ratchet.verifiers import ROOT, child_source
from ratchet.verifiers.sandbox import MESSAGE_BYTES, STOP, UNCONFINED, canaries
from ratchet.verifiers.sandbox.runs import (
    LONGEST_REPORT_BYTES,
    CheckExecution,
    Execution,
    Limits,
    TestRun,
    Told,
    content,
)

_START_TIMEOUT_S = 60.0
_LOOK_S = 0.05
"""How often what a process has reported is looked at while it runs."""
# Nothing of ours leaks in; sets of strings iterate in the same order in every run; threads do not use up the address
# space with a heap of 128 MB each; what the linker finds late, each child would find for itself.
_ENVIRONMENT = {
    "PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1", "LD_BIND_NOW": "1",
}  # fmt: skip


class SandboxFault(Exception):
    """Our machine's fault, not the solution's: the server died, or did not answer."""


RUNGS: dict[str, str] = {
    "A": "namespaces, a private root, landlock and seccomp",
    "B": "landlock (or a private root) and seccomp",
    "C": "seccomp; files that the user of the solutions may read are open to them",
    "D": "resource limits only, which confine nothing",
}
"""The isolation ladder, best first: what each rung has beside resource limits and an unprivileged user."""

NOT_STOPPED = {"C": {"read a file of the host"}}
"""Canary attacks that a rung is known to let through. Rung D is not asked."""
_CONFINING = ("namespaces", "landlock", "seccomp")  # what A, B and C add to the rung below


@dataclass(frozen=True)
class Machine:
    """What this machine offers: the best rung whose canary attacks were stopped, its layers, outermost first, which
    attacks were stopped and which were not, and what keeps it from better rungs. `asked` is the rung to launch."""

    asked: str
    rung: str
    layers: tuple[str, ...]
    stopped: tuple[str, ...] = ()
    escaped: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.rung}: {'+'.join(self.layers)}"


def demand(minimum: str = "C", at_most: str = "A") -> Machine:
    """What this machine offers at rung `at_most` or below. Attacked once in a process; later calls are free.

    Raises RatchetError when that is less than `minimum`; RATCHET_UNSAFE in the environment, which is how `ratchet
    --unsafe` reaches every process of a run, takes whatever there is, with a warning.
    """
    if not sys.platform.startswith("linux"):
        raise RatchetError(f"code is judged on Linux only, this is {sys.platform}: use a Linux machine or container")
    with _examining:
        machine = _examine(at_most)
    if machine.rung <= minimum:
        return machine
    reasons = "".join(f"; {reason}" for reason in machine.lacking)
    offered = f"this machine offers {machine.rung} ({RUNGS[machine.rung]}){reasons}"
    if os.environ.get("RATCHET_UNSAFE"):
        risk = "it can read, change and send away everything that your user can"
        warnings.warn(f"--unsafe: code written by a model is not confined, {risk}; {offered}", stacklevel=2)
        return machine
    raise RatchetError(
        f"code written by a model must run on isolation rung {minimum} ({RUNGS[minimum]}) or better, and {offered}. "
        "Allow user namespaces, a kernel with landlock, and seccomp filters in the container (docs/sandbox.md says "
        "how), lower verification.minimum_isolation, or, where nothing is to be lost, say `ratchet --unsafe …`."
    )


_examining = threading.Lock()


@functools.cache
def _examine(asked: str, again: bool = True) -> Machine:
    layers: tuple[str, ...] = ()
    with _Unproven() as sandbox:
        try:
            layers = tuple(sandbox.launch(asked))
            escaped = canaries.escaped(sandbox.run) if _reached(layers) != "D" else []
        except SandboxFault as fault:
            if again:  # somebody else may have killed it
                return _examine(asked, again=False)
            if not layers:
                raise
            escaped = [f"take the sandbox down ({fault})"]
    rung, wanted = _reached(layers), _CONFINING[[*RUNGS].index(asked) :]
    lacking = tuple(f"{layer} cannot be used" for layer in wanted if not any(layer in name for name in layers))
    if rung == "D":
        return Machine(asked, rung, layers, lacking=lacking)
    unexpected = [name for name in escaped if name not in NOT_STOPPED.get(rung, ())]
    if not unexpected:
        stopped = tuple(name for name in canaries.NAMES if name not in escaped)
        return Machine(asked, rung, layers, stopped, tuple(escaped), lacking)
    below = _examine(chr(ord(asked) + 1))
    reason = f"with {'+'.join(layers)} a program could still {', '.join(unexpected)}"
    return dataclasses.replace(below, lacking=(*lacking, reason, *below.lacking))


def _reached(layers: tuple[str, ...]) -> str:
    if "seccomp" not in layers:
        return "D"
    if "landlock" in layers:
        return "A" if "private-root" in layers else "B"
    return "B" if "private-root" in layers else "C"


class Sandbox:
    """One fork server. Not thread-safe: one owner at a time. Starts on first use and restarts after a fault.

    Started as a fresh interpreter, never forked from the caller, which may hold expected answers, locks and a GPU.
    Runs on the best rung that this machine offers, and on none below `minimum`; tests force a lower one by `at_most`.

    With `work`, a module and what its `work` is asked for, the processes do that instead of running programs, which
    needs no proof: on rung B, with `site` readable and the variables `inherited` in the environment.
    """

    def __init__(
        self,
        minimum: str = "C",
        at_most: str = "A",
        *,
        work: tuple[str, str] | None = None,
        site: Sequence[str] = (),
        inherited: Sequence[str] = (),
    ) -> None:
        self.work = work
        self.site = site or [*dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))]
        self.inherited = inherited
        self.minimum = minimum
        self.at_most = at_most
        self.isolation = ""
        """The rung and its layers, once started."""
        self._process: subprocess.Popen | None = None
        self._channel: socket.socket | None = None

    def start(self) -> None:
        """Start the server when it is not running. Raises RatchetError where the machine offers less than demanded."""
        if self._process is not None and self._process.poll() is None:
            return
        if self.work:
            self.launch("B")
            return
        machine = demand(self.minimum, self.at_most)
        if self.launch(machine.asked) != list(machine.layers):
            raise SandboxFault("the sandbox server came up with other layers than before")
        self.isolation = str(machine)

    def launch(self, rung: str) -> list[str]:
        """Start the server with what works of a rung's layers, proven or not, and return those."""
        self.close()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        configuration = {
            "judge_pid": os.getpid(),
            "channel": theirs.fileno(),
            "root": ROOT,
            "rung": rung,
            "site": self.site,
            "work": self.work,
            "mount_point": os.path.realpath(tempfile.gettempdir()),
        }
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    *([] if self.work else ["-s", "-S"]),
                    "-c",
                    child_source("ratchet.verifiers.sandbox.zygote"),
                    json.dumps(configuration),
                ],
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
            return self._answer()["layers"]
        except TimeoutError as error:
            raise SandboxFault("the sandbox server does not answer") from error

    def run(
        self,
        source: str,
        tests: list[dict[str, Any]],
        limits: Limits,
        *,
        entry_point: str | None,
        prelude: str | None,
        enough: Callable[[int, TestRun], bool] | None = None,
    ) -> Execution:
        """Run one program on tests in one process; a test is `{"kind": "stdin", "input": str}` or `{"kind": "call",
        "args": list, "kwargs": dict, "exact": bool}`. As soon as `enough` says so of a test's place and its run, the
        process is ended.

        Raises SandboxFault when the sandbox itself failed; it is then stopped, and the next call starts another.
        """
        job = {"source": source, "tests": tests, "entry_point": entry_point, "prelude": prelude}
        # The process writes its inputs itself: they may be longer than any output may be.
        longest = max(4 * len(test.get("input", "")) for test in tests)
        with _files(job, None, None) as files:
            told = Told(files[1], files[2], len(tests), limits.output_bytes)
            result = self._ask(files, len(tests), limits, longest, lambda: told.look(enough))
            told.look(None)
            told.conclude(result)
        return Execution(told.runs + [TestRun("not_run")] * (len(tests) - len(told.runs)), result["spent_s"])

    def check(
        self,
        source: str,
        checks: list[str],
        limits: Limits,
        *,
        entry_point: str,
        prelude: str | None,
        to_first_failure: bool,
    ) -> CheckExecution:
        """Have one program asked by checks, `check(candidate)`, which run in a process of their own; limits of a test
        are those of a check. Raises SandboxFault."""
        program = {"source": source, "tests": [], "entry_point": entry_point, "prelude": prelude}
        job = {"checks": checks, "entry_point": entry_point, "prelude": prelude, "to_first_failure": to_first_failure}
        with _files(program, None, None, job, None) as files:
            result = self._ask(files, len(checks), limits, 0, lambda: False)
            told = Told(files[1], files[2], 1, limits.output_bytes)
            told.look(None)
            told.conclude(result)
            records = [json.loads(line) for line in content(files[4]).splitlines()]
        return CheckExecution(records, told.runs[0] if told.runs else None, result["spent_s"])

    def _ask(
        self, files: list[int], count: int, limits: Limits, longest: int, is_enough: Callable[[], bool]
    ) -> dict[str, Any]:
        """What the server says of how it went."""
        self.start()
        file_bytes = max(LONGEST_REPORT_BYTES + limits.output_bytes, longest)
        message = json.dumps(vars(limits) | {"tests": count, "file_bytes": file_bytes}).encode()
        deadline = time.monotonic() + 60.0 + 30.0 * limits.total_s
        try:
            assert self._channel is not None
            socket.send_fds(self._channel, [message], files)
            self._channel.settimeout(_LOOK_S)
            while True:
                try:
                    result = self._answer()
                    break
                except TimeoutError:
                    if time.monotonic() > deadline:
                        raise SandboxFault("the sandbox server does not answer") from None
                    if is_enough():
                        self._channel.send(STOP)
        except SandboxFault:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise SandboxFault(f"the sandbox server broke off: {error}") from error
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
            raise SandboxFault("the sandbox server ended; its last words are on standard error")
        return json.loads(message)

    def close(self) -> None:
        """Stop the server and everything it started. Safe to call twice."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            # The server sees the end of the channel; killing the guardian first would only race with that.
            try:
                self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._process.send_signal(signal.SIGKILL)
                self._process.wait()
            self._process = None

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Unproven(Sandbox):
    """A sandbox under attack by canaries: one that went down stays down."""

    def start(self) -> None:
        if self._process is None or self._process.poll() is not None:
            raise SandboxFault("the sandbox server went down")


@contextmanager
def _files(*contents: Any) -> Iterator[list[int]]:
    """Files in memory, each holding a job as JSON, or with None nothing yet."""
    files: list[int] = []
    try:
        for content in contents:
            files.append(os.memfd_create("job"))
            text = json.dumps(content).encode() if content is not None else b""
            done = 0
            while done < len(text):
                done += os.pwrite(files[-1], text[done:], done)
        yield files
    finally:
        for file in files:
            os.close(file)
