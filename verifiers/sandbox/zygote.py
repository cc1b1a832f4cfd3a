"""The fork server: a fresh interpreter that forks the confined processes of one program, watches them, and kills what
is left of them.

A process can find whatever it inherits from its parent, freed memory included. So the server never holds a job: it
receives limits, which are numbers, and descriptors of files in memory, which it passes on unread. A child reads its own
and keeps descriptors of no others; the judge reads what it writes there. `watch.py` decides when a run ends.

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
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from ratchet.verifiers.sandbox import (
    MESSAGE_BYTES,
    MOST_FILES,
    STOP,
    UNCONFINED,
    harness,
    isolation,
    linux,
    native,
    warm_up,
)
from ratchet.verifiers.sandbox.child import Child
from ratchet.verifiers.sandbox.memory_group import MemoryGroup
from ratchet.verifiers.sandbox.progress import Progress
from ratchet.verifiers.sandbox.watch import Watch


def main() -> None:
    configuration = json.loads(sys.argv[1])
    judge = os.pidfd_open(configuration["judge_pid"])
    if os.getppid() != configuration["judge_pid"]:
        return  # the judge died before we could watch it
    channel = socket.socket(fileno=configuration["channel"])
    sys.path[:] = [path for path in sys.path if path != configuration["root"]] + configuration["site"]
    names = warm_up.prepare()
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
        except BaseException as error:
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
        run: Callable[..., object], group: MemoryGroup | None, no_group: str,
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
        # Those of the interactor stay open here until it has accepted, so that its end is no reason for the program's.
        for end in ends[0]:
            end.close()
        result = self._watch(program, interactor, Progress(unused, unused, 1), limits, ends[1])
        for end in ends[1]:
            end.close()
        if self.workbench:
            self.workbench.clear()
        return result

    def _talk(
        self, limits: dict[str, Any], order: dict[str, Any] | None, files: list[int], ends: Sequence[io.FileIO]
    ) -> Child:
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

    def _fork(self) -> Child | None:
        """Fork a child; None in the child itself."""
        if self.group:
            self.group.offer(True)
        child = linux.fork()
        if child and self.group:
            self.group.offer(False)
        return Child(child, self.proc) if child else None

    def _start(
        self, work: Callable[..., object], limits: dict[str, Any], files: list[int], *channel: socket.socket | io.FileIO
    ) -> Child:
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
        self, program: Child, companion: Child | None, progress: Progress, limits: dict[str, Any],
        pipes: Sequence[io.FileIO] = (),
    ) -> dict[str, Any]:  # fmt: skip
        """Wait until the run is over, and leave nothing of it; returns how it ended and what it used."""
        kills = self.group.kills() if self.group else 0
        watch = Watch(program, companion, progress, limits, self.channel, self.proc, pipes)
        watch.wait()
        watch.kill()
        _end_descendants(self.isolated)
        return watch.result(self.group is not None and self.group.kills() > kills)
