"""Start this machine's ranks of a warm start or a stage: `python -m ratchet.training.launch SPEC.json [HOST:PORT]`.

Equals `torchrun … -m ratchet.training.main SPEC.json`, except that without a GPU torch, transformers and DeepSpeed are
loaded once, here or for all stages of a run in `infra.launching.fork_server`, and the ranks are forked. With a GPU each
rank starts fresh, because CUDA does not survive a fork. With several machines the command runs on each of them; they
meet at HOST:PORT on one of them.
"""

import errno
import os
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

from ratchet.infra.launching.group import STATUS
from ratchet.infra.launching.preload import load_domains, load_libraries
from ratchet.training import main as one_rank
from ratchet.training import ranks
from ratchet.training.checkpoint_files import CHECKPOINTS
from ratchet.training.specification import TrainingSpec

LOOPBACK = "127.0.0.1"


def preload(specification: str = "", *_: str) -> bool:
    """Import everything that ranks and their domains need; True if ranks may then be forked."""
    from ratchet.training import process  # noqa: F401
    from ratchet.verifiers.math import domain  # noqa: F401

    if not load_libraries():
        return False
    from deepspeed.runtime.zero.muon import muon_optimizer  # noqa: F401  with torch's compiler, by every engine

    load_domains(specification)
    return True


def launch(specification: Path, meeting: str = f"{LOOPBACK}:0") -> None:
    """Run every rank of this machine to its end. Raises torch's ChildFailedError if one fails; SystemExit, with the
    reason in `status.json`, if the machines do not meet."""
    start_method = "fork" if preload(str(specification)) else "spawn"
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.elastic.rendezvous import RendezvousError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    spec = TrainingSpec.read(specification)
    hardware, work = spec.training.hardware, spec.work_dir
    alone = hardware.machines == 1  # then nothing depends on the machine's name, which may have no address
    config = LaunchConfig(
        min_nodes=hardware.machines, max_nodes=hardware.machines, nproc_per_node=hardware.processes, run_id="ratchet",
        rdzv_backend="c10d", rdzv_endpoint=meeting, start_method=start_method,
        rdzv_configs={"join_timeout": int(60 * hardware.advanced.timeout_minutes)},
        logs_specs=DefaultLogsSpecs(log_dir=os.devnull),  # the task has a log; torch's would remain in /tmp
        max_restarts=0,  # a failed stage is restarted by its step, from its last checkpoint
        local_addr=LOOPBACK if alone else None,
    )  # fmt: skip
    if alone:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        socket.getfqdn = lambda name="": name or socket.gethostname()  # torch asks the network for each of its events
    else:
        threading.Thread(target=_watch, args=(hardware.advanced.timeout_minutes,), daemon=True).start()
    os.environ[ranks.LAUNCHER_PID] = str(os.getpid())
    try:
        scratch = work / CHECKPOINTS  # deleted at the end of the stage, even after a kill
        scratch.mkdir(parents=True, exist_ok=True)
        # torch leaves a file for each failed rank
        with tempfile.TemporaryDirectory(prefix=".launch-", dir=scratch) as tempfile.tempdir:
            elastic_launch(config, _rank)(specification)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        reason = f"no space for what its processes share ({error}): free some in /dev/shm, and run the command again"
        one_rank.write_status(work, "failed", reason, 0)
        sys.exit(2)
    except RendezvousError as error:
        reason = (
            f"{hardware.machines} machines did not meet at {meeting} within {hardware.advanced.timeout_minutes:g} "
            f"minutes, or one has stopped answering: {error or 'some did not join'}. RATCHET_LAUNCHER must run its "
            "command once on each of them, and each must reach that port."
        )
        if not (work / STATUS).is_file():  # otherwise a rank has reported the reason
            one_rank.write_status(work, "failed", reason, 0)
        sys.exit(2)


def _watch(timeout_minutes: float) -> None:
    while True:  # torch may open connections at any time
        ranks.give_up_silence(timeout_minutes)
        time.sleep(5)


def _rank(specification: Path) -> None:
    tempfile.tempdir = None  # the system's
    if code := one_rank.main(specification):
        sys.exit(code)


def main() -> None:
    launch(Path(sys.argv[1]), *sys.argv[2:])


if __name__ == "__main__":
    main()
