"""The Linux calls that Python 3.11 does not offer, through ctypes. Every failure raises OSError."""

from __future__ import annotations

import ctypes
import os
import platform
import struct

_libc = ctypes.PyDLL(None, use_errno=True)  # none of these calls waits, so none gives up the interpreter lock
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
CLONE_THREAD = 0x00010000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 0x20, 0x1000, 0x4000, 0x40000
MNT_DETACH = 2

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP = 1, 4, 22
_PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 36, 38
_SECCOMP_MODE_FILTER = 2
_LINUX_CAPABILITY_VERSION_3 = 0x20080522

# Syscall numbers of the two architectures we know. What is absent on one (fork on arm64) is left out.
_X86_64 = {
    "socket": 41, "clone": 56, "fork": 57, "vfork": 58, "execve": 59, "kill": 62, "shmget": 29, "semget": 64,
    "msgget": 68, "ptrace": 101, "personality": 135, "pivot_root": 155, "chroot": 161, "acct": 163, "mount": 165,
    "umount2": 166, "swapon": 167, "reboot": 169, "init_module": 175, "tkill": 200, "tgkill": 234, "mq_open": 240,
    "add_key": 248, "request_key": 249, "keyctl": 250, "unshare": 272, "rt_sigqueueinfo": 129,
    "rt_tgsigqueueinfo": 297, "perf_event_open": 298, "name_to_handle_at": 303, "open_by_handle_at": 304,
    "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "finit_module": 313,
    "memfd_create": 319, "bpf": 321, "execveat": 322, "userfaultfd": 323, "pidfd_send_signal": 424,
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsmount": 432, "clone3": 435, "pidfd_getfd": 438, "process_madvise": 440, "mount_setattr": 442,
    "memfd_secret": 447, "seccomp": 317,
}  # fmt: skip
_AARCH64 = {
    "socket": 198, "clone": 220, "execve": 221, "kill": 129, "shmget": 194, "semget": 190, "msgget": 186,
    "ptrace": 117, "personality": 92, "pivot_root": 41, "chroot": 51, "acct": 89, "mount": 40, "umount2": 39,
    "swapon": 224, "reboot": 142, "init_module": 105, "tkill": 130, "tgkill": 131, "mq_open": 180, "add_key": 217,
    "request_key": 218, "keyctl": 219, "unshare": 97, "rt_sigqueueinfo": 138, "rt_tgsigqueueinfo": 240,
    "perf_event_open": 241, "name_to_handle_at": 264, "open_by_handle_at": 265, "setns": 268,
    "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "finit_module": 273, "memfd_create": 279,
    "bpf": 280, "execveat": 281, "userfaultfd": 282, "pidfd_send_signal": 424, "io_uring_setup": 425,
    "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429, "fsopen": 430,
    "fsmount": 432, "clone3": 435, "pidfd_getfd": 438, "process_madvise": 440, "mount_setattr": 442,
    "memfd_secret": 447, "seccomp": 277,
}  # fmt: skip
_MACHINES = {"x86_64": (_X86_64, 0xC000003E), "aarch64": (_AARCH64, 0xC00000B7)}  # calls, audit architecture
_SYS_LANDLOCK_CREATE, _SYS_LANDLOCK_ADD, _SYS_LANDLOCK_RESTRICT = 444, 445, 446  # the same everywhere


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def unshare(flags: int) -> None:
    _checked(_libc.unshare(ctypes.c_int(flags)))


def fork() -> int:
    """fork(2) without the repairs of `os.fork`, which mend what other threads may have held and cost as much as the
    fork itself. Only for a process that has one thread."""
    return _checked(_libc.fork())


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    _checked(_libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]))


def pivot_to_current_directory() -> None:
    """Make the current directory, which must be a mount point, the root; the old root is gone afterwards."""
    _checked(_libc.syscall(_MACHINES[platform.machine()][0]["pivot_root"], b".", b"."))
    _checked(_libc.umount2(b".", MNT_DETACH))
    os.chdir("/")


def _prctl(option: int, second: int, third: int = 0) -> None:
    _checked(_libc.prctl(option, second, third, 0, 0))


