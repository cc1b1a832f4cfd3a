"""Watch the processes of one program and end them at their limits.

`RunStates` decides, by values alone, from what `Watch` measures every tick. A companion is a check or an interactor.
The rows are looked at in this order; the last two also in the tick in which the program has ended:

    | state     | what a tick shows                            | next                 | ended     | check_ended |
    |-----------|----------------------------------------------|----------------------|-----------|-------------|
    | RUNNING   | the interactor has accepted                  | RUNNING, without     |           |             |
    |           |                                              | a companion          |           |             |
    | not DONE  | the companion has exited; or the program has | DONE                 |           |             |
    |           | that has none                                |                      |           |             |
    | not DONE  | STOP                                         | DONE                 | stopped   |             |
    | RUNNING   | the program has exited                       | FINISHING            | exited    |             |
    | RUNNING   | the program needs too much memory            | FINISHING, DONE if   | exhausted |             |
    | RUNNING   | the program needs too much time              | it has no companion  | timed_out |             |
    | not DONE  | the companion needs too much time, or more   | DONE                 |           | timed_out   |
    |           | than its grace since FINISHING               |                      |           |             |
    | not DONE  | the companion needs too much memory          | DONE                 |           | exhausted   |

The companion uses the program until it ends itself, so with one its end is the end of both, unless it is an interactor
that accepts: then, as in Kattis, the program has to end too, by itself and within its limits.
"""

import io
import os
import select
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from ratchet.verifiers.sandbox import MESSAGE_BYTES, STOP
from ratchet.verifiers.sandbox.child import Child, is_closed, load_per_core
from ratchet.verifiers.sandbox.progress import Progress

_TICK_S = 0.02
_GRACE_S = 2.0
"""Wall seconds of a check after its program has ended; an interactor, which may have much left to read, has its CPU
limit."""
_EXIT_S = 1.0
"""Seconds that a process that has closed its output may take to end on a busy machine."""
_PATIENCE, _PATIENCE_S = 25.0, 10.0
"""Wall time, as a multiple of the limit plus seconds, after which a test ends in any case; the multiple is larger on a
machine with more than a dozen runnable threads per core."""
_LOADED = 0.1
"""The share of its time that a program has waited for a core, from which load may be why it ran out of time."""


class State(Enum):
    """The states of a run."""

    RUNNING = auto()
    FINISHING = auto()
    DONE = auto()


@dataclass(frozen=True)
class Seen:
    """Measurements of one tick. `spent_s` is the program's CPU time and sleep; `test_s`, `test_wall_s` and `check_s`
    count from the start of the current test; `resident` and `check_resident` are bytes, 0 if not read. `accepted`: the
    companion is an interactor, and has ended with a code that accepts."""

    wall_s: float = 0.0
    spent_s: float = 0.0
    test_s: float = 0.0
    test_wall_s: float = 0.0
    check_s: float = 0.0
    resident: int = 0
    check_resident: int = 0
    load: float = 1.0
    program_exited: bool = False
    companion_exited: bool = False
    accepted: bool = False
    stopped: bool = False


@dataclass
class RunStates:
    """The states of one run. `limits` are those of `runs.Limits`; for an interactor with `joined`, and with the exit
    codes by which it is `accepting`.

    `ended` says how the program ended: `exited`, `timed_out`, `exhausted`, `stopped`; empty if its companion ended
    first. `check_ended` says the same of the companion.
    """

    limits: Mapping[str, Any]
    has_companion: bool = False
    state: State = State.RUNNING
    ended: str = ""
    check_ended: str = "exited"
    _over_at_s: float = 0.0

    def step(self, seen: Seen) -> None:
        """Move to the state that follows from these measurements."""
        if seen.accepted and self.state is State.RUNNING:
            self.has_companion = False
        if seen.companion_exited if self.has_companion else seen.program_exited:
            self.state = State.DONE
        elif seen.stopped:
            self.ended, self.state = "stopped", State.DONE
        elif self.state is State.RUNNING and (reason := self._end_of_program(seen)):
            self.ended, self._over_at_s = reason, seen.wall_s
            self.state = State.FINISHING if self.has_companion else State.DONE
        if self.has_companion and self.state is not State.DONE and (reason := self._excess_of_companion(seen)):
            self.check_ended, self.state = reason, State.DONE

    def may_outlast_s(self) -> float:
        """Wall seconds after which load alone must explain that a test still runs."""
        return _PATIENCE_S + _PATIENCE * self._allowed_s()

    def _allowed_s(self) -> float:
        return self.limits["test_s"] + (self.limits["check_s"] if self.has_companion else 0.0)

    def _end_of_program(self, seen: Seen) -> str:
        if seen.program_exited:
            return "exited"
        if seen.resident > self.limits["memory_bytes"]:
            return "exhausted"
        if seen.test_s > self.limits["test_s"] or seen.spent_s > self.limits["total_s"]:
            return "timed_out"
        if seen.test_wall_s > max(self.may_outlast_s(), 4 * seen.load * self._allowed_s()):
            return "timed_out"
        return ""

    def _excess_of_companion(self, seen: Seen) -> str:
        is_interactor = "joined" in self.limits
        grace_s = self.limits["check_s"] if is_interactor else _GRACE_S
        is_late = self.state is State.FINISHING and seen.wall_s - self._over_at_s > grace_s
        if is_late or seen.check_s > self.limits["check_s"]:
            return "timed_out"
        most = self.limits["check_bytes" if is_interactor else "memory_bytes"]
        return "exhausted" if seen.check_resident > most else ""


