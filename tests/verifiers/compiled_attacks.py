"""Attacks by programs in C++, of compiled_attacks.yaml. Fields in braces are filled in by the test."""

import re
from operator import itemgetter

from tests.verifiers.programs import programs
from tests.verifiers.sandbox_reach import SYSCALLS

_ATTACKS = programs("compiled_attacks")
HEADERS, REACH, STEAL, FORGE, X86 = itemgetter("headers", "reach", "steal", "forge", "x86")(_ATTACKS)
for _name, (_number, _given) in SYSCALLS.items():
    _arguments = re.sub(r"b'([^']*)'", r'"\1"', _given).replace("0o", "0")
    REACH[f"system call: {_name}"] = f"made({_number}{', ' if _arguments else ''}{_arguments})"

HARMLESS = [
    "read a file", "list a directory", "read its own memory", "an unnamed file", "fork", "vfork", "system",
    "connect: TCP", "connect: UDP", "connect: a Unix socket", "connect: an abstract socket",
    "connect: a datagram through a pair", "signal the judge", "system call: memory in a file",
    "system call: dumpable again", "system call: pidfd_open",
]  # fmt: skip
"""These succeed where nothing confines a program."""


def reaching(facts):
    """One program with all of `REACH`: it prints `reached N` if the one that its input names succeeds."""
    bodies = enumerate(body.format(**facts) for body in REACH.values())
    cases = "\n".join(f"    case {number}: reached = {body}; break;" for number, body in bodies)
    return _ATTACKS["reaching"].format(headers=HEADERS, helpers=_ATTACKS["helpers"].format(**facts), cases=cases)


def stealing(look, facts):
    search, look = (text.format(**facts) for text in (_ATTACKS["search"], look))
    return f'{HEADERS}{search}{look}\nint main() {{ look(); puts("nothing"); }}'
