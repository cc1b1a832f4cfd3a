"""What the tests of the sandbox share: a problem, processes, what an attack could reach, a machine without layers."""

import json
import os
import secrets
import shutil
import socket
from pathlib import Path

import pytest

from ratchet.verifiers import child_source
from ratchet.verifiers.code import judge as code_judge
from ratchet.verifiers.code.compiled import COMPILERS
from ratchet.verifiers.problem import Problem

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, COMPILERS)), reason="there is no compiler for C++ on this machine"
)
# Layers that a machine may not have, taken away before the fork server starts.
NO_NAMESPACES = "from ratchet.verifiers.sandbox import isolation\nisolation.enter_namespaces = lambda *_: ''"
NO_SECCOMP = (
    "from ratchet.verifiers.sandbox import seccomp\ndef refuse(*_):\n    raise OSError\nseccomp.compile_filter = refuse"
)
NO_LANDLOCK = (
    "from ratchet.verifiers.sandbox import linux\ndef refuse(*_):\n    raise OSError\nlinux.landlock_ruleset = refuse"
)
# Layers that are there and do not hold.
LEAKY_SECCOMP = "from ratchet.verifiers.sandbox import seccomp\nseccomp.Filter.install = lambda self: None"
LEAKY_LANDLOCK = "from ratchet.verifiers.sandbox import linux\nlinux.landlock_restrict = lambda ruleset: None"


PROGRAM = [{"input": "5851\n", "output": "11702"}, {"input": "1\n", "output": "2"}]
CALL = [{"call": {"args": [5851]}, "output": 11702}, {"call": {"args": [2]}, "output": 4}]


def problem(tests, **fields):
    fields = {"time_limit_s": 2.0, "memory_limit_mb": 128.0} | fields
    return Problem("attacked", "code", "double it", tests=json.dumps(tests), **fields)


def without_layers(module, layers):
    """The program of a fork server that runs these lines before it begins."""
    package, main = child_source(module).split("; from ")
    return "\n".join([package, *layers, f"from {main}"])


def descendants(pid):
    """All processes below `pid`, by their parents in /proc."""
    parents = {}
    for name in os.listdir("/proc"):
        try:
            parents[int(name)] = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
        except (ValueError, OSError):
            continue
    found, layer = set(), {pid}
    while layer:
        layer = {child for child, parent in parents.items() if parent in layer} - found
        found |= layer
    return found


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class World:
    """What an attack could reach: a secret, a directory anyone may write to, listening sockets. `untouched` says
    whether nothing was reached."""

    def __init__(self, directory):
        self.token = "TOKEN-" + secrets.token_hex(8)
        self.secret, self.target = directory / "secret", directory / "target"
        self.secret.write_text(self.token)
        self.secret.chmod(0o666)
        for path in (directory, *directory.parents[:2]):
            path.chmod(0o777)  # so that it is not the file permissions that refuse
        abstract = "\0" + self.token
        self.sockets = {
            "tcp": socket.create_server(("127.0.0.1", 0)),
            "udp": socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
            "unix": socket.socket(socket.AF_UNIX),
            "abstract": socket.socket(socket.AF_UNIX),
            "unix_datagram": socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM),
        }
        self.sockets["udp"].bind(("127.0.0.1", 0))
        for name, address in {
            "unix": str(directory / "u"), "abstract": abstract, "unix_datagram": str(directory / "d"),
        }.items():  # fmt: skip
            self.sockets[name].bind(address)
        self.sockets["unix"].listen()
        self.sockets["abstract"].listen()
        for name in ("u", "d"):
            (directory / name).chmod(0o777)
        for listening in self.sockets.values():
            listening.setblocking(False)
        self.facts = {
            "secret": str(self.secret), "target": str(self.target), "directory": str(directory),
            "source": code_judge.__file__, "judge": os.getpid(), "token": r"TOKEN-[0-9a-f]{16}",
            "tcp": self.sockets["tcp"].getsockname()[1], "udp": self.sockets["udp"].getsockname()[1],
            "unix": str(directory / "u"), "abstract": abstract, "unix_datagram": str(directory / "d"),
        }  # fmt: skip
        self.directory = directory
        self.before = self.seen()

    def seen(self):
        files = {path.name: (path.stat().st_mode, path.stat().st_mtime_ns) for path in self.directory.iterdir()}
        elsewhere = [path for path in ("/tmp", "/dev/shm", "/etc", ".") if Path(path, "ratchet-attack").exists()]
        return files, self.secret.read_text(), elsewhere, [name for name in self.sockets if self._heard(name)]

    def _heard(self, name):
        listening = self.sockets[name]
        try:
            return listening.accept() if listening.type == socket.SOCK_STREAM else listening.recv(1)
        except BlockingIOError:
            return None

    def untouched(self):
        return self.seen() == self.before

    def close(self):
        for listening in self.sockets.values():
            listening.close()
