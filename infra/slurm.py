"""Process groups as SLURM jobs: submitted, watched, cancelled, and found again by a flow that was killed.

`RATCHET_SLURM` names the head of their batch scripts: `#SBATCH` lines, and what prepares a node. A job is known by its
name, which is that of the work it does: before one is submitted SLURM is asked for it, so that no work is submitted
twice, whatever was killed in between. A job outlives a flow that is killed; one that is interrupted cancels it.

SLURM starts a job again by itself when a node fails or a higher one takes its place, where the cluster is set up so. A
job that comes to its time limit is told ahead (`--signal`) and saves a checkpoint; it is submitted again by us.
"""

import hashlib
import json
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ratchet.infra.errors import RatchetError
from ratchet.infra.launcher import ON_EACH_NODE, STATUS, STOP, Group, TakenAway, environment_of_groups, forget
from ratchet.infra.settings import Settings

POLL_S = 5
CANCEL_S = 60
TAKEN_AWAY = ("TIMEOUT", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "REVOKED")
"""How a job ends that did nothing wrong."""
DEFAULTS = "#SBATCH --requeue\n#SBATCH --signal=B:USR1@300"
"""Ahead of the user's own lines, which win."""


class Unreachable(Exception):
    """The controller does not answer."""


@dataclass(frozen=True)
class Slurm:
    settings: Settings

    def check(self, machines: int) -> None:
        """Have SLURM check the options, without submitting anything."""
        _check(machines, self._head())

    @contextmanager
    def launch(self, group: Group, say: Callable[[str], None]) -> Iterator["Job"]:
        name = job_name(group.work)
        try:
            number = _active(name)
            if number:
                say(f"SLURM job {number} is at this work already: going on with it.")
            else:
                forget(group)
                number = self._submit(name, group)
        except Unreachable as error:
            raise RatchetError(f"SLURM does not answer: {error}. Run the same command again when it does.") from error
        job = Job(number, group.work / STATUS, say)
        try:
            yield job
        finally:
            if not job.ended:
                job.cancel()

    def _submit(self, name: str, group: Group) -> str:
        options = [
            "--parsable", f"--job-name={name}", f"--nodes={group.machines}", "--ntasks-per-node=1",
            f"--output={group.log}", "--open-mode=append",
        ]  # fmt: skip
        group.log.parent.mkdir(parents=True, exist_ok=True)
        try:
            return _sbatch(options, self.script(group)).split(";")[0]
        except RatchetError:
            if number := _active(name):  # submitted all the same: the answer was lost
                return number
            raise

    def script(self, group: Group) -> str:
        """The batch script: the user's head, then the group, which is told of what SLURM tells the script."""
        command = shlex.join(group.argv)
        on_each = self.settings.launcher or ON_EACH_NODE
        if group.once:
            command = f"RATCHET_LAUNCHER={shlex.quote(on_each)} {command}"
        elif group.machines > 1:
            port = "from ratchet.infra.process_group import free_port; print(free_port(''))"
            meeting = f'"$(hostname):$({shlex.quote(self.settings.python)} -P -c {shlex.quote(port)})"'
            command = f"{on_each} {command} {meeting}"
        stop = shlex.quote(str(group.work / STOP))
        return f"""{self._head()}
cores=$(env -u OMP_NUM_THREADS nproc)
export OMP_NUM_THREADS=$(( cores > {group.processes} ? cores / {group.processes} : 1 ))
if [ -n "${{SLURM_CPUS_PER_TASK:-}}" ]; then export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK; fi
rm -f {stop}
trap {shlex.quote(f"touch {stop}")} USR1
{command} &
group=$!
trap 'kill -TERM $group' TERM
while true; do
    wait $group && code=0 || code=$?
    kill -0 $group 2>/dev/null || break  # a signal ends a wait as well
done
if [ $code -gt 128 ]; then wait $group && code=0 || code=$?; fi
exit $code
"""

    def _head(self) -> str:
        file = self.settings.slurm
        assert file is not None
        try:
            lines = file.read_text().splitlines()
        except OSError as error:
            raise RatchetError(
                f"RATCHET_SLURM is {file}: {error.strerror}. It names a file with the #SBATCH lines of jobs "
                "(docs/operations.md)."
            ) from error
        shell = lines.pop(0) if lines and lines[0].startswith("#!") else "#!/bin/bash"
        return "\n".join([shell, DEFAULTS, *lines])


