"""Reward servers as they are run: child processes with a port and a token. Sandboxes on the levels for C++."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ratchet.verifiers.code import compiled
from ratchet.verifiers.processes import process_group
from ratchet.verifiers.sandbox.server import Sandbox, require_isolation
from ratchet.verifiers.serving.protocol import TOKEN_VARIABLE

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "a token of the tests"
ENVIRONMENT = {**os.environ, TOKEN_VARIABLE: TOKEN}
SERVE = [sys.executable, "-m", "ratchet.verifiers.serving.command", "serve"]


class RunningServer:
    """Started; it listens when `url` has been asked for."""

    def __init__(self, process: subprocess.Popen, log: Path) -> None:
        self.process, self.log = process, log

    @functools.cached_property
    def url(self) -> str:
        while not (found := re.search(r"Judging at (http://\S+)", self.log.read_text())):
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.02)
        return found[1]

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


@pytest.fixture(scope="module")
def serve(tmp_path_factory) -> Iterator[Callable[..., RunningServer]]:
    """`serve(*options)` starts a server on loopback; all end with the module."""
    with ExitStack() as servers:

        def start(*options: str, port: int = 0) -> RunningServer:
            log = tmp_path_factory.mktemp("server") / "log"
            argv = [*SERVE, "--port", str(port), "--workers", "1", *options]
            return RunningServer(servers.enter_context(process_group(argv, log, ENVIRONMENT)), log)

        yield start


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as sandbox:
        yield sandbox


def at_level(name: str, *layers: str) -> Iterator[Sandbox]:
    """A sandbox on a level, forced; skipped where the machine does not offer it."""
    offered = require_isolation("D", name)
    if offered.level != name or not {*layers} <= {*offered.layers}:
        pytest.skip(f"this machine offers {offered} when asked for {name}")
    with Sandbox(at_most=name) as sandbox:
        sandbox.start()
        yield sandbox


@pytest.fixture(scope="module", params=["A", pytest.param("B", marks=pytest.mark.slow)])
def level(request) -> Iterator[Sandbox]:
    """A sandbox on each level that judges C++."""
    yield from at_level(request.param, "landlock")


@pytest.fixture
def no_compiler(monkeypatch) -> Iterator[None]:
    """A machine without a compiler for C++."""
    monkeypatch.setenv("PATH", "/nonexistent")
    compiled.toolchain.cache_clear()
    yield
    compiled.toolchain.cache_clear()
