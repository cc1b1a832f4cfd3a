"""Child processes that never outlive their parent, and where they can be reached."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ratchet.infra.exec_guard import PR_SET_PDEATHSIG


def guarded(argv: Sequence[str]) -> list[str]:
    """The command line behind a guard that asks the kernel for SIGTERM when the parent dies, then becomes `argv`."""
    return [sys.executable, "-I", str(Path(__file__).with_name("exec_guard.py")), str(os.getpid()), *argv]


def end_with_parent(parent: int) -> None:
    """The same for a process that was forked, not started: it gets SIGTERM when `parent` dies. Called first of all."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it died before we asked
        os._exit(143)


@contextmanager
def process_group(argv: Sequence[str], log: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run `argv` in a process group of its own, its output in `log`; whatever happens here, the group is gone after.

    On the way out the group gets SIGTERM, ten seconds, then SIGKILL. Output goes to a file and not a pipe, so an
    orphan could never block us by holding the other end.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab", buffering=0) as output:
        process = subprocess.Popen(
            guarded(argv), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment,
            start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        for number, grace_s in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:
                break
            try:
                process.wait(grace_s)
            except subprocess.TimeoutExpired:
                continue
        process.wait()


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens on at this moment; "" as `host` is every address of this machine."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
