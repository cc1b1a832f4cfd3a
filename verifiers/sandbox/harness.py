"""Run one program in its confined processes: compile it and run it on each test, or serve the check of its problem,
which runs in a second process; report the results.

Nothing here has an expected output, and nothing trusts a report: a lie about one's own output is just another output.
"""

import _thread
import atexit
import builtins
import gc
import io
import json
import marshal
import os
import re
import socket
import sys
import threading
import time
import types
import weakref
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from ratchet.verifiers.sandbox import ASKED, READY, STOPPED, values
from ratchet.verifiers.sandbox.check_end import CheckEnd
from ratchet.verifiers.sandbox.checking import run_checks
from ratchet.verifiers.sandbox.given_files import GivenFiles, GivenModules, open_standard_paths
from ratchet.verifiers.sandbox.objects import ProgramEnd, describe
from ratchet.verifiers.sandbox.seeds import seed_numpy, seeds
from ratchet.verifiers.sandbox.vacuous import compare_shapes

INLINE_BYTES, REPORT_BYTES = 64 << 10, 4 << 20
"""Limits of an output and of a report: a larger output stays in its file instead of the report and ends the process's
tests; so does a larger report."""


def names_with(prelude: str, names: Mapping[str, Any]) -> dict[str, Any]:
    """The `names`, such as the builtins, plus those of a prelude.

    The prelude's names are found like `len`. That costs nothing per test, while copying hundreds of names into each
    fresh `__main__` would touch, and so copy, much of the server's memory.
    """
    sys.modules[values.PRELUDE] = module = types.ModuleType(values.PRELUDE)  # where dataclasses look for annotations
    namespace = vars(module)
    namespace["__builtins__"] = builtins
    exec(compile(prelude, "<prelude>", "exec", dont_inherit=True), namespace)
    return {**names, **namespace}


class Files(NamedTuple):
    """Descriptors of a confined process: the job, whose file is reused for standard input once read; standard output;
    the report, one line per finished test; /dev/null, open for reading and writing."""

    job: int
    output: int
    report: int
    null: int


class _Failed(Exception):
    """The program cannot run; `args[0]` is its record."""


def run_program(files: Files, default_names: dict[str, Any], joined: bool = False) -> int:
    """Run the job's `source` on each of its `tests`.

    After each test the report gets a line of JSON: `status`, `detail`, `seconds`, and `output`, the bytes on standard
    output or the encoded value of a call, one character per byte; without `output` they are in its file. Each test on
    standard input has a fresh `__main__`; calls share one module, as in a check. A checker has a test of its own kind,
    `checker`, with `arguments` and `files`. `joined`: standard input and output are another process. Returns the exit
    code of the last checker.
    """
    job = read_job(files)
    texts = (job["source"], job["prelude"] or "", *job.get("modules", {}).values())
    global _has_finalizers
    _has_finalizers = any(map(_FINALIZERS.search, texts))
    if any("/dev/" in text or "/proc/self" in text for text in texts):
        open_standard_paths()
    try:
        code, names, modules = _compiled(job, default_names)
    except _Failed as failed:
        report(files.report, failed.args[0])
        return 0
    seeding = seeds(texts)
    written, candidate, code_at_exit = 0, None, 0
    for test in job["tests"]:
        for seed in seeding:
            seed()
        is_program, is_checker = test["kind"] != "call", test["kind"] == "checker"
        checker_files = GivenFiles(test["files"]) if is_checker else None
        if checker_files and not joined:
            fill(files.job, checker_files.content.get(test["input"], b""))
        elif is_program and not joined:
            fill(files.job, test["input"].encode("utf-8", "surrogatepass"))
        if not joined and (is_program or candidate is None):
            os.dup2(files.job if is_program else files.null, 0)
            os.dup2(files.output if is_program else files.null, 1)
        begin = time.perf_counter()
        output: bytes | None = b""
        record: dict[str, Any] = {"status": "done"}
        try:
            if is_program:
                modules.install()
                _run_main(code, names, checker_files, test)
            else:
                if candidate is None:
                    candidate = _loaded(code, names, job["entry_point"])[1]
                value = candidate(*test["args"], **test["kwargs"])
                if test.get("untuple") and isinstance(value, tuple):
                    value = list(value)
                output = _encode(value, test["exact"])
        except SystemExit as error:
            code_at_exit = _exit_code(error)
            if is_checker:
                record = {"status": "died", "detail": f"exit code {code_at_exit}"}
            elif not is_program or code_at_exit:
                record = _failed(error)
        except BaseException as error:
            record = _failed(error)
        alone = _end_threads() if is_program else not _thread._count()
        if is_program:
            record = _finish_program(record)
            output = b"" if joined else _taken(files.output)
        if checker_files:
            output = output or checker_files.message()
        record["seconds"] = time.perf_counter() - begin
        fits = output is not None and len(output) <= INLINE_BYTES
        if output is not None and fits:
            record["output"] = output.decode("latin-1")
        elif output is not None:
            fill(files.output, output)
        written += report(files.report, record)
        # The judge sends the rest to a new process. Daemon threads would continue into the next test.
        if not (fits and alone) or written > REPORT_BYTES:
            break
    os.write(files.report, STOPPED)
    return code_at_exit


