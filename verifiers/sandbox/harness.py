"""What happens inside the confined process of one solution: compile it, run it on each test, report.

Nothing here knows an expected output. A published check, which does, is run by `replay` in a process without the
solution. What is reported is not trusted by anyone: a lie about one's own output is just another output.
"""

from __future__ import annotations

import _thread
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
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ratchet.verifiers.sandbox import STOPPED, replay, values

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
INLINE_BYTES, REPORT_BYTES = 64 << 10, 512 << 10
"""An output up to the first is handed on in the report; a larger one stays in its file, and no further test is begun.
Nor is one when the report has reached the second."""
_DETAIL_CHARACTERS = 300


def names_with(prelude: str, names: Mapping[str, Any]) -> dict[str, Any]:
    """`names`, such as the builtins, and beside them what a prelude defines.

    A solution finds the prelude's names where it finds `len`: that costs nothing per test, and copying hundreds of
    names into each fresh `__main__` would touch, and so copy, much of the server's memory.
    """
    namespace: dict[str, Any] = {"__builtins__": builtins, "__name__": values.PRELUDE}
    exec(compile(prelude, "<prelude>", "exec"), namespace)
    return {**names, **namespace}


class Files(NamedTuple):
    """Descriptors of the process of a solution: a file for standard input and one for standard output, which its tests
    use in turn, the report, and /dev/null, open for reading and writing."""

    input: int
    output: int
    report: int
    null: int


def run_tests(job: dict[str, Any], files: Files, default_names: dict[str, Any]) -> None:
    """Run `job["source"]` on each of `job["tests"]`, with a fresh `__main__` for each.

    After each test the report gets a line of JSON: `status`, `detail`, `seconds`, and as `output` the bytes on standard
    output, or the encoded value of a call, one character a byte; without `output` they are in its file.
    """
    os.dup2(files.null, 2)
    try:
        names = default_names if job["entry_point"] else vars(builtins)
        if job["prelude"]:
            names = names_with(job["prelude"], names)
    except BaseException as error:
        _report(files.report, {"status": "unprepared", "detail": _describe(error)})
        return
    try:
        code = compile(job["source"], "<solution>", "exec")
    except BaseException as error:
        _report(files.report, {"status": "uncompilable", "detail": _describe(error)})
        return
    draws = "random" in job["source"] or "random" in (job["prelude"] or "")
    first = time.perf_counter()
    written = 0
    for test in job["tests"]:
        if draws:
            random.seed(0)  # so that a verdict on a program that draws numbers is the same when it is judged again
        is_program = test["kind"] == "stdin"
        if is_program:
            _fill(files.input, test["input"].encode("utf-8", "surrogatepass"))
        os.dup2(files.input if is_program else files.null, 0)
        os.dup2(files.output if is_program else files.null, 1)
        begin = time.perf_counter()
        if is_program:
            record = _run_program(code, names)
            output = b""
        else:
            record, output = _call(code, names, test, job["entry_point"])
        alone = _join_threads()
        if is_program:
            record = _finish_program(record)
            output = _taken(files.output)
        end = time.perf_counter()
        fits = output is not None and len(output) <= INLINE_BYTES
        if output is not None and fits:
            record["output"] = output.decode("latin-1")
        elif output is not None:
            _fill(files.output, output)
        written += _report(files.report, record | {"seconds": end - begin})
        # The judge sends the rest to a new process. Daemon threads would run on into the next test.
        if not (fits and alone) or end - first > SLICE_S or written > REPORT_BYTES:
            break
    os.write(files.report, STOPPED)


def _report(descriptor: int, record: dict[str, Any]) -> int:
    return os.write(descriptor, json.dumps(record).encode() + b"\n")


def _fill(descriptor: int, content: bytes) -> None:
    """Make `content` all there is in a file, with its offset at the beginning. Standard input is a file, not a pipe:
    `os.fstat(0).st_size` is a legal way to read it."""
    done = os.pwrite(descriptor, content, 0) if content else 0
    while done < len(content):
        done += os.pwrite(descriptor, content[done:], done)
    os.ftruncate(descriptor, done)
    os.lseek(descriptor, 0, os.SEEK_SET)


def _taken(descriptor: int) -> bytes | None:
    """What is in the output file, which is then empty; None when it is large, and then left there."""
    size = os.fstat(descriptor).st_size
    if size > INLINE_BYTES:
        return None
    output = os.pread(descriptor, size, 0)
    if size:
        os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return output


