"""The judge's side of the sandbox: start a fork server, send it work, get back what the solution wrote."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import sysconfig
import tempfile
import threading
import warnings
from dataclasses import dataclass
from typing import Any

from ratchet.infra.errors import RatchetError
from ratchet.verifiers import ROOT, child_source
from ratchet.verifiers.sandbox import STOPPED, UNCONFINED, canaries
from ratchet.verifiers.sandbox.runs import Execution, TestRun

_START_TIMEOUT_S = 60.0


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


def demand(minimum: str = "C", unsafe: bool = False, at_most: str = "A") -> Machine:
    """What this machine offers at rung `at_most` or below. Attacked once in a process; later calls are free.

    Raises RatchetError when that is less than `minimum`; `unsafe`, or RATCHET_UNSAFE in the environment, which is how
    `ratchet --unsafe` reaches every process of a run, takes whatever there is, with a warning.
    """
    if not sys.platform.startswith("linux"):
        raise RatchetError(f"code is judged on Linux only, this is {sys.platform}: use a Linux machine or container")
    with _examining:
        machine = _examine(at_most)
    if machine.rung <= minimum:
        return machine
    reasons = "".join(f"; {reason}" for reason in machine.lacking)
    offered = f"this machine offers {machine.rung} ({RUNGS[machine.rung]}){reasons}"
    if unsafe or os.environ.get("RATCHET_UNSAFE"):
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
def _examine(asked: str) -> Machine:
    with _Unproven() as sandbox:
        layers = tuple(sandbox.launch(asked))
        wanted = _CONFINING[[*RUNGS].index(asked) :]
        lacking = tuple(f"{layer} cannot be used" for layer in wanted if not any(layer in name for name in layers))
        rung = _reached(layers)
        if rung == "D":
            return Machine(asked, rung, layers, lacking=lacking)
        try:
            escaped = canaries.escaped(sandbox.run)
        except SandboxFault as fault:
            escaped = [f"take the sandbox down ({fault})"]
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
    Runs on the best rung that this machine offers, and on none below `minimum`, except when `unsafe`: then code
    written by a model may run with resource limits only, and do what its user can. `at_most` forces a lower rung, for
    tests.
    """

    def __init__(self, minimum: str = "C", *, unsafe: bool = False, at_most: str = "A") -> None:
        self.minimum = minimum
        self.unsafe = unsafe
        self.at_most = at_most
        self.isolation = ""
        """The rung and its layers, once started."""
        self._process: subprocess.Popen | None = None
        self._channel: socket.socket | None = None

    def start(self) -> None:
        """Start the server when it is not running. Raises RatchetError where the machine offers less than demanded."""
        if self._process is not None and self._process.poll() is None:
            return
        machine = demand(self.minimum, self.unsafe, self.at_most)
        if self.launch(machine.asked) != list(machine.layers):
            raise SandboxFault("the sandbox server came up with other layers than before")
        self.isolation = str(machine)

    def launch(self, rung: str) -> list[str]:
        """Start the server with what works of a rung's layers, proven or not, and return those."""
        self.close()
        ours, theirs = socket.socketpair()
        configuration = {
            "judge_pid": os.getpid(),
            "channel": theirs.fileno(),
            "root": ROOT,
            "rung": rung,
            "site": [*dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))],
            "mount_point": os.path.realpath(tempfile.gettempdir()),
        }
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-s",
                    "-S",
                    "-c",
                    child_source("ratchet.verifiers.sandbox.zygote"),
                    json.dumps(configuration),
                ],
                pass_fds=[theirs.fileno()],
                # Nothing of ours leaks in; sets of strings iterate in the same order in every run.
                env={"PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,  # Ctrl-C in the terminal is for the trainer, which then closes us
            )
        self._channel = ours
        self._channel.settimeout(_START_TIMEOUT_S)
        return self._answer()[0]["layers"]

    def run(
        self,
        source: str,
        tests: list[dict[str, Any]],
        *,
        entry_point: str | None,
        prelude: str | None,
        test_s: float,
        total_s: float,
        memory_bytes: int,
        output_bytes: int,
    ) -> Execution:
        """Run one program on a batch of tests in one process; a test is `{"kind": "stdin", "input": str}`,
        `{"kind": "call", "args": list, "kwargs": dict}`, `{"kind": "exact_call", "call": str}` (as `values` writes it)
        or `{"kind": "replay", "check": str, "answers": list}`, which does not run the program. `test_s` and `total_s`
        limit CPU time plus time asleep, of one test and of all.

        Raises SandboxFault when the sandbox itself failed; it is then stopped, and the next call starts another.
        """
        self.start()
        job = json.dumps({"source": source, "tests": tests, "entry_point": entry_point, "prelude": prelude}).encode()
        # The process writes its inputs itself: they may be longer than any output may be.
        longest = max(4 * len(test.get("input", "")) for test in tests)
        limits = {
            "tests": len(tests), "test_s": test_s, "total_s": total_s, "memory_bytes": memory_bytes,
            "output_bytes": output_bytes, "file_bytes": max(output_bytes, longest),
        }  # fmt: skip
        try:
            assert self._channel is not None
            header = json.dumps(limits).encode()
            self._channel.settimeout(60.0 + 30.0 * total_s)
            self._channel.sendall(b"".join([struct.pack("!II", len(header), len(job)), header, job]))
            result, (output, report) = self._answer()
        except SandboxFault:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise SandboxFault(f"the sandbox server broke off: {error}") from error
        code = os.waitstatus_to_exitcode(result["status"])
        if code == -UNCONFINED and result["ended"] == "exited":
            raise SandboxFault("a solution process could not be confined")
        runs = _reported(report, output, len(tests), output_bytes)
        stopped = report.endswith(b"\n" + STOPPED)
        # In a process that says it stopped at the first test something was amiss all the same.
        if not runs or (len(runs) < len(tests) and not stopped):
            runs.append(_interrupted(result["ended"], code, output, output_bytes))
        runs += [TestRun("not_run")] * (len(tests) - len(runs))
        return Execution(runs, result["spent_s"])

    def _answer(self) -> tuple[dict[str, Any], list[bytes]]:
        try:
            record = json.loads(self._receive(struct.unpack("!I", self._receive(4))[0]))
            return record, [self._receive(size) for size in record["sizes"]]
        except TimeoutError as error:
            raise SandboxFault("the sandbox server does not answer") from error

    def _receive(self, size: int) -> bytes:
        parts = []
        assert self._channel is not None
        while size:
            part = self._channel.recv(min(size, 1 << 20))
            if not part:
                raise SandboxFault("the sandbox server ended; its last words are on standard error")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

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

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Unproven(Sandbox):
    """A sandbox under attack by canaries: one that went down stays down."""

    def start(self) -> None:
        if self._process is None or self._process.poll() is not None:
            raise SandboxFault("the sandbox server went down")


