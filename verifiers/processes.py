"""Child processes that never outlive their parent, and their addresses."""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.exec_guard import PR_SET_PDEATHSIG

GIB = 2**30
"""Bytes of a gibibyte."""


def guarded(argv: Sequence[str]) -> list[str]:
    """The command line behind a guard that asks the kernel for SIGTERM when the parent dies, then becomes `argv`."""
    return [sys.executable, "-I", str(Path(__file__).with_name("exec_guard.py")), str(os.getpid()), *argv]


def end_with_parent(parent: int, by: signal.Signals = signal.SIGTERM) -> None:
    """Ask the kernel to end this process when its parent dies: it gets the signal `by` when `parent` dies. Called first
    of all."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, by)
    if os.getppid() != parent:  # it has died already
        os._exit(143)


def run_child(module: str, order: Mapping[str, Any]) -> None:
    """Run a module in a child process with a fixed hash seed; it reads its `order` from standard input. Raises
    RatchetError with the last line of its standard error."""
    child = subprocess.run(
        guarded([sys.executable, "-P", "-W", "ignore", "-m", module]),
        input=json.dumps(order), text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONHASHSEED": "0"},
    )  # fmt: skip
    if child.returncode:
        lines = child.stderr.strip().splitlines() or [f"the process ended with code {child.returncode}"]
        raise RatchetError(lines[-1])


@contextmanager
def process_group(
    argv: Sequence[str], log: Path, environment: dict[str, str], pipes: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `argv` in a new process group, with output to `log`; no process of it survives the block.

    On exit the group gets SIGTERM and, ten seconds later, SIGKILL. Output goes to a file because an orphan holding a
    pipe could block us; with `pipes`, standard input and output are pipes.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab", buffering=0) as output:
        ends = (subprocess.PIPE, subprocess.PIPE) if pipes else (subprocess.DEVNULL, output)
        process = subprocess.Popen(
            guarded(argv), stdin=ends[0], stdout=ends[1], stderr=output, bufsize=0, env=environment,
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


def last_lines(log: Path, count: int) -> str:
    """The last `count` lines of a log."""
    if not log.is_file():
        return "(no output)"
    return "\n".join(log.read_text(errors="replace").splitlines()[-count:])


def core_count() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_bytes() -> int:
    """Bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def bound_socket(host: str, port: int, backlog: int | None = None) -> socket.socket:
    """A socket bound to this address, listening if a `backlog` is given; port 0 takes a free one. Raises RatchetError
    if the address is not available."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        if backlog is not None:
            bound.listen(backlog)
    except OSError as error:
        raise RatchetError(
            f"Cannot listen on {host} port {port}: {error.strerror}. Stop what uses it, or choose another port."
        ) from error
    return bound


def free_port(host: str = "127.0.0.1") -> int:
    """A port that is free at the moment; `host` "" means every address of this machine."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