class Job:
    """A job of SLURM's."""

    def __init__(self, number: str, status: Path, say: Callable[[str], None]) -> None:
        self.number, self._status, self._say = number, status, say
        self.ended = False
        self._told = ""
        self._asked_at = -float(POLL_S)

    def poll(self) -> int | None:
        """0 when it has completed, 1 when it has ended in any other way. SLURM is asked every few seconds."""
        if time.monotonic() - self._asked_at < POLL_S:
            return None
        self._asked_at = time.monotonic()
        try:
            found = _squeue("--jobs", self.number)
        except Unreachable as error:
            self._tell(f"SLURM does not answer ({error}); still asking")
            return None
        state, reason = found[-1][1:] if found else ("forgotten by SLURM", "")
        waits = state == "PENDING" and reason != "None"
        self._tell(f"SLURM job {self.number}: {state.lower()}{f', {reason}' if waits else ''}")
        if found and state not in ENDED:
            return None
        self.ended = True
        last_word = json.loads(self._status.read_text())["state"] if self._status.is_file() else ""
        if last_word in ("finished", "failed"):
            return int(last_word == "failed")
        if last_word == "stopped" or not found or state in TAKEN_AWAY:
            raise TakenAway(f"SLURM job {self.number} is at its end ({last_word or state.lower()})")
        return int(state != "COMPLETED")

    def cancel(self) -> None:
        """Returns when none of its processes is left, or SLURM has not managed that in a minute."""
        self._say(f"SLURM job {self.number}: cancelling it")
        with suppress(RatchetError):
            _call(["scancel", self.number])
        deadline = time.monotonic() + CANCEL_S
        while time.monotonic() < deadline:
            with suppress(Unreachable):
                if all(state in ENDED for _, state, _ in _squeue("--jobs", self.number)):
                    return
            time.sleep(1)

    def _tell(self, text: str) -> None:
        if text != self._told:
            self._say(text)
            self._told = text


ENDED = (*TAKEN_AWAY, "COMPLETED", "FAILED", "CANCELLED", "OUT_OF_MEMORY", "DEADLINE")


def job_name(work: Path) -> str:
    """Of the work in this directory, in this home."""
    return f"ratchet-{work.name}-{hashlib.sha256(str(work).encode()).hexdigest()[:8]}"


def _active(name: str) -> str:
    """The number of the job of this name that waits or runs, empty when there is none."""
    return next((number for number, state, _ in _squeue("--me", "--name", name) if state not in ENDED), "")


def _squeue(*which: str) -> list[list[str]]:
    """Number, state and reason of each job, ended ones included while SLURM remembers them (some minutes). Raises
    Unreachable."""
    asked = ["squeue", "--noheader", "--states=all", "--format=%i|%T|%r", *which]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    if done.returncode and "Invalid job id" not in done.stderr:
        raise Unreachable(done.stderr.strip() or f"squeue ended with code {done.returncode}")
    return [line.split("|") for line in done.stdout.splitlines()]


@cache  # each step of a plan asks the same
def _check(machines: int, head: str) -> None:
    _sbatch(["--test-only", f"--nodes={machines}"], f"{head}\ntrue\n")


def _sbatch(options: list[str], script: str) -> str:
    return _call(["sbatch", *options], script)


def _call(argv: list[str], script: str = "") -> str:
    """What a command of SLURM's prints; raises RatchetError with what it says on its way out."""
    try:
        done = subprocess.run(
            argv, input=script, capture_output=True, text=True, env=environment_of_groups(), check=False
        )
    except FileNotFoundError as error:
        raise RatchetError(
            f"RATCHET_SLURM is set, and there is no program {argv[0]!r} here: run where SLURM's commands are, or unset "
            "it."
        ) from error
    if done.returncode:
        raise RatchetError(
            f"SLURM refuses: {done.stderr.strip()}. Its options are in the file that RATCHET_SLURM names."
        )
    return done.stdout.strip()