def converse(files: Files, incoming: io.FileIO, outgoing: io.FileIO, default_names: dict[str, Any]) -> None:
    """Run the job's one test with another process at the ends of standard input and output. Exits with the program's
    code."""
    for descriptor, end in enumerate((incoming, outgoing)):
        os.dup2(end.fileno(), descriptor)
        end.close()
    os._exit(run_program(files, default_names, joined=True))


def answer_check(files: Files, channel: socket.socket, default_names: dict[str, Any]) -> None:
    """Run the job's `source` as a module, and serve the check at the other end of `channel`. The report gets a line if
    that is impossible."""
    if program := load_program(files, channel, default_names):
        program.serve()


def load_program(files: Files, channel: socket.socket, default_names: dict[str, Any]) -> ProgramEnd | None:
    """Run the program's module for a check; None if that fails, which the report then says."""
    job = read_job(files)
    try:
        code, names, _ = _compiled(job, default_names)
        for seed in seeds((job["source"], job["prelude"] or "")):
            seed()
        os.dup2(files.null, 0)
        os.dup2(files.null, 1)
        namespace, candidate = _loaded(code, names, job["entry_point"])
        if not callable(candidate):
            raise TypeError(f"{job['entry_point']} is not callable: it is a {type(candidate).__name__}")
        return ProgramEnd(channel, names, namespace, candidate)
    except _Failed as failed:
        report(files.report, failed.args[0])
    except BaseException as error:
        report(files.report, _failed(error))
    return None


def run_check(files: Files, channel: socket.socket, default_names: dict[str, Any]) -> None:
    """Run the job's checks on the program at the other end of `channel`, see `checking`. The report gets a line for
    each, which begins with ASKED and READY in turn, ASKED while it depends on the program."""
    job = read_job(files)
    os.dup2(files.null, 0)
    os.dup2(files.null, 1)
    try:
        if job["needs_numpy"]:
            compare_shapes()
            seed_numpy()
        names = default_names if job["prelude"] is None else names_with(job["prelude"], vars(builtins))
    except BaseException as error:
        report(files.report, {"status": "invalid", "detail": f"its prelude fails: {describe(error)}"})
        return

    def note_use(begins: bool) -> None:
        os.write(files.report, ASKED if begins else READY)

    peer = CheckEnd(channel, names, note_use, job["is_apart"], job["classes"])
    run_checks(job, peer, lambda record: report(files.report, record))


def read_job(files: Files) -> dict[str, Any]:
    """The judge's job; nothing else has written to its file."""
    os.dup2(files.null, 2)
    return marshal.loads(os.pread(files.job, os.fstat(files.job).st_size, 0))


