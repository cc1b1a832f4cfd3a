"""The faults that are injected (`benchmarks/fault_injection.py`): each fault, put into a run at its moment."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from ratchet.verifiers.processes import free_port

ROOT = Path(__file__).resolve().parent.parent
MINI = str(ROOT / "tests" / "flows" / "mini.yaml")
PYTHON = [sys.executable, "-P", "-m"]
LONGEST_S = 400
PORT = 29583
CLOCK = """
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long jumped(void) { return access(getenv("FAULT_JUMPED"), F_OK) ? 0 : atol(getenv("FAULT_JUMP")); }
int clock_gettime(clockid_t which, struct timespec *now) {
  int code = syscall(SYS_clock_gettime, which, now);
  if (!code && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) now->tv_sec += jumped();
  return code;
}
int gettimeofday(struct timeval *now, void *zone) {
  struct timespec s;
  clock_gettime(CLOCK_REALTIME, &s);
  now->tv_sec = s.tv_sec;
  now->tv_usec = s.tv_nsec / 1000;
  return 0;
}
time_t time(time_t *now) {
  struct timeval s;
  gettimeofday(&s, 0);
  return now ? (*now = s.tv_sec) : s.tv_sec;
}
"""


class Missed(Exception):
    """The run was over before the fault's moment, or what the fault needs has not come up."""


class Run:
    """One fault's: a home, and a command that is given twice in it."""

    def __init__(self, directory: Path, command: list[str]) -> None:
        self.directory, self.command = directory, command
        self.home, self.tmp, self.log = directory / "home", directory / "tmp", directory / "log"
        self.environment = {**os.environ, "TMPDIR": str(self.tmp), "PYTHONWARNINGS": "ignore"}
        self.prefix: list[str] = []
        """Before the command, the first time."""
        self.mlflow = ""
        """The file of a database elsewhere."""
        self.cleanup = ExitStack()
        self.servers: list[subprocess.Popen[bytes]] = []
        self.process: subprocess.Popen[bytes]
        """The command; `start` sets it."""

    def start(self) -> subprocess.Popen[bytes]:
        argv = [*self.prefix, *PYTHON, "ratchet.cli.main", *self.command, "--home", str(self.home)]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                argv, cwd=ROOT, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )
        self.servers.append(self.process)
        return self.process

    def mirror(self) -> None:
        """Send what MLflow has not received within the time that a command gives it, as any further command does."""
        uri = self.environment.get("MLFLOW_TRACKING_URI", f"sqlite:///{self.home / 'mlflow.db'}")
        argv = [*PYTHON, "ratchet.infra.tracking.mirror", "mlflow", str(self.home / "tracking"), uri]
        subprocess.run(argv, check=False, capture_output=True, env=self.environment)

    def until(self, ready: Callable[[], Any]) -> Any:
        """The first result of `ready` that is true. Raises Missed if the command ends before."""
        deadline = time.monotonic() + LONGEST_S
        while not (found := ready()):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Missed
            time.sleep(0.002)
        return found

    def find(self, command: str, child: bool = False) -> list[int]:
        """Processes below us whose command line has these words; with `child`, whose parent's has them too."""
        named = [pid for pid, line in sorted(descendants().items()) if command in line]
        with suppress(psutil.NoSuchProcess):  # it ended while we looked
            return [pid for pid in named if not child or command in words(psutil.Process(pid).parent())]
        return []

    def send(self, command: str, number: int, child: bool = False) -> None:
        os.kill(self.until(lambda: self.find(command, child))[0], number)

    def serve(self, argv: list[str], port: int, host: str = "127.0.0.1", **environment: str) -> subprocess.Popen[bytes]:
        """Another program, in a session of its own, once it accepts connections; it ends with the fault."""
        with open(self.directory / "servers.log", "ab") as log:
            server = subprocess.Popen(
                argv, cwd=ROOT, env=self.environment | environment, stdout=log, stderr=log, start_new_session=True
            )
        self.servers.append(server)
        deadline = time.monotonic() + 180
        while True:
            try:
                socket.create_connection((host, port), 1).close()
                return server
            except OSError:
                if server.poll() is not None or time.monotonic() > deadline:
                    raise Missed(f"{' '.join(argv)} does not come up: {self.directory / 'servers.log'}") from None
                time.sleep(0.2)

    def end_servers(self) -> None:
        for server in self.servers:
            end_session(server)

    def mount(self, where: Path, options: str, *argv: str) -> None:
        where.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", *argv, "-o", options, str(where)], check=True)
        self.cleanup.callback(subprocess.run, ["umount", "-l", str(where)], check=True)

    def newest(self, pattern: str) -> Path:
        return max(self.home.glob(pattern), key=lambda path: path.stat().st_mtime)


