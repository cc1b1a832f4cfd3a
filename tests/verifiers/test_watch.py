"""The states of one run, by values: who ends, when, and why."""

import itertools

import pytest

from ratchet.verifiers.sandbox.watch import RunStates, Seen, State

LIMITS = {"test_s": 1.0, "total_s": 4.0, "check_s": 2.0, "memory_bytes": 100}
JOINED = LIMITS | {"joined": [None, None], "check_bytes": 50}
END = {"program_exited": True, "companion_exited": True}


def run(ticks, limits=LIMITS, has_companion=False):
    machine = RunStates(limits, has_companion)
    for tick in ticks:
        assert machine.state is not State.DONE
        machine.step(Seen(**tick))
    return machine.state.name, machine.ended, machine.check_ended


@pytest.mark.parametrize(
    ("ticks", "end"),
    [
        ([{}], ("RUNNING", "")),
        ([END], ("DONE", "")),  # by itself, which the wait status explains
        ([{"stopped": True}], ("DONE", "stopped")),
        ([END | {"stopped": True}], ("DONE", "")),  # the stop came too late
        ([{"test_s": 1.0, "spent_s": 4.0, "resident": 100}], ("RUNNING", "")),
        ([{"test_s": 1.01}], ("DONE", "timed_out")),
        ([{"spent_s": 4.01}], ("DONE", "timed_out")),
        ([{"resident": 101}], ("DONE", "exhausted")),
        ([{"resident": 101, "test_s": 1.01}], ("DONE", "exhausted")),
        ([END | {"test_s": 9.0, "resident": 999}], ("DONE", "")),
        ([{"test_wall_s": 35.0}], ("RUNNING", "")),
        ([{"test_wall_s": 35.1}], ("DONE", "timed_out")),
        ([{"test_wall_s": 35.1, "load": 10.0}], ("RUNNING", "")),  # load may explain it
    ],
)
def test_a_program_alone(ticks, end):
    assert run(ticks) == (*end, "exited")


@pytest.mark.parametrize(
    ("ticks", "end"),
    [
        ([{"program_exited": True}], ("FINISHING", "exited", "exited")),
        ([{"program_exited": True}, {"companion_exited": True}], ("DONE", "exited", "exited")),
        ([{"companion_exited": True}], ("DONE", "", "exited")),
        ([{"test_s": 1.01}], ("FINISHING", "timed_out", "exited")),
        ([{"test_s": 1.01}, {"resident": 999}, {"companion_exited": True}], ("DONE", "timed_out", "exited")),
        ([{"check_s": 2.01}], ("DONE", "", "timed_out")),
        ([{"check_resident": 101}], ("DONE", "", "exhausted")),
        ([{"program_exited": True, "wall_s": 1.0}, {"wall_s": 2.9}], ("FINISHING", "exited", "exited")),
        ([{"program_exited": True, "wall_s": 1.0}, {"wall_s": 3.1}], ("DONE", "exited", "timed_out")),
        ([{"program_exited": True}, {"stopped": True}], ("DONE", "stopped", "exited")),
        ([{"test_s": 1.01, "check_s": 2.01}], ("DONE", "timed_out", "timed_out")),
        ([{"test_wall_s": 85.0}], ("RUNNING", "", "exited")),  # both may have waited
        ([{"test_wall_s": 85.1}], ("FINISHING", "timed_out", "exited")),
    ],
)
def test_a_program_with_a_check(ticks, end):
    assert run(ticks, has_companion=True) == end


def test_an_interactor_has_its_own_memory_and_grace():
    late = [{"program_exited": True}, {"wall_s": 2.1, "check_resident": 50}]
    assert run(late, JOINED | {"check_s": 3.0}, has_companion=True)[0] == "FINISHING"
    assert run([{"check_resident": 51}], JOINED, has_companion=True) == ("DONE", "", "exhausted")


@pytest.mark.parametrize(
    ("ticks", "end"),
    [
        ([], ("RUNNING", "")),
        ([{"program_exited": True}], ("DONE", "")),
        ([{"test_s": 1.01}], ("DONE", "timed_out")),
        ([{"resident": 101}], ("DONE", "exhausted")),
        ([{"check_s": 9.0, "check_resident": 999, "wall_s": 9.0}], ("RUNNING", "")),
    ],
)
def test_a_program_whose_interactor_has_accepted_ends_by_its_own_limits(ticks, end):
    accepted = {"companion_exited": True, "accepted": True}
    assert run([accepted, *(accepted | tick for tick in ticks)], JOINED, has_companion=True) == (*end, "exited")
    assert run([accepted | END], JOINED, has_companion=True) == ("DONE", "", "exited")
    over = [{"program_exited": True}, accepted]
    assert run(over, JOINED, has_companion=True) == ("DONE", "exited", "exited")


def test_every_run_ends_and_an_end_is_never_taken_back():
    """All sequences of three ticks of these kinds, then the companion's end."""
    kinds = [{}, {"program_exited": True}, {"test_s": 2.0}, {"resident": 999}, {"check_s": 3.0}, {"stopped": True}]
    for has_companion, ticks in itertools.product((False, True), itertools.product(kinds, repeat=3)):
        machine, ended = RunStates(LIMITS, has_companion), ""
        for tick in (*ticks, END):
            if machine.state is State.DONE:
                break
            machine.step(Seen(**tick))
            assert ended in ("", machine.ended) or machine.ended == "stopped"
            ended = machine.ended
        assert machine.state is State.DONE
