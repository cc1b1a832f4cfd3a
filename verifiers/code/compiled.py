"""Build programs in C++ with this machine's compiler, stage by stage in the sandbox, and run them there.

A source text can make a compiler read files, take memory without end or crash. So each stage (compile, assemble, link)
is a confined process like a program's, which can read headers and libraries, and write to a directory that is emptied
after it. No stage starts a process: the driver `g++` is only asked which commands it would run.
"""

import functools
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fcntl import F_ADD_SEALS, F_SEAL_GROW, F_SEAL_SHRINK, F_SEAL_WRITE, fcntl
from pathlib import Path
from typing import Any

from ratchet.verifiers.code.problem import DEFAULT_STANDARD, InvalidProblem
from ratchet.verifiers.code.program_files import NO_FILES, ProgramFiles
from ratchet.verifiers.sandbox import canaries
from ratchet.verifiers.sandbox.runs import Execution, Limits, NativeRun, TestRun
from ratchet.verifiers.sandbox.server import Sandbox, SandboxFault, require_isolation

STAGE_LIMITS = Limits(test_s=10.0, total_s=10.0, memory_bytes=1 << 30, output_bytes=64 << 20)
"""Limits of each stage: CPU seconds, memory, and the size of what it writes."""
_STAGES = {
    "compiling": ("-S", "-x", "c++"), "assembling": ("-c", "-x", "assembler"), "linking": ("-fno-use-linker-plugin",),
}  # fmt: skip
COMPILERS = ("g++", "clang++")
_KEPT = 8
"""Problems whose own translation units are kept."""
_ERROR = re.compile(r"(?im)\b(?:fatal )?error: .*|^.*undefined reference.*|^.*multiple definition.*")


class Unavailable(SandboxFault):
    """This machine cannot build or confine C++. Also a warning, which Python shows once, because every verdict will say
    so."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        warnings.warn(reason, stacklevel=3)


class DoesNotCompile(Exception):
    """A program does not compile; the message gives the reason."""


@dataclass(frozen=True)
class Toolchain:
    """A compiler: its version, the paths that its stages read, and each stage's program and arguments (`input` to
    `result`)."""

    version: str
    readable: list[str]
    stages: dict[str, list[str]]


@functools.cache
def toolchain(standard: str = DEFAULT_STANDARD) -> Toolchain:
    """The compiler on the path. Raises Unavailable if there is none, or if its answers are not understood."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise Unavailable(f"programs in C++ cannot be judged: there is no {' or '.join(COMPILERS)} on this machine")
    stages = {}
    for stage, options in _STAGES.items():
        name = "input.o" if stage == "linking" else "input"
        lines = _asked(compiler, "-###", "-O2", f"-std={standard}", "-static", *options, name, "-o", "result")
        commands = [shlex.split(line) for line in lines.splitlines() if line.startswith(" ") and line[1] != "("]
        if len(commands) != 1:
            raise Unavailable(f"{compiler} would run {len(commands)} commands for {stage}, not one")
        program, *arguments = commands[0]
        if os.path.basename(program) == "collect2":  # which starts the linker
            program = _asked(compiler, "-print-prog-name=ld").strip()
        path = shutil.which(program)
        if path is None:
            raise Unavailable(f"{compiler} needs {program}, which is not on this machine")
        stages[stage] = [os.path.realpath(path), *("input" if a == "input.o" else a for a in arguments)]
    searched = _asked(compiler, "-E", "-x", "c++", "-v", os.devnull).partition("search starts here:")[2]
    headers = [line.strip() for line in searched.splitlines() if line.startswith(" /")]
    libraries = _asked(compiler, "-print-search-dirs").partition("libraries: =")[2].split("\n")[0].split(":")
    tools = [stage[0] for stage in stages.values()]
    paths = {os.path.realpath(path) for path in (*headers, *libraries, *tools) if os.path.exists(path)}
    readable = [p for p in sorted(paths) if not any(p.startswith(f"{other}/") for other in paths)]
    return Toolchain(_asked(compiler, "--version").splitlines()[0], readable, stages)


def _asked(compiler: str, *options: str) -> str:
    with tempfile.TemporaryDirectory() as directory:
        for name in ("input", "input.o"):  # clang wants to see them
            Path(directory, name).touch()
        done = subprocess.run(
            [compiler, *options], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            cwd=directory, env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}, check=False,
        )  # fmt: skip
    if done.returncode:
        raise Unavailable(f"{compiler} {' '.join(options)} fails: {done.stdout.strip().splitlines()[-1:]}")
    return done.stdout


