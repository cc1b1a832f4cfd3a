"""What happens inside the confined process of one solution: compile it, run it on each test, report.

Nothing here knows an expected output. A published check, which does, is run by `replay` in a process without the
solution. What is reported is not trusted by anyone: a lie about one's own output is just another output.
"""

from __future__ import annotations

import atexit
import builtins
import gc
import io
import json
import os
import random
import signal
import sys
import threading
import time
import types
from collections.abc import Callable
from typing import Any

from verifiers.sandbox import replay, values

# What LeetCode-style solutions take for granted when the problem brings no prelude of its own.
DEFAULT_PRELUDE = """
import bisect, collections, copy, datetime, functools, heapq, itertools, math, operator, random, re, string, sys
from bisect import *
from collections import *
from functools import *
from heapq import *
from itertools import *
from math import inf, gcd, lcm, sqrt, ceil, floor, comb, perm, factorial, log, log2, isqrt, pi
from typing import *
"""

SLICE_S = 0.25
"""After this many seconds no further test is begun: those before may have failed, and only the judge knows."""
_DETAIL_CHARACTERS = 300


def names_with(prelude: str, names: dict[str, Any]) -> dict[str, Any]:
    """`names`, such as the builtins, and beside them what a prelude defines.

    A solution finds the prelude's names where it finds `len`: that costs nothing per test, and copying hundreds of
    names into each fresh `__main__` would touch, and so copy, much of the server's memory.
    """
    namespace: dict[str, Any] = {"__builtins__": builtins, "__name__": values.PRELUDE}
    exec(compile(prelude, "<prelude>", "exec"), namespace)
    return names | namespace


def run_tests(
    job: dict[str, Any],
    inputs: list[int],
    outputs: list[int],
    null: int,
    next_test: Callable[[], None],
    report: Callable[[dict[str, Any]], None],
    default_names: dict[str, Any],
) -> None:
    """Run `job["source"]` on each of `job["tests"]`, with a fresh `__main__` for each.

    `inputs` and `outputs` are file descriptors, one per test: what is read on descriptor 0, and where descriptor 1, or
    the value of a call, goes; `null` is /dev/null, open for both. `next_test` is called before each test, `report`
    after it.
    """
    os.dup2(null, 2)
    try:
        names = default_names if job["entry_point"] else vars(builtins)
        if job["prelude"]:
            names = names_with(job["prelude"], names)
    except BaseException as error:
        report({"status": "unprepared", "detail": _describe(error)})
        return
    try:
        code = compile(job["source"], "<solution>", "exec")
    except BaseException as error:
        report({"status": "uncompilable", "detail": _describe(error)})
        return
    main_thread = threading.current_thread()
    first = time.perf_counter()
    for test, standard_input, output in zip(job["tests"], inputs, outputs, strict=True):
        is_program = test["kind"] == "stdin"
        os.dup2(standard_input, 0)
        os.dup2(output if is_program else null, 1)
        next_test()
        begin = time.perf_counter()
        record = _run_one(code, names, test, output, job["entry_point"])
        alone = threading.active_count() == 1
        if not alone:
            for thread in threading.enumerate():
                if thread is not main_thread and not thread.daemon:
                    thread.join()
            alone = threading.active_count() == 1
        if is_program:
            record = _finish_program(record)
        end = time.perf_counter()
        report(record | {"seconds": end - begin})
        # The judge sends the rest to a new process. Daemon threads would run on into the next test.
        if not alone or end - first > SLICE_S:
            return


