"""The isolation ladder: what a machine offers, what is demanded, and the filter of system calls."""

import signal
import struct

import pytest

from ratchet.verifiers.code.judge import judge
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.sandbox import canaries, seccomp, server
from ratchet.verifiers.sandbox.server import Sandbox, require_isolation
from tests.verifiers.programs import LEGAL
from tests.verifiers.sandbox_world import (
    LEAKY_LANDLOCK,
    LEAKY_SECCOMP,
    NO_LANDLOCK,
    NO_NAMESPACES,
    NO_SECCOMP,
    PROGRAM,
    problem,
    without_layers,
)


@pytest.fixture
def lacking(monkeypatch):
    """A function that takes layers away from all fork servers started in the test."""

    def take(*layers):
        monkeypatch.setattr(server, "child_source", lambda module: without_layers(module, layers))

    server._examine.cache_clear()
    yield take
    server._examine.cache_clear()


def test_the_isolation_of_this_machine_is_on_record():
    machine = require_isolation()
    assert str(machine).startswith(f"{machine.level}: ") and str(machine).endswith("seccomp+rlimits")
    assert set(machine.stopped) | set(machine.escaped) == set(canaries.NAMES)


def test_a_machine_is_attacked_once_in_a_process(monkeypatch):
    require_isolation()
    monkeypatch.setattr(canaries, "escaped", lambda run: pytest.fail("attacked again"))
    with Sandbox() as sandbox:
        sandbox.start()


def test_a_sandbox_that_somebody_kills_under_attack_is_attacked_again(lacking, monkeypatch):
    whole, escaped, kills = require_isolation(), canaries.escaped, iter([signal.SIGKILL])
    server._examine.cache_clear()

    def attacked(run):
        for number in kills:
            run.__self__._process.send_signal(number)
            run.__self__._process.wait()
        return escaped(run)

    monkeypatch.setattr(canaries, "escaped", attacked)
    assert require_isolation() == whole


@pytest.mark.parametrize(
    ("layers", "expected", "said"),
    [
        ([NO_NAMESPACES], "B", ""),
        ([NO_LANDLOCK], "B", ""),  # the private root stands in
        ([NO_NAMESPACES, NO_LANDLOCK], "C", ""),
        ([NO_NAMESPACES, LEAKY_LANDLOCK], "C", ""),
        ([NO_SECCOMP], "D", ""),
        ([LEAKY_SECCOMP], "D", "make a process"),
    ],
)
def test_the_level_is_what_is_there_and_holds(layers, expected, said, lacking):
    lacking(*layers)
    machine = require_isolation("D")
    assert machine.level == expected, machine
    assert machine.lacking and said in " ".join(machine.lacking)
    if expected in "BC":
        with Sandbox() as sandbox:
            assert judge(problem(PROGRAM), LEGAL["plain"], sandbox).passed
            assert sandbox.isolation == str(machine)


def test_a_machine_that_offers_too_little_refuses(lacking):
    with pytest.raises(RatchetError, match=r"level A \(namespaces.*this machine offers B \(landlock"):
        Sandbox("A", "B").start()
    lacking(NO_SECCOMP)
    with pytest.raises(RatchetError, match=r"level C .*seccomp cannot be used.*docs/explanation/sandbox.md.*--unsafe"):
        Sandbox().start()


def test_unsafe_runs_and_names_the_risk(monkeypatch):
    monkeypatch.setenv("RATCHET_UNSAFE", "1")
    with Sandbox("A", "D") as sandbox:
        with pytest.warns(UserWarning, match="read, change and send away"):
            sandbox.start()
        assert sandbox.isolation.startswith("D: ")
        assert judge(problem(PROGRAM), LEGAL["plain"], sandbox).passed
        assert not judge(problem(PROGRAM), "print(0)", sandbox).passed


NOT_WITH_ZEROS = ("clone", "clone3", "prctl", "ioctl", "socketpair", "setrlimit", "prlimit64")


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("read_only", [False, True])
def test_the_filter_allows_what_it_lists_and_nothing_else(machine, read_only):
    """The compiled program, interpreted: it decides by number and argument as the list says."""
    program = [struct.unpack("HBBI", line) for line in seccomp.compile_filter(machine, read_only)]
    column, architecture = seccomp._COLUMNS[machine]
    rows = [row.split() for row in seccomp._CALLS.split(",")]
    listed = {int(row[column]): row[0] for row in rows if row[column] != "-"}
    for number in [*range(600), 0x40000000, 0x40000001, 0xFFFFFFFF]:
        allowed = _interpret(program, number, architecture, [0, 0, 0]) == 0x7FFF0000
        name = listed.get(number)
        assert allowed == (name is not None and name not in NOT_WITH_ZEROS)
    calls = {name: number for number, name in listed.items()}
    for name, arguments, expected in [
        ("clone", [0x3D0F00, 0, 0], True), ("clone", [17, 0, 0], False), ("prctl", [15, 0, 0], True),
        ("prctl", [4, 1, 0], False), ("ioctl", [0, 0x5412, 0], False), ("ioctl", [0, 0x5401, 0], True),
        ("fcntl", [0, 8, 1], False), ("prlimit64", [1, 3, 0], False), ("prlimit64", [0, 0, 0], False),
        ("prlimit64", [0, 3, 0], True), ("setrlimit", [0, 0, 0], False), ("setrlimit", [3, 0, 0], True),
        ("socketpair", [1, 0x80801, 0], True),
        ("socketpair", [1, 2, 0], False), ("socketpair", [2, 1, 0], False),
        ("openat", [0, 0, 0o2101], not read_only), ("openat", [0, 0, 0o2000000], True),
    ]:  # fmt: skip
        assert (_interpret(program, calls[name], architecture, arguments) == 0x7FFF0000) == expected, (name, arguments)
    assert _interpret(program, 0, 0x40000003, [0, 0, 0]) == 0x80000000


def _interpret(program, number, architecture, arguments):
    data = {0: number, 4: architecture, **{16 + 8 * index: value for index, value in enumerate(arguments)}}
    position = accumulator = 0
    while True:
        code, if_true, if_false, value = program[position]
        position += 1
        if code == 0x06:
            return value
        if code == 0x20:
            accumulator = data[value]
        elif code == 0x54:
            accumulator &= value
        else:
            taken = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[code]
            position += if_true if taken else if_false
