"""Attacks by programs, on every level: nothing is reached, found, forged or left; legal programs pass."""

import pytest

from ratchet.verifiers.code.judge import judge
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.sandbox.server import Sandbox
from tests.verifiers.conftest import at_level
from tests.verifiers.programs import FORGE, LEGAL, programs
from tests.verifiers.sandbox_reach import NOT_STOPPED, REACH, SYSCALL
from tests.verifiers.sandbox_world import CALL, PROGRAM, World, descendants, problem

STEAL = programs("sandbox_forge")["steal"]
STOLEN = """
import ctypes, gc, os, re, sys
{look}
def f(x):
    try:
        found = re.search({token!r}, " ".join(look()))
    except BaseException:
        found = None
    return found and found.group()
print(f(0))
"""
SILENT = "import os, sys\nsys.stderr = open(os.devnull, 'w')\nprint(2 * int(input()))"
"""Legal too, but opens a device for writing: refused where nothing but seccomp guards the files."""


@pytest.fixture(scope="module", params=["A", "B", "C"])
def level(request):
    yield from at_level(request.param)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    world = World(tmp_path_factory.mktemp("world"))
    yield world
    world.close()


def attack(name, stdin, call, level, world, checks=(), **fields):
    """Run a (tests, source) in all forms: none passes, nothing is touched, nothing is left, the judge is well."""
    verdicts = [
        judge(problem(stdin[0], **fields), stdin[1], level),
        judge(problem(call[0], entry_point="f", **fields), call[1], level),
        *[judge(problem(tests, entry_point="f", **fields), call[1], level) for tests in checks],
    ]
    for verdict in verdicts:
        assert verdict.outcome in (Outcome.PASSED, Outcome.FAILED, Outcome.TIMEOUT), verdict
        assert not verdict.passed or name in NOT_STOPPED[level.isolation[0]], verdict
    assert world.untouched()
    assert len(descendants(level._process.pid)) == 1  # the fork server, which is still well:
    assert judge(problem(PROGRAM), LEGAL["plain"], level).passed


def reaching(name, world):
    modules = ("decimal", "fcntl", "os", "resource", "signal", "socket", "subprocess", "sys")
    used = ", ".join(module for module in modules if f"{module}." in REACH[name])
    return f"""
import {used or "os"}
{SYSCALL}
def reached():
    try:
        {REACH[name].format(**world.facts)}
        return True
    except BaseException:
        return False
"""


@pytest.mark.parametrize("name", REACH)
def test_nothing_outside_can_be_reached(name, level, world):
    source = reaching(name, world)
    stdin = source + "print(2 * int(input()) * reached())"
    call = source + "def f(x):\n    return 2 * x * reached()"
    attack(name, (PROGRAM, stdin), (CALL, call), level, world)


HARMLESS = [
    "read a file", "open an unnamed file", "fork", "a subprocess", "connect: TCP", "connect: UDP",
    "connect: a Unix socket", "connect: an abstract socket", "connect: a datagram through a pair",
    "system call: pidfd_open", "system call: memory in a file", "system call: dumpable again",
]  # fmt: skip


def test_the_attacks_are_real(tmp_path):
    """They succeed where only limits are in their way: a suite that nothing can fail proves nothing."""
    world = World(tmp_path)
    with Sandbox("D", "D") as level:
        for name in HARMLESS:
            attempt = reaching(name, world) + "print(2 * int(input()) * reached())"
            assert judge(problem(PROGRAM), attempt, level).passed, name
    assert world.seen()[3]
    world.close()


@pytest.mark.parametrize("name", STEAL)
def test_expected_outputs_cannot_be_found(name, level, world):
    source = STOLEN.format(look=STEAL[name].format(**world.facts), token=world.facts["token"])
    stdin = [{"input": "0\n", "output": world.token}]
    call = [{"call": {"args": [0]}, "output": world.token}]
    check = f"def check(candidate):\n    got = candidate(0)\n    assert got == {world.token!r}"
    attack(f"steal: {name}", (stdin, source), (call, source), level, world, [[{"check": check}]])


@pytest.mark.parametrize("level", ["A", pytest.param("B", marks=pytest.mark.slow), "C"], indirect=True)
@pytest.mark.parametrize("name", FORGE)
def test_no_verdict_is_forged_and_nothing_stays(name, level, world):
    check = "def check(candidate):\n    for x in (5851, 1):\n        assert candidate(x) == 2 * x"
    attack(name, (PROGRAM, FORGE[name]), (CALL, FORGE[name]), level, world, [[{"check": check}]], time_limit_s=0.1)


@pytest.mark.parametrize("name", LEGAL)
def test_legal_programs_pass(name, level):
    verdict = judge(problem(PROGRAM, time_limit_s=5.0, memory_limit_mb=1024.0), LEGAL[name], level)
    assert verdict.passed, verdict


def test_a_device_may_be_written_to_where_files_are_guarded(level):
    assert judge(problem(PROGRAM), SILENT, level).passed == (level.isolation[0] in "AB")
