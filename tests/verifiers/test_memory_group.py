"""A control group that an operator delegates bounds all memory of a sandbox, also what no process has mapped."""

import json
import os
import re
from pathlib import Path

import pytest

from ratchet.verifiers.code.compiled import cpp_sandbox
from ratchet.verifiers.code.judge import judge
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.sandbox.memory_group import NAMED_BY, SPARE_BYTES
from ratchet.verifiers.sandbox.runs import Limits
from ratchet.verifiers.sandbox.server import Sandbox, _examine
from tests.verifiers.programs import FORGE
from tests.verifiers.sandbox_world import needs_compiler
from tests.waiting import happens

LIMIT_MB = 128
FUNCTION = "def f(x): return 2 * x"
PROGRAM = f"{FUNCTION}\nprint(f(int(input())))"
CHECK = "def check(candidate):\n    assert candidate(1) == 2"
BURST = "h = [bytes([1]) * (1 << 20) for _ in range(100)]"


def _own_group() -> Path | None:
    """Where this process's group for memory is mounted; None on a machine without one."""
    own = re.search(r"^\d+:memory:(.*)$|^0::(.*)$", Path("/proc/self/cgroup").read_text(), re.MULTILINE)
    mounts = re.findall(
        r"^\S+ \S+ \S+ / (\S+) .* - (cgroup2?) \S+ (\S+)$", Path("/proc/self/mountinfo").read_text(), re.M
    )
    for mount, kind, options in mounts:
        if own and (kind == "cgroup2" if own[1] is None else "memory" in options.split(",")):
            return Path(mount + (own[1] or own[2] or ""))
    return None


@pytest.fixture
def delegated(monkeypatch):
    group = _own_group()
    try:
        assert group is not None
        parent = group / f"ratchet-test-{os.getpid()}"
        parent.mkdir()
    except (AssertionError, OSError):
        pytest.skip("this process may not divide its control group for memory")
    monkeypatch.setenv(NAMED_BY, str(parent))
    _examine.cache_clear()  # what an earlier test of this process found had no group
    yield parent
    _examine.cache_clear()
    assert happens(lambda: not any(path.is_dir() for path in parent.iterdir()))
    parent.rmdir()


def problem(test):
    return Problem("p", "code", "", tests=json.dumps([test]), entry_point="f" if "check" in test else None,
                   memory_limit_mb=LIMIT_MB, time_limit_s=4.0)  # fmt: skip


def file_of(group, *names):
    return next(group / name for name in names if (group / name).exists())


def test_all_memory_of_a_sandbox_is_bounded(delegated):
    test, bombs = {"input": "1\n", "output": "2"}, [name for name in FORGE if name.startswith("memory bomb")]
    with Sandbox() as sandbox:
        assert judge(problem(test), PROGRAM, sandbox).passed
        assert "memory-group" in sandbox.isolation
        [group] = [path for path in delegated.iterdir() if path.is_dir()]
        for source in (FORGE[name] for name in bombs):
            verdict = judge(problem(test), source, sandbox)
            assert verdict.outcome is Outcome.FAILED, (source, verdict)
        peak = int(file_of(group, "memory.peak", "memory.max_usage_in_bytes").read_text())
        assert peak <= (LIMIT_MB << 20) + SPARE_BYTES
        assert judge(problem(test), PROGRAM, sandbox).passed
        assert [path for path in delegated.iterdir() if path.is_dir()] == [group], "the server outlived all of them"


def test_who_is_killed_for_memory_has_used_too_much(delegated):
    """By the operator's own limit, below a program's, which the server therefore never sees."""
    file_of(delegated, "memory.max", "memory.limit_in_bytes").write_text(str(60 << 20))
    stdin, check = {"input": "1\n", "output": "2"}, {"check": CHECK}
    hog = f"def f(x):\n    {BURST}\n    return 2 * x"
    with Sandbox() as sandbox:
        for test, wrong in ((stdin, f"{BURST}\nprint(2)"), (check, hog), (check, f"{BURST}\n{FUNCTION}")):
            assert judge(problem(test), wrong, sandbox).decided_by == "memory_limit", wrong
            assert judge(problem(test), FUNCTION if test is check else PROGRAM, sandbox).passed


HOG = """#include <cstdlib>
#include <cstring>
int main() { for (int i = 0; i < 100; i++) memset(malloc(1 << 20), 1, 1 << 20); }
"""
PIPES = """#include <fcntl.h>
#include <unistd.h>
int main() {
    static char page[1 << 20];
    int ends[2];
    for (int i = 0; i < 100 && pipe(ends) == 0; i++) {
        fcntl(ends[1], F_SETPIPE_SZ, sizeof page);
        fcntl(ends[1], F_SETFL, O_NONBLOCK);
        while (write(ends[1], page, sizeof page) > 0);
    }
}
"""


@needs_compiler
def test_programs_in_cpp_are_bounded_too(delegated):
    """Compilers first; then by the operator's own limit, below a program's, which the server therefore never sees."""
    limits = Limits(4.0, 4.0, LIMIT_MB << 20, 1 << 20)
    with Sandbox() as sandbox:
        shop = cpp_sandbox(sandbox)
        shop.start()
        assert "memory-group" in shop.isolation
        with shop.build("int main() {}") as plain, shop.build(HOG) as hog, shop.build(PIPES) as pipes:
            assert [shop.run_program(p, b"", limits).run.status for p in (plain, hog)] == ["exited"] * 2
            file_of(delegated, "memory.max", "memory.limit_in_bytes").write_text(str(60 << 20))
            for program, statuses in ((hog, ["exhausted"]), (pipes, ["exited", "exhausted"]), (plain, ["exited"])):
                assert shop.run_program(program, b"", limits).run.status in statuses
            [group] = [path for path in delegated.iterdir() if path.is_dir()]
            assert int(file_of(group, "memory.current", "memory.usage_in_bytes").read_text()) < 60 << 20


def test_a_group_that_is_none_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv(NAMED_BY, str(tmp_path))
    with Sandbox() as sandbox, pytest.raises(RatchetError, match="RATCHET_JUDGE_CGROUP names no control group"):
        sandbox.launch("B")
    assert not any(tmp_path.iterdir())
