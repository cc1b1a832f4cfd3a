"""The seccomp filter of a solution: an allowlist of system calls, compiled to BPF and installed through prctl.

It allows what CPython 3.11 to 3.13 needs to compute, read files, write to open descriptors, and run threads. All else
fails with EPERM; above all nothing creates a process, runs a program, reaches another process or the network, or
changes the file system.
"""

import ctypes
import errno
import platform
import struct

from ratchet.verifiers.sandbox.linux import AT_EMPTY_PATH, prctl

# Name, number on x86_64, number on aarch64. Absent on purpose, among all the rest: kill, tgkill, execve, fork, ptrace,
# socket, connect, bind, sendmsg (passes descriptors), memfd_create and shmget (memory that RLIMIT_AS does not see),
# every call that takes a path and changes something, io_uring, bpf, unshare, mount, personality, flock, setpriority.
_CALLS = """
read 0 63, write 1 64, readv 19 65, writev 20 66, pread64 17 67, pwrite64 18 68, preadv 295 69, pwritev 296 70,
preadv2 327 286, pwritev2 328 287, close 3 57, close_range 436 436, lseek 8 62, dup 32 23, dup2 33 -, dup3 292 24,
open 2 -, openat 257 56, stat 4 -, lstat 6 -, fstat 5 80, newfstatat 262 79, statx 332 291, access 21 -,
faccessat 269 48, faccessat2 439 439, readlink 89 -, readlinkat 267 78, getdents 78 -, getdents64 217 61, getcwd 79 17,
chdir 80 49, ftruncate 77 46, fsync 74 82, fdatasync 75 83, fcntl 72 25, ioctl 16 29, pipe 22 -, pipe2 293 59,
eventfd2 290 19, epoll_create1 291 20, epoll_ctl 233 21, epoll_wait 232 -, epoll_pwait 281 22, poll 7 -, ppoll 271 73,
select 23 -, pselect6 270 72, timerfd_create 283 85, timerfd_settime 286 86, timerfd_gettime 287 87,
socketpair 53 199, sendto 44 206, recvfrom 45 207, shutdown 48 210, getsockname 51 204, getpeername 52 205,
getsockopt 55 209, mmap 9 222, munmap 11 215, mprotect 10 226, mremap 25 216, brk 12 214, madvise 28 233,
msync 26 227, mincore 27 232, membarrier 324 283, clone 56 220, clone3 435 435, futex 202 98,
set_robust_list 273 99, rseq 334 293, set_tid_address 218 96, gettid 186 178, exit 60 93, exit_group 231 94,
sched_yield 24 124, sched_getaffinity 204 123, sched_get_priority_max 146 125, sched_get_priority_min 147 126,
getcpu 309 168, prctl 157 167, prlimit64 302 261, getrlimit 97 163, setrlimit 160 164, rt_sigaction 13 134,
rt_sigprocmask 14 135, rt_sigreturn 15 139, sigaltstack 131 132, rt_sigpending 127 136, rt_sigtimedwait 128 137,
rt_sigsuspend 130 133, pause 34 -, alarm 37 -, setitimer 38 103, getitimer 36 102, restart_syscall 219 128,
clock_gettime 228 113, clock_getres 229 114, clock_nanosleep 230 115, nanosleep 35 101, gettimeofday 96 169,
time 201 -, times 100 153, getrusage 98 165, getpid 39 172, getppid 110 173, getuid 102 174, geteuid 107 175,
getgid 104 176, getegid 108 177, getgroups 115 158, getresuid 118 148, getresgid 120 150, getpgrp 111 -,
getpgid 121 155, getsid 124 156, uname 63 160, sysinfo 99 179, getrandom 318 278, wait4 61 260, waitid 247 95
"""
_NATIVE = "execveat 322 281, arch_prctl 158 -"
"""System calls of a process that becomes another program: its start."""
_TOOL = "unlink 87 -, unlinkat 263 35, chmod 90 -, fchmod 91 52, fchmodat 268 53, umask 95 166"
"""System calls of compilers, which landlock confines to their directory."""
_COLUMNS = {"x86_64": (1, 0xC000003E), "aarch64": (2, 0xC00000B7)}  # of `_CALLS`, and audit architecture

_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_DENY = _ERRNO | errno.EPERM
_LOAD, _AND, _EQUAL, _AT_LEAST, _ANY_BIT, _ANSWER = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_ARCHITECTURE, _NUMBER, _ARGUMENTS = 4, 0, 16  # offsets in seccomp_data
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2

# Allowed arguments. F_SETOWN and F_SETSIG would send signals, TIOCSTI types into a terminal, PR_SET_DUMPABLE and
# PR_SET_PDEATHSIG undo the confinement, and a datagram pair can send to any named socket.
_PRCTL = (15, 16)  # PR_SET_NAME, PR_GET_NAME
_FCNTL = (0, 1, 2, 3, 4, 1030, 1032)  # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC, F_GETPIPE_SZ
_IOCTL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)  # TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
_RESOURCES = tuple(range(1, 16))  # all but RLIMIT_CPU
_THREAD = 0x100 | 0x200 | 0x400 | 0x800 | 0x10000  # CLONE_VM, FS, FILES, SIGHAND, THREAD: what pthread_create asks for
_OTHER_THAN_CLOEXEC = ~4 & 0xFFFFFFFF  # flags of close_range
_ARCH_SET_FS = 0x1002
_AF_UNIX, _SOCK_STREAM, _SOCK_TYPE = 1, 1, 0xF
_WRITING = 0o1 | 0o2 | 0o100 | 0o1000 | 0o20000000  # O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_TMPFILE

