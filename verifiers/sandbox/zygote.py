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

from ratchet.verifiers.sandbox import UNCONFINED, harness, isolation, linux

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
            sizes = self._receive(8)
            if not sizes:
                return
            limits, job = map(self._receive, struct.unpack("!II", sizes))
            self._run(json.loads(limits), job)

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

    def _run(self, limits: dict[str, Any], job: bytes) -> None:
        files = [os.memfd_create(name) for name in ("input", "output", "report")]
        child = linux.fork()
        if child == 0:
            self._become_solution(limits, job, files)
        result = self._watch(child, files[2], limits)
        blobs = [_read(files[1], limits["output_bytes"]), _read(files[2], 2 * harness.REPORT_BYTES)]
        for descriptor in files:
            os.close(descriptor)
        self.send(result, blobs)

    def _become_solution(self, limits: dict[str, Any], job: bytes, files: list[int]) -> None:
        """In the child; never returns. Exit code 0 says that the harness came to its end."""
        try:
            self.channel.close()
            os.close(self.proc)
            null = os.open("/dev/null", os.O_RDWR)
            given, output, report = files
            where = harness.Files(given, output, report, null)
            self.confinement.enter(limits["total_s"], limits["memory_bytes"], limits["file_bytes"])
        except BaseException:
            os.kill(os.getpid(), UNCONFINED)
            os._exit(71)  # never reached
        try:
            harness.run_tests(json.loads(job), where, self.names)
            os._exit(0)
        finally:
            os._exit(71)

    def _watch(self, child: int, report: int, limits: dict[str, Any]) -> dict[str, Any]:
        """Wait for the child, or end it; say how it ended, and what it used.

        What counts against the limits is CPU time and time asleep. Waiting for a core that somebody else uses does
        not, so that the verdict does not depend on how busy the machine is.
        """
        exited = os.pidfd_open(child)
        watch = select.poll()
        for descriptor in (exited, self.channel.fileno()):
            watch.register(descriptor, select.POLLIN)
        begin = time.monotonic()
        waits: dict[str, int] = {}
        done, seen, test_began, ended = 0, 0, 0.0, "exited"
        while True:
            ready = {descriptor for descriptor, _ in watch.poll(_TICK_S * 1000)}
            if self.channel.fileno() in ready and not self.channel.recv(1, socket.MSG_PEEK):
                os._exit(0)  # the judge is gone; as process 1 we take everything with us
            spent = _cpu_seconds(child)
            wall = time.monotonic() - begin
            if wall > 2 * _TICK_S:
                spent += max(0.0, self._asleep(exited, spent, wall, waits))
            if exited in ready:
                break
            # Looked at, not waited for: to be woken by each of a hundred short tests costs more than they do.
            new = os.pread(report, 65536, seen)
            seen += len(new)
            if b"\n" in new and done < limits["tests"]:  # who reports more than there are tests gains no time
                done, test_began = min(done + new.count(b"\n"), limits["tests"]), spent
            if spent - test_began > limits["test_s"] or spent > limits["total_s"]:
                ended = "timed_out"
                os.kill(child, signal.SIGKILL)
                break
        _, status, usage = os.wait4(child, 0)
        _end_descendants(self.isolated)
        os.close(exited)
        cpu = usage.ru_utime + usage.ru_stime
        return {"ended": ended, "status": status, "spent_s": max(spent, cpu)}

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


def _read(descriptor: int, limit: int) -> bytes:
    return os.pread(descriptor, min(os.fstat(descriptor).st_size, limit), 0)