def die_with_parent(signal_number: int) -> None:
    """Ask for a signal when the parent *thread* ends; a change of user id forgets it, so call it after that."""
    _prctl(_PR_SET_PDEATHSIG, signal_number)


def become_subreaper() -> None:
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def forbid_inspection() -> None:
    """No core dump, no ptrace, no /proc/<pid>/mem by processes of the same user."""
    _prctl(_PR_SET_DUMPABLE, 0)


def forbid_new_privileges() -> None:
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """Empty the effective, permitted and inheritable sets."""
    header = struct.pack("Ii", _LINUX_CAPABILITY_VERSION_3, 0)
    _checked(_libc.capset(header, bytes(24)))


# ------------------------------------------------------------------------------------------- landlock

_ALL_FILE_ACCESS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_READ = (1 << 2) | (1 << 3)  # READ_FILE | READ_DIR
_READ_FILE = 1 << 2
_WRITE_FILE = 1 << 1


def landlock_ruleset(readable: list[str], writable: list[str]) -> int:
    """A ruleset (file descriptor) that allows reading beneath `readable`, writing to the files `writable`, and no
    TCP, no signals and no abstract sockets to the outside where the kernel knows them. See landlock(7)."""
    abi = _checked(_libc.syscall(_SYS_LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1))
    files = _ALL_FILE_ACCESS[min(abi, 5)]
    attributes = struct.pack("QQQ", files, 3 if abi >= 4 else 0, 3 if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = _checked(_libc.syscall(_SYS_LANDLOCK_CREATE, attributes, ctypes.c_size_t(size), 0))
    for path in [*readable, *writable]:
        if not os.path.exists(path):
            continue
        allowed = _READ if os.path.isdir(path) else _READ_FILE
        if path in writable:
            allowed |= _WRITE_FILE
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            rule = struct.pack("=Qi", allowed, descriptor)
            _checked(_libc.syscall(_SYS_LANDLOCK_ADD, ruleset, 1, rule, 0))
        finally:
            os.close(descriptor)
    return ruleset


def landlock_restrict(ruleset: int) -> None:
    _checked(_libc.syscall(_SYS_LANDLOCK_RESTRICT, ruleset, 0))


# -------------------------------------------------------------------------------------------- seccomp

_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS = 1, 38


def _statement(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


def seccomp_filter() -> tuple[ctypes.Array[ctypes.c_char], ...]:
    """A BPF program, and what points to it. It refuses (EPERM) to make processes, run programs, open sockets, send
    signals, and to use what lets one process touch another or the kernel. Threads are allowed: deep recursion in a
    thread is a common idiom.

    Raises OSError on a machine whose system calls we do not know.
    """
    if platform.machine() not in _MACHINES:
        raise OSError(_ENOSYS, f"no system call table for {platform.machine()}")
    calls, architecture = _MACHINES[platform.machine()]
    load, equal, greater, any_bit, answer = 0x20, 0x15, 0x35, 0x45, 0x06
    denied = sorted({number for name, number in calls.items() if name not in ("clone", "clone3")})
    program = [
        _statement(load, 4),  # seccomp_data.arch
        _statement(equal, architecture, 1, 0),
        _statement(answer, _KILL),
        _statement(load, 0),  # seccomp_data.nr
        _statement(greater, 0x40000000, len(denied) + 6, 0),  # the x32 table: refuse all of it
        # clone3 hides its flags behind a pointer; "no such call" makes the C library fall back to clone.
        _statement(equal, calls["clone3"], 0, 1),
        _statement(answer, _ERRNO | _ENOSYS),
        _statement(equal, calls["clone"], 0, 2),
        _statement(load, 16),  # low half of the first argument
        _statement(any_bit, CLONE_THREAD, len(denied), len(denied) + 1),
    ]
    for position, number in enumerate(denied):
        program.append(_statement(equal, number, len(denied) - position, 0))
    program += [_statement(answer, _ALLOW), _statement(answer, _ERRNO | _EPERM)]
    instructions = ctypes.create_string_buffer(b"".join(program))
    sock_fprog = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(instructions)))
    return sock_fprog, instructions


def install_seccomp(program: tuple[ctypes.Array[ctypes.c_char], ...]) -> None:
    """Apply the filter to this process for good; needs `forbid_new_privileges` first."""
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(program[0]))
