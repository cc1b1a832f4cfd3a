"""Linux calls that Python 3.11 does not offer, through ctypes. Every failure raises OSError."""

import ctypes
import os
import platform
import struct

_libc = ctypes.PyDLL(None, use_errno=True)  # no call blocks, so none releases the interpreter lock
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 0x20, 0x1000, 0x4000, 0x40000
MNT_DETACH = 2
AT_EMPTY_PATH = 0x1000

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38
"""Options of prctl(2). The first: a signal when the parent *thread* ends. A change of user id cancels it, so set it
after that."""
PR_SET_DUMPABLE = 4
"""With 0: no core dump, no ptrace, no /proc/<pid>/mem by processes of the same user."""
_LINUX_CAPABILITY_VERSION_3 = 0x20080522

_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_SYS_EXECVEAT = {"x86_64": 322, "aarch64": 281}
_SYS_LANDLOCK_CREATE, _SYS_LANDLOCK_ADD, _SYS_LANDLOCK_RESTRICT = 444, 445, 446  # the same everywhere


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def unshare(flags: int) -> None:
    _checked(_libc.unshare(ctypes.c_int(flags)))


def fork() -> int:
    """Call fork(2) without the work of `os.fork` for other threads, which costs as much as the fork itself. Only for a
    process with one thread."""
    return _checked(_libc.fork())


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    _checked(_libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]))


def pivot_to_current_directory() -> None:
    """Make the current directory, a mount point, the root, and unmount the old root."""
    _checked(_libc.syscall(_SYS_PIVOT_ROOT[platform.machine()], b".", b"."))
    _checked(_libc.umount2(b".", MNT_DETACH))
    os.chdir("/")


def prctl(option: int, second: int, third: int = 0) -> None:
    _checked(_libc.prctl(option, second, third, 0, 0))


def execute(file: int, argv: list[str], environment: list[str]) -> None:
    """Replace this process by the program in the open `file`."""
    lists = [(ctypes.c_char_p * (len(texts) + 1))(*map(os.fsencode, texts), None) for texts in (argv, environment)]
    _checked(_libc.syscall(_SYS_EXECVEAT[platform.machine()], file, b"", *lists, AT_EMPTY_PATH))


def drop_capabilities() -> None:
    """Empty the effective, permitted and inheritable sets."""
    header = struct.pack("Ii", _LINUX_CAPABILITY_VERSION_3, 0)
    _checked(_libc.capset(header, bytes(24)))


_ALL_FILE_ACCESS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_FILE, _MAKE_REGULAR, _TRUNCATE = 1 << 5, 1 << 8, 1 << 14


def landlock_abi() -> int:
    """The kernel's version of landlock; 0 if there is none or it is disabled."""
    return max(0, _libc.syscall(_SYS_LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1))


def landlock_ruleset(readable: list[str], writable: list[str], executable: bool = False, scratch: str = "") -> int:
    """A ruleset (file descriptor) that allows reading beneath `readable`, with `executable` also running files there,
    writing to the files `writable`, and making files in the directory `scratch`. Where the kernel can forbid them, it
    allows no TCP, and no signals or abstract sockets to the outside. See landlock(7)."""
    abi = _checked(_libc.syscall(_SYS_LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1))
    files = _ALL_FILE_ACCESS[min(abi, 5)]
    attributes = struct.pack("QQQ", files, 3 if abi >= 4 else 0, 3 if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = _checked(_libc.syscall(_SYS_LANDLOCK_CREATE, attributes, ctypes.c_size_t(size), 0))
    for path in [*readable, *writable, *filter(None, [scratch])]:
        if not os.path.exists(path):
            continue
        allowed = _READ_FILE | _READ_DIR * os.path.isdir(path) | _WRITE_FILE * (path in writable)
        allowed |= _EXECUTE * (executable and path in readable)
        if path == scratch:
            allowed |= (_WRITE_FILE | _REMOVE_FILE | _MAKE_REGULAR | _TRUNCATE) & files
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            rule = struct.pack("=Qi", allowed, descriptor)
            _checked(_libc.syscall(_SYS_LANDLOCK_ADD, ruleset, 1, rule, 0))
        finally:
            os.close(descriptor)
    return ruleset


def landlock_restrict(ruleset: int) -> None:
    _checked(_libc.syscall(_SYS_LANDLOCK_RESTRICT, ruleset, 0))