def _compiled(
    job: dict[str, Any], default_names: dict[str, Any]
) -> tuple[types.CodeType, Mapping[str, Any], GivenModules]:
    """The program's code, its built-in names and the modules beside it. Raises _Failed."""
    global _recursion_limit
    try:
        # A problem with its own prelude, an empty one included, has what its own harness has, and nothing else.
        names = default_names if job["entry_point"] and job["prelude"] is None else vars(builtins)
        if job["prelude"]:
            names = names_with(job["prelude"], names)
        _recursion_limit = sys.getrecursionlimit()
    except BaseException as error:
        raise _Failed({"status": "unprepared", "detail": describe(error)}) from None
    try:
        code = compile(job["source"], "<solution>", "exec", dont_inherit=True)
        return code, names, GivenModules(job.get("modules", {}), names)
    except BaseException as error:
        raise _Failed({"status": "uncompilable", "detail": describe(error)}) from None


def report(descriptor: int, record: dict[str, Any]) -> int:
    return os.write(descriptor, json.dumps(record).encode() + b"\n")


def fill(descriptor: int, content: bytes) -> None:
    """Replace a file's content, and rewind it. Standard input is a file, not a pipe: `os.read(0, os.fstat(0).st_size)`
    is legal."""
    written = os.pwrite(descriptor, content, 0) if content else 0
    while written < len(content):
        written += os.pwrite(descriptor, content[written:], written)
    os.ftruncate(descriptor, written)
    os.lseek(descriptor, 0, os.SEEK_SET)


def _taken(descriptor: int) -> bytes | None:
    """Take the content out of the output file; None if it is large, and then left there."""
    size = os.fstat(descriptor).st_size
    if size > INLINE_BYTES:
        return None
    output = os.pread(descriptor, size, 0)
    if size:
        os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return output


def _end_threads() -> bool:
    """Wait for the threads that the interpreter would wait for at exit; False if the process is then not as before."""
    if not _thread._count():  # beside this one
        return True
    hooks = [*reversed(getattr(threading, "_threading_atexits", ()))]  # tell the threads of pools to end
    for hook in hooks:
        with suppress(Exception):
            hook()
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join()
    return not hooks and not _thread._count()


def _exit_code(error: SystemExit) -> int:
    """The exit code of a process that ends by it."""
    code = error.code
    return 0 if code is None else code & 0xFF if isinstance(code, int) else 1


def _run_main(
    code: types.CodeType, names: Mapping[str, Any], checker_files: GivenFiles | None, test: Mapping[str, Any]
) -> None:
    """Run the program as `__main__`. Nothing of it is kept, so that `_finish_program` can end its objects."""
    namespace = _fresh_module("__main__", names)
    if checker_files:
        checker_files.install(["checker.py", *test["arguments"]])
    _open_streams()
    exec(code, namespace)


def _fresh_module(name: str, names: Mapping[str, Any]) -> dict[str, Any]:
    module = sys.modules[name] = types.ModuleType(name)
    module.__dict__["__builtins__"], module.__dict__["__file__"] = names, "solution.py"
    if names is vars(builtins) and name == "__main__":
        module.__dict__["__builtins__"] = builtins  # there it is the module itself
    sys.argv = ["solution.py"]
    depth, frame = 0, sys._getframe()  # frames below the program's first
    while frame := frame.f_back:
        depth += 1
    sys.setrecursionlimit(_recursion_limit + depth)
    return module.__dict__


def _loaded(code: types.CodeType, names: Mapping[str, Any], entry_point: str | None) -> tuple[dict[str, Any], Any]:
    """The program's namespace and its entry point. It is a module: `if __name__ == "__main__"` is false."""
    namespace = _fresh_module("solution", names)
    exec(code, namespace)
    return namespace, _candidate(entry_point, namespace)


def _failed(error: BaseException) -> dict[str, Any]:
    return {"status": "exhausted" if isinstance(error, MemoryError) else "raised", "detail": describe(error)}


_recursion_limit = 1000  # unless the prelude sets another
_has_finalizers = False
_FINALIZERS = re.compile("open|FileIO|__del__|finalize|finally|GeneratorExit|exec|eval")
"""Words without which nothing of a program writes when it ends."""
_output: io.TextIOWrapper | None = None  # our own, flushed even if a program replaces or deletes sys.stdout
_errors = sys.stderr  # the server's, whose descriptor is now /dev/null


