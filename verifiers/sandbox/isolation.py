"""The layers that confine a solution: namespaces around the fork server; user, landlock, seccomp and limits around each
solution. Each layer is tried once at start; those that work are then mandatory for every solution."""

import functools
import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from ratchet.verifiers.sandbox import linux, seccomp

NOBODY = 65534
OPEN_FILES = 256
THREADS = 1024  # of one user, if possible the sandbox's own
PROCESSES = 64  # instead, if seccomp does not refuse processes
RESERVED = 512 << 20
"""Bytes of address space beyond the memory limit, half of it for private data."""
LEAST_RESERVED = 1 << 30
"""Bytes that any program may reserve without using them, as `os.read(0, 1 << 30)` does."""
MAX_STACK = 100 << 20  # the kernel keeps a gap of at least 128 MB below the stack

SYSTEM_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo", "/etc/ld.so.cache")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")


def unused_user() -> int:
    """A random user id for one sandbox, so that threads of other sandboxes do not count against its limit; NOBODY if
    this machine gives us too few to choose from."""
    with open("/proc/self/uid_map") as file:
        first, _, count = max((tuple(map(int, line.split())) for line in file), key=lambda span: span[2])
    half = min(count // 2, 1 << 30)
    return first + half + int.from_bytes(os.urandom(4)) % (half - 2) if half > 1 << 10 else NOBODY


def readable_paths(site: list[str]) -> list[str]:
    """The paths of the interpreter, its libraries, and the system's libraries."""
    paths = [*SYSTEM_LIBRARIES, sys.prefix, sys.base_prefix, *site]
    return [path for path in dict.fromkeys(paths) if os.path.exists(path)]


def enter_namespaces(readable: list[str], mount_point: str) -> str:
    """Enter new pid, network, mount, IPC and host name spaces for this process's children, if necessary through a new
    user namespace. Returns which kind, "" if the machine refuses both.

    Each is first tried in a throw-away child, `private_root` included: some kernels let anyone create a user namespace
    and then refuse everything in it. The caller must fork, since a process never changes its own pid namespace, and
    then call `private_root`.
    """
    for name, enter in (("namespaces", lambda: linux.unshare(_SPACES)), ("user-namespaces", _enter_as_anyone)):
        if _works_in_a_child(lambda enter=enter: (enter(), private_root(readable, mount_point))):
            enter()
            return name
    return ""


_SPACES = linux.CLONE_NEWPID | linux.CLONE_NEWNET | linux.CLONE_NEWNS | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS


def _enter_as_anyone() -> None:
    user, group = os.geteuid(), os.getegid()
    linux.unshare(_SPACES | linux.CLONE_NEWUSER)
    maps = {"setgroups": "deny", "uid_map": f"{NOBODY} {user} 1", "gid_map": f"{NOBODY} {group} 1"}
    for name, text in maps.items():
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _works_in_a_child(action: Callable[[], object]) -> bool:
    child = linux.fork()
    if child == 0:
        try:
            action()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def private_root(readable: list[str], mount_point: str, scratch: str = "", scratch_bytes: int = 0) -> None:
    """Replace the root by an empty, read-only one with only `readable` and four devices: no /proc, nothing writable
    but, if named, a directory `scratch` of limited size.

    Landlock is not enough, because an unprivileged user cannot enter a home directory where the interpreter may be; it
    can enter a bind mount at the same path.
    """
    linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)
    # Opened before the new root hides them: the mount point may be above the interpreter.
    sources = {path: os.open(path, os.O_PATH) for path in [*readable, *_DEVICES] if os.path.exists(path)}
    linux.mount("tmpfs", mount_point, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "size=1m,mode=755")
    for path, source in sources.items():
        target = mount_point + path
        if os.path.isdir(f"/proc/self/fd/{source}"):
            os.makedirs(target, exist_ok=True)
        elif not os.path.exists(target):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            open(target, "w").close()
        linux.mount(f"/proc/self/fd/{source}", target, None, linux.MS_BIND | linux.MS_REC)
        if path not in _DEVICES:
            _make_read_only(target)
        os.close(source)
    os.chdir(mount_point)
    linux.pivot_to_current_directory()
    if scratch:
        os.mkdir(scratch)
        linux.mount("tmpfs", scratch, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, f"size={scratch_bytes},mode=700")
    _make_read_only("/")


def _make_read_only(path: str) -> None:
    # In a user namespace a mount's flags are locked: a remount must repeat them.
    kept = linux.MS_NOEXEC if os.statvfs(path).f_flag & os.ST_NOEXEC else 0
    flags = linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | linux.MS_NOSUID | linux.MS_NODEV | kept
    linux.mount("none", path, None, flags)


