"""Confined processes of the fork server that become another program: a stage of a compiler, or its result.

Nothing of Python is left in them. A tool runs what is beneath its readable paths. A program can open nothing but
devices; its file is in memory, and no other can be run: landlock refuses all on disk, the kernel what is being written.
"""

import os
import resource
import stat
import tempfile
from collections.abc import Sequence
from typing import Any, NoReturn

from ratchet.verifiers.sandbox import isolation, linux

SCRATCH = "/ratchet-scratch"
SCRATCH_BYTES = 256 << 20
MAX_STACK = 256 << 20
_FAILURE, _EXECUTABLE = isolation.OPEN_FILES - 2, isolation.OPEN_FILES - 1
_COPIED_BYTES = 1 << 30


class Workbench:
    """The scratch directory of a server, and its confinements by kind: `program`, `checker` (a program with files of
    the scratch directory), `tool`. Tools and checkers begin with an empty directory in it, of a random name: a program
    that runs beside an interactor cannot ask for the size of its files, which landlock would allow."""

    def __init__(self, readable: list[str], like: isolation.Confinement, level: str, scratch: str) -> None:
        """Prepare the confinements, in the server, in its root. Raises OSError if a layer that all three need is
        missing."""
        confined = {"program": ([], ""), "checker": ([], scratch), "tool": (readable, scratch)}
        self.confinements = {
            kind: isolation.Confinement(
                paths, like.private, like.user, kind="tool" if kind == "tool" else "program", scratch=directory
            )
            for kind, (paths, directory) in confined.items()
        }
        self._scratch = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY)
        for confinement in self.confinements.values():
            confinement.prepare(level)
            if missing := {"landlock", "seccomp"} - {*confinement.active}:
                raise OSError(f"{' and '.join(sorted(missing))} cannot be used")
        self._user = like.user if "uid" in self.confinements["tool"].active else -1
        os.fchown(self._scratch, self._user, -1)
        self._make_place()

    def _make_place(self) -> None:
        self._name = os.urandom(16).hex()
        os.mkdir(self._name, 0o700, dir_fd=self._scratch)
        self._place = os.open(self._name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._scratch)
        os.fchown(self._place, self._user, -1)

    def lay(self, names: Sequence[str], files: Sequence[int]) -> None:
        """Copy open files into the directory, within the kernel, so that none of their content is in our
        memory."""
        for name, file in zip(names, files, strict=True):
            copy = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=self._place)
            _copy(file, copy)
            os.close(copy)

    def collect(self, name: str, output: int) -> None:
        """Copy a regular file of the directory to `output`, if there is one."""
        try:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self._place)
        except OSError:
            return
        if stat.S_ISREG(os.fstat(file).st_mode):
            _copy(file, output)
        os.close(file)

    def clear(self) -> None:
        """Make another directory."""
        for name in os.listdir(self._place):
            os.unlink(name, dir_fd=self._place)
        os.close(self._place)
        os.rmdir(self._name, dir_fd=self._scratch)
        self._make_place()

    def become(self, order: dict[str, Any], limits: dict[str, Any], files: Sequence[int]) -> NoReturn:
        """Run the executable on its standard streams, in the confined child. `files`: input, output, errors, failure,
        executable. The fourth gets the reason if that is impossible; the program never has it."""
        job, output, errors, failure, executable = files
        null = os.open("/dev/null", os.O_RDWR)
        stack = min(MAX_STACK, limits["memory_bytes"])
        hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
        resource.setrlimit(resource.RLIMIT_STACK, (stack if hard < 0 else min(stack, hard), hard))
        is_program = order["kind"] == "program"
        os.chdir("/") if is_program else os.fchdir(self._place)
        self.confinements[order["kind"]].enter(limits["total_s"], limits["memory_bytes"], limits["file_bytes"])
        os.dup2(failure, _FAILURE, inheritable=False)
        os.dup2(executable, _EXECUTABLE, inheritable=False)
        for place, file in enumerate((job, errors if order["result"] else output, null if is_program else errors)):
            os.dup2(file, place)
        os.closerange(3, _FAILURE)
        try:
            linux.execute(_EXECUTABLE, order["argv"], ["LC_ALL=C", "TMPDIR=."])
        except OSError as error:
            os.write(_FAILURE, str(error).encode())
        os._exit(71)


def make_scratch(mount_point: str, private: bool) -> str:
    """Make a directory for tools. Where the root will be private, a file system of limited size is mounted on it
    later."""
    return SCRATCH if private else tempfile.mkdtemp(prefix="ratchet-scratch-", dir=mount_point)


def _copy(source: int, target: int) -> None:
    begin = 0
    while sent := os.sendfile(target, source, begin, _COPIED_BYTES):
        begin += sent
