"""The fork server: a fresh interpreter that forks the confined processes of one program, watches them, and kills what
is left of them.

A process can find whatever it inherits from its parent, freed memory included. So the server never holds a job: it
receives limits, which are numbers, and descriptors of files in memory, which it passes on unread. A child reads its own
and keeps descriptors of no others; the judge reads what it writes there.

Two processes. The *guardian* enters the namespaces, forks the *server* (process 1 of its own pid namespace) and waits:
when the judge dies, it kills the server, and the kernel then kills everything in the namespace. The server polls the
judge's socket, the child, and the child's progress at the same time, so it never blocks.

Started by `Sandbox` as `python -P -S -s -c ... <configuration>`.
"""

import gc
import importlib
import io
import json
import os
import select
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from ratchet.verifiers.sandbox import MESSAGE_BYTES, MOST_FILES, STOP, UNCONFINED, harness, isolation, linux, native
from ratchet.verifiers.sandbox.memory_group import MemoryGroup
from ratchet.verifiers.sandbox.progress import Progress

_TICK_S = 0.02
_GRACE_S = 2.0
"""For a check after its program has ended; an interactor, which may have much left to read, has its CPU limit."""
_EXIT_S = 1.0
"""How long a process that has closed its output may take to end on a busy machine."""
_THREADS_READ = 64
"""Threads whose state is read: to read hundreds every tick would cost more than they do."""
_PATIENCE, _PATIENCE_S = 25.0, 10.0
"""Wall time, as a multiple of the limit and in seconds beside it, after which a test ends whatever it does; the first
is larger on a machine with more than a dozen runnable threads for each core."""
_LOADED = 0.1
"""The share of its time that a program has waited for a core, from which load may be why it ran out of time."""


def main() -> None:
    configuration = json.loads(sys.argv[1])
    judge = os.pidfd_open(configuration["judge_pid"])
    if os.getppid() != configuration["judge_pid"]:
        return  # the judge died before we could watch it
    channel = socket.socket(fileno=configuration["channel"])
    sys.path[:] = [path for path in sys.path if path != configuration["root"]] + configuration["site"]
    names = harness.prepare()
    run = harness.run_program
    if configuration["work"]:
        module, of = configuration["work"]
        run = importlib.import_module(module).work(of)
        gc.freeze()
    linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    readable = isolation.readable_paths([*configuration["site"], *(configuration["native"] or ())])
    group, no_group = None, ""
    if configuration["memory_group"]:
        try:
            group = MemoryGroup(configuration["memory_group"])
        except OSError as error:
            no_group = str(error)
    spaces = isolation.enter_namespaces(readable, configuration["mount_point"]) if configuration["level"] == "A" else ""
    if configuration["native"] is not None:
        configuration["scratch"] = native.make_scratch(configuration["mount_point"], bool(spaces))
    server = linux.fork()
    if server == 0:
        try:
            linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
            os.close(judge)
            _Server(channel, configuration, readable, names, spaces, run, group, no_group).serve()
        except (OSError, EOFError, ValueError) as error:
            print(f"sandbox server: {error!r}", file=sys.stderr, flush=True)
        finally:
            os._exit(1)
    channel.close()
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    select.select([judge, os.pidfd_open(server)], [], [])
    os.kill(server, signal.SIGKILL)
    _end_descendants(everyone=False)
    if group:
        group.remove()
    if configuration["native"] is not None and not spaces:
        shutil.rmtree(configuration["scratch"], ignore_errors=True)


def _end_descendants(everyone: bool) -> None:
    """Kill and reap until no child is left: as process 1 of a pid namespace `everyone`; else our children, which as we
    are the subreaper include whatever escaped its parent."""
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        for pid in [-1] if everyone else _children():
            os.kill(pid, signal.SIGKILL)
        os.waitpid(-1, 0)


def _children() -> list[int]:
    """Our children, by the parent in each /proc/<pid>/stat (not every kernel lists children directly). None without
    /proc: then they are in a namespace that ends with its first process."""
    children = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        with suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat") as file:
            if int(file.read().rpartition(")")[2].split()[1]) == os.getpid():
                children.append(int(name))
    return children