def _open_streams() -> None:
    """Standard streams as at the start of an interpreter; tests share the one for output while it is open."""
    global _output
    sys.stdin = sys.__stdin__ = _stream(io.BufferedReader, 0, "r", "<stdin>")
    if _output is None or not _is_open(_output):
        _output = _stream(io.BufferedWriter, 1, "w", "<stdout>")
    sys.stdout = sys.__stdout__ = _output
    sys.stderr = sys.__stderr__ = _errors


def _stream(buffered: Any, descriptor: int, mode: str, name: str) -> io.TextIOWrapper:
    """A standard stream with the attributes that the interpreter gives its own: many programs read `sys.stdin.mode`."""
    raw = io.FileIO(descriptor, mode, closefd=False)
    raw.name = name
    stream = io.TextIOWrapper(buffered(raw), encoding="utf-8")
    stream.mode = mode  # type: ignore[misc]
    return stream


def _is_open(stream: Any) -> bool:
    try:
        return not getattr(stream, "closed", False)
    except ValueError:  # detached from its descriptor
        return False


def _finish_program(record: dict[str, Any]) -> dict[str, Any]:
    """Do what the interpreter does at exit: call registered functions, flush, end what the program has made, which
    flushes its own files and calls `__del__`, and flush what that wrote."""
    for step in (atexit._run_exitfuncs, _flush, _end_objects, _flush):
        try:
            step()
        except BaseException as error:
            if record["status"] == "done":
                record = {"status": "raised", "detail": describe(error)}
    return record


def _flush() -> None:
    for stream in (getattr(sys, "stdout", None), _output):
        if stream is not None and _is_open(stream):
            stream.flush()


def _end_objects() -> None:
    module = weakref.ref(sys.modules["__main__"]) if "__main__" in sys.modules else lambda: None
    if _has_finalizers:
        gc.collect()  # as there, once before: it puts a file before its buffer, which is else closed first
    sys.modules.pop("__main__", None)
    sys.stdin = sys.__stdin__ = None  # type: ignore[assignment, misc]
    sys.stdout = sys.__stdout__ = _output  # type: ignore[assignment, misc]
    if _has_finalizers:
        gc.collect()
    if (left := module()) is not None:  # something of the library's refers to it
        for name in [name for name in vars(left) if name != "__builtins__"]:
            vars(left)[name] = None


def _candidate(entry_point: str | None, names: dict[str, Any]) -> Any:
    """The callable that the entry point names: an expression such as `Solution().twoSum`, a function, a class, a method
    of the class `Solution`, or with that class's own name its only public method."""
    if not entry_point:
        raise LookupError("the problem names no entry point")
    solution = names.get("Solution")
    # Before a function of that name, which a solution may import: `from math import gcd`.
    if isinstance(solution, type) and entry_point.isidentifier() and hasattr(solution, entry_point):
        return getattr(solution(), entry_point)
    if entry_point in names:
        candidate = names[entry_point]
    elif entry_point.isidentifier() and "Solution" in names:
        return getattr(names["Solution"](), entry_point)
    else:
        candidate = eval(entry_point, names)
    if isinstance(candidate, type) and candidate.__name__ == "Solution":
        methods = [name for name, value in vars(candidate).items() if callable(value) and not name.startswith("_")]
        return getattr(candidate(), methods[0]) if len(methods) == 1 else candidate
    return candidate


def _encode(value: Any, exact: bool) -> bytes:
    """`j` and JSON, `n` and JSON of a value with other numbers, or `r` and the repr of any other. Unless `exact`, a
    tuple is a list, a key its text."""
    try:
        text = values.plain_text(value) if exact else values.ENCODER.encode(value)
        if text is not None:
            return b"j" + text.encode()
    except (TypeError, ValueError, RecursionError):
        with suppress(TypeError, ValueError, RecursionError):
            return b"n" + values.ENCODER.encode(values.with_numbers(value)).encode()
    return b"r" + repr(value).encode("utf-8", "backslashreplace")