class Watch:
    """One run of a program with, if any, its companion: a check, or an interactor with its ends of the two `pipes`, for
    reading and for writing."""

    def __init__(
        self, program: Child, companion: Child | None, progress: Progress, limits: Mapping[str, Any],
        channel: socket.socket, proc: int, pipes: Sequence[io.FileIO] = (),
    ) -> None:  # fmt: skip
        self.program, self.companion, self.progress, self.pipes = program, companion, progress, pipes
        self.channel, self.proc = channel, proc
        self.machine = RunStates(limits, companion is not None)
        self.children = [child for child in (program, companion) if child]
        self.loaded = False
        """True if the program ran out of time while load may be the reason."""
        self.spent_s = self._asleep_s = 0.0
        self._test_began = Seen()
        self._accepted = False
        self._statuses: list[int] = []
        self._poll = select.poll()
        for descriptor in (*(child.exited for child in self.children), channel.fileno()):
            self._poll.register(descriptor, select.POLLIN)
        self._began = self._last = time.monotonic()

    def wait(self) -> None:
        """Wait until the run is over and all its processes are to be killed.

        CPU time counts against the limits, and time in which every thread sleeps. Waiting for a busy core does not, so
        that the verdict does not depend on the machine's load; nor does the companion's time.
        """
        machine = self.machine
        while machine.state is not State.DONE:
            before = machine.state
            machine.step(seen := self._look())
            if seen.accepted and machine.state is State.RUNNING and not self.pipes[1].closed:
                self._poll.unregister(self.children[-1].exited)
                self.pipes[1].close()  # the program reads the end of its input
            if before is State.RUNNING and machine.state is not before:
                self._end_program(seen)
        if not machine.ended:
            machine.ended = self._own_end()

    def kill(self) -> None:
        """Kill and reap the children."""
        for child in self.children:
            child.kill()
        self._statuses = [child.reap() for child in self.children]

    def result(self, lacked_memory: bool) -> dict[str, Any]:
        """The ends of the children, and the program's resources. `lacked_memory`: their control group has killed one,
        of which the statuses tell nothing but the signal."""
        first, last = self._statuses[0], self._statuses[-1]
        ended, check_ended = self.machine.ended, self.machine.check_ended
        if lacked_memory and ended == "exited" and first == signal.SIGKILL:
            ended = "exhausted"
        if lacked_memory and check_ended == "exited" and last == signal.SIGKILL:
            check_ended = "exhausted"
        spent_s = max(self.spent_s, self.program.used_s)
        check = {"check_ended": check_ended, "check_status": last} if self.companion else {}
        return {"ended": ended, "status": first, "spent_s": spent_s, "loaded": self.loaded} | check

    def _look(self) -> Seen:
        ready = {descriptor for descriptor, _ in self._poll.poll(_TICK_S * 1000)}
        stopped = self.channel.fileno() in ready
        if stopped and self.channel.recv(MESSAGE_BYTES) != STOP:
            os._exit(0)  # the judge is gone; as process 1 we take everything with us
        now = time.monotonic()
        wall_s, check_s = now - self._began, self.companion.cpu() if self.companion else 0.0
        if wall_s > 2 * _TICK_S:
            if not any(child.is_awake() for child in self.children):
                self._asleep_s += now - self._last
            self._last = now
        self.spent_s = self.program.cpu() + self._asleep_s
        # Polled, not waited for: waking up for each of a hundred short tests costs more than they do.
        if self.progress.update():
            self._test_began = Seen(wall_s=wall_s, spent_s=self.spent_s, check_s=check_s)
        test_wall_s, is_long = wall_s - self._test_began.wall_s, wall_s > _TICK_S
        reads_program = is_long and self.machine.state is State.RUNNING
        companion_exited = self.children[-1].exited in ready
        if companion_exited and self.pipes and not self._accepted:
            self._accepted = self.children[-1].exit_code() in self.machine.limits["accepting"]
        return Seen(
            wall_s, self.spent_s, self.spent_s - self._test_began.spent_s, test_wall_s,
            check_s - self._test_began.check_s,
            self.program.resident() if reads_program else 0,
            self.companion.resident() if is_long and self.companion else 0,
            load_per_core(self.proc) if test_wall_s > self.machine.may_outlast_s() else 1.0,
            self.program.exited in ready, companion_exited, self._accepted, stopped,
        )  # fmt: skip

    def _end_program(self, seen: Seen) -> None:
        """The program has left RUNNING: end it if its limits did, and wake no more for it."""
        if self.machine.ended in ("timed_out", "exhausted"):
            is_busy = load_per_core(self.proc) > 1 or self.program.waited_s() > _LOADED * seen.wall_s
            # What sleeps is as slow on a quiet machine.
            self.loaded = is_busy and self.program.used_s > self.spent_s / 2
            self.program.kill()
        if self.machine.state is State.FINISHING:
            self._poll.unregister(self.program.exited)

    def _own_end(self) -> str:
        """`exited`, or `over` if the companion has ended while the program goes on.

        A process closes its files before it ends: if its connection broke, a moment shows that it has ended. The
        connection of a check is closed by now in any case.
        """
        if not self.companion:
            return "exited"
        moment_s = _EXIT_S if not self.pipes or is_closed(self.pipes[0].fileno()) else 0.0
        return "exited" if select.select([self.program.exited], [], [], moment_s)[0] else "over"