def _reported(report: bytes, output: bytes, count: int, output_bytes: int) -> list[TestRun]:
    """The tests that a report tells of, `output` being what is in the file. Reports are the solution's word: from a
    line on that makes no sense they count as not made."""
    runs: list[TestRun] = []
    for line in report.split(b"\n")[:count]:
        try:
            record = json.loads(line)
            told = record.get("output")
            left = output if told is None else told.encode("latin-1")
            run = TestRun(str(record["status"]), left, str(record.get("detail", "")), float(record.get("seconds", 0)))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
            break
        if run.status in ("uncompilable", "unprepared") and not runs:
            return [dataclasses.replace(run, output=b"")] * count
        runs.append(TestRun("flooded", left) if len(left) >= output_bytes else run)
    return runs


def _interrupted(ended: str, code: int, output: bytes, output_bytes: int) -> TestRun:
    """The test during which the process ended, or was ended."""
    if len(output) >= output_bytes:
        return TestRun("flooded", output)
    if ended != "exited":
        return TestRun(ended, output)
    if code == 0:
        return TestRun("exited", output)
    reason = f"exit code {code}" if code > 0 else signal.Signals(-code).name
    if code == -signal.SIGXFSZ:
        return TestRun("flooded", output, reason)
    return TestRun("died", output, reason)
