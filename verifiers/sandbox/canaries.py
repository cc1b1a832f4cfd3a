"""Small attacks on a started sandbox before it is trusted: a layer that is present does not always hold.

Each takes the path of a real solution, and does no harm if it succeeds. Together they take about a tenth of a second.
"""

import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ratchet.verifiers.sandbox.runs import Execution, Limits, TestRun

_MEMORY_BYTES = 48 << 20
_OUTPUT_BYTES = 1 << 20
_PATIENCE_S = 10.0

# Calls: the body of a function, which must raise; if it returns, it has escaped.
_CALLS = {
    "read a file of the host": "open({secret!r}).read()",
    "write a new file": "open({new!r}, 'w').write('x')",
    "change a file of the host": "os.write(os.open({secret!r}, os.O_WRONLY), b'x')",
    "open a TCP connection": "socket.create_connection(('127.0.0.1', {port}), timeout=1)",
    "make a process": "os.fork() or os._exit(0)",
    "run another program": "os.execv('/proc/self/exe', ['python', '-c', ''])",
    "make a user namespace": "ctypes.CDLL(None).unshare(0x10000000) and 1 / 0",
    "read the memory of the server": "open(f'/proc/{{os.getppid()}}/mem', 'rb')",
    "read the memory of the judge": "open('/proc/{judge}/mem', 'rb')",
    "signal the judge": "os.kill({judge}, 0)",
    "kill the server": "os.kill(os.getppid(), signal.SIGKILL)",
}
_CALL = """
def f():
    import ctypes, os, signal, socket
    try:
        {attack}
    except BaseException:
        return "stopped"
    return "escaped"
"""

# Programs: source, time limit, and the expected result. Only one may reach its time limit, on a busy machine too.
_PROGRAMS: dict[str, tuple[str, float, Callable[[TestRun], bool]]] = {
    "print without end": (
        "while True:\n    print('x' * 10000)", _PATIENCE_S,
        lambda run: run.status == "flooded" and len(run.output) <= _OUTPUT_BYTES,
    ),
    "use memory without end": (
        "hoard = []\nwhile True:\n    hoard.append(bytearray(1 << 22))", _PATIENCE_S,
        lambda run: run.status in ("exhausted", "raised", "died"),
    ),
    "sleep through its time": (
        "import time\nwhile True:\n    time.sleep(100)", 0.05,
        lambda run: run.status == "timed_out",
    ),
}  # fmt: skip

NAMES = (*_CALLS, *_PROGRAMS)
Run = Callable[..., Execution]
"""The type of `Sandbox.run`."""


SECRET = "SECRET"


@contextmanager
def targets() -> Iterator[dict[str, Any]]:
    """The targets of attacks: a file with SECRET, the path of a new one, a port that listens, the judge's process."""
    with tempfile.TemporaryDirectory(prefix="canary-") as directory, socket.create_server(("127.0.0.1", 0)) as server:
        secret = Path(directory, "secret")
        secret.write_text(SECRET)
        # File permissions must not be what stops an attack, except where another user is a layer.
        os.chmod(directory, 0o777)
        os.chmod(secret, 0o666)
        new, port = str(Path(directory, "new")), server.getsockname()[1]
        yield {"secret": str(secret), "new": new, "port": port, "judge": os.getpid()}


def escaped(run: Run) -> list[str]:
    """Names of the attacks that a started sandbox did not stop. Raises SandboxFault if one crashed the sandbox."""
    with targets() as facts:
        leaks = []
        for name, attack in _CALLS.items():
            source = _CALL.format(attack=attack.format(**facts))
            result = _one(run, source, {"kind": "call", "args": [], "kwargs": {}, "exact": False}, _PATIENCE_S)
            if (result.status, result.output) != ("done", b'j"stopped"'):
                leaks.append(name)
    for name, (source, time_s, was_stopped) in _PROGRAMS.items():
        if not was_stopped(_one(run, source, {"kind": "stdin", "input": ""}, time_s)):
            leaks.append(name)
    return leaks


def _one(run: Run, source: str, test: dict, time_s: float) -> TestRun:
    limits = Limits(time_s, time_s, _MEMORY_BYTES, _OUTPUT_BYTES)
    return run(source, [test], limits, entry_point="f" if test["kind"] == "call" else None, prelude=None).runs[0]
