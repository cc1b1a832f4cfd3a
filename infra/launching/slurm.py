"""Process groups as SLURM jobs: submitted, watched, canceled, and found again after a flow was killed.

`RATCHET_SLURM` names a file with the head of the batch scripts: `#SBATCH` lines, and commands that prepare a node. A
job is named after its work, and no job is submitted while one of that name exists, so nothing runs twice. A job
outlives a killed flow; an interrupted flow cancels it.

SLURM itself requeues jobs after node failures and preemption, if the cluster is configured so. Before its time limit a
job gets a signal (`--signal`) and saves a checkpoint; then we submit it again.
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

from ratchet.infra.launching.group import (
    ON_EACH_NODE,
    STATUS,
    STOP,
    JobPreempted,
    ProcessGroup,
    begin,
    environment_of_groups,
)
from ratchet.infra.settings import Settings
from ratchet.verifiers.errors import RatchetError

POLL_S = 5
CANCEL_S = 60
PREEMPTED_STATES = ("TIMEOUT", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "REVOKED")
"""Final states of jobs that did not fail by themselves."""
DEFAULTS = "#SBATCH --requeue\n#SBATCH --signal=B:USR1@300"
"""Default `#SBATCH` lines, before the user's, which take precedence."""


class Unreachable(Exception):
    """The controller does not answer."""


@dataclass(frozen=True)
class Slurm:
    """The launcher that submits process groups as SLURM jobs."""

    settings: Settings

    def check(self, machines: int) -> None:
        _check(machines, self._head())

    @contextmanager
    def launch(self, group: ProcessGroup, say: Callable[[str], None]) -> Iterator["Job"]:
        name = f"ratchet-{group.work.name}-{hashlib.sha256(str(group.work).encode()).hexdigest()[:8]}"
        try:
            number = _active(name)
            if number:
                say(f"SLURM job {number} is doing this work already: following it.")
            else:
                begin(group)
                number = self._submit(name, group)
        except Unreachable as error:
            raise RatchetError(f"SLURM does not answer: {error}. Run the same command again when it does.") from error
        job = Job(number, group.work / STATUS, say)
        try:
            yield job
        finally:
            if not job.ended:
                job.cancel()

    def _submit(self, name: str, group: ProcessGroup) -> str:
        options = [
            "--parsable", f"--job-name={name}", f"--nodes={group.machines}", "--ntasks-per-node=1",
            f"--output={group.log}", "--open-mode=append",
        ]  # fmt: skip
        try:
            return _sbatch(options, self.script(group)).split(";")[0]
        except RatchetError:
            if number := _active(name):  # it was submitted, but the answer was lost
                return number
            raise

    def script(self, group: ProcessGroup) -> str:
        """The batch script: the user's head, then the group, which gets the script's signals."""
        command = shlex.join(group.argv)
        on_each = self.settings.launcher or ON_EACH_NODE
        if group.on_one_machine:
            command = f"RATCHET_LAUNCHER={shlex.quote(on_each)} {command}"
        elif group.machines > 1:
            port = "from ratchet.verifiers.processes import free_port; print(free_port(''))"
            meeting = f'"$(hostname):$({shlex.quote(self.settings.python)} -P -c {shlex.quote(port)})"'
            command = f"{on_each} {command} {meeting}"
        stop = shlex.quote(str(group.work / STOP))
        return f"""{self._head()}
cores=$(env -u OMP_NUM_THREADS nproc)
export OMP_NUM_THREADS=$(( cores > {group.processes} ? cores / {group.processes} : 1 ))
if [ -z "${{VLLM_CACHE_ROOT:-}}" ]; then export VLLM_CACHE_ROOT={shlex.quote(str(self.settings.home / "compiled"))}; fi
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
                "(docs/howto/slurm.md)."
            ) from error
        shell = lines.pop(0) if lines and lines[0].startswith("#!") else "#!/bin/bash"
        return "\n".join([shell, DEFAULTS, *lines])


class Job:
    """A SLURM job of one process group."""

    def __init__(self, number: str, status: Path, say: Callable[[str], None]) -> None:
        self.number, self._status, self._say = number, status, say
        self.ended = False
        self._reported = ""
        self._polled_at = -float(POLL_S)

    def poll(self) -> int | None:
        """The exit code of a job: 0 when it has completed, 1 when it has ended otherwise. Queries SLURM every few
        seconds."""
        if time.monotonic() - self._polled_at < POLL_S:
            return None
        self._polled_at = time.monotonic()
        try:
            states = _squeue("--jobs", self.number)
        except Unreachable as error:
            self._report(f"SLURM does not answer ({error}); trying again")
            return None
        state, reason = states[-1][1:] if states else ("forgotten by SLURM", "")
        waits = state == "PENDING" and reason != "None"
        self._report(f"SLURM job {self.number}: {state.lower()}{f', {reason}' if waits else ''}")
        if states and state not in ENDED:
            return None
        self.ended = True
        result = json.loads(self._status.read_text())["state"] if self._status.is_file() else ""
        if result in ("finished", "failed"):
            return int(result == "failed")
        if result == "stopped" or not states or state in PREEMPTED_STATES:
            raise JobPreempted(f"SLURM job {self.number} has ended ({result or state.lower()})")
        return int(state != "COMPLETED")

    def cancel(self) -> None:
        """Cancel the job. Returns when all its processes are gone, or after a minute."""
        self._say(f"SLURM job {self.number}: canceling it")
        with suppress(RatchetError):
            _call(["scancel", self.number])
        deadline = time.monotonic() + CANCEL_S
        while time.monotonic() < deadline:
            with suppress(Unreachable):
                if all(state in ENDED for _, state, _ in _squeue("--jobs", self.number)):
                    return
            time.sleep(1)

    def _report(self, text: str) -> None:
        if text != self._reported:
            self._say(text)
            self._reported = text


ENDED = (*PREEMPTED_STATES, "COMPLETED", "FAILED", "CANCELLED", "OUT_OF_MEMORY", "DEADLINE")  # codespell:ignore


def _active(name: str) -> str:
    """The number of the waiting or running job of this name, "" if there is none."""
    return next((number for number, state, _ in _squeue("--me", "--name", name) if state not in ENDED), "")


def _squeue(*which: str) -> list[list[str]]:
    """Number, state and reason of each job, including ended ones for some minutes. Raises Unreachable."""
    query = ["squeue", "--noheader", "--states=all", "--format=%i|%T|%r", *which]
    try:
        done = subprocess.run(query, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Unreachable(str(error)) from error
    if done.returncode and "Invalid job id" not in done.stderr:
        raise Unreachable(done.stderr.strip() or f"squeue ended with code {done.returncode}")
    return [line.split("|") for line in done.stdout.splitlines()]


@cache  # each step of a plan makes the same check
def _check(machines: int, head: str) -> None:
    _sbatch(["--test-only", f"--nodes={machines}"], f"{head}\ntrue\n")


def _sbatch(options: list[str], script: str) -> str:
    return _call(["sbatch", *options], script)


def _call(argv: list[str], script: str = "") -> str:
    """The output of a SLURM command. Raises RatchetError with its errors."""
    try:
        done = subprocess.run(
            argv, input=script, capture_output=True, text=True, env=environment_of_groups(), check=False
        )
    except FileNotFoundError as error:
        raise RatchetError(
            f"RATCHET_SLURM is set, but there is no program {argv[0]!r} here: run on a machine with SLURM's commands, "
            "or unset it."
        ) from error
    if done.returncode:
        raise RatchetError(f"SLURM refuses: {done.stderr.strip()}. The file RATCHET_SLURM has its options.")
    return done.stdout.strip()