Act = Callable[[Run], Generator[None, None, None]]
"""Prepares; after the first yield the command runs and its moment has come; after the second it has ended."""


@dataclass(frozen=True)
class Place:
    redo: str
    """The artifact that is deleted before the command: a glob."""
    moment: str
    """Glob of the file in the home that marks the moment; "" for the command's start."""
    command: tuple[str, ...]


@dataclass(frozen=True)
class Fault:
    name: str
    what: str
    place: Place
    act: Act
    ends: int | None = 0
    """Exit code of the first command; None where it depends on the moment."""
    needs: str = ""
    """A program, and root."""


def descendants() -> dict[int, str]:
    """Command lines of the living processes below this one, by pid. What loses its parent becomes our child."""
    return {
        process.pid: command for process in psutil.Process().children(recursive=True) if (command := words(process))
    }


def words(process: psutil.Process | None) -> str:
    """A process's command line; "" once it has ended."""
    try:
        return " ".join(process.cmdline()) if process else ""
    except psutil.Error:
        return ""


def end_session(server: subprocess.Popen[bytes]) -> None:
    """SIGKILL for a server and all that it has started."""
    if server.poll() is None:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def kill(command: str, number: int = signal.SIGKILL, child: bool = False) -> Act:
    def act(run: Run) -> Generator[None, None, None]:
        yield
        run.send(command, number, child)

    return act


FLOW, LAUNCHER, JUDGE = "ratchet.cli.main", "ratchet.training.launch", "ratchet.verifiers.sandbox"
REWARD_SERVER = "ratchet.verifiers.serving.command"
PREFECT, MIRROR = "prefect.server.api.server", "ratchet.infra.tracking.mirror"
killed_flow = kill(FLOW)


def interrupted_twice(run: Run) -> Generator[None, None, None]:
    yield
    for _ in range(2):
        run.process.send_signal(signal.SIGINT)
        time.sleep(0.3)


def stopped_and_continued(run: Run) -> Generator[None, None, None]:
    yield
    for number, after_s in ((signal.SIGSTOP, 0), (signal.SIGCONT, 10)):
        time.sleep(after_s)
        for pid in descendants():
            os.kill(pid, number)


@contextmanager
def standing_still() -> Iterator[None]:
    """The command's processes: else they may be through with the step before the fault has struck."""
    stopped = list(descendants())
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)


def second_run(run: Run) -> Generator[None, None, None]:
    yield
    first = run.process
    with standing_still():
        second = run.start()
        run.until(lambda: b"Waiting for it" in run.log.read_bytes())
    if second.wait(LONGEST_S):
        raise SystemExit(f"the second run has not waited for the first: {run.log}")
    run.process = first


def reward_server_killed(run: Run) -> Generator[None, None, None]:
    port = free_port()
    argv = [*PYTHON, REWARD_SERVER, "serve", "--port", str(port), "--workers", "1"]
    run.environment["RATCHET_JUDGE_TOKEN"] = "injected"
    run.command += ["--set", f"training.reward_servers=[http://127.0.0.1:{port}]"]
    server = run.serve(argv, port)
    yield
    end_session(server)
    time.sleep(3)
    run.serve(argv, port)


