"""Run a problem's checker or interactor (`checkers`) in the sandbox, and build those in C++."""

import os
import threading
from dataclasses import replace
from pathlib import Path

from ratchet.verifiers.code.checkers import Checker
from ratchet.verifiers.code.compiled import DoesNotCompile, Program, Unavailable, cpp_sandbox
from ratchet.verifiers.code.problem import DEFAULT_STANDARD
from ratchet.verifiers.problem import CodeTest
from ratchet.verifiers.sandbox.runs import Limits, Talker, TestRun
from ratchet.verifiers.sandbox.server import Sandbox

TESTLIB, TESTLIB_NAMED_BY = "testlib.h", "RATCHET_TESTLIB"
"""A header of many checkers, and the environment variable with its path on this machine."""
_KEPT = 8
"""Built checkers; the programs of a group come one after another."""
_built: dict[Checker, Program] = {}
_building = threading.Lock()


class CheckerFault(Exception):
    """The problem's checker or interactor gave no verdict, which may not be the program's fault."""


def check_output(
    checker: Checker, sandbox: Sandbox, limits: Limits, test: CodeTest, output: bytes
) -> tuple[TestRun, float]:
    """Run the checker on one output of a program. Returns its run, with its message, if any, as output, and the seconds
    that it took. Raises CheckerFault and SandboxFault."""
    talker = checker_process(checker, sandbox, test, output)
    if job := talker.job:
        execution = sandbox.run(job["source"], job["tests"], limits, entry_point=None, prelude=None)
        return execution.runs[0], execution.spent_s
    standard = output if checker.reads_output else b""
    ended = cpp_sandbox(sandbox).run_native(
        talker.kind, talker.executable, [*talker.argv], standard, limits, talker.files
    )
    if checker.protocol == "script":  # its verdict is what it prints
        return ended.run, ended.spent_s
    return replace(ended.run, output=ended.errors or ended.run.output), ended.spent_s


def checker_process(checker: Checker, sandbox: Sandbox, test: CodeTest, output: bytes | None = None) -> Talker:
    """The checker's process for one test; `output` is None for an interactor. Raises CheckerFault if it cannot be
    built."""
    texts = {"input": test.input or "", "answer": test.output}
    files = {name: text.encode("utf-8", "surrogatepass") for name, text in texts.items()}
    parameters = checker.parameters(test.arguments)
    if output is not None:
        files["output"] = output
    if checker.language == "cpp":
        argv = ["./checker", *parameters]
        program = _executable(checker, sandbox)
        return Talker(None, program.file, "checker", argv, files, program)
    standard = "output" if checker.reads_output else ""
    request = {"kind": "checker", "input": standard, "files": files, "arguments": parameters}
    return Talker({"source": checker.source, "tests": [request], "entry_point": None, "prelude": None})


def _executable(checker: Checker, sandbox: Sandbox) -> Program:
    """Built once for all threads; one that is no longer kept is closed when the last of them lets it go."""
    with _building:
        if checker not in _built:
            _built[checker] = _build(checker, sandbox)
        _built[checker] = _built.pop(checker)  # the last used
        if len(_built) > _KEPT:
            _built.pop(next(iter(_built)))
        return _built[checker]


def _build(checker: Checker, sandbox: Sandbox) -> Program:
    headers = {name: text.encode() for name, text in checker.files}
    if TESTLIB in checker.source and TESTLIB not in headers:
        try:
            headers[TESTLIB] = Path(os.environ[TESTLIB_NAMED_BY]).read_bytes()
        except (KeyError, OSError):
            raise CheckerFault(
                f"its checker includes {TESTLIB}, which the problem does not come with: set {TESTLIB_NAMED_BY} to the "
                "path of that header"
            ) from None
    try:
        return cpp_sandbox(sandbox).build(checker.source, DEFAULT_STANDARD, headers)
    except (DoesNotCompile, Unavailable) as error:
        raise CheckerFault(f"its checker in C++ cannot be built: {error}") from None
