"""Attacks on what is outside: `REACH` are bodies of a function that get at something there.

What does not raise has succeeded, and is then given the right answer to print or return.
"""

import platform

from tests.verifiers.programs import programs

MACHINE = {"x86_64": 0, "aarch64": 1}[platform.machine()]

# A call that is made and fails for its arguments was not stopped: only a refusal counts.
SYSCALL = """
import ctypes, errno
def syscall(number, *arguments):
    result = ctypes.CDLL(None, use_errno=True).syscall(number, *arguments)
    if result < 0 and ctypes.get_errno() in (errno.EPERM, errno.EACCES, errno.ENOSYS):
        raise PermissionError
    return result
"""

_ATTACKS = programs("sandbox_reach")
SYSCALLS = {name: (row[MACHINE], row[2]) for name, row in _ATTACKS["system calls"].items()}
"""The number on this machine, and the arguments."""
REACH: dict[str, str] = {
    **_ATTACKS["files"],
    **{name: body.replace("{clone}", str((56, 220)[MACHINE])) for name, body in _ATTACKS["processes"].items()},
    **{f"connect: {name}": body for name, body in _ATTACKS["connect"].items()},
    **{f"system call: {name}": f"syscall({number}, {given})" for name, (number, given) in SYSCALLS.items()},
}

ON_C = {
    "read a file", "list a directory", "read the judge's own source", "read the command line of the judge",
    "read the environment of the judge", "count the descriptors of the judge", "steal: the file",
}  # fmt: skip
NOT_STOPPED: dict[str, set[str]] = {"A": set(), "B": set(), "C": ON_C}
"""What a level may let through: on C, reading what the solutions' user may read (docs/explanation/sandbox.md)."""