def _join_threads() -> bool:
    """Wait for the threads that the interpreter would wait for; False when others are left."""
    if not _thread._count():  # beside this one
        return True
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join()
    return not _thread._count()


def _fresh_module(name: str, names: Mapping[str, Any]) -> dict[str, Any]:
    module = sys.modules[name] = types.ModuleType(name)
    module.__dict__["__builtins__"] = names
    sys.argv = ["solution.py"]
    sys.setrecursionlimit(1000)
    return module.__dict__


def _run_program(code: types.CodeType, names: Mapping[str, Any]) -> dict[str, Any]:
    namespace = _fresh_module("__main__", names)
    _open_streams()
    try:
        exec(code, namespace)
    except SystemExit as error:
        if error.code not in (None, 0):
            return _failed(error)
    except BaseException as error:
        return _failed(error)
    return {"status": "done"}


def _call(
    code: types.CodeType, names: Mapping[str, Any], test: dict[str, Any], entry_point: str | None
) -> tuple[dict[str, Any], bytes]:
    """A record, and the encoded value. A called solution is a module, so that what it does under
    `if __name__ == "__main__"` is left alone."""
    namespace = _fresh_module("solution", names)
    try:
        if test["kind"] == "replay":
            result = json.dumps(replay.replay(test["check"], entry_point or "", names, test["answers"])).encode()
        else:
            exec(code, namespace)
            candidate = _candidate(entry_point, namespace)
            if test["kind"] == "call":
                result = _encode(candidate(*test["args"], **test["kwargs"]))
            else:
                return _answer(candidate, test["call"], names)
    except BaseException as error:
        return _failed(error), b""
    return {"status": "done"}, result


def _answer(candidate: Callable[..., Any], call: str, names: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
    """A record, and what `replay` is told of the call: the classes and the message of an exception, or the value, and
    beside None the arguments, when they have changed.

    What a function returns is all it does, unless it returns None: else one that empties its argument, and returns it,
    would hold wherever a check computes what it expects from the argument.
    """
    objects: list[Any] = []
    args, kwargs = values.decode(call, names, objects)
    try:
        value = candidate(*args, **kwargs)
    except Exception as error:
        kinds = [kind.__name__ for kind in type(error).__mro__]
        record = _failed(error)
        return record, json.dumps({"raised": kinds, "message": record["detail"].partition(": ")[2]}).encode()
    if value is None:
        try:
            if values.encode([args, kwargs], names, objects) != call:
                changed = values.encode([value, *args, *kwargs.values()], names, objects)
                return {"status": "done"}, changed.encode()
        except (TypeError, RecursionError):  # no data any more
            pass
    return {"status": "done"}, values.encode([value], names).encode()


def _failed(error: BaseException) -> dict[str, Any]:
    return {"status": "exhausted" if isinstance(error, MemoryError) else "raised", "detail": _describe(error)}


_output: io.TextIOWrapper | None = None  # our own, to be flushed even when a program replaces or deletes sys.stdout
_errors = sys.stderr  # the server's, whose descriptor leads to /dev/null by now


def _open_streams() -> None:
    """Standard streams as at the start of an interpreter; the one for output serves all tests that leave it open."""
    global _output
    reader = io.BufferedReader(io.FileIO(0, "r", closefd=False))
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(reader, encoding="utf-8")
    if not _is_open(_output):
        writer = io.BufferedWriter(io.FileIO(1, "w", closefd=False))
        _output = io.TextIOWrapper(writer, encoding="utf-8")
    sys.stdout = sys.__stdout__ = _output
    sys.stderr = sys.__stderr__ = _errors


def _is_open(stream: Any) -> bool:
    try:
        return stream is not None and not getattr(stream, "closed", False)
    except ValueError:  # detached from its descriptor
        return False


def _finish_program(record: dict[str, Any]) -> dict[str, Any]:
    """What the interpreter does at exit: registered functions, then flushing."""
    try:
        atexit._run_exitfuncs()
        for stream in (sys.stdout, _output):
            if stream is not None and _is_open(stream):
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

    random.seed(0)
    gc.collect()
    gc.freeze()  # a collection in a child would otherwise copy every page of the server
    return names