class _Server:
    def __init__(
        self, channel: socket.socket, configuration: dict, readable: list[str], names: dict, spaces: str,
        run: Callable[..., None], group: MemoryGroup | None, no_group: str,
    ) -> None:  # fmt: skip
        self.channel = channel
        self.group = group
        if group:
            group.enter()
        self.names = names
        self.run = run
        self.isolated = bool(spaces)
        self.proc = os.open("/proc", os.O_PATH)
        isolation.mapped()
        self.confinement = isolation.Confinement(readable, private=bool(spaces))
        layers = []
        scratch = configuration.get("scratch", "")
        if spaces:
            isolation.private_root(readable, configuration["mount_point"], scratch, native.SCRATCH_BYTES)
            layers = [spaces, "private-root"]
        linux.prctl(linux.PR_SET_DUMPABLE, 0)
        self.confinement.prepare(configuration["level"])
        self.workbench = None
        if scratch:
            tools = [*isolation.SYSTEM_LIBRARIES, *configuration["native"]]
            self.workbench = native.Workbench(tools, self.confinement, configuration["level"], scratch)
        layers += [*self.confinement.active, *(["memory-group"] if group else []), "rlimits"]
        self.send({"layers": layers, "no_group": no_group})

    def serve(self) -> None:
        while True:
            message, files, _, _ = socket.recv_fds(self.channel, MESSAGE_BYTES, MOST_FILES)
            if not message:
                return
            if message != STOP:  # which came too late
                self._run(json.loads(message), files)

    def send(self, record: dict[str, Any]) -> None:
        self.channel.send(json.dumps(record).encode())

    def _run(self, limits: dict[str, Any], files: list[int]) -> None:
        work = self._join if "joined" in limits else self._run_native if "native" in limits else self._run_python
        result = work(limits, files)
        for descriptor in files:
            os.close(descriptor)
        self.send(result)

    def _run_python(self, limits: dict[str, Any], files: list[int]) -> dict[str, Any]:
        """`files` are the program's job, output and report, for a check also its job and its report, and a copy of the
        last report."""
        *inputs, copy = files
        progress, checker = Progress(inputs[-1], copy, limits["tests"]), None
        if self.group:
            self.group.hold(limits["memory_bytes"] * (1 if len(inputs) == 3 else 2))
        if len(inputs) == 3:
            program = self._start(self.run, limits, inputs)
        else:
            job, report = inputs[3:]
            ends = socket.socketpair()
            program = self._start(harness.answer_check, limits, inputs[:3], ends[0])
            checker = self._start(harness.run_check, limits, [job, report, report], ends[1])
            for end in ends:
                end.close()
        result = self._watch(program, checker, progress, limits)
        progress.update()
        return result

    def _run_native(self, limits: dict[str, Any], files: list[int]) -> dict[str, Any]:
        """`files` are those of `Workbench.become`, those to lay out, and one more that stays empty."""
        assert self.workbench is not None
        order, (*inputs, copy) = limits["native"], files
        if self.group:
            self.group.hold(limits["memory_bytes"])
        self.workbench.lay(order["files"], inputs[5:])
        child = self._fork() or self._become(limits, order, inputs[:5])
        result = self._watch(child, None, Progress(inputs[3], copy, 1), limits)
        if order["result"]:
            self.workbench.collect(order["result"], inputs[1])
        if order["kind"] != "program":
            self.workbench.clear()
        return result

    def _join(self, limits: dict[str, Any], files: list[int]) -> dict[str, Any]:
        """A program and its interactor. `files` of each: job, output and report, or errors, failure and executable of a
        native one and those to lay out; and one more that stays empty. A pipe each way: either can close its output."""
        *inputs, unused = files
        if self.group:
            self.group.hold(limits["memory_bytes"] + limits["check_bytes"])
        (program_in, interactor_out), (interactor_in, program_out) = os.pipe(), os.pipe()
        ends = [
            (io.FileIO(program_in), io.FileIO(program_out, "w")),
            (io.FileIO(interactor_in), io.FileIO(interactor_out, "w")),
        ]
        sides = inputs[: limits["program_files"]], inputs[limits["program_files"] :]
        theirs = limits | {"total_s": limits["total_s"] + limits["check_s"], "memory_bytes": limits["check_bytes"]}
        orders = limits["joined"]
        program = self._talk(limits, orders[0], sides[0], ends[0])
        interactor = self._talk(theirs, orders[1], sides[1], ends[1])
        # Those of the interactor stay open here, so that its end is not seen by the program, and is no reason for its.
        for end in ends[0]:
            end.close()
        result = self._watch(program, interactor, Progress(unused, unused, 1), limits, output=interactor_in)
        for end in ends[1]:
            end.close()
        if self.workbench:
            self.workbench.clear()
        return result

    def _talk(
        self, limits: dict[str, Any], order: dict[str, Any] | None, files: list[int], ends: Sequence[io.FileIO]
    ) -> "_Child":
        if order is None:
            return self._start(harness.converse, limits, files, *ends)
        assert self.workbench is not None
        self.workbench.lay(order["files"], files[3:])
        standard = [end.fileno() for end in ends]
        return self._fork() or self._become(limits, order | {"result": ""}, standard + files[:3])

    def _become(self, limits: dict[str, Any], order: dict[str, Any], files: list[int]) -> NoReturn:
        assert self.workbench is not None
        try:
            self.workbench.become(order, limits, files)
        finally:
            os.kill(os.getpid(), UNCONFINED)
            os._exit(71)

    def _fork(self) -> "_Child | None":
        """None in the child."""
        if self.group:
            self.group.offer(True)
        child = linux.fork()
        if child and self.group:
            self.group.offer(False)
        return _Child(child, self.proc) if child else None

    def _start(
        self, work: Callable[..., None], limits: dict[str, Any], files: list[int], *channel: socket.socket | io.FileIO
    ) -> "_Child":
        """Never returns in the child; exit code 0 means that the harness finished."""
        if child := self._fork():
            return child
        try:
            where = harness.Files._make([*files, os.open("/dev/null", os.O_RDWR)])
            self.confinement.enter(limits["total_s"], limits["memory_bytes"], limits["file_bytes"])
            first = 3
            for kept in sorted((*where, *(end.fileno() for end in channel))):
                os.closerange(first, kept)
                first = kept + 1
            os.closerange(first, isolation.OPEN_FILES)
        except BaseException:
            os.kill(os.getpid(), UNCONFINED)
            os._exit(71)  # never reached
        try:
            work(where, *channel, self.names)
            os._exit(0)
        finally:
            os._exit(71)

    def _watch(
        self, program: "_Child", checker: "_Child | None", progress: Progress, limits: dict[str, Any],
        output: int | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Wait until the program ends, or end it; returns how it ended and what it used. With a check, wait for that:
        it uses the program until it ends. An interactor reads from `output` what the program prints.

        CPU time counts against the limits, and time in which every thread sleeps. Waiting for a busy core does not, so
        that the verdict does not depend on the machine's load; nor does the check.
        """
        both = [child for child in (program, checker) if child]
        watch = select.poll()
        for descriptor in (*(child.exited for child in both), self.channel.fileno()):
            watch.register(descriptor, select.POLLIN)
        begin = last = time.monotonic()
        test_began, check_began, ended, over_s = 0.0, 0.0, "", 0.0
        asleep_s = test_began_wall = 0.0
        allowed_s = limits["test_s"] + (limits["check_s"] if checker else 0.0)
        check_ended = "exited"
        loaded = False
        kills = self.group.kills() if self.group else 0
        grace_s, check_bytes = _GRACE_S, limits["memory_bytes"]
        if "joined" in limits:
            grace_s, check_bytes = limits["check_s"], limits["check_bytes"]
        while True:
            ready = {descriptor for descriptor, _ in watch.poll(_TICK_S * 1000)}
            if self.channel.fileno() in ready and self.channel.recv(MESSAGE_BYTES) != STOP:
                os._exit(0)  # the judge is gone; as process 1 we take everything with us
            now = time.monotonic()
            wall, check_s = now - begin, checker.cpu() if checker else 0.0
            if wall > 2 * _TICK_S:
                if not any(child.is_awake() for child in both):
                    asleep_s += now - last
                last = now
            spent = program.cpu() + asleep_s
            if both[-1].exited in ready:
                break
            if program.exited in ready and not ended:
                ended, over_s = "exited", wall
                watch.unregister(program.exited)
            # Polled, not waited for: waking up for each of a hundred short tests costs more than they do.
            if progress.update():
                test_began, check_began, test_began_wall = spent, check_s, wall
            if self.channel.fileno() in ready:
                ended = "stopped"
                break
            over = "timed_out" if spent - test_began > limits["test_s"] or spent > limits["total_s"] else ""
            if not over and wall - test_began_wall > _PATIENCE_S + _PATIENCE * allowed_s:
                over = "" if wall - test_began_wall < 4 * self.load() * allowed_s else "timed_out"
            if not ended and wall > _TICK_S and program.resident() > limits["memory_bytes"]:
                over = "exhausted"
            if over and not ended:
                ended, over_s = over, wall
                is_busy = self.load() > 1 or program.waited_s() > _LOADED * wall
                loaded = is_busy and program.used_s > spent / 2  # what sleeps is as slow on a quiet machine
                program.kill()
                if checker is None:
                    break
                watch.unregister(program.exited)
            if checker and (check_s - check_began > limits["check_s"] or (ended and wall - over_s > grace_s)):
                check_ended = "timed_out"
                break
            if checker and wall > _TICK_S and checker.resident() > check_bytes:
                check_ended = "exhausted"
                break
        if not ended:
            # A process closes its files before it ends: if its connection broke, a moment shows that it has ended. The
            # connection of a check is closed by now in any case.
            moment_s = _EXIT_S if output is None or _is_closed(output) else 0.0
            waits = checker and not select.select([program.exited], [], [], moment_s)[0]
            ended = "over" if waits else "exited"
        for child in both:
            child.kill()
        statuses = [child.reap() for child in both]
        _end_descendants(self.isolated)
        if self.group and self.group.kills() > kills:  # of which the statuses tell nothing but the signal
            ended = "exhausted" if ended == "exited" and statuses[0] == signal.SIGKILL else ended
            check_ended = "exhausted" if statuses[-1] == signal.SIGKILL and check_ended == "exited" else check_ended
        spent = max(spent, program.used_s)
        check = {"check_ended": check_ended, "check_status": statuses[1]} if checker else {}
        return {"ended": ended, "status": statuses[0], "spent_s": spent, "loaded": loaded} | check

    def load(self) -> float:
        """Runnable threads of this machine for each core, of the last minute."""
        try:
            return float(_read_text("loadavg", self.proc).split()[0]) / len(os.sched_getaffinity(0))
        except (OSError, ValueError, IndexError):
            return 1.0


class _Child:
    """A confined process as its parent sees it."""

    def __init__(self, pid: int, proc: int) -> None:
        self.pid, self.exited = pid, os.pidfd_open(pid)
        self.used_s = 0.0
        """CPU seconds."""
        self._proc = proc
        self._pid_there, self._at_start = "", 0

    def cpu(self) -> float:
        """CPU time by the process's clock, see clock_getcpuclockid(3); the last known when it has just ended."""
        with suppress(OSError):
            self.used_s = time.clock_gettime((~self.pid << 3) | 2)
        return self.used_s

    def resident(self) -> int:
        """Bytes in memory that it has allocated since its start, shared ones included; 0 when it has just ended."""
        try:
            held = _resident(f"{self._there()}/status", self._proc)
            self._at_start = self._at_start or _resident("self/status", self._proc)  # a fork has what we have
            return held - self._at_start
        except (OSError, StopIteration, IndexError, ValueError):
            return 0

    def _there(self) -> str:
        """Its pid in the old /proc, reached through that one's descriptor: a pid of our own namespace means nothing
        there."""
        if not self._pid_there:
            details = _read_text(f"self/fdinfo/{self.exited}", self._proc)
            self._pid_there = next(line.split()[1] for line in details.splitlines() if line.startswith("Pid:"))
        return self._pid_there

    def is_awake(self) -> bool:
        """Whether one of its threads runs, or would if it had a core. So is one whose state cannot be read."""
        states = self._of_threads("stat", lambda text: text.rpartition(")")[2].split()[0])
        return not states or any(state in "RD" for state in states)

    def waited_s(self) -> float:
        """Seconds that the thread which waited longest for a core has waited."""
        return max(self._of_threads("schedstat", lambda text: int(text.split()[1]) / 1e9), default=0.0)

    def _of_threads(self, name: str, read: Callable[[str], Any]) -> list[Any]:
        found = []
        with suppress(OSError, StopIteration):
            tasks = os.open(f"{self._there()}/task", os.O_RDONLY, dir_fd=self._proc)
            try:
                for thread in os.listdir(tasks)[:_THREADS_READ]:
                    with suppress(OSError, ValueError, IndexError):
                        found.append(read(_read_text(f"{thread}/{name}", tasks)))
            finally:
                os.close(tasks)
        return found

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def reap(self) -> int:
        _, status, usage = os.wait4(self.pid, 0)
        os.close(self.exited)
        self.used_s = usage.ru_utime + usage.ru_stime
        return status


def _is_closed(pipe: int) -> bool:
    """Whether nobody can write to a pipe any more."""
    poll = select.poll()
    poll.register(pipe, select.POLLHUP)
    return any(event & select.POLLHUP for _, event in poll.poll(0))


def _resident(path: str, directory: int) -> int:
    """Bytes of anonymous and shared memory in a /proc/<pid>/status; files, such as libraries, do not count."""
    lines = _read_text(path, directory).splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))


def _read_text(path: str, directory: int) -> str:
    descriptor = os.open(path, os.O_RDONLY, dir_fd=directory)
    try:
        return os.read(descriptor, 65536).decode()
    finally:
        os.close(descriptor)
