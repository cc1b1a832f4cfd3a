"""A few injected faults; the benchmark knows many more."""

import subprocess
import sys

import pytest

from tests.flows.commands import ROOT

FAULTS = ("flow-saving", "torn-checkpoint", "mirror", "prefect", "prefect-corrupt", "terminated")


@pytest.mark.slow
def test_after_a_fault_the_same_command_ends_as_if_there_had_been_none():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.fault_injection", "--only", *FAULTS],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