def tracking_server_killed(run: Run) -> Generator[None, None, None]:
    port, run.mlflow = free_port(), str(run.directory / "team.db")
    argv = [*PYTHON, "mlflow", "server", "--port", str(port), "--workers", "1"]
    team = {
        "MLFLOW_BACKEND_STORE_URI": f"sqlite:///{run.mlflow}", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_ARTIFACTS_DESTINATION": str(run.directory / "team-files"),
    }  # fmt: skip
    server = run.serve(argv, port, **team)
    run.environment["MLFLOW_TRACKING_URI"] = f"http://127.0.0.1:{port}"
    yield
    end_session(server)
    yield
    run.serve(argv, port, **team)


def prefect_server_killed(run: Run) -> Generator[None, None, None]:
    port = free_port()
    argv = [*PYTHON, "prefect", "server", "start", "--port", str(port)]
    shutil.move(run.home / "prefect", run.directory / "team-prefect")  # migrated already
    team = {"PREFECT_HOME": str(run.directory / "team-prefect"), "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    server = run.serve(argv, port, **team)
    run.environment["PREFECT_API_URL"] = f"http://127.0.0.1:{port}/api"
    yield
    end_session(server)
    yield
    run.serve(argv, port, **team)


def locked(database: str, seconds: float = LONGEST_S) -> Act:
    def act(run: Run) -> Generator[None, None, None]:
        yield
        with sqlite3.connect(run.home / database, timeout=60, isolation_level=None) as held:
            held.execute("BEGIN EXCLUSIVE")
            with suppress(subprocess.TimeoutExpired):
                run.process.wait(seconds)

    return act


def corrupt(database: str) -> Act:
    def act(run: Run) -> Generator[None, None, None]:
        (run.home / database).write_bytes(b"not a database" * 1000)
        yield

    return act


def disk_full(run: Run) -> Generator[None, None, None]:
    on_a_disk_of_its_own(run)
    yield
    with open(run.home / "filler", "wb", buffering=0) as filler:

        def fill() -> None:
            for size in (1 << 20, 1 << 12):
                with suppress(OSError):
                    while True:
                        filler.write(bytes(size))

        with standing_still():
            fill()
        while run.process.poll() is None:
            fill()
            time.sleep(0.01)
    yield
    (run.home / "filler").unlink()


def on_a_disk_of_its_own(run: Run) -> None:
    run.home.rename(run.directory / "copy")
    run.mount(run.home, "size=400m", "-t", "tmpfs", "none")
    shutil.copytree(run.directory / "copy", run.home, dirs_exist_ok=True, symlinks=True)
    shutil.rmtree(run.directory / "copy")


def home_read_only(run: Run) -> Generator[None, None, None]:
    on_a_disk_of_its_own(run)
    subprocess.run(["mount", "-o", "remount,ro", str(run.home)], check=True)
    yield
    yield
    subprocess.run(["mount", "-o", "remount,rw", str(run.home)], check=True)


def store_read_only(run: Run) -> Generator[None, None, None]:
    """MLflow's database alone: a mount on its file, and of the folder with its files."""
    places = [run.home / "mlflow.db", run.home / "mlflow-files"]
    for place in places:
        subprocess.run(["mount", "--bind", str(place), str(place)], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", str(place)], check=True)
    yield
    yield
    for place in places:  # a mirror that goes on by itself may have it open
        subprocess.run(["mount", "-o", "remount,bind,rw", str(place)], check=True)
        subprocess.run(["umount", "-l", str(place)], check=True)


def no_temporary_space(run: Run) -> Generator[None, None, None]:
    run.mount(run.tmp, "size=4k", "-t", "tmpfs", "none")
    (run.tmp / "filler").write_bytes(bytes(4096))
    yield
    yield
    (run.tmp / "filler").unlink()
    subprocess.run(["mount", "-o", "remount,size=100m", str(run.tmp)], check=True)


def limited(*limits: str) -> Act:
    def act(run: Run) -> Generator[None, None, None]:
        run.prefix = ["prlimit", *limits]
        yield
        yield
        run.prefix = []

    return act


def clock_jumps(seconds: int) -> Act:
    def act(run: Run) -> Generator[None, None, None]:
        source, library, jumped = (run.directory / name for name in ("clock.c", "clock.so", "jumped"))
        source.write_text(CLOCK)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
        run.environment |= {"LD_PRELOAD": str(library), "FAULT_JUMP": str(seconds), "FAULT_JUMPED": str(jumped)}
        yield
        jumped.touch()  # and stays so

    return act


def torn(*patterns: str) -> Act:
    """The flow is killed, and of the newest file of each kind the second half is lost."""

    def act(run: Run) -> Generator[None, None, None]:
        yield
        run.send(FLOW, signal.SIGKILL)
        yield
        for pattern in patterns:
            file = run.newest(pattern)
            os.truncate(file, file.stat().st_size // 2)

    return act


def artifact_torn(run: Run) -> Generator[None, None, None]:
    artifact = run.newest("artifacts/problems/math-deduplicate-*")
    os.truncate(artifact / "kept.parquet", 100)
    yield
    yield
    if f"Delete {artifact} and run again" not in " ".join(run.log.read_text().split()):
        raise SystemExit(f"nobody says what to delete: {run.log}")
    shutil.rmtree(artifact)


def home_moved(run: Run) -> Generator[None, None, None]:
    yield
    run.send(FLOW, signal.SIGKILL)
    yield
    run.home = run.home.rename(run.directory / "elsewhere")


def endpoint(run: Run) -> subprocess.Popen[bytes]:
    """The quiet run's last model behind an address, in an engine of its own."""
    (model,) = run.home.glob("artifacts/checkpoint/code-32-*/model")
    code = f"from tests.infra.tiny_endpoint import *; TinyEndpoint({str(model)!r}, 1.0, port={PORT}); time.sleep(9999)"
    return run.serve([sys.executable, "-c", code], PORT)


def endpoint_killed(run: Run) -> Generator[None, None, None]:
    server = endpoint(run)
    yield
    end_session(server)
    time.sleep(5)
    endpoint(run)


def endpoint_and_flow_killed(run: Run) -> Generator[None, None, None]:
    endpoint(run)
    yield
    run.send(FLOW, signal.SIGKILL)


def cable_pulled(run: Run) -> Generator[None, None, None]:
    """A reward server on another host, a network namespace; for a while nothing goes through."""
    host, port = "ratchet-faults", 8900
    subprocess.run(["ip", "netns", "add", host], check=True)
    run.cleanup.callback(subprocess.run, ["ip", "netns", "delete", host], check=True)
    ours = ["type", "veth", "peer", "name", "cable", "netns", host]
    subprocess.run(["ip", "link", "add", "faults0", *ours], check=True)
    for name, address, link in (("", "10.93.72.1", "faults0"), (host, "10.93.72.2", "cable")):
        there = ["ip", *(["-n", name] if name else [])]
        subprocess.run([*there, "addr", "add", f"{address}/24", "dev", link], check=True)
        subprocess.run([*there, "link", "set", link, "up"], check=True)
    subprocess.run(["ip", "-n", host, "link", "set", "lo", "up"], check=True)  # by which sandboxes are tried
    run.environment["RATCHET_JUDGE_TOKEN"] = "injected"
    run.command += ["--set", f"training.reward_servers=[http://10.93.72.2:{port}]"]
    serve = [*PYTHON, REWARD_SERVER, "serve", "--host", "10.93.72.2", "--port", str(port), "--workers", "1"]
    run.serve(["ip", "netns", "exec", host, *serve], port, "10.93.72.2")
    yield
    for state, wait_s in (("down", 25), ("up", 0)):
        subprocess.run(["ip", "link", "set", "faults0", state], check=True)
        time.sleep(wait_s)
