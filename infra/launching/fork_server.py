"""A process that loads libraries once and forks a copy of itself for each job.

    python -P -m ratchet.infra.launching.fork_server MODULE…

Each line of standard input is a job, JSON {"module", "arguments", "log"}: the `main` of that MODULE runs as in
`python -m MODULE ARGUMENTS`, with output to the log; the line in reply is its exit code. Before each job
`MODULE.preload(*ARGUMENTS)` loads what the job needs. If it returns False, forking would not work (CUDA does not
survive a fork): the process runs the first job itself and ends.
"""

import gc
import importlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import ModuleType

from ratchet.verifiers.processes import end_with_parent, process_group


class ForkServer:
    """A client of such a process, which starts with the first job and dies with us. A job for a module that is not
    one of `modules` restarts it."""

    def __init__(self, *modules: str) -> None:
        self._modules = modules
        self._command: tuple[Sequence[str], dict[str, str]] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._open = ExitStack()

    @contextmanager
    def run(self, argv: Sequence[str], log: Path, environment: dict[str, str]) -> Iterator["Job"]:
        """Run `argv`, PYTHON -P -m MODULE ARGUMENTS. If it has not ended when the block does, it is ended, together
        with the fork server."""
        *python, module = argv[:4]
        modules = self._modules if module in self._modules else (module,)
        argv, arguments = [*python, __name__, *modules], argv[4:]
        if self._process is None or self._process.poll() is not None or self._command != (argv, environment):
            self.close()
            self._process = self._open.enter_context(process_group(argv, log, environment, pipes=True))
            self._command = argv, environment
        job = Job(self._process, {"module": module, "arguments": [*arguments], "log": str(log)})
        try:
            yield job
        finally:
            if job.code is None:
                self.close()

    def close(self) -> None:
        if self._process is not None:
            self._open.close()
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                pipe.close()
            self._process = None


class Job:
    """A running job of a fork server."""

    def __init__(self, process: subprocess.Popen[bytes], job: dict[str, object]) -> None:
        self._process = process
        self.code: int | None = None
        assert process.stdin is not None and process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        with suppress(BrokenPipeError):  # it has ended, which `poll` reports
            os.write(process.stdin.fileno(), json.dumps(job).encode() + b"\n")

    def poll(self) -> int | None:
        """The exit code of the job; None until it has ended."""
        assert self._process.stdout is not None
        if self.code is None:
            answer = self._process.stdout.read()
            self.code = int(answer) if answer else self._process.poll()
        return self.code


def serve() -> None:
    """Read jobs from standard input and run each, as the module's docstring says."""
    answers = os.dup(1)
    os.dup2(2, 1)  # output of libraries is not an answer
    for line in sys.stdin:
        job = json.loads(line)
        if (name := job.pop("module")) not in sys.modules:
            for hidden in [other for other, loaded in sys.modules.items() if loaded is None]:
                del sys.modules[hidden]  # by a module that needs it less than this one may
        module = importlib.import_module(name)
        if not module.preload(*job["arguments"]):
            _run(module, os.getppid(), **job)
            return
        gc.freeze()  # no copy walks over what all share, which would also copy its memory
        child = multiprocessing.get_context("fork").Process(target=_run, args=(module, os.getpid()), kwargs=job)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # only after the copy has ended
        child.start()
        try:
            child.join()
        except SystemExit:
            child.terminate()
            raise
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.write(answers, b"%d\n" % child.exitcode)


def _run(module: ModuleType, parent: int, arguments: list[str], log: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent(parent)
    Path(log).parent.mkdir(parents=True, exist_ok=True)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for source, descriptor in ((os.open(os.devnull, os.O_RDONLY), 0), (output, 1), (output, 2)):
        os.dup2(source, descriptor)
    sys.argv = [str(module.__file__), *arguments]
    sys.exit(module.main())


if __name__ == "__main__":
    serve()
