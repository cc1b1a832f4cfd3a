"""A SLURM cluster on loopback, with daemons and files of its own: controller, nodes, munge."""

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ratchet.verifiers.processes import free_port, process_group
from tests.waiting import happens

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel", "srun")
CONFIGURATION = """
ClusterName=ratchet
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={root}/munge.socket
CredType=cred/munge
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool/%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/%n.pid
SlurmctldPort={controller_port}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=10
KillWait=5
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


class Cluster:
    """The one that is up; `SLURM_CONF` in our environment leads every command to it."""

    def __init__(self, root: Path, nodes: list[str]) -> None:
        self.root, self.nodes = root, nodes
        self.environment = {name: os.environ[name] for name in ("SLURM_CONF", "PATH")}

    def ask(self, *command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout.strip()

    def jobs(self, *states: str) -> list[str]:
        """Numbers of the jobs in these states; without any, of those that wait or run."""
        which = [f"--states={','.join(states)}"] if states else []
        return self.ask("squeue", "--noheader", "--format=%i", *which).split()

    def head(self, *lines: str) -> Path:
        """A file for RATCHET_SLURM with these options, which begin with dashes, and commands."""
        file = self.root / f"head-{secrets.token_hex(4)}.sh"
        head = (f"#SBATCH {line}" if line.startswith("--") else line for line in lines)
        file.write_text("\n".join(["#!/bin/bash", *head, ""]))
        return file


@contextmanager
def slurm_cluster(size: int = 1) -> Iterator[Cluster]:
    """All its nodes are on this machine, each with both cores."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing or os.geteuid():
        pytest.skip(
            f"SLURM needs root and its programs (apt-get install slurm-wlm munge); missing: {missing or 'root'}"
        )
    root, host = Path(tempfile.mkdtemp(prefix="slurm-")), socket.gethostname().split(".")[0]
    root.chmod(0o755)
    for folder in ("state", "spool"):
        (root / folder).mkdir()
    key, configuration = root / "munge.key", root / "slurm.conf"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o400)
    nodes = [f"n{number}" for number in range(1, size + 1)]
    described = (
        f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={free_port()} CPUs=2 State=UNKNOWN"
        for node in nodes
    )
    configuration.write_text(
        CONFIGURATION.format(host=host, root=root, controller_port=free_port(), nodes="\n".join(described))
    )
    os.environ["SLURM_CONF"] = str(configuration)
    munge = [f"--{name}={root}/munge.{name.split('-')[0]}" for name in ("socket", "pid-file", "log-file", "seed-file")]
    daemons = {
        "munged": ["munged", "--foreground", "--force", f"--key-file={key}", *munge],
        "slurmctld": ["slurmctld", "-D", "-f", str(configuration)],
        **{node: ["slurmd", "-D", "-N", node, "-f", str(configuration)] for node in nodes},
    }
    cluster = Cluster(root, nodes)
    try:
        with ExitStack() as running:
            for name, argv in daemons.items():
                running.enter_context(process_group(argv, root / f"{name}.out", dict(os.environ)))
                time.sleep(1)
            state = ("sinfo", "--noheader", "--Node", "--partition=main", "--format=%T")
            idle = happens(lambda: cluster.ask(*state).split() == ["idle"] * size)
            assert idle, (root / "slurmctld.out").read_text()[-3000:]
            yield cluster
            subprocess.run(["scancel", "--user=root"], check=False)
            time.sleep(2)
    finally:
        del os.environ["SLURM_CONF"]
        shutil.rmtree(root, ignore_errors=True)