def _run_one(code: types.CodeType, names: dict, test: dict, output: int, entry_point: str | None) -> dict[str, Any]:
    # A called solution is a module, so that what it does under `if __name__ == "__main__"` is left alone.
    is_program = test["kind"] == "stdin"
    name = "__main__" if is_program else "solution"
    module = sys.modules[name] = types.ModuleType(name)
    module.__builtins__ = names
    sys.argv = ["solution.py"]
    sys.setrecursionlimit(1000)
    random.seed(0)  # so that a verdict on a program that draws numbers is the same when it is judged again
    if is_program:
        _open_streams()  # what is called keeps the server's, whose descriptors lead to /dev/null by now
    try:
        if test["kind"] == "replay":
            result = replay.replay(test["check"], entry_point, names, test["answers"])
            os.write(output, json.dumps(result).encode())
            return {"status": "done"}
        exec(code, module.__dict__)
        if test["kind"] == "call":
            value = _candidate(entry_point, module.__dict__)(*test["args"], **test["kwargs"])
            os.write(output, _encode(value))
        elif test["kind"] == "exact_call":
            args, kwargs = values.decode(test["call"], names)
            value = _candidate(entry_point, module.__dict__)(*args, **kwargs)
            os.write(output, values.encode(value, names).encode())
    except SystemExit as error:
        if is_program and error.code in (None, 0):
            return {"status": "done"}
        return {"status": "raised", "detail": _describe(error)}
    except BaseException as error:
        return {"status": "exhausted" if isinstance(error, MemoryError) else "raised", "detail": _describe(error)}
    return {"status": "done"}


_streams: list[io.TextIOWrapper] = []  # what is to be flushed even when a program replaces or deletes sys.stdout


def _open_streams() -> None:
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(open(0, "rb", closefd=False), encoding="utf-8")
    sys.stdout = sys.__stdout__ = io.TextIOWrapper(open(1, "wb", closefd=False), encoding="utf-8")
    sys.stderr = sys.__stderr__ = io.TextIOWrapper(open(2, "wb", closefd=False), encoding="utf-8")
    _streams[:] = [sys.stdout]


def _finish_program(record: dict[str, Any]) -> dict[str, Any]:
    """What the interpreter does at exit: registered functions, then flushing."""
    try:
        atexit._run_exitfuncs()
        for stream in (sys.stdout, *_streams):
            if stream is not None and not stream.closed:
                stream.flush()
    except BaseException as error:
        if record["status"] == "done":
            return {"status": "raised", "detail": _describe(error)}
    return record


def _candidate(entry_point: str | None, names: dict[str, Any]) -> Callable[..., Any]:
    """What to call: an expression such as `Solution().twoSum`, a function, a class with one public method, or the name
    of a method of class `Solution`."""
    if not entry_point:
        raise LookupError("the problem names no entry point")
    if entry_point in names:
        found = names[entry_point]
    elif entry_point.isidentifier() and "Solution" in names:
        return getattr(names["Solution"](), entry_point)
    else:
        found = eval(entry_point, names)
    if isinstance(found, type):
        methods = [name for name, value in vars(found).items() if callable(value) and not name.startswith("_")]
        return getattr(found(), methods[0]) if len(methods) == 1 else found
    return found


def _encode(value: Any) -> bytes:
    """JSON, tuples as lists; `r` and the repr of what JSON cannot say."""
    try:
        return b"j" + _JSON.encode(value).encode()
    except (TypeError, ValueError, RecursionError):
        return b"r" + repr(value).encode("utf-8", "backslashreplace")


def _plain(value: Any) -> Any:
    if type(value).__module__ == "numpy":
        return value.tolist()
    raise TypeError


_JSON = json.JSONEncoder(default=_plain)


def _describe(error: BaseException) -> str:
    try:
        text = f"{type(error).__name__}: {error}"
    except BaseException:
        text = type(error).__name__
    return text[:_DETAIL_CHARACTERS]


def prepare() -> dict[str, Any]:
    """Once, in the server: set what all solutions inherit, load what most of them import, and return the builtins with
    the default prelude."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # too much output ends a program instead of being its exception
    sys.set_int_max_str_digits(0)
    names = names_with(DEFAULT_PRELUDE, vars(builtins))
    import array  # noqa: F401
    import dataclasses  # noqa: F401
    import decimal  # noqa: F401
    import enum  # noqa: F401
    import fractions  # noqa: F401
    import queue  # noqa: F401
    import statistics  # noqa: F401
    import traceback  # noqa: F401

    gc.collect()
    gc.freeze()  # a collection in a child would otherwise copy every page of the server
    return names