@dataclass
class Confinement:
    """The layers around each solution. `active` names those that work on this machine, in order."""

    readable: list[str]
    private: bool
    """True if the root is a private one: nothing else is visible, nothing writable."""
    user: int = field(default_factory=unused_user)
    active: list[str] = field(default_factory=list)
    kind: str = ""
    """The kind: "program" or "tool" if the process becomes another program, a tool one beneath `readable`."""
    scratch: str = ""
    """The directory for the process's files."""
    _ruleset: int = -1
    _filter: seccomp.Filter | None = None

    def prepare(self, level: str) -> None:
        """Set what children inherit, try the layers of `level` in throw-away children, and build all that can be built
        in advance. Called once, in the server."""
        linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
        for name, value in ((resource.RLIMIT_NOFILE, OPEN_FILES), (resource.RLIMIT_CORE, 0)):
            resource.setrlimit(name, (value, value))
        _, hard_stack = resource.getrlimit(resource.RLIMIT_STACK)
        soft_stack = MAX_STACK if hard_stack == resource.RLIM_INFINITY else min(MAX_STACK, hard_stack)
        resource.setrlimit(resource.RLIMIT_STACK, (soft_stack, hard_stack))
        if _works_in_a_child(lambda: os.setgroups([])):
            os.setgroups([])  # once, here: Python's call touches 256 KB of stack
        # Another user has no capabilities. If we cannot become one, drop those of root or of the user namespace.
        libraries = (os.path.dirname(os.__file__), *self.readable)  # which may be in a home directory
        self.active = ["uid"] if self._works("uid", lambda: [*map(os.stat, libraries)]) else ["capabilities"]
        with suppress(OSError):
            if level <= "B":
                self._ruleset = linux.landlock_ruleset(
                    self.readable, [] if self.kind == "tool" else list(_DEVICES), self.kind == "tool", self.scratch
                )
                self.active += ["landlock"] if self._works("landlock") else []
        with suppress(OSError):
            if level <= "C":
                self._filter = seccomp.Filter(not self.private and "landlock" not in self.active, self.kind)
                self.active += ["seccomp"] if self._works("seccomp") else []

    def _works(self, layer: str, then: Callable[[], object] = lambda: None) -> bool:
        return _works_in_a_child(lambda: (self._apply(layer), then()))

    def enter(self, cpu_s: float, memory_bytes: int, file_bytes: int) -> None:
        """Confine this process irrevocably. Raises OSError if a layer fails that worked at start.

        `memory_bytes` is for what the program makes resident, which the server watches. The limits here stop it between
        two looks: they count what is reserved, by a library or for a thread's stack, whether it is used or not.
        """
        mapped_bytes, data_bytes = mapped()
        reserved_bytes = max(memory_bytes, LEAST_RESERVED)
        for name, value, hard in (
            (resource.RLIMIT_AS, mapped_bytes + 2 * reserved_bytes + RESERVED, 0),
            (resource.RLIMIT_DATA, data_bytes + reserved_bytes + RESERVED // 2, 0),
            (resource.RLIMIT_FSIZE, file_bytes, 0),
            (resource.RLIMIT_CPU, int(cpu_s) + 2, 1),  # a backstop: the server counts more finely
        ):
            resource.setrlimit(name, (value, value + hard))
        confined = "seccomp" in self.active
        for layer in self.active:
            if layer != "seccomp":  # which would refuse the others
                self._apply(layer)
        # After the change of user, so that it counts only that user's processes.
        tasks = THREADS if confined else PROCESSES
        resource.setrlimit(resource.RLIMIT_NPROC, (tasks, tasks))
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        if confined:
            self._apply("seccomp")

    def _apply(self, layer: str) -> None:
        if layer == "uid":
            if os.geteuid() != 0:
                raise PermissionError("only root can change the user")
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(self.user, self.user, self.user)
        elif layer == "capabilities":
            linux.drop_capabilities()
        elif layer == "landlock":
            linux.landlock_restrict(self._ruleset)
            os.close(self._ruleset)  # it can be extended
        elif layer == "seccomp":
            assert self._filter is not None
            self._filter.install()


@functools.cache
def mapped() -> tuple[int, int]:
    """Bytes of address space of the server, and of its children at their start: all of it, and private data. Measured
    once, while /proc is visible."""
    with open("/proc/self/statm") as file:
        pages = [int(number) * resource.getpagesize() for number in file.read().split()]
    return pages[0], pages[5]