class Program:
    """A built program: an open, sealed file in memory. Close it after the tests of one submission."""

    def __init__(self, content: bytes) -> None:
        self.file = -1
        writable = os.memfd_create("program", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            with open(writable, "wb", closefd=False) as file:
                file.write(content)
            fcntl(writable, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW)
            # What someone has open for writing cannot be run.
            self.file = os.open(f"/proc/self/fd/{writable}", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            os.close(writable)

    def close(self) -> None:
        file, self.file = self.file, -1
        if file >= 0:
            os.close(file)

    __del__ = close

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class CppSandbox(Sandbox):
    """A fork server for C++. Needs landlock: without it, a compiler could read and write everything that its user
    may."""

    def __init__(self, minimum: str = "C", at_most: str = "A") -> None:
        super().__init__(minimum, at_most)
        self._objects: dict[tuple[Any, str], list[bytes]] = {}

    def start(self) -> None:
        """Start the server. Raises Unavailable, or RatchetError if the machine offers less than demanded."""
        if self._process is not None and self._process.poll() is None:
            return
        try:
            self.native = toolchain().readable
            machine = require_isolation(self.minimum, self.at_most)
            if "landlock" not in machine.layers:
                raise Unavailable(f"programs in C++ need landlock, and this machine offers {machine}")
            self._launch_proven(machine)
            if machine.target not in _escaped:
                _escaped[machine.target] = _attacked(self)
            if escaped := _escaped[machine.target]:
                raise Unavailable(f"programs in C++ are not confined: one could {', '.join(escaped)}")
        except BaseException:
            self.close()
            raise

    def build(
        self, source: str, standard: str = DEFAULT_STANDARD, headers: Mapping[str, bytes] | None = None,
        objects: Sequence[bytes] = (),
    ) -> Program:  # fmt: skip
        """Compile, assemble and link a program. `headers` are files for `#include "name"`; `objects` are linked with
        it. Raises DoesNotCompile, and SandboxFault where the machine is at fault."""
        compiled = self.compile(source.encode("utf-8", "surrogatepass"), standard, headers or {})
        others = {f"{number}.o": content for number, content in enumerate(objects)}
        return Program(self._stage("linking", standard, others | {"input": compiled}, [*others]))

    def compile(self, source: bytes, standard: str, headers: Mapping[str, bytes]) -> bytes:
        """The object file of one translation unit. Raises the errors of `build`."""
        assembly = self._stage("compiling", standard, {**headers, "input": source})
        return self._stage("assembling", standard, {"input": assembly})

    def _stage(self, stage: str, standard: str, files: dict[str, bytes], more: Sequence[str] = ()) -> bytes:
        """The output of a stage for the file `input` and `more` files."""
        command = [part for a in toolchain(standard).stages[stage] for part in ([a, *more] if a == "input" else [a])]
        tool = os.open(command[0], os.O_RDONLY | os.O_CLOEXEC)
        try:
            ended = self.run_native("tool", tool, command, b"", STAGE_LIMITS, files, "result")
        finally:
            os.close(tool)
        if fault := _fault(stage, ended):
            raise DoesNotCompile(fault)
        return ended.run.output

    def objects(self, files: ProgramFiles, standard: str) -> list[bytes]:
        """The problem's own translation units, built once for the programs of a group. Raises InvalidProblem."""
        key = files.cpp, standard
        if key not in self._objects:
            units, built = files.units(), []
            for name, unit in units.items():
                try:
                    others = {other: text for other, text in (units | files.headers()).items() if other != name}
                    built.append(self.compile(unit, standard, others))
                except DoesNotCompile as reason:
                    raise InvalidProblem(f"its program file {name} {reason}") from None
            self._objects = {**dict([*self._objects.items()][1 - _KEPT :]), key: built}
        return self._objects[key]

    def run_program(self, program: Program, stdin: bytes, limits: Limits) -> NativeRun:
        """Run a program on one test, with nothing but standard input and output."""
        return self.run_native("program", program.file, ["./program"], stdin, limits)


def cpp_sandbox(sandbox: Sandbox) -> CppSandbox:
    """The server for C++ that belongs to a sandbox, which closes it."""
    if sandbox.beside is None:
        sandbox.beside = CppSandbox(sandbox.minimum, sandbox.at_most)
    assert isinstance(sandbox.beside, CppSandbox)
    return sandbox.beside


# What each must not be able to do; a program prints the names of those that it can.
_ATTACKS = {
    "read a file of the host": "open({secret}, O_RDONLY) >= 0",
    "write a new file": "open({new}, O_WRONLY | O_CREAT, 0600) >= 0",
    "change a file of the host": "open({secret}, O_WRONLY) >= 0",
    "write to the directory of compilers": 'open("x", O_WRONLY | O_CREAT, 0600) >= 0',
    "open a TCP connection": "connect(socket(AF_INET, SOCK_STREAM, 0), (sockaddr *)&address, sizeof address) == 0",
    "make a process": "fork() >= 0",
    "run another program": "execl({python}, {python}, {version}, (char *)0) >= 0",
    "run another program from a descriptor": "syscall(SYS_execveat, 1, {python}, argv, argv + 1, 0x1000) >= 0",
    "make a user namespace": "unshare(0x10000000) == 0",
    "read the memory of the server": "open(server, O_RDONLY) >= 0",
    "signal the judge": "kill({judge}, 0) == 0",
    "kill the server": "kill(getppid(), SIGKILL) == 0",
}
_ATTACK = """
#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
int main() {{
    char server[64], *argv[] = {{server, 0, 0}};
    snprintf(server, sizeof server, "/proc/%d/mem", getppid());
    sockaddr_in address = {{AF_INET, htons({port}), {{htonl(INADDR_LOOPBACK)}}, {{}}}};
    {attempts}
    puts("done");
}}
"""


_escaped: dict[str, list[str]] = {}
"""The attacks that a server does not stop, by its level: tried once per process."""


def _attacked(shop: CppSandbox) -> list[str]:
    with canaries.targets() as targets:
        facts = targets | {"python": "/bin/sh", "version": "--version"}
        facts = {name: f'"{fact}"' if isinstance(fact, str) else fact for name, fact in facts.items()}
        attempts = "".join(
            f'if ({attempt.format(**facts)}) puts("{name}");\n    ' for name, attempt in _ATTACKS.items()
        )
        try:
            shop.build(f"#include {facts['secret']}\nint main() {{}}").close()
            raise Unavailable("a compiler read nothing from a file that is no program")
        except DoesNotCompile as reason:
            escaped = ["include a file of the host"] if canaries.SECRET in str(reason) else []
        try:
            with shop.build(_ATTACK.format(attempts=attempts, **facts)) as program:
                ended = shop.run_program(program, b"", Limits(5.0, 5.0, 64 << 20, 1 << 16))
        except DoesNotCompile as reason:
            raise Unavailable(f"{toolchain().version} cannot build a program here: {reason}") from None
    lines = ended.run.output.decode().splitlines()
    return escaped + (lines[:-1] if lines[-1:] == ["done"] else [f"end the attacks early ({ended.run})"])


class CppSubmission:
    """One program in C++ that takes the place of a sandbox for the judge. It is built at its first test, and each test
    runs in a process of its own. Close it."""

    def __init__(self, sandbox: Sandbox, source: str, standard: str, files: ProgramFiles = NO_FILES) -> None:
        self._shop, self._source, self._standard, self._files = cpp_sandbox(sandbox), source, standard, files
        self._program: Program | None = None

    def run(self, _: str, tests: list[dict[str, Any]], limits: Limits, **__: Any) -> Execution:
        """Run the tests on standard input, as `Sandbox.run` does."""
        try:
            program = self.built()
        except DoesNotCompile as reason:
            return Execution([TestRun("uncompilable", detail=str(reason))] * len(tests), 0.0)
        inputs = [test["input"].encode("utf-8", "surrogatepass") for test in tests]
        ended = [self._shop.run_program(program, stdin, limits) for stdin in inputs]
        return Execution([one.run for one in ended], sum(one.spent_s for one in ended))

    def built(self) -> Program:
        """The built program. Raises DoesNotCompile, and InvalidProblem where the problem's own files do not compile."""
        if self._program is None:
            objects = self._shop.objects(self._files, self._standard)
            self._program = self._shop.build(self._source, self._standard, self._files.headers(), objects)
        return self._program

    def close(self) -> None:
        if self._program:
            self._program.close()


def _fault(stage: str, ended: NativeRun) -> str:
    """The reason why a stage built nothing; "" if it built something."""
    status, errors = ended.run.status, ended.errors.decode("utf-8", "replace")
    if status == "exited":
        return "" if ended.run.output else f"does not compile: {stage} it gives nothing"
    reasons = {
        "timed_out": f"takes more than {STAGE_LIMITS.test_s:g} s",
        "exhausted": f"takes more than {STAGE_LIMITS.memory_bytes >> 20} MB of memory",
        "flooded": f"writes more than {STAGE_LIMITS.output_bytes >> 20} MB",
    }
    if status in reasons:
        return f"does not compile: {stage} it {reasons[status]}"
    first = match[0] if (match := _ERROR.search(errors)) else next(iter(errors.strip().splitlines()), "")
    return f"does not compile: {first[:300] or f'{stage} it ends with {ended.run.detail}'}"
