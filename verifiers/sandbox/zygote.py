"""The fork server: a fresh interpreter that forks one confined child per batch of tests, watches it, kills what is
left of it, and sends back what it wrote.

Two processes. The *guardian* enters the namespaces, forks the *server* (process 1 of its own pid namespace) and does
nothing but wait: when the judge dies, it kills the server, and the kernel then kills everything in the namespace.
The server polls the judge's socket, the child, and the child's progress at the same time, so it is never stuck.

Started by `Sandbox` as `python -P -S -s -c ... <configuration>`; no expected output is ever sent here.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import sys
import time
from typing import Any

from verifiers.sandbox import harness, isolation, linux

_TICK_S = 0.02


def main() -> None:
    configuration = json.loads(sys.argv[1])
    judge = os.pidfd_open(configuration["judge_pid"])
    if os.getppid() != configuration["judge_pid"]:
        return  # the judge died before we could watch it
    channel = socket.socket(fileno=configuration["channel"])
    sys.path[:] = [path for path in sys.path if path != configuration["root"]] + configuration["site"]
    names = harness.prepare()
    linux.become_subreaper()
    readable = isolation.readable_paths(configuration["site"])
    spaces = isolation.enter_namespaces(readable, configuration["mount_point"]) if configuration["rung"] == "A" else ""
    server = linux.fork()
    if server == 0:
        try:
            linux.die_with_parent(signal.SIGKILL)
            os.close(judge)
            _Server(channel, configuration, names, spaces).serve()
        except (OSError, EOFError, ValueError) as error:
            print(f"sandbox server: {error!r}", file=sys.stderr, flush=True)
        finally:
            os._exit(1)
    channel.close()
    linux.forbid_inspection()
    _guard(judge, server)


def _guard(judge: int, server: int) -> None:
    watch = select.poll()
    exited = os.pidfd_open(server)
    watch.register(judge, select.POLLIN)
    watch.register(exited, select.POLLIN)
    watch.poll()
    os.kill(server, signal.SIGKILL)
    _end_descendants(everyone=False)


def _end_descendants(everyone: bool) -> None:
    """Kill and reap until no child is left. As process 1 of a pid namespace `everyone` is ours; else we are the
    subreaper, so whatever escaped its parent comes back to us as a child."""
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        if everyone:
            os.kill(-1, signal.SIGKILL)
        else:
            for pid in _children():
                os.kill(pid, signal.SIGKILL)
        os.waitpid(-1, 0)


def _children() -> list[int]:
    """Our children, by the parent's pid in every /proc/<pid>/stat (not every kernel lists children directly).

    None where there is no /proc: then they are in a namespace that ends with its first process."""
    found = []
    try:
        names = os.listdir("/proc")
    except FileNotFoundError:
        return found
    for name in names:
        try:
            with open(f"/proc/{name}/stat") as file:
                if int(file.read().rpartition(")")[2].split()[1]) == os.getpid():
                    found.append(int(name))
        except (OSError, ValueError, IndexError):
            continue
    return found


class _Server:
    def __init__(self, channel: socket.socket, configuration: dict, names: dict, spaces: str) -> None:
        self.channel = channel
        self.names = names
        self.isolated = bool(spaces)
        self.proc = os.open("/proc", os.O_PATH)
        isolation.mapped_bytes()
        readable = isolation.readable_paths(configuration["site"])
        layers = [spaces] if spaces else []
        if spaces:
            isolation.private_root(readable, configuration["mount_point"])
            layers.append("private-root")
        linux.forbid_inspection()
        self.confinement = isolation.Confinement(readable, private=bool(spaces))
        self.confinement.prepare(configuration["rung"])
        self.send({"layers": [*layers, *self.confinement.active, "rlimits"]}, [])

    def serve(self) -> None:
        while True:
            header = self._receive(4)
            if not header:
                return
            job = json.loads(self._receive(struct.unpack("!I", header)[0]))
            self._run(job)

    def _receive(self, size: int) -> bytes:
        parts = []
        while size:
            part = self.channel.recv(min(size, 1 << 20))
            if not part:
                return b""
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def send(self, record: dict[str, Any], blobs: list[bytes]) -> None:
        text = json.dumps(record | {"sizes": [len(blob) for blob in blobs]}).encode()
        self.channel.sendall(b"".join([struct.pack("!I", len(text)), text, *blobs]))

    def _run(self, job: dict[str, Any]) -> None:
        outputs = [os.memfd_create("output") for _ in job["tests"]]
        report = os.memfd_create("report")
        progress, started = os.pipe2(os.O_NONBLOCK)
        child = linux.fork()
        if child == 0:
            self._become_solution(job, outputs, report, progress, started)
        os.close(started)
        result = self._watch(child, progress, job)
        records = _read(report, 1 << 20).decode("utf-8", "replace").splitlines()
        blobs = [_read(output, job["output_bytes"]) for output in outputs]
        for descriptor in (progress, report, *outputs):
            os.close(descriptor)
        self.send(result | {"records": records}, blobs)

    def _become_solution(self, job: dict, outputs: list[int], report: int, progress: int, started: int) -> None:
        """In the child; never returns. Exit code 0 says that the harness came to its end."""
        code = 70
        try:
            self.channel.close()
            os.close(self.proc)
            os.close(progress)
            inputs = [_input_file(test) for test in job["tests"]]
            null = os.open("/dev/null", os.O_RDWR)
            limits = isolation.Limits(job["total_s"], job["memory_bytes"], job["output_bytes"])
            self.confinement.enter(limits)
            code = 71
            harness.run_tests(
                job,
                inputs,
                outputs,
                null,
                next_test=lambda: os.write(started, b"."),
                report=lambda record: os.write(report, json.dumps(record).encode() + b"\n"),
                default_names=self.names,
            )
            code = 0
        finally:
            os._exit(code)

    def _watch(self, child: int, progress: int, job: dict[str, Any]) -> dict[str, Any]:
        """Wait for the child, or end it; say how it ended, how many tests it started, and what it used.

        What counts against the limits is CPU time and time asleep. Waiting for a core that somebody else uses does
        not, so that the verdict does not depend on how busy the machine is.
        """
        exited = os.pidfd_open(child)
        watch = select.poll()
        for descriptor in (exited, self.channel.fileno()):
            watch.register(descriptor, select.POLLIN)
        begin = time.monotonic()
        waits: dict[str, int] = {}
        started, test_began, ended = 0, 0.0, ""
        while not ended:
            ready = {descriptor for descriptor, _ in watch.poll(_TICK_S * 1000)}
            if self.channel.fileno() in ready and not self.channel.recv(1, socket.MSG_PEEK):
                os._exit(0)  # the judge is gone; as process 1 we take everything with us
            spent = _cpu_seconds(child)
            wall = time.monotonic() - begin
            if wall > 2 * _TICK_S:
                spent += max(0.0, self._asleep(exited, spent, wall, waits))
            # Looked at, not waited for: to be woken by each of a hundred short tests costs more than they do.
            new = _count(progress)
            if new and started < len(job["tests"]):  # a program that says more starts nothing, and gains no time
                started, test_began = min(started + new, len(job["tests"])), spent
            if exited in ready:
                ended = "exited"
            elif spent - test_began > job["test_s"] or spent > job["total_s"]:
                ended = "timed_out"
                os.kill(child, signal.SIGKILL)
        _, status, usage = os.wait4(child, 0)
        _end_descendants(self.isolated)
        os.close(exited)
        cpu = usage.ru_utime + usage.ru_stime
        return {"ended": ended, "started": started, "status": status, "spent_s": max(spent, cpu)}

    def _asleep(self, pidfd: int, cpu: float, wall: float, waits: dict[str, int]) -> float:
        """Seconds the process slept: what is left of the wall time after running and waiting for a core.

        The kernel's schedstat of each thread says how long it was runnable but not running; `waits` remembers threads
        that have ended.
        """
        try:
            # Through the descriptor of the old /proc: a pid of our own namespace means nothing there.
            details = _read_text(f"self/fdinfo/{pidfd}", self.proc)
            pid = next(line.split()[1] for line in details.splitlines() if line.startswith("Pid:"))
            tasks = os.open(f"{pid}/task", os.O_RDONLY, dir_fd=self.proc)
            try:
                for thread in os.listdir(tasks):
                    waits[thread] = int(_read_text(f"{thread}/schedstat", tasks).split()[1])
            finally:
                os.close(tasks)
        except (OSError, StopIteration, IndexError, ValueError):
            if not waits:
                return (wall - cpu) / 5  # no schedstat on this kernel: be generous instead
        return wall - cpu - sum(waits.values()) / 1e9


def _cpu_seconds(pid: int) -> float:
    """CPU time of another process through its clock, see clock_getcpuclockid(3); 0 when it has just ended."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def _read_text(path: str, directory: int) -> str:
    descriptor = os.open(path, os.O_RDONLY, dir_fd=directory)
    try:
        return os.read(descriptor, 65536).decode()
    finally:
        os.close(descriptor)


def _input_file(test: dict[str, Any]) -> int:
    """Standard input as a file, not a pipe: `os.fstat(0).st_size` is a legal way to read it."""
    if test["kind"] != "stdin":
        return os.open("/dev/null", os.O_RDONLY)
    descriptor = os.memfd_create("input")
    text = test["input"].encode("utf-8", "surrogatepass")
    while text:
        text = text[os.write(descriptor, text) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _count(pipe: int) -> int:
    """Bytes that are waiting in a non-blocking pipe, which are taken out."""
    try:
        return len(os.read(pipe, 65536))
    except BlockingIOError:
        return 0


def _read(descriptor: int, limit: int) -> bytes:
    return os.pread(descriptor, min(os.fstat(descriptor).st_size, limit), 0)
