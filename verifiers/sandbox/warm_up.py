"""Work that the server does before it forks, so that no child has to repeat it: settings and imports that programs
inherit, and a rehearsal.
"""

import _sitebuiltins
import builtins
import gc
import importlib
import marshal
import os
import random
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ratchet.verifiers.sandbox.harness import Files, fill, load_program, names_with, run_check, run_program
from ratchet.verifiers.sandbox.objects import ProgramEnd

DEFAULT_PRELUDE = """
import bisect, collections, copy, datetime, functools, heapq, itertools, math, operator, random, re, string, sys
from operator import *
from string import *
from math import *
from bisect import *
from collections import *
from functools import *
from heapq import *
from itertools import *
from typing import *
try:
    from sortedcontainers import SortedDict, SortedList, SortedSet
except ImportError:  # installed where programs may not read
    pass
"""
"""Imports that LeetCode gives its solutions, for problems in call form without a prelude of their own. They hide no
built-in name: `math.pow` takes no modulus."""


def prepare() -> dict[str, Any]:
    """Set what all solutions inherit, import what most of them need, and return the builtins with the default prelude.
    Called once, in the server."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # too much output ends a program instead of raising in it
    sys.set_int_max_str_digits(0)
    for name in ("exit", "quit"):  # from `site`, without which the server starts
        setattr(builtins, name, _sitebuiltins.Quitter(name, ""))
    default = names_with(DEFAULT_PRELUDE, {})
    names = {**default, **vars(builtins)}
    for module in ("array", "dataclasses", "decimal", "enum", "fractions", "queue", "statistics", "traceback"):
        importlib.import_module(module)
    _rehearse(names)
    random.seed(0)
    gc.collect()
    gc.freeze()  # a collection in a child would otherwise copy every page of the server
    return names


_REHEARSALS = 16
"""Runs after which the interpreter has adapted the code to its use."""


class _Answered:
    """A check's end of a connection on which a program in the same process answers each request at once."""

    def __init__(self, channel: socket.socket, program: ProgramEnd) -> None:
        self.recv, self._channel, self._program = channel.recv, channel, program

    def sendall(self, message: bytes) -> None:
        self._channel.sendall(message)
        self._program.answer()


def _rehearse(names: dict[str, Any]) -> None:
    """Run programs of our own as each kind of test, and a check: what the interpreter creates on first use would cost
    each child copies of the pages it lies on."""
    modules, standard = dict(sys.modules), [os.dup(descriptor) for descriptor in range(3)]
    recursion_limit = sys.getrecursionlimit()
    source = "def f(x):\n    return x\nif __name__ == '__main__':\n    print(f(int(input())))\n"
    call = {"kind": "call", "args": [1], "kwargs": {}, "exact": False}
    program = {"source": source, "entry_point": "f", "prelude": None}
    for entry_point, test in (("f", call), (None, {"kind": "stdin", "input": "1\n"})):
        with _rehearsed(program | {"tests": [test] * 2 * _REHEARSALS, "entry_point": entry_point}) as files:
            run_program(files, names)
    text = "def check(candidate):\n    assert candidate([1]) == [1]\n    assert candidate(2) == 2\n"
    code = marshal.dumps(compile(text, "<check>", "exec", dont_inherit=True))
    check = {"codes": [code], "classes": frozenset(), "needs_numpy": False, "entry_point": "f", "prelude": None,
             "to_first_failure": True, "is_apart": False}  # fmt: skip
    for _ in range(_REHEARSALS):
        with _rehearsed(program) as files, _rehearsed(check) as check_files:
            ends = socket.socketpair()
            with ends[0], ends[1]:
                served = load_program(files, ends[0], names)
                assert served
                run_check(check_files, _Answered(ends[1], served), names)  # type: ignore[arg-type]
    for place, descriptor in enumerate(standard):
        os.dup2(descriptor, place)
        os.close(descriptor)
    sys.setrecursionlimit(recursion_limit)
    sys.modules.clear()
    sys.modules.update(modules)


@contextmanager
def _rehearsed(job: dict[str, Any]) -> Iterator[Files]:
    files = Files(*(os.memfd_create("rehearsal") for _ in Files._fields))
    fill(files.job, marshal.dumps(job))
    yield files
    for descriptor in files:
        os.close(descriptor)
