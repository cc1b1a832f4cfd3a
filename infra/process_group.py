"""Child processes that never outlive their parent, and where they can be reached."""

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

from ratchet.infra.errors import RatchetError
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


def run_child(module: str, order: Mapping[str, Any]) -> None:
    """Have a module do what the order says, which it reads from standard input, in a child with a fixed hash seed.
    Raises RatchetError with the last line that the child writes to standard error."""
    child = subprocess.run(
        guarded([sys.executable, "-P", "-W", "ignore", "-m", module]),
        input=json.dumps(order), text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONHASHSEED": "0"},
    )  # fmt: skip
    if child.returncode:
        said = child.stderr.strip().splitlines() or [f"the process ended with code {child.returncode}"]
        raise RatchetError(said[-1])


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


def last_lines(log: Path, count: int) -> str:
    """The end of what a process has said."""
    if not log.is_file():
        return "(it has written nothing)"
    return "\n".join(log.read_text(errors="replace").splitlines()[-count:])


def core_count() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_bytes() -> int:
    """Of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def bound_socket(host: str, port: int, backlog: int | None = None) -> socket.socket:
    """A socket at this address, listening where a `backlog` is given; port 0 takes a free one. Raises RatchetError when
    the address cannot be had."""
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
    """A port that nobody listens on at this moment; "" as `host` is every address of this machine."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