Program = list[bytes]


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


def _argument(position: int) -> bytes:
    """Load the low half of an argument: the kernel reads no more of an `int`."""
    return _instruction(_LOAD, _ARGUMENTS + 8 * position)


def _answer(value: int) -> bytes:
    return _instruction(_ANSWER, value)


_DENY_OR_ALLOW = [_answer(_DENY), _answer(_ALLOW)]
"""The end of a test that skips the first where it holds."""


def _one_of(position: int, values: tuple[int, ...]) -> Program:
    tests = [_instruction(_EQUAL, value, len(values) - index) for index, value in enumerate(values)]
    return [_argument(position), *tests, *_DENY_OR_ALLOW]


def _rules(read_only: bool) -> dict[str, Program]:
    """The programs of calls that are allowed only with certain arguments."""
    reading = [_argument(1), _instruction(_ANY_BIT, _WRITING, 0, 1), *_DENY_OR_ALLOW]
    reading_at = [_argument(2), *reading[1:]]
    stream = [_argument(1), _instruction(_AND, _SOCK_TYPE), _instruction(_EQUAL, _SOCK_STREAM, 1), _answer(_DENY)]
    rules = {
        "prctl": _one_of(0, _PRCTL),
        "execveat": _one_of(4, (AT_EMPTY_PATH,)),  # of an open file
        "arch_prctl": _one_of(0, (_ARCH_SET_FS,)),
        "fcntl": _one_of(1, _FCNTL),
        "ioctl": _one_of(1, _IOCTL),
        # Not of CPU time: beyond it the kernel kills, which counts as a fault of this machine.
        "setrlimit": _one_of(0, _RESOURCES),
        "prlimit64": [_argument(0), _instruction(_EQUAL, 0, 1), _answer(_DENY), *_one_of(1, _RESOURCES)],
        "socketpair": [*stream, *_one_of(0, (_AF_UNIX,))],
        # A thread of the same process, with the same table of descriptors: each table holds megabytes of buffers, which
        # are in nobody's memory. So does a table that close_range unshares.
        "clone": [_argument(0), _instruction(_AND, _THREAD), _instruction(_EQUAL, _THREAD, 1), *_DENY_OR_ALLOW],
        "close_range": [_argument(2), _instruction(_ANY_BIT, _OTHER_THAN_CLOEXEC, 0, 1), *_DENY_OR_ALLOW],
        # clone3 has its flags behind a pointer; ENOSYS makes the C library fall back to clone.
        "clone3": [_answer(_ERRNO | errno.ENOSYS)],
    }
    return rules | {"open": reading, "openat": reading_at} if read_only else rules


def _decide(segments: list[tuple[int, Program]]) -> Program:
    """Binary search: the program of the last segment that starts at or below the number of the call."""
    if len(segments) == 1:
        return segments[0][1]
    middle = len(segments) // 2
    below = _decide(segments[:middle])
    return [_instruction(_AT_LEAST, segments[middle][0], len(below)), *below, *_decide(segments[middle:])]


def compile_filter(machine: str, read_only: bool, kind: str = "") -> Program:
    """BPF instructions for one architecture. With `read_only` no file can be opened for writing; of `kind` "tool" or
    "program", the process becomes another program. Raises OSError for an unknown architecture."""
    if machine not in _COLUMNS:
        raise OSError(errno.ENOSYS, f"no system call table for {machine}")
    column, architecture = _COLUMNS[machine]
    calls = [_CALLS, *([_NATIVE] if kind else []), *([_TOOL] if kind == "tool" else [])]
    rows = [row.split() for row in ",".join(calls).split(",")]
    rules = _rules(read_only)
    allowed = {int(row[column]): rules.get(row[0], [_answer(_ALLOW)]) for row in rows if row[column] != "-"}
    segments: list[tuple[int, Program]] = []
    for number in range(max(allowed) + 2):
        program = allowed.get(number, [_answer(_DENY)])
        if not segments or segments[-1][1] != program:
            segments.append((number, program))
    return [
        _instruction(_LOAD, _ARCHITECTURE),
        _instruction(_EQUAL, architecture, 1),
        _answer(_KILL),
        _instruction(_LOAD, _NUMBER),
        *_decide(segments),  # x32 has higher numbers: the last segment, which denies
    ]


class Filter:
    """A compiled filter for this machine, at an address for the kernel."""

    def __init__(self, read_only: bool, kind: str = "") -> None:
        program = compile_filter(platform.machine(), read_only, kind)
        self._instructions = ctypes.create_string_buffer(b"".join(program))
        address = ctypes.addressof(self._instructions)
        self._sock_fprog = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), address))

    def install(self) -> None:
        """Apply to this process irrevocably, after PR_SET_NO_NEW_PRIVS."""
        prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(self._sock_fprog))
